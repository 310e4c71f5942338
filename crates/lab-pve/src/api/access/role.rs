use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use crate::ApiError;
use crate::api::reply::{data, flag, prefix_error};
use crate::call::{Call, Outcome, Reply};
use crate::permission::{built_in_role, built_in_roles};
use crate::pve_state::PveState;

pub(super) fn list(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let added = pve_state.access.roles.keys().cloned();
    let names: BTreeSet<String> = built_in_roles().map(str::to_owned).chain(added).collect();
    let shown = names.iter().map(|name| {
        json!({
            "roleid": name,
            "privs": pve_state.role(name).unwrap_or_default().join(","),
            "special": flag(is_built_in(&pve_state, name)),
        })
    });
    data(shown.collect::<Vec<Json>>())
}

pub(super) fn read(call: &Call) -> Outcome {
    let role = call.params.text("roleid").unwrap_or_default();
    let pve_state = call.pve_state();
    let privileges = pve_state.role(role).ok_or_else(|| missing(role))?;
    let shown = privileges.into_iter().map(|name| (name.to_owned(), json!(1)));
    data(shown.collect::<Map<String, Json>>())
}

pub(super) fn create(call: &Call) -> Outcome {
    let role = call.params.text("roleid").unwrap_or_default();
    if role.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("PVE")) {
        let text = "cannot use role ID starting with the (case-insensitive) 'PVE' namespace";
        return Err(ApiError::parameter("roleid", text));
    }
    let mut pve_state = call.pve_state();
    if pve_state.role(role).is_some() {
        let taken = ApiError::failed(format!("role '{role}' already exists"));
        return prefix_error("create role failed", Err(taken));
    }
    pve_state.access.roles.insert(role.to_owned(), sent(call));
    Ok(Reply::NULL)
}

pub(super) fn update(call: &Call) -> Outcome {
    let role = call.params.text("roleid").unwrap_or_default();
    let mut pve_state = call.pve_state();
    check_custom(&pve_state, role, "modified", "update role failed")?;
    let privileges = pve_state.access.roles.entry(role.to_owned()).or_default();
    if !call.params.flag("append").unwrap_or_default() {
        privileges.clear();
    }
    privileges.extend(sent(call));
    Ok(Reply::NULL)
}

/// Answers `DELETE /access/roles/{roleid}`. The access control list entries with this role are removed as well.
pub(super) fn delete(call: &Call) -> Outcome {
    let role = call.params.text("roleid").unwrap_or_default();
    let mut pve_state = call.pve_state();
    check_custom(&pve_state, role, "deleted", "delete role failed")?;
    pve_state.access.roles.remove(role);
    pve_state.access.acl.retain(|entry| entry.role != role);
    Ok(Reply::NULL)
}

fn sent(call: &Call) -> BTreeSet<String> {
    call.params.list("privs").into_iter().map(str::to_owned).collect()
}

/// Rejects a change of a built-in role, and of a role that does not exist.
fn check_custom(
    pve_state: &PveState,
    role: &str,
    what: &str,
    attempt: &str,
) -> Result<(), ApiError> {
    if is_built_in(pve_state, role) {
        return Err(ApiError::failed(format!("auto-generated role '{role}' cannot be {what}")));
    }
    let known = pve_state.access.roles.contains_key(role);
    prefix_error(attempt, if known { Ok(()) } else { Err(missing(role)) })
}

fn is_built_in(pve_state: &PveState, role: &str) -> bool {
    built_in_role(pve_state.release, role).is_some()
}

fn missing(role: &str) -> ApiError {
    ApiError::failed(format!("role '{role}' does not exist"))
}
