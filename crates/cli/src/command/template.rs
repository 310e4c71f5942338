//! `talmox template`

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use talmox_plan::desired::Desired;
use talmox_plan::observed::Pve;
use talmox_plan::ownership::TemplateMark;
use talmox_plan::plan::{Plan, show};
use talmox_plan::planning::template_findings;

use crate::args::{Format, Global};
use crate::command::locked_plan::ConfirmedPlan;
use crate::command::{Outcome, plan_blocked};
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::{NoSecrets, Session, templates};
use crate::{confirm, runtime, words};

const AFTER_HELP: &str = "\
Examples:
  talmox template create
  talmox template list";

/// Create and list templates for `boot: template`
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
    List(TemplateListArgs),
}

/// Create the templates that nodes are cloned from
///
/// Creates one template on each host that needs it. A template is a VM with Talos on its disk, without machine config,
/// address or identity. It has the name that the nodes use (`template: talos-v1.12.4-base`), their extensions and their
/// pool. Its notes contain the Talos version and the schematic. Existing templates are not changed; it is an error if
/// they differ from what the nodes need.
///
/// The cluster is locked in Proxmox meanwhile, so that no run from another machine or folder can change it at the same
/// time.
#[derive(Debug, Args)]
struct CreateArgs {
    /// Cluster [default: the only cluster of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,

    /// Vmid of the template; the first free vmid from this number on is used
    #[arg(long, value_name = "VMID", default_value_t = templates::FIRST)]
    #[arg(value_parser = clap::value_parser!(u32).range(100..=999_999_999))]
    vmid: u32,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

/// List the templates in Proxmox, and the nodes that use them
///
/// For templates that nodes use, it also shows the Talos version in their notes, and whether it differs from the
/// version that the nodes need.
#[derive(Debug, Args)]
struct TemplateListArgs {
    /// Cluster [default: the only cluster of the inventory]
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
    let plan = plan_of(args, session).await?;
    if plan.is_empty() && plan.errors().next().is_none() {
        printer.say_raw(&printer.plan(&show::findings(&plan), printer.color));
        if printer.format == Format::Text {
            printer.result("Nothing to do: all templates exist.\n")?;
        }
        return report(session, false, printer);
    }
    let text = if plan.is_empty() { show::findings(&plan) } else { show::text(&plan) };
    printer.say_raw(&printer.plan(&text, printer.color));
    if plan.errors().next().is_some() {
        return Err(plan_blocked("nothing was created", &plan));
    }
    if !args.yes && !session.is_own_lab() {
        confirm::require_yes("Execute this plan?")?;
    }
    let confirmed = ConfirmedPlan {
        plan: &plan,
        command: "template create",
        changed: "nothing was created: the templates changed since the plan was shown",
    };
    confirmed.execute(session, async || plan_of(args, session).await, printer).await?;
    report(session, true, printer)
}

async fn plan_of(args: &CreateArgs, session: &Session) -> Result<Plan, CommandError> {
    let observed = session.observe().await?;
    Ok(templates::plan(session, &observed, args.vmid).await)
}

/// Prints the JSON result.
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
                "Proxmox has no templates, or the token lacks VM.Audit on them. Run `talmox template create` to create them.",
            );
        }
        Format::Text => printer.result(&table(&found))?,
    }
    let findings_only = Plan {
        cluster: session.desired.cluster.clone(),
        changes: vec![],
        findings: template_findings(&session.desired, &pve),
        steps: vec![],
    };
    printer.say_raw(&printer.plan(&show::findings(&findings_only), printer.color));
    Ok(Exit::Fine)
}

fn templates_of(desired: &Desired, pve: &Pve) -> Vec<Value> {
    let mut guests: Vec<_> = pve.resources.guests.iter().filter(|guest| guest.template).collect();
    guests.sort_by_key(|guest| guest.vmid);
    let describe = |guest: &talmox_pve::api::cluster::Guest| {
        let vmid = guest.vmid.to_string();
        let wants = |wanted: &str| guest.name.as_deref() == Some(wanted) || vmid == wanted;
        let nodes = desired.nodes.iter().filter(|node| node.template.as_deref().is_some_and(wants));
        // Proxmox was queried only for the configs of templates that nodes use.
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
