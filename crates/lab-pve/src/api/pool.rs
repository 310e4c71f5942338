//! `/pools`: resource pools, which group VMs and storages for permissions.

use serde_json::{Map, Value as Json, json};

use super::cluster::{storage_entry, vm_entry};
use super::not_implemented;
use super::reply::{data, prefix_error};
use crate::call::{Call, Outcome, Reply};
use crate::pve_state::{Pool, PveState};
use crate::schema::{Endpoint, Method};
use crate::{ApiError, Release};

pub(super) fn answer(endpoint: &Endpoint, call: &Call) -> Outcome {
    use Method::{Delete, Get, Post, Put};
    match endpoint.id() {
        (Get, "/pools") => list(call),
        (Post, "/pools") => create(call),
        // The id of a nested pool contains `/`, so only the calls with `poolid` as a parameter support nested pools.
        (Put, "/pools" | "/pools/{poolid}") => update(call),
        (Delete, "/pools" | "/pools/{poolid}") => delete(call),
        (Get, "/pools/{poolid}") => data(read(call)?),
        _ => not_implemented(endpoint),
    }
}

/// Answers `GET /pools`: the pools that the caller may audit, or the pool that `poolid` names.
fn list(call: &Call) -> Outcome {
    if call.params.has("poolid") {
        return data(vec![read(call)?]);
    }
    let pve_state = call.pve_state();
    let mut shown = vec![];
    for (id, pool) in &pve_state.pools {
        if !pve_state.allowed(&call.caller, &format!("/pool/{id}"), &["Pool.Audit"]) {
            continue;
        }
        let mut entry = json!({ "poolid": id });
        if let Some(comment) = &pool.comment {
            entry["comment"] = json!(comment);
        }
        shown.push(entry);
    }
    data(shown)
}

fn read(call: &Call) -> Result<Json, ApiError> {
    let id = call.params.text("poolid").unwrap_or_default();
    let kind = call.params.text("type");
    let pve_state = call.pve_state();
    let pool = pve_state.pools.get(id).ok_or_else(|| missing(id))?;
    let mut members: Vec<Map<String, Json>> = vec![];
    if kind.is_none_or(|kind| kind == "qemu") {
        let vms = pool.vms.iter().filter(|vmid| pve_state.vms.contains_key(vmid));
        members.extend(vms.map(|vmid| vm_entry(&pve_state, *vmid, call.now())));
    }
    if kind.is_none_or(|kind| kind == "storage") {
        for id in &pool.storages {
            let Some(storage) = pve_state.storages.get(id) else { continue };
            let elsewhere = storage.nodes.first().filter(|_| !storage.is_on(&call.node));
            let node = elsewhere.unwrap_or(&call.node);
            members.push(storage_entry(&pve_state, id, storage, node));
        }
    }
    let mut shown = json!({ "members": members, "poolid": id });
    if let Some(comment) = &pool.comment {
        shown["comment"] = json!(comment);
    }
    Ok(shown)
}

fn create(call: &Call) -> Outcome {
    let id = call.params.text("poolid").unwrap_or_default();
    let mut pve_state = call.pve_state();
    prefix_error("create pool failed", check_new(&pve_state, id))?;
    let comment = call.params.text("comment").filter(|text| !text.is_empty()).map(str::to_owned);
    pve_state.pools.insert(id.to_owned(), Pool { comment, ..Pool::default() });
    Ok(Reply::NULL)
}

fn check_new(pve_state: &PveState, id: &str) -> Result<(), ApiError> {
    if pve_state.pools.contains_key(id) {
        return Err(ApiError::failed(format!("pool '{id}' already exists")));
    }
    let (parent, name) = id.rsplit_once('/').map_or((None, id), |(up, name)| (Some(up), name));
    if let Some(parent) = parent.filter(|parent| !pve_state.pools.contains_key(*parent)) {
        return Err(ApiError::failed(format!("parent '{parent}' of pool '{id}' does not exist")));
    }
    if pve_state.release >= Release::V9 && !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(ApiError::failed("pool name must start with a letter"));
    }
    Ok(())
}

fn update(call: &Call) -> Outcome {
    let mut pve_state = call.pve_state();
    let pools = prefix_error("update pools failed", changed(call, &pve_state))?;
    pve_state.pools = pools;
    Ok(Reply::NULL)
}

/// Pools after the requested change. If any part of the request is invalid, the result is an error and the pools stay
/// unchanged.
fn changed(
    call: &Call,
    pve_state: &PveState,
) -> Result<std::collections::BTreeMap<String, Pool>, ApiError> {
    let (params, caller) = (&call.params, &call.caller);
    let id = params.text("poolid").unwrap_or_default();
    let removes = params.flag("delete").unwrap_or_default();
    let moves = params.flag("allow-move").unwrap_or_default();
    let mut pools = pve_state.pools.clone();
    let mut pool = pools.remove(id).ok_or_else(|| missing(id))?;
    if let Some(comment) = params.text("comment") {
        pool.comment = Some(comment.to_owned()).filter(|comment| !comment.is_empty());
    }
    for vmid in params.list("vms") {
        pve_state.check_modify(caller, &format!("/vms/{vmid}"))?;
        let number: u32 = vmid.parse().unwrap_or_default();
        if removes {
            if !pool.vms.remove(&number) {
                return Err(ApiError::failed(format!("VM {vmid} is not a pool member")));
            }
            continue;
        }
        if !pool.vms.insert(number) {
            return Err(ApiError::failed(format!("VM {vmid} is already a pool member")));
        }
        let Some((other, from)) = pools.iter_mut().find(|(_, pool)| pool.vms.contains(&number))
        else {
            continue;
        };
        if !moves {
            return Err(ApiError::failed(format!(
                "VM {vmid} belongs already to pool '{other}' and 'allow-move' is not set"
            )));
        }
        pve_state.check(caller, &format!("/pool/{other}"), &["Pool.Allocate"])?;
        from.vms.remove(&number);
    }
    for storage in params.list("storage") {
        pve_state.check_modify(caller, &format!("/storage/{storage}"))?;
        if removes && !pool.storages.remove(storage) {
            return Err(ApiError::failed(format!("Storage '{storage}' is not a pool member")));
        }
        if !removes && !pool.storages.insert(storage.to_owned()) {
            return Err(ApiError::failed(format!("Storage '{storage}' is already a pool member")));
        }
    }
    pools.insert(id.to_owned(), pool);
    Ok(pools)
}

fn delete(call: &Call) -> Outcome {
    let id = call.params.text("poolid").unwrap_or_default();
    let mut pve_state = call.pve_state();
    prefix_error("delete pool failed", check_empty(&pve_state, id))?;
    pve_state.pools.remove(id);
    let path = format!("/pool/{id}");
    pve_state.access.acl.retain(|entry| entry.path != path);
    Ok(Reply::NULL)
}

/// Rejects the deletion of a pool that contains pools, VMs or storages. Members that no longer exist are ignored.
fn check_empty(pve_state: &PveState, id: &str) -> Result<(), ApiError> {
    let pool = pve_state.pools.get(id).ok_or_else(|| missing(id))?;
    let below = format!("{id}/");
    let inner = pve_state.pools.keys().find(|other| other.starts_with(&below));
    let vm = pool.vms.iter().find(|vmid| pve_state.vms.contains_key(vmid));
    let storage = pool.storages.iter().find(|storage| pve_state.storages.contains_key(*storage));
    let content = (inner.map(|inner| format!("pool '{inner}'")))
        .or_else(|| vm.map(|vmid| format!("VM {vmid}")))
        .or_else(|| storage.map(|storage| format!("storage '{storage}'")));
    match content {
        Some(content) => {
            Err(ApiError::failed(format!("pool '{id}' is not empty (contains {content})")))
        }
        None => Ok(()),
    }
}

fn missing(id: &str) -> ApiError {
    ApiError::failed(format!("pool '{id}' does not exist"))
}
