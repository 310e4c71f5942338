use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json, json};

use super::token;
use crate::ApiError;
use crate::api::reply::{data, flag, prefix_error};
use crate::call::{Call, Outcome, Reply};
use crate::world::{User, World};

const PROFILE: [&str; 4] = ["firstname", "lastname", "email", "keys"];

/// Answers `GET /access/users`: the caller, and the users that the caller may see.
pub(super) fn list(call: &Call) -> Outcome {
    const VIEW_PRIVILEGES: [&str; 2] = ["User.Modify", "Sys.Audit"];
    let world = call.world();
    let sees_all = world.allowed_any(&call.caller, "/access/groups", &VIEW_PRIVILEGES);
    let full = call.params.flag("full").unwrap_or_default();
    let enabled = call.params.flag("enabled");
    let caller = call.caller.to_string();
    let mut shown = vec![];
    for (id, user) in &world.access.users {
        if !sees_all
            && *id != caller
            && !world.has_privilege_on_group_of(&call.caller, id, &VIEW_PRIVILEGES)
        {
            continue;
        }
        if enabled.is_some_and(|enabled| enabled != user.enabled) {
            continue;
        }
        let mut entry = profile(&world, id, user);
        entry.insert("userid".to_owned(), json!(id));
        if let Some(realm) = realm(id).filter(|realm| is_realm(realm)) {
            entry.insert("realm-type".to_owned(), json!(realm));
        }
        if full {
            entry.insert("groups".to_owned(), json!(groups(&world, id).join(",")));
            let tokens = token::of_user(&world, id);
            if !tokens.is_empty() {
                entry.insert("tokens".to_owned(), json!(tokens));
            }
        }
        shown.push(Json::Object(entry));
    }
    data(shown)
}

pub(super) fn read(call: &Call) -> Outcome {
    let id = call.params.text("userid").unwrap_or_default();
    let world = call.world();
    let user = find(&world, id)?;
    let mut shown = profile(&world, id, user);
    shown.insert("groups".to_owned(), json!(groups(&world, id)));
    let tokens: Map<String, Json> = token::of_user(&world, id)
        .into_iter()
        .filter_map(|mut token| {
            let name = token.as_object_mut()?.remove("tokenid")?;
            Some((name.as_str()?.to_owned(), token))
        })
        .collect();
    if !tokens.is_empty() {
        shown.insert("tokens".to_owned(), Json::Object(tokens));
    }
    data(shown)
}

pub(super) fn create(call: &Call) -> Outcome {
    let params = &call.params;
    let id = params.text("userid").unwrap_or_default();
    let mut world = call.world();
    prefix_error("create user failed", check_new(call, &world, id))?;
    let user = User {
        password: params.text("password").map(str::to_owned),
        enabled: params.flag("enable").unwrap_or(true),
        expires: sent_expiry(call).unwrap_or_default(),
        comment: params.text("comment").filter(|text| !text.is_empty()).map(str::to_owned),
    };
    world.access.users.insert(id.to_owned(), user);
    write_profile(call, &mut world, id);
    join(call, &mut world, id);
    Ok(Reply::NULL)
}

fn check_new(call: &Call, world: &World, id: &str) -> Result<(), ApiError> {
    if world.access.users.contains_key(id) {
        return Err(ApiError::failed(format!("user '{id}' already exists")));
    }
    let realm = realm(id).unwrap_or_default();
    if call.params.has("password") && !is_realm(realm) {
        return Err(ApiError::failed(format!("auth domain '{realm}' does not exist")));
    }
    check_groups(call, world)
}

pub(super) fn update(call: &Call) -> Outcome {
    let params = &call.params;
    let id = params.text("userid").unwrap_or_default();
    let mut world = call.world();
    let known = find(&world, id).map(|_| ()).and_then(|()| check_groups(call, &world));
    prefix_error("update user failed", known)?;
    if params.has("groups") && !params.flag("append").unwrap_or_default() {
        leave_groups(&mut world, id);
    }
    join(call, &mut world, id);
    write_profile(call, &mut world, id);
    if let Some(user) = world.access.users.get_mut(id) {
        if let Some(enabled) = params.flag("enable") {
            user.enabled = enabled;
        }
        if let Some(expires) = sent_expiry(call) {
            user.expires = expires;
        }
        if let Some(comment) = params.text("comment") {
            user.comment = Some(comment.to_owned()).filter(|comment| !comment.is_empty());
        }
    }
    Ok(Reply::NULL)
}

/// Answers `DELETE /access/users/{userid}`. The tokens of the user are removed as well, and so are the access control list
/// entries of the user and its tokens.
pub(super) fn delete(call: &Call) -> Outcome {
    let id = call.params.text("userid").unwrap_or_default();
    let mut world = call.world();
    leave_groups(&mut world, id);
    let access = &mut world.access;
    access.users.remove(id);
    access.profiles.remove(id);
    let tokens = format!("{id}!");
    access.tokens.retain(|token, _| !token.starts_with(&tokens));
    access.acl.retain(|entry| entry.who != id && !entry.who.starts_with(&tokens));
    Ok(Reply::NULL)
}

pub(super) fn find<'a>(world: &'a World, id: &str) -> Result<&'a User, ApiError> {
    let user = world.access.users.get(id);
    user.ok_or_else(|| ApiError::failed(format!("no such user ('{id}')")))
}

fn profile(world: &World, id: &str, user: &User) -> Map<String, Json> {
    let mut shown = Map::new();
    shown.insert("enable".to_owned(), flag(user.enabled));
    shown.insert("expire".to_owned(), json!(user.expires));
    for (name, value) in world.access.profiles.get(id).into_iter().flatten() {
        shown.insert(name.clone(), json!(value));
    }
    if let Some(comment) = &user.comment {
        shown.insert("comment".to_owned(), json!(comment));
    }
    shown
}

fn write_profile(call: &Call, world: &mut World, id: &str) {
    let profile: &mut BTreeMap<String, String> =
        world.access.profiles.entry(id.to_owned()).or_default();
    for name in PROFILE {
        match call.params.text(name) {
            Some("") => drop(profile.remove(name)),
            Some(value) => drop(profile.insert(name.to_owned(), value.to_owned())),
            None => {}
        }
    }
}

fn sent_expiry(call: &Call) -> Option<u64> {
    call.params.number("expire").and_then(|seconds| u64::try_from(seconds).ok())
}

fn groups<'a>(world: &'a World, user: &str) -> Vec<&'a str> {
    let groups = world.access.groups.iter().filter(|(_, members)| members.contains(user));
    groups.map(|(group, _)| group.as_str()).collect()
}

fn check_groups(call: &Call, world: &World) -> Result<(), ApiError> {
    let unknown = call
        .params
        .list("groups")
        .into_iter()
        .find(|group| !world.access.groups.contains_key(*group));
    match unknown {
        Some(group) => Err(ApiError::failed(format!("no such group '{group}'"))),
        None => Ok(()),
    }
}

fn join(call: &Call, world: &mut World, user: &str) {
    for group in call.params.list("groups") {
        world.access.groups.entry(group.to_owned()).or_default().insert(user.to_owned());
    }
}

fn leave_groups(world: &mut World, user: &str) {
    let groups = world.access.groups.values_mut();
    groups.for_each(|members: &mut BTreeSet<String>| {
        members.remove(user);
    });
}

fn realm(user: &str) -> Option<&str> {
    user.rsplit_once('@').map(|(_, realm)| realm)
}

/// Whether a realm exists. Every installation has the realms `pam` and `pve`.
fn is_realm(realm: &str) -> bool {
    matches!(realm, "pam" | "pve")
}
