//! Simulated state for storage tests.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Release;
use super::super::pve_state::{
    Access, ContentType, Ha, Mappings, PveState, Sdn, Storage, StorageKind, Tasks, Volume,
};

pub(crate) fn storage(kind: StorageKind) -> Storage {
    let options: &[(&str, &str)] = match kind {
        StorageKind::Dir => &[("path", "/var/lib/vz")],
        StorageKind::Nfs | StorageKind::Cifs => &[("path", "/mnt/pve/nas"), ("server", "nas")],
        StorageKind::Lvm => &[("vgname", "vgt")],
        StorageKind::LvmThin => &[("vgname", "pve"), ("thinpool", "data")],
        StorageKind::ZfsPool => &[("pool", "tank")],
    };
    Storage {
        kind,
        content: BTreeSet::from([ContentType::Images, ContentType::Iso, ContentType::Import]),
        shared: matches!(kind, StorageKind::Nfs | StorageKind::Cifs),
        disabled: false,
        nodes: BTreeSet::new(),
        capacity: 100 << 30,
        full: false,
        options: options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        volumes: BTreeMap::new(),
    }
}

/// State with one storage of each type, named after the type.
pub(crate) fn pve_state() -> PveState {
    let kinds = [
        StorageKind::Dir,
        StorageKind::Nfs,
        StorageKind::Lvm,
        StorageKind::LvmThin,
        StorageKind::ZfsPool,
    ];
    PveState {
        release: Release::V9,
        cluster_name: None,
        hosts: BTreeMap::new(),
        storages: kinds.map(|kind| (kind.name().to_owned(), storage(kind))).into(),
        vms: BTreeMap::new(),
        access: Access::default(),
        pools: BTreeMap::new(),
        mappings: Mappings::default(),
        ha: Ha::default(),
        sdn: Sdn::default(),
        datacenter: BTreeMap::new(),
        tasks: Tasks::default(),
        sampled: BTreeMap::new(),
    }
}

pub(crate) fn volume(format: &str, size: u64) -> Volume {
    Volume {
        format: format.to_owned(),
        size,
        used: size,
        backing: None,
        blob: None,
        written: None,
        base: None,
        created: 1_700_000_000,
        snapshots: BTreeMap::new(),
        notes: None,
        protected: false,
        executable: false,
    }
}
