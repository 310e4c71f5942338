//! `talmox output`

mod facts;

use std::path::Path;

use clap::Args;
use serde_json::{Map, Value};
use talmox_plan::planning::locations;

use crate::args::{Format, Global};
use crate::columns::{drop_column, narrow, no_room};
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::{NoSecrets, Session};
use crate::{disk, runtime, words};
use facts::{ADDRESS, ASSUMED};

pub(crate) use facts::{Facts, KUBERNETES, TALOS, versions};

const AFTER_HELP: &str = "\
Examples:
  talmox output                        all nodes as a table
  talmox output dev-cp-1.ip_address
  talmox output --format json | jq .nodes";

/// Print addresses, vmids and versions of a cluster for other tools
///
/// Without a name, it prints all nodes as a table, or all values as JSON. A name is `NODE` or `NODE.FIELD`, with the
/// fields vmid, vm_name, node (the host), ip_address, mac_address, role, talos_version and kubernetes_version. Values
/// of the whole cluster are `endpoint`, `vip`, `talos_version`, `kubernetes_version`, `kubeconfig` and `talosconfig`;
/// the last two are the files that `up` wrote.
///
/// Addresses and versions are read from the running nodes. For a node that does not answer they are those of the
/// inventory: in parentheses in the table, listed in `from_inventory` in JSON, and with a warning that gives the
/// reason.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct OutputArgs {
    /// Value to print, such as dev-cp-1.ip_address [default: all values]
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Cluster [default: the only cluster of the inventory]
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
        printer.file(&client_file(&path, name)?)?;
        return Ok(Exit::Fine);
    }
    let pve = session.observe_proxmox().await?;
    let places = locations(&session.desired, &pve);
    let about = args.name.as_deref().map(|name| part(name, session));
    let facts = match about {
        Some((_, Some(field))) if !NODE_FIELDS.contains(&field) => {
            Facts::of(&session.desired, &places, Some(&pve), None)
        }
        _ => Facts::look(session, &places, Some(&pve)).await,
    };
    let text = match (&args.name, printer.format) {
        (None, Format::Text) => table(&facts.nodes, printer.result_columns()),
        (None, Format::Json) => format!("{:#}\n", everything(&facts)),
        (Some(name), format) => {
            let found = find(name, &everything(&facts))?;
            match format {
                Format::Json => format!("{found:#}\n"),
                Format::Text => lines(&found),
            }
        }
    };
    facts.warn(about, printer);
    printer.result(&text)?;
    Ok(Exit::Fine)
}

/// Fields that are read from the nodes. For other fields, no node is queried.
const NODE_FIELDS: [&str; 4] = [ADDRESS, TALOS, KUBERNETES, ASSUMED];

/// Splits a name into the name of a node or cluster, and the name of a field.
fn part<'a>(name: &'a str, session: &'a Session) -> (&'a str, Option<&'a str>) {
    let is_node = |name: &str| session.desired.nodes.iter().any(|node| node.name == name);
    match name.rsplit_once('.') {
        _ if is_node(name) => (name, None),
        Some((node, field)) if is_node(node) => (node, Some(field)),
        _ => (&session.desired.cluster, Some(name)),
    }
}

fn client_file(path: &Path, name: &str) -> Result<String, CommandError> {
    match disk::read_secret(path)? {
        Some(text) => Ok(text.expose().to_owned()),
        None => Err(CommandError::failed(
            CommandCode::FileUnreadable,
            format!("there is no {}", path.display()),
        )
        .hint(format!("run `talmox up` to write it, or `talmox {name}` to create one offline"))),
    }
}

fn everything(facts: &Facts) -> Value {
    let mut all = facts.cluster.clone();
    all.insert("nodes".to_owned(), Value::Object(facts.nodes.clone()));
    Value::Object(all)
}

/// Value of `NODE`, of `NODE.FIELD`, or of a name of the cluster. Names of nodes may contain dots, but names of fields do
/// not.
fn find(name: &str, all: &Value) -> Result<Value, CommandError> {
    let nodes = &all["nodes"];
    if let Some(found) = nodes.get(name).or_else(|| all.get(name)) {
        return Ok(found.clone());
    }
    let names = |of: &Value| -> String {
        let keys = of.as_object().map(|of| of.keys().cloned().collect::<Vec<_>>());
        keys.unwrap_or_default().join(", ")
    };
    let unknown =
        CommandError::usage_as(CommandCode::OutputUnknown, format!("there is no output `{name}`"));
    match name.rsplit_once('.').and_then(|(node, field)| Some((nodes.get(node)?, field))) {
        Some((node, field)) => match node.get(field) {
            Some(found) => Ok(found.clone()),
            None => Err(unknown.hint(format!("fields: {}", names(node)))),
        },
        None => Err(unknown.hint(format!("nodes: {}", names(nodes)))),
    }
}

/// Text of a value, or of all fields of a node.
fn lines(found: &Value) -> String {
    match found.as_object() {
        None => format!("{}\n", plain(found).unwrap_or_default()),
        Some(fields) => {
            let shown = fields.keys().filter(|key| *key != ASSUMED);
            let row = |key: &String| vec![key.clone(), cell(found, key)];
            words::aligned(&shown.map(row).collect::<Vec<_>>())
        }
    }
}

/// Text of a table cell. A value from the inventory is in parentheses.
fn cell(fact: &Value, key: &str) -> String {
    let Some(text) = plain(&fact[key]) else { return "-".to_owned() };
    let assumed = fact[ASSUMED].as_array();
    if assumed.is_some_and(|all| all.iter().any(|field| field == key)) {
        return format!("({text})");
    }
    text
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Table of all nodes, at most `columns` characters wide.
pub(crate) fn table(facts: &Map<String, Value>, columns: Option<usize>) -> String {
    const COLUMNS: [(&str, &str); 7] = [
        ("role", "ROLE"),
        ("vmid", "VMID"),
        ("node", "HOST"),
        (ADDRESS, "ADDRESS"),
        ("mac_address", "MAC"),
        (TALOS, "TALOS"),
        (KUBERNETES, "KUBERNETES"),
    ];
    /// Columns that may be removed on a narrow terminal, the most important column first.
    const DISPENSABLE: [&str; 5] = ["ROLE", "HOST", "KUBERNETES", "TALOS", "MAC"];
    let mut rows: Vec<Vec<String>> = vec![
        std::iter::once("NODE")
            .chain(COLUMNS.iter().map(|(_, title)| *title))
            .map(str::to_owned)
            .collect(),
    ];
    for (name, fact) in facts {
        let cells = COLUMNS.iter().map(|(key, _)| cell(fact, key));
        rows.push(std::iter::once(name.clone()).chain(cells).collect());
    }
    for title in ["TALOS", "KUBERNETES"] {
        let at = rows[0].iter().position(|known| known == title);
        if at.is_some_and(|at| rows[1..].iter().all(|row| row[at] == "-")) {
            drop_column(&mut rows, title);
        }
    }
    let left_out = narrow(&mut rows, &DISPENSABLE, columns);
    format!("{}{}", words::aligned(&rows), no_room(&left_out))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn removed_columns_are_named_and_macs_are_removed_before_versions() {
        let node = json!({"role": "worker", "vmid": 300, "node": "pve", ADDRESS: "10.0.0.11",
            "mac_address": "02:00:00:00:00:01", TALOS: "v1.11.2", KUBERNETES: "v1.34.1"});
        let facts = Map::from_iter([("wk-1".to_owned(), node)]);
        let wide = table(&facts, None);
        assert!(wide.contains("MAC") && !wide.contains("too narrow"), "{wide}");
        let shown = table(&facts, Some(60));
        assert!(shown.contains("TALOS") && shown.contains("v1.34.1"), "{shown}");
        assert!(
            shown.ends_with("\n\nColumns not shown because the terminal is too narrow: MAC.\n"),
            "{shown}"
        );
    }
}
