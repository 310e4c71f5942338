//! `talmox template`

use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use talmox_plan::desired::Desired;
use talmox_plan::observed::Pve;
use talmox_plan::ownership::TemplateMark;
use talmox_plan::plan::{self, Plan, show};
use talmox_plan::planning::template_findings;

use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::command::carry_out::carry_out;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::{NoSecrets, RunLocks, Session, templates};
use crate::{ask, interrupt, runtime, words};

const AFTER_HELP: &str = "\
Examples:
  talmox template create
  talmox template list";

/// Make and list the templates of `boot: template`
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(disable_help_subcommand = true)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TemplateArgs {
    #[command(subcommand)]
    command: TemplateCommand,
}

#[derive(Debug, Subcommand)]
enum TemplateCommand {
    Create(CreateArgs),
    List(ListArgs),
}

/// Make the templates that nodes are cloned from
///
/// One on each host that needs it. A template is a VM with Talos on its disk and nothing else: no machine config, no address, no identity. It is named as
/// the nodes name it (`template: talos-v1.12.4-base`), gets the extensions that they ask for, and goes into their pool.
/// A line of its notes says which Talos and which schematic it has. Those that are there already stay as they are, and
/// are refused where that is not what the nodes want.
///
/// The cluster is locked in Proxmox meanwhile: no other machine or folder can work on it at the same time.
#[derive(Debug, Args)]
struct CreateArgs {
    /// The cluster [default: the only one of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,

    /// Do it without asking
    #[arg(long, short)]
    yes: bool,

    /// The number of the template; the first free one from there on
    #[arg(long, value_name = "VMID", default_value_t = templates::FIRST)]
    #[arg(value_parser = clap::value_parser!(u32).range(100..=999_999_999))]
    vmid: u32,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

/// List the templates that Proxmox has, and which nodes want them
///
/// Of those that nodes want also the Talos that they have, where their notes say so, and a word if it is not the one that
/// is wanted.
#[derive(Debug, Args)]
struct ListArgs {
    /// The cluster [default: the only one of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

pub(crate) fn run(args: &TemplateArgs, global: &Global, printer: &Printer) -> Outcome {
    runtime::run(async {
        match &args.command {
            TemplateCommand::Create(args) => {
                let cluster = args.cluster.as_deref();
                let session = Session::open_bare(
                    global,
                    cluster,
                    &args.rehearsal,
                    printer,
                    NoSecrets::Pretend,
                )
                .await?;
                let made = create(args, &session, printer).await;
                session.close().await?;
                made
            }
            TemplateCommand::List(args) => {
                let cluster = args.cluster.as_deref();
                let session = Session::open_with(
                    global,
                    cluster,
                    &args.rehearsal,
                    printer,
                    NoSecrets::Pretend,
                )
                .await?;
                let listed = list(&session, printer).await;
                session.close().await?;
                listed
            }
        }
    })
}

async fn create(args: &CreateArgs, session: &Session, printer: &Printer) -> Outcome {
    if session.desired.nodes.iter().all(|node| node.template.is_none()) {
        return Err(CommandError::usage("no node of the inventory is cloned from a template")
            .hint("set `machine: {boot: template, template: talos-vX.Y.Z-base}`, or the same in a role, a class or a node"));
    }
    let _lock = session.lock("template create")?;
    let world = session.observe().await?;
    let plan = templates::plan(session, &world, args.vmid).await;
    if plan.is_empty() && plan.errors().next().is_none() {
        printer.say_raw(&printer.plan(&show::findings(&plan), printer.color));
        if printer.format == Format::Text {
            printer.result("Nothing to do: the templates are there.\n")?;
        }
        return report(session, false, printer);
    }
    let text = if plan.is_empty() { show::findings(&plan) } else { show::text(&plan) };
    printer.say_raw(&printer.plan(&text, printer.color));
    if plan.errors().next().is_some() {
        return Err(CommandError::failed(CommandCode::PlanBlocked, "nothing was made")
            .hint("what stands in the way is marked `error` above")
            .detail("plan", show::json(&plan)));
    }
    if !args.yes && !session.is_alone() {
        ask::yes("Do it?")?;
    }
    let locks = session.lock_cluster("template create", printer).await?;
    let carried_out = locked(args, session, &plan, &locks, printer).await;
    locks.release(printer).await;
    carried_out?;
    report(session, true, printer)
}

/// Carries out what was agreed to, while no other run can change the cluster. Until the lock was taken another run may have made
/// the templates, and a second one of the same name would be a double.
async fn locked(
    args: &CreateArgs,
    session: &Session,
    plan: &Plan,
    locks: &RunLocks,
    printer: &Printer,
) -> Result<(), CommandError> {
    if locks.are_held() {
        // An interrupt must not leave the lock behind.
        let _heed = interrupt::heed();
        let world = session.observe().await?;
        let current = templates::plan(session, &world, args.vmid).await;
        if interrupt::is_wanted() {
            return Err(interrupt::stopped());
        }
        let is_refused = current.errors().next().is_some();
        if is_refused || !plan::has_same_steps(plan, &current) {
            return Err(CommandError::failed(
                CommandCode::PlanChanged,
                "nothing was made: the templates changed since the plan was shown",
            )
            .hint("run the same command again to see the new plan"));
        }
    }
    let write = Arc::new(|_| Ok(()));
    carry_out(session, plan, "template create", write, locks.fences(), printer).await?;
    Ok(())
}

/// The last line for programs.
fn report(session: &Session, changed: bool, printer: &Printer) -> Outcome {
    if printer.format == Format::Json {
        let result = json!({"cluster": session.desired.cluster, "changed": changed});
        printer.result(&format!("{result}\n"))?;
    }
    Ok(Exit::Fine)
}

async fn list(session: &Session, printer: &Printer) -> Outcome {
    let pve = session.observe_proxmox().await?;
    let found = templates_of(&session.desired, &pve);
    match printer.format {
        Format::Json => printer.result(&format!("{:#}\n", Value::from(found)))?,
        Format::Text if found.is_empty() => {
            printer.say(
                "There are no templates that we may see; `talmox template create` makes them.",
            );
        }
        Format::Text => printer.result(&table(&found))?,
    }
    let doubts = Plan {
        cluster: session.desired.cluster.clone(),
        changes: vec![],
        findings: template_findings(&session.desired, &pve),
        steps: vec![],
    };
    printer.say_raw(&printer.plan(&show::findings(&doubts), printer.color));
    Ok(Exit::Fine)
}

fn templates_of(desired: &Desired, pve: &Pve) -> Vec<Value> {
    let mut guests: Vec<_> = pve.resources.guests.iter().filter(|guest| guest.template).collect();
    guests.sort_by_key(|guest| guest.vmid);
    let describe = |guest: &talmox_pve::api::cluster::Guest| {
        let vmid = guest.vmid.to_string();
        let wants = |wanted: &str| guest.name.as_deref() == Some(wanted) || vmid == wanted;
        let nodes = desired.nodes.iter().filter(|node| node.template.as_deref().is_some_and(wants));
        // Only templates that are wanted were looked at.
        let config = pve.vms.get(&guest.vmid).and_then(|seen| seen.config.as_ref().ok());
        let mark = config.and_then(|config| TemplateMark::find(config.description()));
        json!({
            "name": guest.name,
            "vmid": guest.vmid.get(),
            "node": guest.node.to_string(),
            "pool": guest.pool.as_ref().map(ToString::to_string),
            "talos_version": mark.as_ref().map(|mark| &mark.talos),
            "schematic": mark.as_ref().map(|mark| &mark.schematic),
            "wanted_by": nodes.map(|node| node.name.clone()).collect::<Vec<_>>(),
        })
    };
    guests.into_iter().map(describe).collect()
}

fn table(found: &[Value]) -> String {
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(names) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            if names.is_empty() { "-".to_owned() } else { names.join(", ") }
        }
        other => other.to_string(),
    };
    let mut rows = vec![
        ["TEMPLATE", "VMID", "HOST", "POOL", "TALOS", "WANTED BY"].map(str::to_owned).to_vec(),
    ];
    rows.extend(found.iter().map(|one| {
        let keys = ["name", "vmid", "node", "pool", "talos_version", "wanted_by"];
        keys.map(|key| text(&one[key])).to_vec()
    }));
    words::aligned(&rows)
}
