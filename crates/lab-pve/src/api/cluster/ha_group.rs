//! `/cluster/ha/groups`: HA groups of Proxmox VE 8. Proxmox VE 9 replaced them with HA rules.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::ha::{change, groups_are_rules, options_json, remove};
use crate::api::reply::{data, prefix_error};
use crate::call::{Call, Outcome, Reply};
use crate::pve_state::PveState;
use crate::{ApiError, Release, digest};

const OPTIONS: [&str; 4] = ["comment", "nodes", "nofailback", "restricted"];

pub(super) fn list(call: &Call) -> Outcome {
    check_release(call, "cannot index groups")?;
    let pve_state = call.pve_state();
    let shown: Vec<Json> =
        pve_state.ha.groups.keys().filter_map(|group| shown(&pve_state, group)).collect();
    data(shown)
}

pub(super) fn read(call: &Call) -> Outcome {
    check_release(call, "cannot read group")?;
    let group = call.params.text("group").unwrap_or_default();
    let shown = shown(&call.pve_state(), group);
    data(shown.ok_or_else(|| missing(group))?)
}

pub(super) fn create(call: &Call) -> Outcome {
    check_release(call, "cannot create group")?;
    let group = call.params.text("group").unwrap_or_default();
    let mut pve_state = call.pve_state();
    if pve_state.ha.groups.contains_key(group) {
        let taken = ApiError::failed(format!("ha group ID '{group}' already defined"));
        return prefix_error("create ha group failed", Err(taken));
    }
    let mut options = BTreeMap::new();
    change(call, &mut options, &OPTIONS);
    pve_state.ha.groups.insert(group.to_owned(), options);
    Ok(Reply::NULL)
}

pub(super) fn update(call: &Call) -> Outcome {
    check_release(call, "cannot update group")?;
    let group = call.params.text("group").unwrap_or_default();
    let attempt = "update ha group failed";
    let mut pve_state = call.pve_state();
    let digest = digest::of_sections(&pve_state.ha.groups);
    prefix_error(attempt, digest::check_unchanged(&digest, call.params.text("digest")))?;
    let Some(options) = pve_state.ha.groups.get_mut(group) else {
        return prefix_error(attempt, Err(missing(group)));
    };
    let mut changed = options.clone();
    change(call, &mut changed, &OPTIONS);
    prefix_error(attempt, remove(call, &mut changed, &OPTIONS, &["nodes"]))?;
    *options = changed;
    Ok(Reply::NULL)
}

pub(super) fn delete(call: &Call) -> Outcome {
    check_release(call, "cannot delete group")?;
    let group = call.params.text("group").unwrap_or_default();
    let mut pve_state = call.pve_state();
    let mut users = pve_state.ha.resources.iter();
    let user = users.find(|(_, options)| options.get("group").is_some_and(|used| used == group));
    if let Some((sid, _)) = user {
        let used = ApiError::failed(format!("ha group is used by service '{sid}'"));
        return prefix_error("delete ha group failed", Err(used));
    }
    pve_state.ha.groups.remove(group);
    Ok(Reply::NULL)
}

fn check_release(call: &Call, attempt: &str) -> Result<(), ApiError> {
    match call.release {
        Release::V8 => Ok(()),
        Release::V9 => Err(groups_are_rules(attempt)),
    }
}

fn shown(pve_state: &PveState, group: &str) -> Option<Json> {
    let mut shown = options_json(pve_state.ha.groups.get(group)?);
    shown.insert("group".to_owned(), json!(group));
    shown.insert("type".to_owned(), json!("group"));
    shown.insert("digest".to_owned(), json!(digest::of_sections(&pve_state.ha.groups)));
    Some(Json::Object(shown))
}

fn missing(group: &str) -> ApiError {
    ApiError::failed(format!("no such ha group '{group}'"))
}
