//! Parser of fault actions that affect nodes.

use serde_json::{Map, Value as Json};
use talmox_lab_environment::fault::{ImpostorKind, NodeAction, TargetNode};

use super::action::is_true;
use super::kind::Kind;
use super::value::{EntryError, duration, fields, lasts, name as named, node_name, seconds, text};

const IMPOSTOR_KINDS: [(&str, ImpostorKind); 5] = [
    ("maintenance", ImpostorKind::Maintenance),
    ("talos", ImpostorKind::Talos),
    ("tls", ImpostorKind::Tls),
    ("tcp", ImpostorKind::Tcp),
    ("silent", ImpostorKind::Silent),
];

pub(super) fn read(
    kind: Kind,
    entry: &Map<String, Json>,
    name: &str,
    value: &Json,
) -> Result<NodeAction, EntryError> {
    let target_node = || target_node(kind, entry, name, value);
    Ok(match name {
        "crash" => NodeAction::Crash(target_node()?),
        "unplug" => NodeAction::Unplug(target_node()?),
        "freeze" => NodeAction::Freeze(target_node()?),
        "fill" => NodeAction::Fill(target_node()?),
        "slow" => slow(kind, entry, value)?,
        "clock" => {
            let off = seconds(value).filter(|seconds| seconds.abs() < 1e11);
            let off = off.ok_or_else(|| EntryError::form(name, "a time: -2h, 90s"))?;
            #[expect(clippy::cast_possible_truncation, reason = "far less than an i64 holds")]
            NodeAction::Clock(off as i64)
        }
        "stall" => {
            let stalls = value.as_bool().ok_or_else(|| EntryError::form(name, "true or false"))?;
            NodeAction::Stall(stalls)
        }
        "revert" => is_true(name, value).map(|()| NodeAction::Revert)?,
        "heal" => is_true(name, value).map(|()| NodeAction::Heal)?,
        "partition" => partition(value)?,
        _ => impostor(value)?,
    })
}

fn target_node(
    kind: Kind,
    entry: &Map<String, Json>,
    key: &str,
    value: &Json,
) -> Result<TargetNode, EntryError> {
    if *value != true {
        let form = "true, or a node: the name of its VM, its vmid or an address";
        return node_name(value).map(TargetNode::Named).ok_or_else(|| EntryError::form(key, form));
    }
    if kind.finds_node(entry) {
        return Ok(TargetNode::This);
    }
    let message = format!("`{key}` does not name a node");
    Err(EntryError::new(message, format!("set the name of the node: `{key}: cp-1`")))
}

fn slow(kind: Kind, entry: &Map<String, Json>, value: &Json) -> Result<NodeAction, EntryError> {
    let form = "a time, or {node: cp-1, by: 20s}";
    if let Some(by) = duration(value) {
        return Ok(NodeAction::Slow(target_node(kind, entry, "slow", &Json::Bool(true))?, by));
    }
    let fields = fields("slow", value, &["node", "by"], form)?;
    let node = named(fields, "node")?.ok_or_else(|| EntryError::form("slow", form))?;
    let by = fields.get("by").and_then(duration).ok_or_else(|| EntryError::form("slow", form))?;
    Ok(NodeAction::Slow(TargetNode::Named(node), by))
}

/// Parses the nodes of a partition: one group, several groups, or groups with a duration.
fn partition(value: &Json) -> Result<NodeAction, EntryError> {
    let form = "a list of nodes, a list of groups, or {groups: [[cp-1], [cp-2]], for: 60s}";
    let wrong = || EntryError::form("partition", form);
    let (list, lasts) = match value {
        Json::Object(_) => {
            let fields = fields("partition", value, &["groups", "for"], form)?;
            (fields.get("groups").ok_or_else(wrong)?, lasts("partition", fields)?)
        }
        list => (list, None),
    };
    let list = list.as_array().filter(|list| !list.is_empty()).ok_or_else(wrong)?;
    let names = |list: &[Json]| list.iter().map(node_name).collect::<Option<Vec<String>>>();
    let groups = match list.iter().map(Json::as_array).collect::<Option<Vec<_>>>() {
        Some(groups) => groups.into_iter().map(|group| names(group)).collect(),
        None => names(list).map(|group| vec![group]),
    };
    Ok(NodeAction::Partition { groups: groups.ok_or_else(wrong)?, lasts })
}

fn impostor(value: &Json) -> Result<NodeAction, EntryError> {
    let form = "{node: cp-1, as: maintenance, for: 60s}";
    let fields = fields("impostor", value, &["node", "as", "for"], form)?;
    let at = named(fields, "node")?.ok_or_else(|| EntryError::form("impostor", form))?;
    let wanted = text(fields, "as")?.unwrap_or_else(|| "maintenance".to_owned());
    let kind = IMPOSTOR_KINDS.iter().find(|(name, _)| *name == wanted);
    let Some((_, kind)) = kind else {
        let known = IMPOSTOR_KINDS.map(|(name, _)| name);
        return Err(EntryError::unknown(format!("unknown impostor `{wanted}`"), &wanted, &known));
    };
    Ok(NodeAction::Impostor { at, kind: *kind, lasts: lasts("impostor", fields)? })
}
