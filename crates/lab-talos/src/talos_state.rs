//! State of all nodes of the lab and of their clusters, as plain data.
//!
//! The state is locked only for short changes and never across an `await`, because sequences, calls and elections share it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_clock::Clock;
use tokio::sync::Notify;

use super::config::AppliedConfig;
use super::disk_data::{DiskKey, Installed};
use super::etcd::{EtcdCluster, PendingBootstrap};
use super::event::Events;
use super::fault::NodeFaults;
use super::hardware::Hardware;
use super::kubernetes::Components;
use super::network::Network;
use super::platform::PlatformData;
use super::service::Service;
use super::version::Version;
use crate::image::TalosImage;

#[derive(Debug, Default)]
pub(crate) struct TalosState {
    /// Running nodes, by vmid.
    pub(crate) nodes: BTreeMap<u32, Node>,
    /// All etcd clusters that were ever bootstrapped. Two etcd clusters for one Talos cluster are a split brain.
    pub(crate) etcds: BTreeMap<u64, EtcdCluster>,
    /// vmid of the holder of each virtual IP, by etcd cluster and address. Two etcd clusters can hold the same address, because
    /// they do not coordinate.
    pub(crate) vips: BTreeMap<(u64, IpAddr), u32>,
    /// Network partitions by number. Each has groups of node names; nodes in different groups cannot reach each other.
    pub(crate) partitions: BTreeMap<u64, Vec<Vec<String>>>,
    /// Number of impostors that were started.
    pub(crate) impostors: u32,
    /// Control-plane components other than etcd, by vmid.
    pub(crate) components: BTreeMap<u32, Components>,
    /// Number of boots of all nodes together.
    pub(crate) boots: u64,
}

/// Machine that runs Talos, during one boot.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a machine")]
pub(crate) struct Node {
    pub(crate) vmid: u32,
    /// Number of this boot. Tasks of an earlier boot must not change the node.
    pub(crate) boot: u64,
    /// Id in `/proc/sys/kernel/random/boot_id`.
    pub(crate) boot_id: String,
    /// Boot time, in lab time since 1970.
    pub(crate) booted: Duration,
    pub(crate) hardware: Hardware,
    /// Whether Proxmox paused the VM.
    pub(crate) is_paused: bool,
    /// Talos image that the machine booted.
    pub(crate) image: TalosImage,
    pub(crate) version: Version,
    /// Disk that the node boots from or was installed to; `None` if the node booted from a CD and is not installed.
    pub(crate) system_disk: Option<DiskKey>,
    /// Settings from the cidata volume, SMBIOS and META.
    pub(crate) platform: PlatformData,
    pub(crate) meta: BTreeMap<u8, String>,
    pub(crate) stage: Stage,
    /// Conditions that a running node does not meet: name and reason.
    pub(crate) unmet: Vec<(String, String)>,
    /// Running config; `None` in maintenance mode.
    pub(crate) config: Option<Arc<AppliedConfig>>,
    /// Config in try mode, which is reverted after a timeout. A request to apply a config in another mode ends try mode.
    pub(crate) tried: Option<Arc<AppliedConfig>>,
    /// Config that was saved in this boot. A config that was already on the disk at the boot does not count as saved.
    pub(crate) persistent: Option<Arc<AppliedConfig>>,
    /// Partial config without a v1alpha1 document. It is in effect in maintenance mode.
    pub(crate) partial: Option<Arc<AppliedConfig>>,
    /// Whether a config is being applied.
    pub(crate) is_applying: bool,
    pub(crate) network: Network,
    pub(crate) is_time_in_sync: bool,
    /// Error of the clock in seconds, until the time is synchronized.
    pub(crate) clock_skew: i64,
    pub(crate) services: BTreeMap<String, Service>,
    /// Notification that restarts the kubelet.
    pub(crate) kubelet_restart: Arc<Notify>,
    pub(crate) events: Events,
    /// Lines of the kernel log.
    pub(crate) dmesg: Vec<String>,
    /// Time of the last line in the kernel log.
    pub(crate) dmesg_time: Duration,
    /// Running sequence: its name in events, and its actor id.
    pub(crate) sequence: Option<(String, String)>,
    /// Images that were pulled into the system image store.
    pub(crate) images: BTreeSet<String>,
    /// Whether an installer is running.
    pub(crate) is_installing: bool,
    /// Membership of this node in an etcd cluster.
    pub(crate) etcd: Option<Membership>,
    /// Accepted bootstrap whose etcd has not started yet.
    pub(crate) pending_bootstrap: Option<PendingBootstrap>,
    /// Snapshot that was uploaded for a recovery.
    pub(crate) snapshot: Option<Vec<u8>>,
    /// Faults that last until the next boot.
    pub(crate) faults: NodeFaults,
    /// Number of changes of the node. Versions of resources are derived from it.
    pub(crate) revision: u64,
}

/// etcd cluster and member id of a node.
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
    /// Name of the stage in resources.
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
    /// Creates a node whose Talos has just started.
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
            tried: None,
            persistent: None,
            partial: None,
            is_applying: false,
            network: Network::default(),
            is_time_in_sync: false,
            clock_skew: 0,
            services: BTreeMap::new(),
            kubelet_restart: Arc::default(),
            events: Events::new(format!("{boot:08x}"), clock),
            dmesg: vec![],
            dmesg_time: Duration::ZERO,
            sequence: None,
            images: BTreeSet::new(),
            is_installing: false,
            etcd: None,
            pending_bootstrap: None,
            snapshot: None,
            faults: NodeFaults::default(),
            revision: 1,
        }
    }

    pub(crate) fn is_control_plane(&self) -> bool {
        self.config.as_ref().is_some_and(|config| config.facts.is_control_plane)
    }

    /// Running Talos, in the form that an installer writes to the disk.
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
    /// Node with this vmid; `None` if the node has rebooted since the given boot.
    pub(crate) fn of_boot(&mut self, vmid: u32, boot: u64) -> Option<&mut Node> {
        self.nodes.get_mut(&vmid).filter(|node| node.boot == boot)
    }

    /// Raises the disk space alarm of a member. The alarm blocks all writes of the cluster.
    pub(crate) fn raise_alarm(&mut self, of: Membership) {
        if let Some(cluster) = self.etcds.get_mut(&of.cluster) {
            cluster.alarms.insert(of.member);
        }
    }

    /// Nodes that have this address.
    pub(crate) fn holders(&self, address: IpAddr) -> impl Iterator<Item = &Node> + Clone {
        self.nodes.values().filter(move |node| node.network.has(address))
    }
}
