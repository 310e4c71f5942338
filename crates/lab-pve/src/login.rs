//! `POST /access/ticket`: login with a password.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::ApiError;
use super::auth::Keys;
use super::call::{Call, Outcome, Reply};
use super::pve_state::{Caller, PveState};

pub(super) fn answer(keys: &Keys, call: &Call) -> Outcome {
    let now = call.now();
    let text = |name| call.params.text(name);
    let pve_state = call.pve_state();
    let name = text("username").unwrap_or_default();
    let password = text("password").unwrap_or_default();
    let user = keys
        .log_in(&pve_state, name, text("realm"), password, now)
        .ok_or_else(|| ApiError::new(401, "authentication failure"))?;
    let caller = Caller { user: user.clone(), token: None };
    let mut data = json!({
        "username": user,
        "ticket": keys.ticket(&user, now),
        "CSRFPreventionToken": keys.csrf(&user, now),
        "cap": capabilities(&pve_state, &caller),
    });
    if let Some(name) = &pve_state.cluster_name
        && pve_state.allowed(&caller, "/", &["Sys.Audit"])
    {
        data["clustername"] = json!(name);
    }
    Ok(Reply::Data(data))
}

/// Privileges that the user has on any path, grouped by part of the permission tree. The web interface uses them.
fn capabilities(pve_state: &PveState, caller: &Caller) -> Json {
    const PARTS: [(&str, &[&str]); 7] = [
        ("vms", &["VM.", "Permissions.Modify"]),
        ("access", &["User.", "Group.", "Permissions.Modify"]),
        ("storage", &["Datastore.", "Permissions.Modify"]),
        ("nodes", &["Sys.", "Permissions.Modify"]),
        ("sdn", &["SDN.", "Permissions.Modify"]),
        ("dc", &["Sys.Audit", "Sys.Modify", "SDN."]),
        ("mapping", &["Mapping.", "Permissions.Modify"]),
    ];
    let usual = ["/", "/nodes", "/access/groups", "/vms", "/storage", "/sdn", "/mapping"];
    let listed = pve_state.access.acl.iter().map(|entry| entry.path.as_str());
    let mut found: BTreeMap<&str, BTreeMap<&str, u8>> =
        PARTS.iter().map(|(part, _)| (*part, BTreeMap::new())).collect();
    for path in usual.into_iter().chain(listed) {
        let part = match path.split('/').nth(1) {
            None | Some("") => "dc",
            Some(part) => part,
        };
        for (privilege, _) in pve_state.permissions_of(caller, path) {
            for (kind, wanted) in &PARTS {
                let of_pool = part == "pool" && matches!(*kind, "vms" | "storage");
                let is_wanted = wanted.iter().any(|wanted| privilege.starts_with(wanted));
                if (*kind == part || of_pool) && is_wanted {
                    found.entry(kind).or_default().insert(privilege, 1);
                }
            }
        }
    }
    json!(found)
}
