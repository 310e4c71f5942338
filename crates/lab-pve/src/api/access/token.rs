use serde_json::{Map, Value as Json, json};

use super::user;
use crate::ApiError;
use crate::api::reply::{data, flag};
use crate::call::{Call, Outcome, Reply};
use crate::pve_state::{PveState, Token};

pub(super) fn list(call: &Call) -> Outcome {
    let user = call.params.text("userid").unwrap_or_default();
    let pve_state = call.pve_state();
    user::find(&pve_state, user)?;
    data(of_user(&pve_state, user))
}

/// Entries of all API tokens of a user, each with its token id.
pub(super) fn of_user(pve_state: &PveState, user: &str) -> Vec<Json> {
    let prefix = format!("{user}!");
    let tokens = pve_state.access.tokens.iter().filter_map(|(id, token)| {
        let mut shown = shown(token);
        shown.insert("tokenid".to_owned(), json!(id.strip_prefix(&prefix)?));
        Some(Json::Object(shown))
    });
    tokens.collect()
}

fn shown(token: &Token) -> Map<String, Json> {
    let mut shown = Map::new();
    shown.insert("privsep".to_owned(), flag(token.separated));
    shown.insert("expire".to_owned(), json!(token.expires));
    if let Some(comment) = &token.comment {
        shown.insert("comment".to_owned(), json!(comment));
    }
    shown
}

pub(super) fn read(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    data(shown(check_exists(&pve_state, &full_id(call))?))
}

/// Token with this full id (`user@realm!name`), or the error of Proxmox for an unknown user or token.
pub(super) fn check_exists<'a>(pve_state: &'a PveState, id: &str) -> Result<&'a Token, ApiError> {
    let (owner, name) = id.split_once('!').unwrap_or((id, ""));
    user::find(pve_state, owner)?;
    pve_state
        .access
        .tokens
        .get(id)
        .ok_or_else(|| ApiError::failed(format!("no such token '{name}' for user '{owner}'")))
}

/// Answers `POST /access/users/{userid}/token/{tokenid}`. No other answer contains the secret of the token.
pub(super) fn create(call: &Call) -> Outcome {
    let params = &call.params;
    let id = full_id(call);
    let secret = secret(call, &id);
    let mut pve_state = call.pve_state();
    user::find(&pve_state, params.text("userid").unwrap_or_default())?;
    if pve_state.access.tokens.contains_key(&id) {
        return Err(ApiError::parameter("tokenid", "Token already exists."));
    }
    // Proxmox returns these parameters exactly as they were sent.
    let mut info =
        json!({ "privsep": params.text("privsep").map_or(json!(1), |sent| json!(sent)) });
    for name in ["expire", "comment"] {
        if let Some(sent) = params.text(name).filter(|sent| name == "expire" || !sent.is_empty()) {
            info[name] = json!(sent);
        }
    }
    let token = Token {
        secret: secret.clone(),
        separated: params.flag("privsep").unwrap_or(true),
        expires: sent_expiry(call).unwrap_or_default(),
        comment: params.text("comment").filter(|text| !text.is_empty()).map(str::to_owned),
    };
    pve_state.access.tokens.insert(id.clone(), token);
    data(json!({ "full-tokenid": id, "info": info, "value": secret }))
}

pub(super) fn update(call: &Call) -> Outcome {
    let params = &call.params;
    let id = full_id(call);
    let mut pve_state = call.pve_state();
    let mut token = check_exists(&pve_state, &id)?.clone();
    if let Some(separated) = params.flag("privsep") {
        token.separated = separated;
    }
    if let Some(expires) = sent_expiry(call) {
        token.expires = expires;
    }
    if let Some(comment) = params.text("comment") {
        token.comment = Some(comment.to_owned()).filter(|comment| !comment.is_empty());
    }
    let shown = shown(&token);
    pve_state.access.tokens.insert(id, token);
    data(shown)
}

pub(super) fn delete(call: &Call) -> Outcome {
    let id = full_id(call);
    let mut pve_state = call.pve_state();
    check_exists(&pve_state, &id)?;
    pve_state.access.tokens.remove(&id);
    pve_state.access.acl.retain(|entry| entry.who != id);
    Ok(Reply::NULL)
}

fn full_id(call: &Call) -> String {
    let part = |name| call.params.text(name).unwrap_or_default();
    format!("{}!{}", part("userid"), part("tokenid"))
}

fn sent_expiry(call: &Call) -> Option<u64> {
    call.params.number("expire").and_then(|seconds| u64::try_from(seconds).ok())
}

/// Random UUID that serves as the secret of a token.
fn secret(call: &Call, id: &str) -> String {
    let mut bytes = [0; 16];
    call.site.chance(&format!("token/{id}")).fill(&mut bytes);
    let mut number = u128::from_be_bytes(bytes);
    number = number & !(0xf << 76) | 0x4 << 76;
    number = number & !(0x3 << 62) | 0x2 << 62;
    let digits = format!("{number:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}
