use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json, json};

use super::token;
use crate::ApiError;
use crate::api::reply::{data, flag, prefix_error};
use crate::call::{Call, Outcome, Reply};
use crate::pve_state::{PveState, User};

const PROFILE: [&str; 4] = ["firstname", "lastname", "email", "keys"];

/// Answers `GET /access/users`: the caller, and the users that the caller may see.
pub(super) fn list(call: &Call) -> Outcome {
    const VIEW_PRIVILEGES: [&str; 2] = ["User.Modify", "Sys.Audit"];
    let pve_state = call.pve_state();
    let sees_all = pve_state.allowed_any(&call.caller, "/access/groups", &VIEW_PRIVILEGES);
    let full = call.params.flag("full").unwrap_or_default();
    let enabled = call.params.flag("enabled");
    let caller = call.caller.to_string();
    let mut shown = vec![];
    for (id, user) in &pve_state.access.users {
        if !sees_all
            && *id != caller
            && !pve_state.has_privilege_on_group_of(&call.caller, id, &VIEW_PRIVILEGES)
        {
            continue;
        }
        if enabled.is_some_and(|enabled| enabled != user.enabled) {
            continue;
        }
        let mut entry = profile(&pve_state, id, user);
        entry.insert("userid".to_owned(), json!(id));
        if let Some(realm) = realm(id).filter(|realm| is_realm(realm)) {
            entry.insert("realm-type".to_owned(), json!(realm));
        }
        if full {
            entry.insert("groups".to_owned(), json!(groups(&pve_state, id).join(",")));
            let tokens = token::of_user(&pve_state, id);
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
    let pve_state = call.pve_state();
    let user = find(&pve_state, id)?;
    let mut shown = profile(&pve_state, id, user);
    shown.insert("groups".to_owned(), json!(groups(&pve_state, id)));
    let tokens: Map<String, Json> = token::of_user(&pve_state, id)
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
    let mut pve_state = call.pve_state();
    prefix_error("create user failed", check_new(call, &pve_state, id))?;
    let user = User {
        password: params.text("password").map(str::to_owned),
        enabled: params.flag("enable").unwrap_or(true),
        expires: sent_expiry(call).unwrap_or_default(),
        comment: params.text("comment").filter(|text| !text.is_empty()).map(str::to_owned),
    };
    pve_state.access.users.insert(id.to_owned(), user);
    write_profile(call, &mut pve_state, id);
    join(call, &mut pve_state, id);
    Ok(Reply::NULL)
}

fn check_new(call: &Call, pve_state: &PveState, id: &str) -> Result<(), ApiError> {
    if pve_state.access.users.contains_key(id) {
        return Err(ApiError::failed(format!("user '{id}' already exists")));
    }
    let realm = realm(id).unwrap_or_default();
    if call.params.has("password") && !is_realm(realm) {
        return Err(ApiError::failed(format!("auth domain '{realm}' does not exist")));
    }
    check_groups(call, pve_state)
}

pub(super) fn update(call: &Call) -> Outcome {
    let params = &call.params;
    let id = params.text("userid").unwrap_or_default();
    let mut pve_state = call.pve_state();
    let known = find(&pve_state, id).map(|_| ()).and_then(|()| check_groups(call, &pve_state));
    prefix_error("update user failed", known)?;
    if params.has("groups") && !params.flag("append").unwrap_or_default() {
        leave_groups(&mut pve_state, id);
    }
    join(call, &mut pve_state, id);
    write_profile(call, &mut pve_state, id);
    if let Some(user) = pve_state.access.users.get_mut(id) {
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
    let mut pve_state = call.pve_state();
    leave_groups(&mut pve_state, id);
    let access = &mut pve_state.access;
    access.users.remove(id);
    access.profiles.remove(id);
    let tokens = format!("{id}!");
    access.tokens.retain(|token, _| !token.starts_with(&tokens));
    access.acl.retain(|entry| entry.who != id && !entry.who.starts_with(&tokens));
    Ok(Reply::NULL)
}

pub(super) fn find<'a>(pve_state: &'a PveState, id: &str) -> Result<&'a User, ApiError> {
    let user = pve_state.access.users.get(id);
    user.ok_or_else(|| ApiError::failed(format!("no such user ('{id}')")))
}

fn profile(pve_state: &PveState, id: &str, user: &User) -> Map<String, Json> {
    let mut shown = Map::new();
    shown.insert("enable".to_owned(), flag(user.enabled));
    shown.insert("expire".to_owned(), json!(user.expires));
    for (name, value) in pve_state.access.profiles.get(id).into_iter().flatten() {
        shown.insert(name.clone(), json!(value));
    }
    if let Some(comment) = &user.comment {
        shown.insert("comment".to_owned(), json!(comment));
    }
    shown
}

fn write_profile(call: &Call, pve_state: &mut PveState, id: &str) {
    let profile: &mut BTreeMap<String, String> =
        pve_state.access.profiles.entry(id.to_owned()).or_default();
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

fn groups<'a>(pve_state: &'a PveState, user: &str) -> Vec<&'a str> {
    let groups = pve_state.access.groups.iter().filter(|(_, members)| members.contains(user));
    groups.map(|(group, _)| group.as_str()).collect()
}

fn check_groups(call: &Call, pve_state: &PveState) -> Result<(), ApiError> {
    let unknown = call
        .params
        .list("groups")
        .into_iter()
        .find(|group| !pve_state.access.groups.contains_key(*group));
    match unknown {
        Some(group) => Err(ApiError::failed(format!("no such group '{group}'"))),
        None => Ok(()),
    }
}

fn join(call: &Call, pve_state: &mut PveState, user: &str) {
    for group in call.params.list("groups") {
        pve_state.access.groups.entry(group.to_owned()).or_default().insert(user.to_owned());
    }
}

fn leave_groups(pve_state: &mut PveState, user: &str) {
    let groups = pve_state.access.groups.values_mut();
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
