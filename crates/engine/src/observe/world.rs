//! The world as plain data, so that plans can be made of worlds that never were.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use talmox_pve::api::access::Permissions;
use talmox_pve::api::cluster::{Guest, HostSeen, Resources, StorageSeen, Version};
use talmox_pve::api::mapping::PciMapping;
use talmox_pve::api::node::{Bridge, PciDevice};
use talmox_pve::api::storage::Volume;
use talmox_pve::config::{PendingOption, VmConfig};
use talmox_pve::id::{ConfigId, NodeName, StorageId, Upid, VmId, VolumeId};
use talmox_pve::property::HostPci;
use talmox_talos_config::secret::SecretText;

use crate::factory::Offer;
use crate::kube::{Manifest, ObjectChange, Refusal};

/// An answer, or why there is none.
pub type Told<T> = Result<T, String>;

/// What there is.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub pve: Pve,
    /// What answers at the address of each node.
    pub nodes: BTreeMap<String, TalosSeen>,
    /// Who answers at further ports of a node's address, where that is not known to be a node of ours.
    pub ports: BTreeMap<(String, u16), PortSeen>,
    /// Nodes with another system than Talos whose VMs run and that are not up, and why.
    pub silent: BTreeMap<String, String>,
    pub vip: VipSeen,
    pub kubernetes: KubernetesSeen,
    pub addons: Addons,
    /// What is heard from the places that images come from: the addresses of factories, and of files.
    /// Nothing, where nobody asked.
    pub sources: BTreeMap<String, SourceSeen>,
    /// Where somebody wants to clean up.
    pub images: ImagesSeen,
    /// Whether the secrets bundle was generated in this run. No VM can carry the marker or a UUID of such a cluster, so a VM
    /// that cannot be read is not one of its VMs.
    pub are_secrets_new: bool,
}

/// What a place says that images come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceSeen {
    /// There is no way to it from here.
    Unreachable(String),
    /// It answers, and not as it should.
    Fails(String),
    /// A factory.
    Offers(Offer),
    /// A file that is there.
    Answers,
}

/// What Proxmox says.
#[derive(Clone, Debug, Default)]
pub struct Pve {
    pub version: Option<Version>,
    pub permissions: Permissions,
    pub resources: Resources,
    /// The VMs that may be ours, by what their configs say.
    pub vms: BTreeMap<VmId, VmSeen>,
    /// VMs without a number, name or tags of this cluster whose configs could not be read. Any of them may have its marker.
    pub unread: BTreeMap<VmId, Unread>,
    /// What became of the numbers that were asked about.
    pub ids: BTreeMap<VmId, IdSeen>,
    /// The files on storages from which something is needed.
    pub contents: BTreeMap<(NodeName, StorageId), Told<Vec<Volume>>>,
    /// Why the storages of a host are not known, where they had to be asked for.
    pub unlisted: BTreeMap<NodeName, String>,
    /// Of hosts that get new VMs.
    pub bridges: BTreeMap<NodeName, Told<Vec<Bridge>>>,
    /// Where a PCI device is wanted.
    pub mappings: Option<Told<Vec<PciMapping>>>,
    pub devices: BTreeMap<NodeName, Told<Vec<PciDevice>>>,
    /// What hosts say against mappings.
    pub mapping_problems: BTreeMap<(NodeName, ConfigId), Vec<String>>,
    /// The devices of VMs that are not ours, on such hosts.
    pub passed_on: BTreeMap<VmId, PassedOn>,
}

/// The PCI devices that a VM has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOn {
    pub host: NodeName,
    pub name: Option<String>,
    pub is_running: bool,
    pub devices: Vec<HostPci>,
}

/// What lies on the storages for images.
#[derive(Clone, Debug, Default)]
pub struct ImagesSeen {
    /// The files that disks are made from; of a shared storage, as one of its hosts sees it.
    pub contents: BTreeMap<(NodeName, StorageId), Told<Vec<Volume>>>,
    /// Hosts on which somebody may be reading an image, and what tells it.
    pub busy: BTreeMap<NodeName, String>,
    /// Files that a VM which is not ours names in its config.
    pub used: BTreeMap<VolumeId, VmId>,
    /// Hosts that have a VM of another cluster made by talmox, and which.
    pub others: BTreeMap<NodeName, VmId>,
}

/// A VM that may be ours.
#[derive(Clone, Debug)]
pub struct VmSeen {
    pub host: NodeName,
    pub is_running: bool,
    pub config: Told<VmConfig>,
    /// What is set and takes effect with the next start. Empty where nobody asked.
    pub pending: Vec<PendingOption>,
}

/// A VM that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    pub host: NodeName,
    /// Why not.
    pub reason: String,
}

/// A number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdSeen {
    Free,
    /// Taken by a VM that we cannot see into.
    Taken {
        /// A task of ours that is making it at this moment.
        making: Option<Upid>,
        /// Whether such a task of ours has been, and left it as it is.
        made_by_us: bool,
        lock: Option<String>,
    },
}

/// What answers at the address of a node.
#[derive(Clone, Debug, Default)]
pub enum TalosSeen {
    /// Nobody asked: the address is not known.
    #[default]
    NotAsked,
    Nothing(String),
    /// Something that takes connections and says nothing: a machine that hangs, or is not up yet.
    Mute(String),
    /// Something that takes connections and is no Talos.
    NotTalos(String),
    /// A machine without a config.
    Maintenance {
        /// What speaks against its being the one that is meant.
        mismatch: Option<String>,
    },
    Ours(Box<Configured>),
    /// Somebody else.
    Stranger(String),
    /// It may be ours, and does not speak to us.
    Estranged(String),
}

/// A node of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Configured {
    /// Where it answers.
    pub address: Option<IpAddr>,
    /// Such as `v1.11.2`.
    pub version: Option<String>,
    pub schematic: Option<String>,
    pub config: Option<SecretText>,
    pub etcd: EtcdSeen,
    /// Whether its kubelet runs.
    pub has_kubelet: bool,
}

/// Whether a control plane has etcd data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EtcdSeen {
    #[default]
    Unknown,
    /// It waits for a cluster to join.
    Waiting,
    /// It has run, so there is data, but it is not well.
    Ill {
        reason: String,
        /// Who votes in it, as this member last knew them; empty where it does not tell.
        voters: Vec<String>,
        /// It runs, and finds no leader.
        is_leaderless: bool,
    },
    /// It is a member, and knows these.
    Member { names: Vec<String> },
}

/// Who answers at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSeen {
    /// It shows a certificate of this cluster's Kubernetes authority.
    Ours,
    /// Somebody else, in words.
    Stranger(String),
}

/// Who holds the virtual address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VipSeen {
    /// There is to be none.
    #[default]
    NotAsked,
    Silent,
    Answers(PortSeen),
}

/// What Kubernetes says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KubernetesSeen {
    /// There is no cluster yet that could be asked, as far as can be seen.
    #[default]
    NotAsked,
    /// There is one, and it does not answer.
    Silent(String),
    Answers(Registered),
}

/// Who is in a cluster, and how it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// The nodes, by name.
    pub nodes: BTreeSet<String>,
    /// What keeps it from being well; nothing if it is, or if not all nodes have joined.
    pub trouble: Option<String>,
    /// What is said of members of etcd that are none of the inventory's control planes.
    pub strange_members: Option<String>,
    /// How each check stands; none if not all nodes have joined.
    pub checks: Vec<CheckSeen>,
}

/// How one of the checks stands that end a bring-up.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CheckSeen {
    /// What must be so.
    pub name: &'static str,
    pub state: CheckState,
    /// Why it does not pass.
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    Passed,
    Waiting,
    Skipped,
}

/// What is known of add-ons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addons {
    /// Those that could be looked for.
    pub known: BTreeMap<String, AddonSeen>,
    /// Objects that were applied for an add-on, and that no add-on has any more.
    pub left: BTreeMap<String, Vec<String>>,
    /// What they consist of.
    pub read: BTreeMap<String, AddonRead>,
    /// Those of the namespaces they need that the cluster has; nothing if it cannot be asked.
    pub namespaces: Option<BTreeSet<String>>,
}

/// What an add-on consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddonRead {
    Objects(Vec<Manifest>),
    /// It could not be fetched now, in words.
    Unreachable(String),
    /// It is there and of no use, in words.
    Wrong(String),
}

/// How an add-on stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddonSeen {
    /// Whether it was applied before, as far as the cluster's notes say.
    pub is_noted: bool,
    /// What applying it would change.
    pub changes: Vec<ObjectChange>,
    /// What of it Kubernetes would not take.
    pub refusals: Vec<Refusal>,
}

impl AddonRead {
    /// Whether it is known to bring a network for pods.
    pub fn brings_network(&self) -> bool {
        match self {
            Self::Objects(manifests) => manifests.iter().any(Manifest::brings_network),
            Self::Unreachable(_) | Self::Wrong(_) => false,
        }
    }
}

impl Configured {
    /// Whether it is part of the cluster.
    pub fn has_joined(&self, is_control_plane: bool) -> bool {
        self.has_kubelet && self.is_member(is_control_plane)
    }

    /// Whether it is a member of etcd, if it must be one.
    pub fn is_member(&self, is_control_plane: bool) -> bool {
        !is_control_plane || matches!(self.etcd, EtcdSeen::Member { .. })
    }
}

impl PassedOn {
    pub(crate) fn of(host: &NodeName, is_running: bool, config: &VmConfig) -> Self {
        let is_device = |key: &str| {
            key.strip_prefix("hostpci").is_some_and(|number| number.parse::<u8>().is_ok())
        };
        let devices = config.iter().filter(|(key, _)| is_device(key));
        Self {
            host: host.clone(),
            name: config.name().map(str::to_owned),
            is_running,
            devices: devices.map(|(_, value)| HostPci::parse(value)).collect(),
        }
    }
}

impl Pve {
    pub fn guest(&self, vmid: VmId) -> Option<&Guest> {
        self.resources.guests.iter().find(|guest| guest.vmid == vmid)
    }

    pub fn host(&self, name: &NodeName) -> Option<&HostSeen> {
        self.resources.hosts.iter().find(|host| host.node == *name)
    }

    pub fn storage(&self, host: &NodeName, storage: &StorageId) -> Option<&StorageSeen> {
        let mut storages = self.resources.storages.iter();
        storages.find(|seen| seen.node == *host && seen.storage == *storage)
    }

    /// Whether a host works, as far as we may see it.
    pub fn is_online(&self, name: &NodeName) -> bool {
        self.host(name).is_some_and(|host| host.status == "online")
    }
}
