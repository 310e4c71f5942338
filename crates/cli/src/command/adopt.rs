//! `talmox adopt`: an inventory and a secrets bundle for a running cluster that another tool created.

mod adoption;
mod config_patch;
mod earlier_file;
mod etcd_member;
mod inventory_text;
mod running_node;
mod vm_settings;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use talmox_clock::Clock;
use talmox_engine::access::{ClientFiles, kubernetes_server};
use talmox_model::value::ProxmoxUrl;
use talmox_plan::desired::TAG;
use talmox_plan::ownership::{Adoption as AdoptionRecord, ClusterMark, FirstRole, Marker, Stage};
use talmox_plan::plan::{Plan, show};
use talmox_plan::planning;
use talmox_pve::api::qemu;
use talmox_pve::client::Trust;
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::fingerprint::Fingerprint;
use talmox_pve::property::Tags;
use talmox_pve::{Client, SecretText};
use talmox_talos_api::Settings;
use talmox_talos_config::client::ClientRole;
use talmox_talos_config::client::kubeconfig::{self, KubeconfigRequest};
use talmox_talos_config::secrets::Bundle;

use super::talosconfig::TalosEndpoints;
use super::{Outcome, client};
use crate::args::{Format, Global};
use crate::choose;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::new_file::write_new;
use crate::printer::Printer;
use crate::rehearsal::{self, LabConnection, RehearsalArgs};
use crate::secrets::SecretsFile;
use crate::session::{NoSecrets, Session, proxmox};
use crate::words::plural;
use crate::{confirm, environment, gitignore, runtime, secrets};
use adoption::{Adoption, Left, derive, describe_configs, read_cluster};
use earlier_file::EarlierFiles;
use inventory_text::AdoptedNode;

/// Validity of the client files.
const TTL: std::time::Duration = std::time::Duration::from_hours(365 * 24);

const AFTER_HELP: &str = "\
Examples:
  talmox adopt --endpoint https://pve:8006 --talosconfig talosconfig
  talmox adopt --endpoint pve --talosconfig talosconfig --output home --yes";

/// Create the inventory and the secrets bundle of a running cluster
///
/// Reads a cluster of Talos VMs that another tool created: its nodes through the Talos API, their VMs through the Proxmox API.
/// Writes cluster.yaml, secrets.sops.yaml with the secrets of the cluster and the token, kubeconfig and talosconfig to a new
/// folder. Where the machine configs differ from those that talmox generates, the inventory gets patches.
///
/// The only change in Proxmox is the marker in the notes of the VMs, after confirmation; the notes are kept. Then the command
/// makes a plan, and reports whether it is empty. Nodes that the inventory cannot describe, and members of etcd without such a
/// node, are listed with the reason, and are not changed. A run that failed is resumed by the same command: files that it wrote
/// are kept, and other files are never overwritten.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct AdoptArgs {
    /// URL of the Proxmox API, such as https://pve:8006
    #[arg(long, value_name = "URL")]
    endpoint: ProxmoxUrl,

    /// API token, user@realm!id=uuid [default: the variable PROXMOX_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,

    /// SHA-256 fingerprint of the Proxmox certificate [default: the CAs that this system trusts]
    #[arg(long, value_name = "AB:CD:…")]
    fingerprint: Option<String>,

    /// talosconfig with administrator access to the cluster
    #[arg(long, value_name = "FILE")]
    talosconfig: PathBuf,

    /// Context of the talosconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Folder for the inventory [default: inventory/CLUSTER]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Write the markers without asking
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

pub(crate) fn run(args: &AdoptArgs, global: &Global, printer: &Printer) -> Outcome {
    if args.rehearsal.lab {
        return Err(CommandError::usage("--lab cannot be used: a new lab has no cluster to adopt")
            .hint("use --lab-at FILE for a running lab"));
    }
    runtime::run(Box::pin(adopt(args, global, printer)))
}

async fn adopt(args: &AdoptArgs, global: &Global, printer: &Printer) -> Outcome {
    let lab = args.rehearsal.lab_at.as_deref().map(rehearsal::join).transpose()?;
    let clock = lab.as_ref().map_or_else(Clock::real, |lab| lab.clock);
    let token = token(args, lab.as_ref())?;
    let (pve, login) = match &lab {
        Some(lab) => proxmox::lab_client(lab, clock, printer)?,
        None => proxmox::client_at(&args.endpoint, trust(args)?, &token, clock, printer)?,
    };
    let mut settings = Settings::new(clock);
    if let Some(lab) = &lab {
        settings.reach = lab.reach();
    }
    printer.say(&format!("reading {}", args.endpoint));
    let vms = vm_settings::read(&pve).await.map_err(proxmox::unreachable)?;
    let mut adoption = read_cluster(args, &settings, &vms).await?;
    describe_configs(&mut adoption, &login)?;
    let text = inventory_text::inventory(&adoption.facts, &adoption.nodes);
    derive(&text, &adoption.bundle, &login)?;

    let name = &adoption.facts.name;
    let folder = args.output.clone().unwrap_or_else(|| Path::new("inventory").join(name));
    let path = folder.join("cluster.yaml");
    let own = global.at(&folder);
    let earlier = EarlierFiles::find(&path, &text, (&adoption.bundle, &token), &own, printer)?;
    show_nodes(&adoption, printer);
    if !args.yes {
        let vms = plural(adoption.nodes.len(), "VM");
        confirm::require_yes(&format!(
            "Write the inventory to {}, and the marker of {name} to the notes of {vms}?",
            folder.display()
        ))?;
    }
    if earlier.has_inventory {
        printer.say(&format!("kept {}, which an earlier run wrote", path.display()));
    } else {
        write_new(&path, &text)?;
        printer.say(&format!("wrote {}", path.display()));
    }
    if earlier.has_secrets {
        printer.say(&format!("kept {}", choose::secrets_beside(&path).display()));
    } else {
        write_secrets(&own, &adoption.bundle, &token, printer)?;
    }
    if let Err(error) = gitignore::extend(&folder) {
        printer.warn(&error.chain());
    }
    mark(&pve, &adoption, printer).await?;
    let session =
        Session::open_bare(&own, None, &args.rehearsal, printer, NoSecrets::Refuse).await?;
    let planned = plan(&session, printer).await;
    session.close().await?;
    report(&adoption, &path, &planned?, printer)
}

/// API token from the `--token` option, from the environment, or from the lab.
fn token(args: &AdoptArgs, lab: Option<&LabConnection>) -> Result<SecretText, CommandError> {
    let of_lab = || {
        let pve = &lab?.ready.pve;
        Some(format!("{}={}", pve.token_id, pve.token_secret))
    };
    let given = args.token.clone().or_else(|| environment::variable("PROXMOX_TOKEN"));
    given.or_else(of_lab).map(SecretText::new).ok_or_else(|| {
        CommandError::usage("there is no token for Proxmox")
            .hint("pass --token user@realm!id=uuid, or `export PROXMOX_TOKEN=…`")
    })
}

fn trust(args: &AdoptArgs) -> Result<Trust, CommandError> {
    let Some(text) = &args.fingerprint else { return Ok(Trust::System) };
    let fingerprint: Fingerprint = text.parse().map_err(|error| {
        CommandError::usage(format!("`{text}` is not a SHA-256 fingerprint")).because(error)
    })?;
    Ok(Trust::Pinned(BTreeSet::from([fingerprint])))
}

fn show_nodes(adoption: &Adoption, printer: &Printer) {
    for AdoptedNode { node, vm, patches, .. } in &adoption.nodes {
        let role = if node.is_control_plane() { "control plane" } else { "worker" };
        let patched = if patches.is_empty() { "" } else { ", with patches" };
        let (vmid, host) = (vm.guest.vmid, &vm.guest.node);
        printer.say(&format!("  {} ({role}): VM {vmid} on {host}{patched}", node.name));
    }
    for Left { node, reason } in &adoption.left {
        printer.warn(&format!("{node}: {reason}"));
    }
}

fn write_secrets(
    global: &Global,
    bundle: &Bundle,
    token: &SecretText,
    printer: &Printer,
) -> Result<(), CommandError> {
    let chosen = choose::one(global, None, printer)?;
    let _lock = secrets::lock(&chosen, printer)?;
    let mut file = SecretsFile::new(&chosen, &[], printer)?;
    file.set_bundle(bundle);
    file.document.set_text("proxmox.token", token);
    file.save()?;
    printer.say(&format!("wrote {}", file.path.display()));
    Ok(())
}

/// Writes the marker to the notes of each VM. The request contains the digest of the VM config, so Proxmox rejects the
/// request if the config has changed since it was read.
async fn mark(pve: &Client, adoption: &Adoption, printer: &Printer) -> Result<(), CommandError> {
    let cluster = &adoption.facts.name;
    for AdoptedNode { node, vm, .. } in &adoption.nodes {
        let (notes, vmid) = (vm.config.description(), vm.guest.vmid);
        if Marker::find(notes).is_some() {
            continue;
        }
        let is_control_plane = node.is_control_plane();
        let tags = vm.config.tags();
        let marker = Marker {
            cluster: ClusterMark::of(&adoption.bundle.cluster.id),
            node: node.name.clone(),
            stage: Stage::Made,
            data: None,
            // `adopt` does not change the tags, so later plans must not contain a change of the tags.
            are_tags_rejected: !(tags.contains(TAG) && tags.contains(cluster)),
            first_role: Some(if is_control_plane {
                FirstRole::ControlPlane
            } else {
                FirstRole::Worker
            }),
            // Another tool or a user set the tags.
            own_tags: Tags::default(),
            notes: None,
        };
        let uuid = vm.uuid().unwrap_or_default();
        let record = AdoptionRecord::of(&adoption.bundle.cluster.id, &node.name, &uuid);
        let set = VmOptions::new().description(&marker.adopt(notes, cluster, &record));
        let change = VmChange { set, digest: vm.config.digest(), ..VmChange::default() };
        pve.send(&qemu::set_config(&vm.vm(), &change)).await.map_err(|error| {
            let error = proxmox::unreachable(error);
            let hint = "the inventory and the secrets are written: fix the cause, then run the same command to resume";
            CommandError::failed(
                CommandCode::AdoptImpossible,
                format!("cannot write the marker to VM {vmid}: {}", error.chain()),
            )
            .hint(hint)
        })?;
        printer.say(&format!("marked VM {vmid} ({})", node.name));
    }
    Ok(())
}

/// Writes the client files and makes a plan.
async fn plan(session: &Session, printer: &Printer) -> Result<Plan, CommandError> {
    let paths = session.client_paths();
    let is_lab = session.lab.is_some();
    let ttl = if is_lab { rehearsal::TTL } else { TTL };
    let failed = |what: &str| {
        CommandError::failed(CommandCode::CertificateFailed, format!("cannot create the {what}"))
    };
    let endpoint = session.desired.endpoint.clone().unwrap_or_default();
    let (server, tls_server_name) = kubernetes_server(&endpoint, &session.access.settings.reach);
    let groups = ["system:masters".to_owned()];
    let request = KubeconfigRequest {
        cluster: &session.desired.cluster,
        server: &server,
        tls_server_name: tls_server_name.as_deref(),
        groups: &groups,
        ttl,
    };
    let (now, bundle) = (environment::now(), &session.bundle);
    let kubeconfig = kubeconfig::generate(bundle, &request, now, &mut environment::Kernel)
        .map_err(|error| failed("kubeconfig").because(error))?;
    let talosconfig = TalosEndpoints::of(&session.chosen, printer).generate(
        bundle,
        &[ClientRole::Admin],
        ttl,
        now,
    )?;
    let files = ClientFiles { cluster: session.desired.cluster.clone(), kubeconfig, talosconfig };
    // An earlier run that did not finish may have written them.
    if !(paths.kubeconfig.exists() && paths.talosconfig.exists()) {
        for message in client::put(&paths, &files, is_lab, false)? {
            printer.say(&message);
        }
    }
    let observed = session.observe().await?;
    Ok(planning::plan(&session.desired, &observed, session.options(&observed)))
}

/// Prints the result. The adoption is complete if the plan is empty and every node is adopted.
fn report(adoption: &Adoption, path: &Path, plan: &Plan, printer: &Printer) -> Outcome {
    let is_empty = plan.is_empty() && plan.errors().next().is_none();
    let is_complete = is_empty && adoption.left.is_empty();
    let count = plural(adoption.nodes.len(), "node");
    match printer.format {
        Format::Json => {
            let nodes = adoption.nodes.iter().map(
                |adopted| json!({"name": adopted.node.name, "vmid": adopted.vm.guest.vmid.get()}),
            );
            let left = adoption.left.iter();
            let left = left.map(|left| json!({"node": left.node, "reason": left.reason}));
            let result = json!({
                "cluster": adoption.facts.name,
                "written": path.display().to_string(),
                "nodes": nodes.collect::<Vec<_>>(),
                "left": left.collect::<Vec<_>>(),
                "is_plan_empty": is_empty,
                "plan": show::json(plan),
            });
            printer.result(&format!("{result:#}\n"))?;
        }
        Format::Text if is_complete => {
            printer.result(&format!(
                "{}: {count} adopted; the plan is empty\n",
                adoption.facts.name
            ))?;
        }
        Format::Text => {
            if !is_empty {
                printer.say_raw(&printer.plan(&show::text(plan), printer.color));
            }
            let rest =
                if is_empty { "the plan is empty" } else { "the plan is not empty, see above" };
            let left = adoption.left.len();
            let more = if left == 0 {
                String::new()
            } else {
                format!("; {} above", plural(left, "warning"))
            };
            printer.result(&format!("{}: {count} adopted; {rest}{more}\n", adoption.facts.name))?;
        }
    }
    Ok(if is_complete { Exit::Fine } else { Exit::Failed })
}
