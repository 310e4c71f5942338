//! `/access/acl`: access control lists.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::ApiError;
use crate::api::reply::{data, flag, prefix_error};
use crate::call::{Call, Outcome, Reply};
use crate::permission::{is_acl_path, normalize};
use crate::pve_state::{AclEntry, PveState};
use crate::schema::Parameters;

/// Answers `GET /access/acl`. A caller with `Sys.Audit` on `/access` gets all entries. Other callers get the entries of the
/// paths whose permissions they may change.
pub(super) fn read(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let audits = pve_state.allowed(&call.caller, "/access", &["Sys.Audit"]);
    let mut entries: Vec<&AclEntry> = pve_state
        .access
        .acl
        .iter()
        .filter(|entry| audits || pve_state.check_modify(&call.caller, &entry.path).is_ok())
        .collect();
    entries.sort_by_key(|entry| {
        let steps: Vec<&str> = entry.path.split('/').filter(|step| !step.is_empty()).collect();
        let rank = match kind(entry) {
            "user" => 0,
            "group" => 1,
            _ => 2,
        };
        (steps, rank, &entry.who, &entry.role)
    });
    data(entries.into_iter().map(shown).collect::<Vec<Json>>())
}

fn kind(entry: &AclEntry) -> &'static str {
    match entry.who.starts_with('@') {
        true => "group",
        false if entry.who.contains('!') => "token",
        false => "user",
    }
}

fn shown(entry: &AclEntry) -> Json {
    json!({
        "path": entry.path,
        "type": kind(entry),
        "ugid": entry.who.trim_start_matches('@'),
        "roleid": entry.role,
        "propagate": flag(entry.propagate),
    })
}

pub(super) fn update(call: &Call) -> Outcome {
    let params = &call.params;
    let kinds = ["users", "groups", "tokens"];
    if kinds.iter().all(|kind| params.text(kind).is_none_or(str::is_empty)) {
        let text = "either 'users', 'groups' or 'tokens' is required.";
        let errors = kinds.map(|kind| (kind.to_owned(), text.to_owned()));
        return Err(ApiError::parameters(BTreeMap::from(errors)));
    }
    let sent = params.text("path").unwrap_or_default();
    let invalid = || ApiError::parameter("path", format!("invalid ACL path '{sent}'"));
    let path = normalize(sent).ok_or_else(invalid)?;
    let removes = params.flag("delete").unwrap_or_default();
    if !removes && !is_acl_path(&path) {
        return Err(invalid());
    }
    let mut pve_state = call.pve_state();
    let changed = prefix_error("ACL update failed", changed(call, &pve_state, &path, removes))?;
    pve_state.access.acl = changed;
    Ok(Reply::NULL)
}

/// Access control list after the requested change. If any part of the request is invalid, the result is an error and the list
/// stays unchanged.
fn changed(
    call: &Call,
    pve_state: &PveState,
    path: &str,
    removes: bool,
) -> Result<Vec<AclEntry>, ApiError> {
    let propagate = call.params.flag("propagate").unwrap_or(true);
    let mut acl = pve_state.access.acl.clone();
    for role in call.params.list("roles") {
        check_role(call, pve_state, path, role, removes, propagate)?;
        for who in affected(pve_state, &call.params)? {
            acl.retain(|entry| entry.path != path || entry.who != who || entry.role != role);
            if !removes {
                let (path, role) = (path.to_owned(), role.to_owned());
                acl.push(AclEntry { path, who, role, propagate });
            }
        }
    }
    Ok(acl)
}

/// Rejects a role with privileges that the caller does not have, unless the caller has `Permissions.Modify` on the path.
fn check_role(
    call: &Call,
    pve_state: &PveState,
    path: &str,
    role: &str,
    removes: bool,
    propagate: bool,
) -> Result<(), ApiError> {
    let Some(privileges) = pve_state.role(role) else {
        return Err(ApiError::failed(format!("role '{role}' does not exist")));
    };
    let held = pve_state.permissions_of(&call.caller, path);
    if held.contains_key("Permissions.Modify") {
        return Ok(());
    }
    let verb = if removes { "remove" } else { "add" };
    let reject =
        |why: &str| Err(ApiError::parameter("role", format!("Cannot {verb} role '{role}'{why}")));
    for privilege in privileges {
        match held.get(privilege) {
            None => {
                return reject(" - requires 'Permissions.Modify' or superset of privileges.");
            }
            Some(false) if propagate && !removes => {
                return reject(
                    " with propagation - requires 'Permissions.Modify' or propagated superset of \
                     privileges.",
                );
            }
            Some(_) => {}
        }
    }
    if role == "NoAccess" {
        return reject(" - requires 'Permissions.Modify'");
    }
    Ok(())
}

/// Ids of the groups, users and tokens that a request names. Each of them must exist.
fn affected(pve_state: &PveState, params: &Parameters) -> Result<Vec<String>, ApiError> {
    let access = &pve_state.access;
    let mut affected = vec![];
    for group in params.list("groups") {
        if !access.groups.contains_key(group) {
            return Err(ApiError::failed(format!("group '{group}' does not exist")));
        }
        affected.push(format!("@{group}"));
    }
    for user in params.list("users") {
        if !access.users.contains_key(user) {
            return Err(ApiError::failed(format!("user '{user}' does not exist")));
        }
        affected.push(user.to_owned());
    }
    for token in params.list("tokens") {
        super::token::check_exists(pve_state, token)?;
        affected.push(token.to_owned());
    }
    Ok(affected)
}
