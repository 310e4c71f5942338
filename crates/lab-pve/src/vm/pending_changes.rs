//! Pending changes of a config: immediate changes to a running VM, and changes at the next start.

use std::collections::BTreeMap;

use super::drive::{self, Drive};
use super::identity::is_net;
use super::{config, option_permissions};
use crate::pve_state::{Caller, PendingDelete, PveState, Vm, VolumeId};
use crate::schema::{self, FormatName, split_list};
use crate::storage;
use crate::{ApiError, Release};

/// Removes pending changes that have no effect, because the config already has the value.
pub(crate) fn clean_up(vm: &mut Vm) {
    let current = &vm.config;
    vm.pending.retain(|key, value| current.get(key) != Some(value));
    vm.pending_delete.retain(|key, _| current.contains_key(key));
}

/// Applies all pending changes to a stopped VM.
pub(crate) fn apply(
    pve_state: &mut PveState,
    vmid: u32,
    caller: &Caller,
) -> Result<(), BTreeMap<String, String>> {
    let mut errors = BTreeMap::new();
    let deletions =
        pve_state.vms.get(&vmid).map(|vm| vm.pending_delete.clone()).unwrap_or_default();
    for (key, how) in deletions {
        let has_it = pve_state.vms.get(&vmid).is_some_and(|vm| vm.config.contains_key(&key));
        let detached = if has_it && drive::is_slot(&key) {
            detach(pve_state, vmid, caller, &key, how)
        } else {
            Ok(())
        };
        match detached {
            Ok(()) => with(pve_state, vmid, |vm| {
                vm.pending_delete.remove(&key);
                vm.config.remove(&key);
            }),
            Err(error) => {
                errors.insert(
                    key.clone(),
                    format!("unable to apply pending change {key} : {error}\n"),
                );
            }
        }
    }
    with(pve_state, vmid, clean_up);
    let changes = pve_state.vms.get(&vmid).map(|vm| vm.pending.clone()).unwrap_or_default();
    for (key, value) in changes {
        let old = pve_state.vms.get(&vmid).and_then(|vm| vm.config.get(&key).cloned());
        if drive::is_slot(&key)
            && let Some(old) = old.and_then(|old| Drive::parse(&key, &old))
        {
            keep_as_unused(pve_state, vmid, &old);
        }
        with(pve_state, vmid, |vm| {
            vm.pending.remove(&key);
            vm.config.insert(key, value);
            config::normalize(&mut vm.config);
        });
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn with(pve_state: &mut PveState, vmid: u32, act: impl FnOnce(&mut Vm)) {
    if let Some(vm) = pve_state.vms.get_mut(&vmid) {
        act(vm);
    }
}

/// Detaches a drive. Its volume becomes `unusedN`, or is destroyed.
fn detach(
    pve_state: &mut PveState,
    vmid: u32,
    caller: &Caller,
    key: &str,
    how: PendingDelete,
) -> Result<(), ApiError> {
    let Some(vm) = pve_state.vms.get(&vmid) else { return Ok(()) };
    let Some(drive) = vm.config.get(key).and_then(|value| Drive::parse(key, value)) else {
        return Ok(());
    };
    match how {
        PendingDelete::Detach => {
            keep_as_unused(pve_state, vmid, &drive);
            Ok(())
        }
        PendingDelete::Destroy => {
            pve_state.check(caller, &format!("/vms/{vmid}"), &["VM.Config.Disk"])?;
            destroy(pve_state, vmid, caller, key, &drive)
        }
    }
}

/// Destroys the volume of a drive, if the VM owns the volume and nothing else uses it.
pub(crate) fn destroy(
    pve_state: &mut PveState,
    vmid: u32,
    caller: &Caller,
    key: &str,
    drive: &Drive,
) -> Result<(), ApiError> {
    if drive.is_cdrom() && !drive.is_cloudinit() {
        return Ok(());
    }
    let Some(volume) = VolumeId::parse(drive.file()) else { return Ok(()) };
    if !is_own(pve_state, vmid, &volume) {
        return Ok(());
    }
    pve_state.check(
        caller,
        &format!("/storage/{}", volume.storage),
        &["Datastore.AllocateSpace"],
    )?;
    let Some(vm) = pve_state.vms.get(&vmid) else { return Ok(()) };
    if is_used_elsewhere(vm, key, &volume) {
        return Err(ApiError::failed(format!(
            "unable to delete '{volume}' - volume is still in use (snapshot?)"
        )));
    }
    let node = vm.node.clone();
    storage::free(pve_state, &node, &volume)
}

fn is_used_elsewhere(vm: &Vm, key: &str, volume: &VolumeId) -> bool {
    let uses = |config: &crate::pve_state::Config, except: &str| {
        drive::drives(config).iter().any(|drive| {
            drive.key != except && !drive.is_cdrom() && drive.file() == volume.to_string()
        })
    };
    uses(&vm.config, key) || vm.snapshots.values().any(|snapshot| uses(&snapshot.config, ""))
}

/// Whether the name of a volume contains the vmid of this VM.
pub(crate) fn is_own(pve_state: &PveState, vmid: u32, volume: &VolumeId) -> bool {
    storage::name_of(pve_state, volume).is_ok_and(|name| name.owner == Some(vmid))
}

/// Keeps the volume of a detached drive as `unusedN`. A cloud-init volume is destroyed.
pub(crate) fn keep_as_unused(pve_state: &mut PveState, vmid: u32, drive: &Drive) {
    let Some(volume) = VolumeId::parse(drive.file()) else { return };
    let node = pve_state.vms.get(&vmid).map(|vm| vm.node.clone()).unwrap_or_default();
    if drive.is_cloudinit() {
        // An error is ignored, because a missing volume counts as destroyed.
        drop(storage::free(pve_state, &node, &volume));
        return;
    }
    if drive.is_cdrom() || !is_own(pve_state, vmid, &volume) {
        return;
    }
    with(pve_state, vmid, |vm| {
        let text = volume.to_string();
        let taken = (0..256).any(|n| vm.config.get(&format!("unused{n}")) == Some(&text));
        let free = (0..256).map(|n| format!("unused{n}")).find(|key| !vm.config.contains_key(key));
        if let Some(key) = free.filter(|_| !taken) {
            vm.config.insert(key, text);
        }
    });
}

/// Result of applying one change to a running VM.
enum Hotplug {
    Done,
    /// The change stays pending until the next start of the VM.
    Later,
    Failed(String),
}

/// Applies pending changes to a running VM, as far as QEMU supports them. `modified` selects the options that this call
/// changed.
pub(crate) fn hotplug(
    pve_state: &mut PveState,
    vmid: u32,
    caller: &Caller,
    modified: &dyn Fn(&str) -> bool,
) -> Result<(), BTreeMap<String, String>> {
    let mut errors = BTreeMap::new();
    let Some(vm) = pve_state.vms.get_mut(&vmid) else { return Ok(()) };
    let fast: Vec<String> =
        vm.pending.keys().filter(|key| has_no_effect_on_qemu(key)).cloned().collect();
    for key in fast {
        if let Some(value) = vm.pending.remove(&key) {
            vm.config.insert(key, value);
        }
    }
    config::normalize(&mut vm.config);
    let features = HotplugFeatures::of(vm);
    for (key, how) in vm.pending_delete.clone() {
        if !modified(&key) {
            continue;
        }
        match unplug(pve_state, vmid, caller, &features, &key, how) {
            Hotplug::Done => with(pve_state, vmid, |vm| {
                update_running_config(vm, &key, None);
                vm.config.remove(&key);
                vm.pending_delete.remove(&key);
            }),
            Hotplug::Later => {}
            Hotplug::Failed(text) => {
                errors.insert(key, format!("hotplug problem - {text}\n"));
            }
        }
    }
    let changes = pve_state.vms.get(&vmid).map(|vm| vm.pending.clone()).unwrap_or_default();
    for (key, value) in changes {
        if !modified(&key) {
            continue;
        }
        match plug(pve_state, vmid, &features, &key, &value) {
            Hotplug::Done => with(pve_state, vmid, |vm| {
                update_running_config(vm, &key, Some(&value));
                vm.pending.remove(&key);
                vm.config.insert(key, value);
            }),
            Hotplug::Later => {}
            Hotplug::Failed(text) => {
                errors.insert(key, format!("hotplug problem - {text}\n"));
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Updates the config that QEMU runs with. Options that do not affect QEMU keep the value from the start. Cloud-init options
/// keep the value that is on the drive.
fn update_running_config(vm: &mut Vm, key: &str, value: Option<&str>) {
    let Some(run) = vm.run.as_mut().filter(|_| !has_no_effect_on_qemu(key)) else { return };
    match value {
        Some(value) => run.config.insert(key.to_owned(), value.to_owned()),
        None => run.config.remove(key),
    };
}

/// Whether an option has no effect on the QEMU process.
fn has_no_effect_on_qemu(key: &str) -> bool {
    let bare = key.trim_end_matches(|c: char| c.is_ascii_digit());
    matches!(
        key,
        "description"
            | "hookscript"
            | "lock"
            | "migrate_downtime"
            | "migrate_speed"
            | "name"
            | "onboot"
            | "protection"
            | "shares"
            | "startup"
            | "tags"
            | "vmstatestorage"
    ) || option_permissions::is_cloudinit_option(key)
        || bare == "ipconfig" && bare != key
}

/// Features that the `hotplug` option allows to change while the VM runs.
struct HotplugFeatures(Vec<String>);

impl HotplugFeatures {
    fn of(vm: &Vm) -> Self {
        let text = match vm.config.get("hotplug").map(String::as_str) {
            None | Some("1") => "network,disk,usb",
            Some("0") => "",
            Some(list) => list,
        };
        Self(split_list(text).into_iter().map(str::to_owned).collect())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|feature| feature == name)
    }
}

fn when(possible: bool) -> Hotplug {
    if possible { Hotplug::Done } else { Hotplug::Later }
}

fn unplug(
    pve_state: &mut PveState,
    vmid: u32,
    caller: &Caller,
    features: &HotplugFeatures,
    key: &str,
    how: PendingDelete,
) -> Hotplug {
    let current =
        pve_state.vms.get(&vmid).and_then(|vm| vm.config.get(key)).cloned().unwrap_or_default();
    if is_net(key) {
        return when(features.has("network"));
    }
    if drive::is_slot(key) {
        let bus = key.trim_end_matches(|c: char| c.is_ascii_digit());
        if !features.has("disk") || matches!(bus, "efidisk" | "ide" | "sata" | "tpmstate") {
            return Hotplug::Later;
        }
        if let Some(text) = busy_in_guest_error(pve_state, vmid, key) {
            return Hotplug::Failed(text);
        }
        return match detach(pve_state, vmid, caller, key, how) {
            Ok(()) => Hotplug::Done,
            Err(error) => Hotplug::Failed(error.to_string()),
        };
    }
    match key {
        "hotplug" => when(!current.contains("cpu") && !current.contains("memory")),
        "tablet" => when(features.has("usb")),
        "vcpus" => when(features.has("cpu")),
        "memory" => when(features.has("memory")),
        "balloon" => when(current != "0"),
        "cpuunits" | "cpulimit" => Hotplug::Done,
        _ if has_no_effect_on_qemu(key) => Hotplug::Done,
        _ if key.starts_with("usb") => {
            when(features.has("usb") && usb_is_hotpluggable(pve_state, vmid))
        }
        _ => Hotplug::Later,
    }
}

/// Error if a disk is unplugged that the guest still uses. The text depends on the release.
fn busy_in_guest_error(pve_state: &PveState, vmid: u32, key: &str) -> Option<String> {
    let run = pve_state.vms.get(&vmid)?.run.as_ref()?;
    if !run.held_drives.contains(key) {
        return None;
    }
    let more = if pve_state.release == Release::V9 { " - still busy in guest?" } else { "" };
    Some(format!("error on hot-unplugging device '{key}'{more}"))
}

fn usb_is_hotpluggable(pve_state: &PveState, vmid: u32) -> bool {
    let ostype = pve_state.vms.get(&vmid).and_then(|vm| vm.config.get("ostype"));
    ostype.is_some_and(|ostype| matches!(ostype.as_str(), "l26" | "win8" | "win10" | "win11"))
}

fn plug(
    pve_state: &mut PveState,
    vmid: u32,
    features: &HotplugFeatures,
    key: &str,
    value: &str,
) -> Hotplug {
    let Some(vm) = pve_state.vms.get(&vmid) else { return Hotplug::Later };
    let current = vm.config.get(key).cloned();
    if is_net(key) {
        return plug_net(pve_state.release, features, current.as_deref(), value);
    }
    if drive::is_slot(key) {
        return plug_drive(pve_state, vmid, features, key, current.as_deref(), value);
    }
    match key {
        "hotplug" => {
            let touches = |text: &str| text.contains("memory") || text.contains("cpu");
            when(!touches(value) && !current.as_deref().is_some_and(touches))
        }
        "tablet" => when(features.has("usb")),
        "vcpus" => when(features.has("cpu")),
        "memory" => when(features.has("memory")),
        "balloon" => {
            let is_on = |value: Option<&str>| value != Some("0");
            when(is_on(current.as_deref()) == is_on(Some(value)))
        }
        "cpuunits" | "cpulimit" => Hotplug::Done,
        "agent" => plug_agent(pve_state.release, current.as_deref(), value),
        _ if key.starts_with("usb") => {
            when(features.has("usb") && usb_is_hotpluggable(pve_state, vmid))
        }
        _ => Hotplug::Later,
    }
}

/// Applies a change of the `agent` option. Only `fstrim_cloned_disks` can change without a restart.
fn plug_agent(release: Release, current: Option<&str>, value: &str) -> Hotplug {
    let format = schema::format(release, FormatName::Agent);
    let read = |text: &str| {
        let mut fields = format.parse(text).ok()?;
        fields.remove("fstrim_cloned_disks");
        Some(fields)
    };
    when(current.is_some_and(|current| read(current) == read(value)))
}

fn plug_net(
    release: Release,
    features: &HotplugFeatures,
    current: Option<&str>,
    value: &str,
) -> Hotplug {
    let format = schema::format(release, FormatName::Net);
    let Some(current) = current else { return when(features.has("network")) };
    let (Ok(old), Ok(new)) = (format.parse(current), format.parse(value)) else {
        return Hotplug::Later;
    };
    let same =
        ["model", "macaddr", "queues", "mtu"].iter().all(|name| old.get(name) == new.get(name));
    let bridged = old.get("bridge").is_some() && new.get("bridge").is_some();
    // Bridge, VLAN, firewall, rate and link are properties of the host side of the network card, so they can always change.
    when(same && bridged || features.has("network"))
}

fn plug_drive(
    pve_state: &mut PveState,
    vmid: u32,
    features: &HotplugFeatures,
    key: &str,
    current: Option<&str>,
    value: &str,
) -> Hotplug {
    if matches!(key, "efidisk0" | "tpmstate0") {
        return Hotplug::Later;
    }
    let Some(new) = Drive::parse(key, value) else { return Hotplug::Later };
    if let Some(old) = current.and_then(|current| Drive::parse(key, current)) {
        let media = |drive: &Drive| drive.get("media").unwrap_or("disk").to_owned();
        if media(&old) != media(&new) {
            return Hotplug::Failed("unable to change media type".to_owned());
        }
        if old.is_cdrom() {
            if new.file() == "none" && old.is_cloudinit() {
                keep_as_unused(pve_state, vmid, &old);
            }
            return Hotplug::Done;
        }
        if old.file() == new.file() {
            let fixed =
                ["aio", "discard", "iothread", "queues", "product", "cache", "ssd", "vendor", "ro"];
            return when(fixed.iter().all(|name| old.get(name) == new.get(name)));
        }
        if !features.has("disk") {
            return Hotplug::Later;
        }
        keep_as_unused(pve_state, vmid, &old);
    }
    when(features.has("disk") && !key.starts_with("ide") && !key.starts_with("sata"))
}
