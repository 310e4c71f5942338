//! `/nodes/{node}/qemu/{vmid}/migrate`: preconditions of a migration, and its start.

use serde_json::{Map, Value as Json, json};

use super::vmid;
use crate::call::{Call, Outcome, Reply};
use crate::ha;
use crate::pve_state::{ContentType, PveState, Vm, VolumeId};
use crate::storage;
use crate::vm::config;
use crate::vm::drive;
use crate::vm::local_resources::LocalResources;
use crate::vm::migration::Migration;
use crate::vm::storage_map::StorageMap;
use crate::vm::volume_references::{VolumeReference, references};
use crate::{ApiError, Release};

/// Answers `GET …/migrate`: hosts that the VM can migrate to, and the local disks and devices that prevent a migration.
pub(super) fn get(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let vmid = vmid(call);
    let vm = pve_state.vm(&call.node, vmid)?;
    config::check_lock(vm)?;
    let running = vm.is_running();
    let local = LocalResources::of(&pve_state, &vm.config, running);
    let mut allowed = vec![];
    let mut reasons = Map::new();
    for host in pve_state.hosts.keys().filter(|host| **host != call.node) {
        let mut reason = Map::new();
        let storages = unavailable_storages(&pve_state, vm, host)?;
        if !storages.is_empty() {
            reason.insert("unavailable_storages".to_owned(), json!(storages));
        }
        if let Some(missing) = local.missing.get(host).filter(|missing| !missing.is_empty()) {
            reason.insert("unavailable-resources".to_owned(), json!(missing));
        }
        let blocking = blocking_resources(&pve_state, vmid, host);
        if !blocking.is_empty() {
            reason.insert("blocking-ha-resources".to_owned(), json!(blocking));
        }
        if reason.is_empty() {
            allowed.push(host);
        }
        reasons.insert(host.clone(), Json::Object(reason));
    }
    let mapped: Map<String, Json> = local
        .mapped
        .iter()
        .map(|(key, device)| {
            let mut shown = json!({"name": device.name});
            if device.live {
                shown["live-migration"] = json!(1);
            }
            (key.clone(), shown)
        })
        .collect();
    let mut answer = json!({
        "running": u8::from(running),
        "allowed_nodes": allowed,
        "not_allowed_nodes": reasons,
        "local_disks": local_disks(&pve_state, vm)?,
        "local_resources": local.blocking,
        "mapped-resources": mapped.keys().collect::<Vec<_>>(),
        "mapped-resource-info": mapped,
    });
    if call.release == Release::V9 {
        answer["has-dbus-vmstate"] = json!(1);
        if pve_state.is_ha_managed(vmid) {
            let dependent = ha::affinity_partners(&pve_state, &format!("vm:{vmid}"), "positive");
            answer["dependent-ha-resources"] = json!(dependent);
        }
    }
    Ok(Reply::Data(answer))
}

/// HA resources on a host that must not run on the same host as this VM, because of a resource affinity rule.
fn blocking_resources(pve_state: &PveState, vmid: u32, host: &str) -> Vec<Json> {
    let is_online = pve_state.hosts.get(host).is_some_and(|host| host.online);
    if !is_online || pve_state.release == Release::V8 || !pve_state.is_ha_managed(vmid) {
        return vec![];
    }
    ha::affinity_partners(pve_state, &format!("vm:{vmid}"), "negative")
        .into_iter()
        .filter(|sid| pve_state.ha.services.get(*sid).is_some_and(|it| it.node == host))
        .map(|sid| json!({"sid": sid, "cause": "resource-affinity"}))
        .collect()
}

fn unavailable_storages(
    pve_state: &PveState,
    vm: &Vm,
    host: &str,
) -> Result<Vec<String>, ApiError> {
    let mut missing = vec![];
    for drive in drive::drives(&vm.config) {
        let Some(volume) = VolumeId::parse(drive.file()) else { continue };
        let storage = pve_state.storage(&volume.storage)?;
        if storage.disabled || !storage.is_on(host) {
            missing.push(volume.storage);
        }
    }
    missing.sort();
    missing.dedup();
    Ok(missing)
}

fn local_disks(pve_state: &PveState, vm: &Vm) -> Result<Vec<Json>, ApiError> {
    let mut disks = vec![];
    for (file, reference) in references(vm) {
        if let Some(volume) = VolumeId::parse(&file)
            && pve_state.storage(&volume.storage)?.shared
        {
            continue;
        }
        let is_empty = reference.cdrom && file == "none";
        if !reference.shared && !is_empty {
            disks.push(disk_shown(&file, &reference));
        }
    }
    Ok(disks)
}

fn disk_shown(file: &str, reference: &VolumeReference) -> Json {
    let flag = |is: bool| u8::from(is);
    let mut shown = json!({
        "volid": file,
        "cdrom": flag(reference.cdrom),
        "is_attached": flag(reference.attached),
        "is_cloudinit": flag(reference.cloudinit),
        "is_tpmstate": flag(reference.tpm),
        "is_unused": flag(reference.unused),
        "is_vmstate": flag(reference.memory),
        "replicate": flag(reference.replicate),
        "shared": flag(reference.shared),
    });
    if let Some(size) = reference.size {
        shown["size"] = json!(size);
    }
    if let Some(slot) = &reference.slot {
        shown["drivename"] = json!(slot);
    }
    if reference.pending {
        shown["referenced_in_pending"] = json!(1);
    }
    for snapshot in &reference.snapshots {
        shown["referenced_in_snapshot"][snapshot] = json!(1);
    }
    shown
}

pub(super) fn post(call: &Call) -> Outcome {
    let migration = prepared(call)?;
    let (vmid, id) = (migration.vmid, migration.vmid.to_string());
    if call.pve_state().is_ha_managed(vmid) {
        let Migration { node, target, .. } = &migration;
        return Ok(Reply::upid(ha::request_migrate(&call.site, node, vmid, target, &call.caller)));
    }
    let upid = call.site.start(&call.node, "qmigrate", &id, &call.caller, |task| async move {
        migration.run(&task).await.map_err(|error| error.to_string())
    });
    Ok(Reply::upid(upid))
}

fn prepared(call: &Call) -> Result<Migration, ApiError> {
    let params = &call.params;
    let flag = |name: &str| params.flag(name).unwrap_or_default();
    let target = params.text("target").unwrap_or_default().to_owned();
    if target == call.node {
        return Err(ApiError::parameter("target", "target is local node."));
    }
    let pve_state = call.pve_state();
    if !pve_state.hosts.contains_key(&target) {
        return Err(ApiError::failed(format!("no such cluster node '{target}'")));
    }
    let roots = [
        ("force", flag("force")),
        ("migration_type", params.has("migration_type")),
        ("migration_network", params.has("migration_network")),
    ];
    if let Some((name, _)) = roots.iter().find(|(_, given)| *given && !call.caller.is_root()) {
        return Err(ApiError::parameter(*name, "Only root may use this option."));
    }
    let vmid = vmid(call);
    let vm = pve_state.vm(&call.node, vmid)?;
    config::check_lock(vm)?;
    let online = flag("online") && vm.is_running();
    if vm.is_running() && !online {
        return Err(ApiError::failed("can't migrate running VM without --online"));
    }
    let storages = storage_map(call, &pve_state, vm, &target)?;
    Ok(Migration {
        node: call.node.clone(),
        vmid,
        target,
        online,
        with_local_disks: flag("with-local-disks"),
        force: flag("force"),
        storages,
    })
}

/// Parsed parameter `targetstorage`. The caller must have the privilege to allocate space on each target storage.
fn storage_map(
    call: &Call,
    pve_state: &PveState,
    vm: &Vm,
    target: &str,
) -> Result<StorageMap, ApiError> {
    let Some(text) = call.params.text("targetstorage").filter(|text| !text.is_empty()) else {
        check_availability(pve_state, vm, &call.node, target)?;
        return Ok(StorageMap::default());
    };
    let map = StorageMap::parse(text).map_err(|error| {
        ApiError::parameter("targetstorage", format!("failed to parse storage map: {error}"))
    })?;
    if map.identity {
        check_availability(pve_state, vm, &call.node, target)?;
        return Ok(map);
    }
    pve_state.check_vm(&call.caller, vmid(call), None, &["VM.Config.Disk"])?;
    for id in map.entries.values().chain(&map.default) {
        let storage = pve_state.storage_on(id, target)?;
        let path = format!("/storage/{id}");
        pve_state.check(&call.caller, &path, &["Datastore.AllocateSpace"])?;
        if !storage.content.contains(&ContentType::Images) {
            return Err(ApiError::failed(format!("storage '{id}' does not support vm images")));
        }
    }
    Ok(map)
}

/// Rejects a migration if the storage of a drive is missing on one of the two hosts.
fn check_availability(
    pve_state: &PveState,
    vm: &Vm,
    node: &str,
    target: &str,
) -> Result<(), ApiError> {
    for drive in drive::drives(&vm.config) {
        let Some(volume) = VolumeId::parse(drive.file()) else { continue };
        let storage = pve_state.storage_on(&volume.storage, node)?;
        pve_state.storage_on(&volume.storage, target)?;
        let kind = storage::name_of(pve_state, &volume)?.content;
        if !storage.content.contains(&kind) {
            return Err(ApiError::failed(format!(
                "{volume}: content type '{}' is not available on storage '{}'",
                kind.name(),
                volume.storage
            )));
        }
    }
    Ok(())
}
