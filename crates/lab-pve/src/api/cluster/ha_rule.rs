//! `/cluster/ha/rules`: HA rules of Proxmox VE 9. Node affinity rules list the hosts on which resources should run. Resource
//! affinity rules keep resources on the same host or on different hosts.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::ha::{change, options_json, remove};
use crate::api::reply::{data, prefix_error};
use crate::call::{Call, Outcome, Reply};
use crate::pve_state::{PveState, Section};
use crate::schema::split_list;
use crate::{ApiError, digest};

pub(super) fn list(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let (kind, resource) = (call.params.text("type"), call.params.text("resource"));
    let mut rules: Vec<(&String, &Section)> = pve_state
        .ha
        .rules
        .iter()
        .filter(|(_, rule)| kind.is_none_or(|kind| text(rule, "type") == kind))
        .filter(|(_, rule)| {
            resource.is_none_or(|sid| split_list(text(rule, "resources")).contains(&sid))
        })
        .collect();
    rules.sort_by_key(|(_, rule)| order(rule));
    data(rules.into_iter().map(|(id, rule)| shown(&pve_state, id, rule)).collect::<Vec<_>>())
}

pub(super) fn read(call: &Call) -> Outcome {
    let id = call.params.text("rule").unwrap_or_default();
    let pve_state = call.pve_state();
    let rule = pve_state.ha.rules.get(id);
    let rule = rule.ok_or_else(|| ApiError::failed(format!("no such ha rule '{id}'")))?;
    data(shown(&pve_state, id, rule))
}

fn shown(pve_state: &PveState, id: &str, rule: &Section) -> Json {
    let mut shown = options_json(rule);
    for list in ["resources", "nodes"] {
        if let Some(value) = rule.get(list) {
            let sorted: BTreeSet<&str> = split_list(value).into_iter().collect();
            shown.insert(list.to_owned(), json!(Vec::from_iter(sorted).join(",")));
        }
    }
    shown.insert("rule".to_owned(), json!(id));
    shown.insert("digest".to_owned(), json!(digest::of_sections(&pve_state.ha.rules)));
    shown.insert("order".to_owned(), json!(order(rule)));
    Json::Object(shown)
}

pub(super) fn create(call: &Call) -> Outcome {
    let id = call.params.text("rule").unwrap_or_default();
    let kind = call.params.text("type").unwrap_or_default();
    check_options(call, kind)?;
    for name in required(kind) {
        if !call.params.has(name) {
            let text = format!("missing value for required option '{name}'");
            return Err(ApiError::failed(text));
        }
    }
    let mut pve_state = call.pve_state();
    let attempt = "create ha rule failed";
    if pve_state.ha.rules.contains_key(id) {
        let taken = ApiError::failed(format!("HA rule '{id}' already defined"));
        return prefix_error(attempt, Err(taken));
    }
    let last = pve_state.ha.rules.values().map(order).max().unwrap_or_default();
    let mut rule = Section::from([
        ("type".to_owned(), kind.to_owned()),
        ("order".to_owned(), (last + 1).to_string()),
    ]);
    change(call, &mut rule, known(kind));
    without_zero(&mut rule);
    prefix_error(attempt, check(&pve_state, id, &rule))?;
    pve_state.ha.rules.insert(id.to_owned(), rule);
    Ok(Reply::NULL)
}

pub(super) fn update(call: &Call) -> Outcome {
    let id = call.params.text("rule").unwrap_or_default();
    let attempt = "update HA rules failed";
    let mut pve_state = call.pve_state();
    let digest = digest::of_sections(&pve_state.ha.rules);
    prefix_error(attempt, digest::check_unchanged(&digest, call.params.text("digest")))?;
    let Some(rule) = pve_state.ha.rules.get(id) else {
        let missing = ApiError::failed(format!("HA rule '{id}' does not exist"));
        return prefix_error(attempt, Err(missing));
    };
    let mut rule = rule.clone();
    let kind = text(&rule, "type").to_owned();
    prefix_error(attempt, check_options(call, &kind))?;
    prefix_error(attempt, remove(call, &mut rule, known(&kind), required(&kind)))?;
    change(call, &mut rule, known(&kind));
    without_zero(&mut rule);
    prefix_error(attempt, check(&pve_state, id, &rule))?;
    pve_state.ha.rules.insert(id.to_owned(), rule);
    Ok(Reply::NULL)
}

pub(super) fn delete(call: &Call) -> Outcome {
    let id = call.params.text("rule").unwrap_or_default();
    call.pve_state().ha.rules.remove(id);
    Ok(Reply::NULL)
}

fn known(kind: &str) -> &'static [&'static str] {
    match kind {
        "node-affinity" => &["comment", "disable", "nodes", "resources", "strict"],
        _ => &["affinity", "comment", "disable", "resources"],
    }
}

fn required(kind: &str) -> &'static [&'static str] {
    match kind {
        "node-affinity" => &["nodes", "resources"],
        _ => &["affinity", "resources"],
    }
}

/// Rejects options that only the other type of rule has.
fn check_options(call: &Call, kind: &str) -> Result<(), ApiError> {
    let common = ["type", "rule", "digest", "delete"];
    let names = call.params.iter().map(|(name, _)| name);
    let other =
        names.filter(|name| !common.contains(name)).find(|name| !known(kind).contains(name));
    match other {
        Some(name) => Err(ApiError::failed(format!("unexpected property '{name}'"))),
        None => Ok(()),
    }
}

/// Removes `disable=0`, which Proxmox does not store.
fn without_zero(rule: &mut Section) {
    if text(rule, "disable") == "0" {
        rule.remove("disable");
    }
}

fn check(pve_state: &PveState, id: &str, rule: &Section) -> Result<(), ApiError> {
    let resources: BTreeSet<&str> = split_list(text(rule, "resources")).into_iter().collect();
    let unmanaged: Vec<&str> = resources
        .iter()
        .copied()
        .filter(|sid| !pve_state.ha.resources.contains_key(*sid))
        .collect();
    if resources.is_empty() {
        return Err(ApiError::failed("no resources were specified"));
    }
    if !unmanaged.is_empty() {
        let list = unmanaged.join(", ");
        return Err(ApiError::failed(format!("cannot use unmanaged resource(s) {list}.")));
    }
    let nodes: BTreeSet<&str> = split_list(text(rule, "nodes"))
        .into_iter()
        .map(|node| node.split(':').next().unwrap_or_default())
        .filter(|node| !pve_state.hosts.contains_key(*node))
        .collect();
    if !nodes.is_empty() {
        let list = Vec::from_iter(nodes).join(", ");
        return Err(ApiError::failed(format!("cannot use non-existent node(s) {list}.")));
    }
    let wrong = match (text(rule, "type"), text(rule, "affinity")) {
        ("resource-affinity", _) if resources.len() < 2 => {
            "rule is ineffective as there are less than two resources"
        }
        ("resource-affinity", "negative") if resources.len() > pve_state.hosts.len() => {
            "rule defines more resources than available nodes"
        }
        _ => return Ok(()),
    };
    let mut error = ApiError::parameter("resources", wrong);
    error.message = format!("Rule '{id}' is invalid.");
    Err(error)
}

fn order(rule: &Section) -> u64 {
    text(rule, "order").parse().unwrap_or_default()
}

fn text<'a>(rule: &'a Section, name: &str) -> &'a str {
    rule.get(name).map_or("", String::as_str)
}
