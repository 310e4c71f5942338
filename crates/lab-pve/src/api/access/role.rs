use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use crate::ApiError;
use crate::api::reply::{data, flag, prefix_error};
use crate::call::{Call, Outcome, Reply};
use crate::permission::{built_in_role, built_in_roles};
use crate::world::World;

pub(super) fn list(call: &Call) -> Outcome {
    let world = call.world();
    let added = world.access.roles.keys().cloned();
    let names: BTreeSet<String> = built_in_roles().map(str::to_owned).chain(added).collect();
    let shown = names.iter().map(|name| {
        json!({
            "roleid": name,
            "privs": world.role(name).unwrap_or_default().join(","),
            "special": flag(is_built_in(&world, name)),
        })
    });
    data(shown.collect::<Vec<Json>>())
}

pub(super) fn read(call: &Call) -> Outcome {
    let role = call.params.text("roleid").unwrap_or_default();
    let world = call.world();
    let privileges = world.role(role).ok_or_else(|| missing(role))?;
    let shown = privileges.into_iter().map(|name| (name.to_owned(), json!(1)));
    data(shown.collect::<Map<String, Json>>())
}

pub(super) fn create(call: &Call) -> Outcome {
    let role = call.params.text("roleid").unwrap_or_default();
    if role.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("PVE")) {
        let text = "cannot use role ID starting with the (case-insensitive) 'PVE' namespace";
        return Err(ApiError::parameter("roleid", text));
    }
    let mut world = call.world();
    if world.role(role).is_some() {
        let taken = ApiError::failed(format!("role '{role}' already exists"));
        return prefix_error("create role failed", Err(taken));
    }
    world.access.roles.insert(role.to_owned(), sent(call));
    Ok(Reply::NULL)
}

pub(super) fn update(call: &Call) -> Outcome {
    let role = call.params.text("roleid").unwrap_or_default();
    let mut world = call.world();
    check_custom(&world, role, "modified", "update role failed")?;
    let privileges = world.access.roles.entry(role.to_owned()).or_default();
    if !call.params.flag("append").unwrap_or_default() {
        privileges.clear();
    }
    privileges.extend(sent(call));
    Ok(Reply::NULL)
}

/// Answers `DELETE /access/roles/{roleid}`. The access control list entries with this role are removed as well.
pub(super) fn delete(call: &Call) -> Outcome {
    let role = call.params.text("roleid").unwrap_or_default();
    let mut world = call.world();
    check_custom(&world, role, "deleted", "delete role failed")?;
    world.access.roles.remove(role);
    world.access.acl.retain(|entry| entry.role != role);
    Ok(Reply::NULL)
}

fn sent(call: &Call) -> BTreeSet<String> {
    call.params.list("privs").into_iter().map(str::to_owned).collect()
}

/// Rejects a change of a built-in role, and of a role that does not exist.
fn check_custom(world: &World, role: &str, what: &str, attempt: &str) -> Result<(), ApiError> {
    if is_built_in(world, role) {
        return Err(ApiError::failed(format!("auto-generated role '{role}' cannot be {what}")));
    }
    let known = world.access.roles.contains_key(role);
    prefix_error(attempt, if known { Ok(()) } else { Err(missing(role)) })
}

fn is_built_in(world: &World, role: &str) -> bool {
    built_in_role(world.release, role).is_some()
}

fn missing(role: &str) -> ApiError {
    ApiError::failed(format!("role '{role}' does not exist"))
}
