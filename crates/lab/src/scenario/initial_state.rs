//! Creation of the initial state of the simulated Proxmox from a scenario.

use std::collections::BTreeMap;
use std::io;

use talmox_clock::Chance;
use talmox_lab_pve::Blobs;
use talmox_lab_pve::VolumeName;
use talmox_lab_pve::pve_state::{
    Access, Backing, Guest, PveState, Run, SavedVolume, Storage, StorageKind, Tasks, Vm, Volume,
    VolumeId,
};

use super::Scenario;
use super::access::ROOT;
use super::storage::{VolumeSpec, default as usual_storages};
use super::vm::VmSpec;

/// Uptime of the hosts when the lab starts, in seconds.
const UPTIME: u64 = 86_400;
/// Size of an empty qcow2 or vmdk image.
const EMPTY_IMAGE: u64 = 196_608;

impl Scenario {
    /// Creates the initial state: writes volume data, starts guests and generates secrets.
    pub(crate) fn into_pve_state(
        self,
        blobs: &Blobs,
        now: u64,
        chance: &mut Chance,
    ) -> io::Result<PveState> {
        let booted = now.saturating_sub(UPTIME);
        let mut hosts = self.hosts;
        for host in hosts.values_mut() {
            host.booted = booted;
        }
        let mut storages = self.storages.unwrap_or_else(|| usual_storages(self.release));
        let (snapshots, volumes): (Vec<VolumeSpec>, Vec<VolumeSpec>) =
            self.volumes.into_iter().partition(|spec| spec.id.name.starts_with("snap_"));
        let names: Vec<String> = hosts.keys().cloned().collect();
        for spec in volumes {
            let Some(storage) = storages.get_mut(&spec.id.storage) else { continue };
            let named = naming(&self.vms, storage.kind, &spec.id);
            let places = match (&named, spec.nodes.is_empty()) {
                (_, false) => spec.nodes.clone(),
                (Some((vm, _)), true) => vec![vm.node.clone()],
                (None, true) => names.iter().filter(|n| storage.is_on(n)).cloned().collect(),
            };
            let mut volume = make(&spec, storage.kind, blobs, now)?;
            volume.base = named.and_then(|(_, base)| base);
            for node in &places {
                storage.put(node, &spec.id.name, volume.clone());
            }
        }
        for spec in snapshots {
            if let Some(storage) = storages.get_mut(&spec.id.storage) {
                attach_snapshot(storage, &spec);
            }
        }
        let vms = self.vms.into_iter().zip(2000..);
        let vms: BTreeMap<u32, Vm> =
            vms.map(|((vmid, spec), pid)| (vmid, switch_on(spec, pid, booted))).collect();
        for vm in vms.values() {
            snapshot_disks(vm, &mut storages);
        }
        Ok(PveState {
            release: self.release,
            cluster_name: self.cluster,
            hosts,
            storages,
            vms,
            access: with_secrets(self.access, chance),
            pools: self.pools,
            mappings: self.mappings,
            ha: self.ha,
            sdn: self.sdn,
            datacenter: self.datacenter,
            tasks: Tasks::default(),
            sampled: BTreeMap::new(),
        })
    }
}

fn make(spec: &VolumeSpec, kind: StorageKind, blobs: &Blobs, created: u64) -> io::Result<Volume> {
    let format = format(spec);
    let is_disk = spec.id.name.starts_with(|first: char| first.is_ascii_digit());
    let used = match (kind, format.as_str()) {
        (StorageKind::LvmThin, _) => 0,
        (StorageKind::Lvm | StorageKind::ZfsPool, _) => spec.size,
        (_, "qcow2" | "vmdk") => EMPTY_IMAGE,
        // Disk images are sparse and use no space at first. Uploaded files use their full length.
        _ if is_disk => 0,
        _ => spec.size,
    };
    let blob = spec.text.as_ref().map(|text| blobs.write(text.as_bytes())).transpose()?;
    Ok(Volume {
        format,
        size: spec.size,
        used: spec.used.unwrap_or(used),
        backing: spec.backing.clone().map(|file| Backing { file }),
        blob,
        written: None,
        base: None,
        created,
        snapshots: BTreeMap::new(),
        notes: spec.notes.clone(),
        protected: spec.protected,
        executable: spec.executable,
    })
}

/// Format of a volume: the specified format, or else the format of the file name suffix.
fn format(spec: &VolumeSpec) -> String {
    let extension = spec.id.name.rsplit_once('.').map(|(_, extension)| extension);
    match (&spec.format, extension) {
        (Some(format), _) => format.clone(),
        (None, Some(image @ ("qcow2" | "vmdk"))) if spec.text.is_none() => image.to_owned(),
        _ => "raw".to_owned(),
    }
}

/// VM whose config names this volume, and the base volume that the config names with it.
fn naming<'v>(
    vms: &'v BTreeMap<u32, VmSpec>,
    kind: StorageKind,
    id: &VolumeId,
) -> Option<(&'v Vm, Option<String>)> {
    vms.values().find_map(|spec| {
        let base = named_volumes(&spec.vm).find_map(|named| {
            let name = VolumeName::parse(kind, &named.name).ok()?;
            let same = named.storage == id.storage && name.key(kind) == id.name;
            same.then(|| name.base_key(kind))
        })?;
        Some((&spec.vm, base))
    })
}

/// All volumes that a VM uses in its current config, in pending changes, or in a snapshot.
fn named_volumes(vm: &Vm) -> impl Iterator<Item = VolumeId> {
    let snapshots = vm.snapshots.values().map(|snapshot| &snapshot.config);
    let configs = snapshots.chain([&vm.config, &vm.pending]);
    configs.flat_map(BTreeMap::values).filter_map(|value| drive_volume(value))
}

/// Volume in a drive's property string.
fn drive_volume(value: &str) -> Option<VolumeId> {
    let mut parts = value.split(',');
    let first = parts.next()?;
    let named = parts
        .chain([first])
        .find_map(|part| part.strip_prefix("file=").or_else(|| part.strip_prefix("volume=")));
    VolumeId::parse(named.unwrap_or(first))
}

/// Adds an LVM snapshot to its volume. The scenario lists the snapshot as a volume named `snap_VOLUME_SNAPSHOT`.
fn attach_snapshot(storage: &mut Storage, spec: &VolumeSpec) {
    let name = spec.id.name.trim_start_matches("snap_");
    for (volume_name, volume) in storage.volumes.values_mut().flatten() {
        let rest = name.strip_prefix(volume_name.as_str());
        if let Some(snapshot) = rest.and_then(|rest| rest.strip_prefix('_')) {
            let saved = SavedVolume { size: spec.size, blob: None, written: None };
            volume.snapshots.insert(snapshot.to_owned(), saved);
        }
    }
}

/// Adds the snapshots of a VM to its disks, if the storage keeps snapshots inside the volume.
fn snapshot_disks(vm: &Vm, storages: &mut BTreeMap<String, Storage>) {
    for (name, snapshot) in &vm.snapshots {
        let drives = snapshot.config.values().filter(|value| !value.contains("media=cdrom"));
        for id in drives.filter_map(|value| drive_volume(value)) {
            let Some(storage) = storages.get_mut(&id.storage) else { continue };
            let Ok(own) = VolumeName::parse(storage.kind, &id.name) else { continue };
            if let Some(volume) = storage.volume_mut(&vm.node, &own.key(storage.kind)) {
                let state = volume.saved();
                volume.snapshots.entry(name.clone()).or_insert(state);
            }
        }
    }
}

fn switch_on(spec: VmSpec, pid: u32, since: u64) -> Vm {
    let VmSpec { mut vm, running } = spec;
    if running {
        let (config, Guest { agent, held_drives }) = (vm.config.clone(), vm.guest.clone());
        vm.run = Some(Run { since, pid, paused: false, config, agent, held_drives });
    }
    vm
}

/// Generates the missing secrets of tokens and the missing password of root.
fn with_secrets(mut access: Access, chance: &Chance) -> Access {
    if let Some(root) = access.users.get_mut(ROOT)
        && root.password.is_none()
    {
        root.password = Some(password(&mut chance.of(ROOT, 0)));
    }
    for (id, token) in &mut access.tokens {
        if token.secret.is_empty() {
            token.secret = uuid(&mut chance.of(id, 0));
        }
    }
    access
}

fn password(chance: &mut Chance) -> String {
    // Letters and digits without those that look alike.
    const LETTERS: &[u8] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0; 16];
    chance.fill(&mut bytes);
    bytes.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
}

fn uuid(chance: &mut Chance) -> String {
    let mut bytes = [0; 16];
    chance.fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| &hex[from..to];
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}
