//! State of all nodes of the lab and of what they have in common, as plain data.
//!
//! No code waits while it holds the state: sequences, calls and elections share it, as calls and tasks
//! share the Proxmox world.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_clock::Clock;
use tokio::sync::Notify;

use super::config::Applied;
use super::etcd::{EtcdCluster, Founding};
use super::event::Events;
use super::fault::NodeFaults;
use super::hardware::Hardware;
use super::kubernetes::Components;
use super::network::Network;
use super::platform::PlatformData;
use super::service::Service;
use super::version::Version;
use super::written::{DiskKey, Installed};
use crate::image::TalosImage;

#[derive(Debug, Default)]
pub(crate) struct TalosState {
    /// By the id of the VM; only those that run.
    pub(crate) nodes: BTreeMap<u32, Node>,
    /// Every etcd cluster that was ever bootstrapped: two of one Talos cluster are a split brain.
    pub(crate) etcds: BTreeMap<u64, EtcdCluster>,
    /// Who holds a shared address now, as each etcd cluster has it: one does not know of another's.
    pub(crate) vips: BTreeMap<(u64, IpAddr), u32>,
    /// Groups of nodes that do not hear each other, by the names that a script has for them.
    pub(crate) partitions: BTreeMap<u64, Vec<Vec<String>>>,
    /// Counts those who answered in the place of nodes.
    pub(crate) strangers: u32,
    /// What the control planes run beside etcd, by the id of the VM.
    pub(crate) components: BTreeMap<u32, Components>,
    /// Counts the boots of all nodes.
    pub(crate) boots: u64,
}

/// A machine that runs Talos, from its first instruction to its last.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a machine")]
pub(crate) struct Node {
    pub(crate) vmid: u32,
    /// Which boot this is; what an earlier one began has no say any more.
    pub(crate) boot: u64,
    /// As `/proc/sys/kernel/random/boot_id` has it.
    pub(crate) boot_id: String,
    /// In the lab's time since 1970.
    pub(crate) booted: Duration,
    pub(crate) hardware: Hardware,
    /// Proxmox lets it stand still.
    pub(crate) is_paused: bool,
    /// What it was booted from, which is what runs.
    pub(crate) image: TalosImage,
    pub(crate) version: Version,
    /// The disk that is booted from, or installed to. None for a CD before it installed.
    pub(crate) system_disk: Option<DiskKey>,
    /// Cloud-init drive, cidata volume, SMBIOS, META: what it knows without a config.
    pub(crate) platform: PlatformData,
    pub(crate) meta: BTreeMap<u8, String>,
    pub(crate) stage: Stage,
    /// What is not as it should be while the stage says that it runs: name and reason.
    pub(crate) unmet: Vec<(String, String)>,
    /// What it runs with; none in maintenance.
    pub(crate) config: Option<Arc<Applied>>,
    /// Documents without the one that makes a machine a node: they are in effect in maintenance.
    pub(crate) partial: Option<Arc<Applied>>,
    /// Somebody applies a config at this moment.
    pub(crate) is_applying: bool,
    pub(crate) network: Network,
    pub(crate) is_time_in_sync: bool,
    /// How far its clock is off, in seconds, before and unless it is in sync.
    pub(crate) clock_skew: i64,
    pub(crate) services: BTreeMap<String, Service>,
    /// Tells the kubelet to begin anew.
    pub(crate) kubelet_order: Arc<Notify>,
    pub(crate) events: Events,
    /// The kernel's log, line by line.
    pub(crate) dmesg: Vec<String>,
    /// The time of its last line.
    pub(crate) dmesg_time: Duration,
    /// What is under way: its name as events have it, and who asked for it.
    pub(crate) sequence: Option<(String, String)>,
    /// Images that were pulled for the system itself.
    pub(crate) images: BTreeSet<String>,
    /// An installer is at work.
    pub(crate) is_installing: bool,
    /// This node's part of an etcd cluster.
    pub(crate) etcd: Option<Membership>,
    /// The cluster that an accepted bootstrap is starting here.
    pub(crate) founding: Option<Founding>,
    /// A snapshot that was brought for a recovery.
    pub(crate) snapshot: Option<Vec<u8>>,
    /// Faults that last until it boots again.
    pub(crate) faults: NodeFaults,
    /// Counts changes, for versions of resources.
    pub(crate) revision: u64,
}

/// Which member of which etcd cluster a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Membership {
    pub(crate) cluster: u64,
    pub(crate) member: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Booting,
    Installing,
    Maintenance,
    Running,
    Rebooting,
    ShuttingDown,
    Resetting,
    Upgrading,
}

impl Stage {
    /// As resources spell it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Booting => "booting",
            Self::Installing => "installing",
            Self::Maintenance => "maintenance",
            Self::Running => "running",
            Self::Rebooting => "rebooting",
            Self::ShuttingDown => "shutting down",
            Self::Resetting => "resetting",
            Self::Upgrading => "upgrading",
        }
    }
}

impl Node {
    /// A machine whose Talos has just begun.
    pub(crate) fn new(
        vmid: u32,
        boot: u64,
        hardware: Hardware,
        image: TalosImage,
        version: Version,
        clock: Clock,
    ) -> Self {
        Self {
            vmid,
            boot,
            boot_id: format!("boot-{boot}"),
            booted: clock.since_epoch(),
            hardware,
            is_paused: false,
            image,
            version,
            system_disk: None,
            platform: PlatformData::default(),
            meta: BTreeMap::new(),
            stage: Stage::Booting,
            unmet: vec![],
            config: None,
            partial: None,
            is_applying: false,
            network: Network::default(),
            is_time_in_sync: false,
            clock_skew: 0,
            services: BTreeMap::new(),
            kubelet_order: Arc::default(),
            events: Events::new(format!("{boot:08x}"), clock),
            dmesg: vec![],
            dmesg_time: Duration::ZERO,
            sequence: None,
            images: BTreeSet::new(),
            is_installing: false,
            etcd: None,
            founding: None,
            snapshot: None,
            faults: NodeFaults::default(),
            revision: 1,
        }
    }

    pub(crate) fn is_control_plane(&self) -> bool {
        self.config.as_ref().is_some_and(|config| config.facts.is_control_plane)
    }

    /// What runs, as an installer would write it down.
    pub(crate) fn installed(&self) -> Installed {
        Installed {
            version: self.image.version.clone(),
            schematic: self.image.schematic.to_yaml(),
            schematic_id: self.image.schematic_id.clone(),
            platform: self.platform.name.clone(),
            secureboot: self.image.secureboot,
        }
    }

    pub(crate) fn hostname(&self) -> &str {
        &self.network.hostname
    }
}

impl TalosState {
    /// The node, if this is still the boot that the caller began in.
    pub(crate) fn of_boot(&mut self, vmid: u32, boot: u64) -> Option<&mut Node> {
        self.nodes.get_mut(&vmid).filter(|node| node.boot == boot)
    }

    /// The disk of one member is full, and etcd stops all writing.
    pub(crate) fn raise_alarm(&mut self, of: Membership) {
        if let Some(cluster) = self.etcds.get_mut(&of.cluster) {
            cluster.alarms.insert(of.member);
        }
    }

    /// Nodes that hold this address as their own.
    pub(crate) fn holders(&self, address: IpAddr) -> impl Iterator<Item = &Node> + Clone {
        self.nodes.values().filter(move |node| node.network.has(address))
    }
}
