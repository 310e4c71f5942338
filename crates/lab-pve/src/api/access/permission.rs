//! `GET /access/permissions`: effective permissions of a user or token. Clients read them before their first change.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use crate::api::reply::data;
use crate::call::{Call, Outcome};
use crate::permission::{Privileges, normalize};
use crate::pve_state::{Caller, PveState};

/// Answers with the permissions of the caller, or of a token of the caller. Permissions of other users require `Sys.Audit` on
/// `/access`.
pub(super) fn read(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let who = call.params.text("userid").map_or_else(|| call.caller.clone(), Caller::parse);
    let is_own_token = who.token.is_some() && who.user == call.caller.to_string();
    if who != call.caller && !is_own_token {
        pve_state.check(&call.caller, "/access", &["Sys.Audit"])?;
    }
    let mut all = Map::new();
    match call.params.text("path") {
        Some(requested) => {
            let path = normalize(requested).unwrap_or_default();
            all.insert(requested.to_owned(), shown(&pve_state.permissions_of(&who, &path)));
        }
        None => {
            for path in paths(&pve_state) {
                let held = pve_state.permissions_of(&who, &path);
                if !held.is_empty() {
                    all.insert(path.clone(), shown(&held));
                }
            }
        }
    }
    data(all)
}

fn shown(held: &Privileges<'_>) -> Json {
    held.iter().map(|(name, propagate)| ((*name).to_owned(), json!(u8::from(*propagate)))).collect()
}

/// Paths whose permissions are reported by default: the top-level paths, every path with an access
/// control list and its parents, and the members of pools.
fn paths(pve_state: &PveState) -> BTreeSet<String> {
    let top = ["/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms"];
    let mut paths = BTreeSet::from(top.map(str::to_owned));
    for entry in &pve_state.access.acl {
        let mut path = entry.path.as_str();
        while let Some((parent, _)) = path.rsplit_once('/').filter(|_| path != "/") {
            paths.insert(path.to_owned());
            path = parent;
        }
    }
    for pool in pve_state.pools.values() {
        paths.extend(pool.vms.iter().map(|vmid| format!("/vms/{vmid}")));
        paths.extend(pool.storages.iter().map(|id| format!("/storage/{id}")));
    }
    paths
}
