//! `talmox check`

mod age_key;
mod configs;
mod live;
mod tracked;

use clap::Args;
use serde_json::{Value as Json, json};
use talmox_model::value::SecretRef;
use talmox_model::{Cluster, Explained, Inventory, Node, Severity};

use super::Outcome;
use crate::addons;
use crate::args::{Format, Global};
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::load::load_located;
use crate::locate::locate;
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::words::plural;
use crate::{reference, render};

const AFTER_HELP: &str = "\
Examples:
  talmox check                       all clusters of ./inventory
  talmox check --explain dev-cp-1    settings of a node and their origin
  talmox check --live dev            preflight checks of `up`";

/// Check an inventory, and with --live also Proxmox and the nodes
///
/// Reports all findings at once, each with its position and a hint. It does not use the network and runs no command
/// that the inventory names. It warns if Git tracks a file with keys. With --live it also runs the preflight checks of
/// `up` against Proxmox, the nodes and the Image Factory, without changes: permissions of the token (with the `pveum`
/// commands for missing ones), storages, bridges, hosts, vmids, addresses, devices and extensions.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CheckArgs {
    /// Clusters to check [default: all clusters of the inventory]
    #[arg(value_name = "CLUSTER")]
    pub(crate) clusters: Vec<String>,

    /// Print every setting of a node, with the file and line that sets it
    #[arg(long, value_name = "NODE")]
    pub(crate) explain: Option<String>,

    /// Also check Proxmox, the nodes and the Image Factory
    #[arg(long, conflicts_with = "explain")]
    live: bool,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

pub(crate) fn run(args: &CheckArgs, global: &Global, printer: &Printer) -> Outcome {
    if args.live {
        return live::run(&args.clusters, &args.rehearsal, global, printer);
    }
    if args.rehearsal.is_lab() {
        return Err(CommandError::usage("--lab and --lab-at require --live"));
    }
    let located = locate(global.inventory.as_deref(), &args.clusters, &global.allow_files)?;
    let boundary = located.boundary.clone();
    let tracked = tracked::warnings(&located.clusters);
    let mut inventory = load_located(located);
    configs::refuse_bad_configs(&mut inventory, &boundary);
    inventory.diagnostics.extend(tracked);
    let explained = match &args.explain {
        Some(name) => Some(find_node(&inventory, name)?),
        None => None,
    };
    match printer.format {
        Format::Json => printer.result(&format!("{:#}\n", to_json(&inventory, explained)))?,
        Format::Text => {
            printer.say_raw(&render::text(&inventory, printer.color));
            say_commands(&inventory, printer);
            for line in addons::without_helm(&inventory) {
                printer.warn(&line);
            }
            if let Some((cluster, node)) = explained {
                printer.result(&explain(&inventory, cluster, node))?;
            } else {
                printer.result(&summary(&inventory))?;
            }
        }
    }
    Ok(if inventory.has_errors() { Exit::Failed } else { Exit::Fine })
}

/// Lists the secrets that were not checked, because a check would run a command.
fn say_commands(inventory: &Inventory, printer: &Printer) {
    for cluster in &inventory.clusters {
        for found in reference::all_of(cluster) {
            if let SecretRef::Command(command) = &found.secret.value {
                let (setting, program) = (found.setting, reference::program(command));
                printer.say(&format!("{setting}: the command `{program}` was not run"));
            }
        }
    }
}

fn find_node<'a>(
    inventory: &'a Inventory,
    name: &str,
) -> Result<(&'a Cluster, &'a Node), CommandError> {
    let found: Vec<_> = inventory
        .clusters
        .iter()
        .filter_map(|cluster| cluster.node(name).map(|node| (cluster, node)))
        .collect();
    match found.as_slice() {
        [one] => Ok(*one),
        [] => {
            let near = inventory.clusters.iter().find_map(|cluster| cluster.closest_node(name));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "use the name of a node of the inventory".to_owned(),
            };
            Err(CommandError::usage_as(
                CommandCode::NodeNotFound,
                format!("there is no node `{name}`"),
            )
            .hint(hint))
        }
        _ => Err(CommandError::usage(format!("several clusters have a node `{name}`"))
            .hint("pass the name of the cluster: `talmox check CLUSTER --explain NODE`")),
    }
}

/// Summary with one line for each cluster.
fn summary(inventory: &Inventory) -> String {
    let mut out = String::new();
    for cluster in &inventory.clusters {
        let description =
            if cluster.is_readable() { describe(cluster) } else { "could not be read".to_owned() };
        out.push_str(&format!("{}: {description}\n", cluster.name));
    }
    let [errors, warnings] =
        [Severity::Error, Severity::Warning].map(|severity| render::count(inventory, severity));
    let findings = match (errors, warnings) {
        (0, 0) => "no problems".to_owned(),
        (0, warnings) => plural(warnings, "warning"),
        (errors, 0) => plural(errors, "error"),
        (errors, warnings) => {
            format!("{}, {}", plural(errors, "error"), plural(warnings, "warning"))
        }
    };
    out.push_str(&findings);
    if inventory.unlisted > 0 {
        out.push_str(&format!(", and {} more", inventory.unlisted));
    }
    out.push('\n');
    out
}

fn describe(cluster: &Cluster) -> String {
    let controlplanes = cluster.controlplanes().count();
    let mut text = format!(
        "{}, {}",
        plural(controlplanes, "control plane"),
        plural(cluster.workers().count(), "worker")
    );
    if let Some(talos) = cluster.file.talos_version.get() {
        text.push_str(&format!(", Talos {talos}"));
    }
    if let Some(kubernetes) = cluster.kubernetes_version() {
        text.push_str(&format!(", Kubernetes {kubernetes}"));
    }
    text
}

/// Table of the settings of a node, with their values and origins.
fn explain(inventory: &Inventory, cluster: &Cluster, node: &Node) -> String {
    let rows: Vec<[String; 3]> = cluster
        .explain(node)
        .into_iter()
        .map(|row| {
            let origin = origin(inventory, &row);
            [row.path, row.value, origin]
        })
        .collect();
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).min(48)
    };
    let (first, second) = (width(0), width(1));
    let mut out = format!("{} ({} of {})\n\n", node.name.value, node.role, cluster.name);
    for [path, value, origin] in &rows {
        out.push_str(&format!("{path:first$}  {value:second$}  {origin}\n"));
    }
    out
}

fn origin(inventory: &Inventory, row: &Explained) -> String {
    row.span.map_or_else(|| "derived".to_owned(), |span| inventory.sources.locate(span))
}

fn to_json(inventory: &Inventory, explained: Option<(&Cluster, &Node)>) -> Json {
    let clusters: Vec<Json> = inventory
        .clusters
        .iter()
        .map(|cluster| {
            json!({
                "name": cluster.name,
                "controlplanes": cluster.controlplanes().count(),
                "workers": cluster.workers().count(),
                "talos_version": cluster.file.talos_version.get().map(ToString::to_string),
                "kubernetes_version": cluster.kubernetes_version().map(|version| version.to_string()),
            })
        })
        .collect();
    let mut out = json!({
        "ok": !inventory.has_errors(),
        "clusters": clusters,
        "diagnostics": render::json(inventory),
    });
    if inventory.unlisted > 0 {
        out["unlisted"] = json!(inventory.unlisted);
    }
    if let Some((cluster, node)) = explained {
        let settings: Vec<Json> = cluster
            .explain(node)
            .into_iter()
            .map(|row| {
                let origin = origin(inventory, &row);
                json!({ "setting": row.path, "value": row.value, "origin": origin })
            })
            .collect();
        out["node"] = json!({
            "name": node.name.value.to_string(),
            "role": node.role.to_string(),
            "cluster": cluster.name,
            "settings": settings,
        });
    }
    out
}
