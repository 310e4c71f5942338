//! `talmox output`

use std::path::Path;

use clap::Args;
use serde_json::{Map, Value, json};
use talmox_engine::desired::{Desired, DesiredNode};
use talmox_engine::plan::{Contact, locations};
use talmox_pve::api::qemu::Vm;

use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::disk;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::runtime;
use crate::session::{NoSecrets, Session};
use crate::words;

const AFTER_HELP: &str = "\
Examples:
  talmox output                        all nodes as a table
  talmox output dev-cp-1.ip_address
  talmox output --format json | jq .nodes";

/// Print what other tools want to know of a cluster
///
/// Without a name, all nodes as a table, or everything as JSON. Names are `NODE` and `NODE.FIELD` with the fields vmid,
/// vm_name, node (the host), ip_address, mac_address, role, talos_version and kubernetes_version; of the cluster `endpoint`,
/// `vip`, `talos_version`, `kubernetes_version`, and `kubeconfig` and `talosconfig` as `up` wrote them.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct OutputArgs {
    /// What to print, such as dev-cp-1.ip_address [default: all of it]
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// The cluster [default: the only one of the inventory]
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,

    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

pub(crate) fn run(args: &OutputArgs, global: &Global, printer: &Printer) -> Outcome {
    runtime::run(async {
        let cluster = args.cluster.as_deref();
        let session =
            Session::open_with(global, cluster, &args.rehearsal, printer, NoSecrets::Refuse)
                .await?;
        let printed = print(args, &session, printer).await;
        session.close().await?;
        printed
    })
}

async fn print(args: &OutputArgs, session: &Session, printer: &Printer) -> Outcome {
    let paths = session.client_paths();
    let file = match args.name.as_deref() {
        Some(name @ "kubeconfig") => Some((paths.kubeconfig, name)),
        Some(name @ "talosconfig") => Some((paths.talosconfig, name)),
        _ => None,
    };
    if let Some((path, name)) = file {
        printer.result(&client_file(&path, name)?)?;
        return Ok(Exit::Fine);
    }
    let pve = session.observe_proxmox().await?;
    let nodes = facts(&session.desired, locations(&session.desired, &pve));
    let text = match (&args.name, printer.format) {
        (None, Format::Text) => table(&nodes),
        (None, Format::Json) => format!("{:#}\n", everything(&session.desired, &nodes)),
        (Some(name), format) => {
            let found = find(name, &everything(&session.desired, &nodes))?;
            match format {
                Format::Json => format!("{found:#}\n"),
                Format::Text => lines(&found),
            }
        }
    };
    printer.result(&text)?;
    Ok(Exit::Fine)
}

fn client_file(path: &Path, name: &str) -> Result<String, CommandError> {
    match disk::read_secret(path)? {
        Some(text) => Ok(text.expose().to_owned()),
        None => Err(CommandError::failed(format!("there is no {}", path.display()))
            .hint(format!("`talmox up` writes it; `talmox {name}` makes one without a cluster"))),
    }
}

fn everything(desired: &Desired, nodes: &Map<String, Value>) -> Value {
    json!({
        "cluster": desired.cluster,
        "endpoint": desired.endpoint,
        "vip": desired.vip.map(|vip| vip.to_string()),
        "talos_version": desired.talos_version,
        "kubernetes_version": desired.kubernetes_version,
        "nodes": nodes,
    })
}

/// `NODE`, `NODE.FIELD` or a name of the cluster's. Node names may hold dots, field names do not.
fn find(name: &str, all: &Value) -> Result<Value, CommandError> {
    let nodes = &all["nodes"];
    if let Some(found) = nodes.get(name).or_else(|| all.get(name)) {
        return Ok(found.clone());
    }
    let names = |of: &Value| -> String {
        let keys = of.as_object().map(|of| of.keys().cloned().collect::<Vec<_>>());
        keys.unwrap_or_default().join(", ")
    };
    let unknown = CommandError::usage(format!("there is no output `{name}`"));
    match name.rsplit_once('.').and_then(|(node, field)| Some((nodes.get(node)?, field))) {
        Some((node, field)) => match node.get(field) {
            Some(found) => Ok(found.clone()),
            None => Err(unknown.hint(format!("fields are: {}", names(node)))),
        },
        None => Err(unknown.hint(format!("nodes are: {}", names(nodes)))),
    }
}

/// A value as a script wants it, or the fields of a node.
fn lines(found: &Value) -> String {
    match found.as_object() {
        None => format!("{}\n", plain(found).unwrap_or_default()),
        Some(fields) => {
            let row = |(key, value): (&String, &Value)| {
                vec![key.clone(), plain(value).unwrap_or_else(|| "-".to_owned())]
            };
            words::aligned(&fields.iter().map(row).collect::<Vec<_>>())
        }
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// What other tools want to know of each node.
pub(crate) fn facts(
    desired: &Desired,
    places: Vec<(&DesiredNode, Option<Vm>)>,
) -> Map<String, Value> {
    let mut all = Map::new();
    for (node, place) in places {
        let address = node.addresses.first().copied().or(match node.contact {
            Contact::At(address) => Some(address),
            Contact::AskAgent => None,
        });
        all.insert(
            node.name.clone(),
            json!({
                "vmid": place.as_ref().map(|place| place.vmid.get()),
                "vm_name": node.name,
                "node": place.as_ref().map(|place| place.node.to_string()),
                "ip_address": address.map(|address| address.to_string()),
                "mac_address": node.identity.macs.first().map(ToString::to_string),
                "role": if node.is_control_plane { "controlplane" } else { "worker" },
                "talos_version": node.is_talos.then(|| desired.talos_version.clone()),
                "kubernetes_version": node.is_talos.then(|| desired.kubernetes_version.clone()),
            }),
        );
    }
    all
}

/// The same for people.
pub(crate) fn table(facts: &Map<String, Value>) -> String {
    const COLUMNS: [(&str, &str); 5] = [
        ("role", "ROLE"),
        ("vmid", "VMID"),
        ("node", "HOST"),
        ("ip_address", "ADDRESS"),
        ("mac_address", "MAC"),
    ];
    let mut rows: Vec<Vec<String>> = vec![
        std::iter::once("NODE")
            .chain(COLUMNS.iter().map(|(_, title)| *title))
            .map(str::to_owned)
            .collect(),
    ];
    for (name, fact) in facts {
        let cells =
            COLUMNS.iter().map(|(key, _)| plain(&fact[*key]).unwrap_or_else(|| "-".to_owned()));
        rows.push(std::iter::once(name.clone()).chain(cells).collect());
    }
    words::aligned(&rows)
}
