//! Pauses, limits and numbers of attempts. No setting changes them.
//!
//! A step has one deadline for all its attempts together, from `timeouts:` of the inventory.
//!
//! | step | deadline |
//! |---|---|
//! | download or upload an image; create or clone a VM; make a template | `image` |
//! | any other call or task of Proxmox; register a schematic with the Image Factory; write files | `task` |
//! | configure a node, until it is a node of the cluster | at most two starts of a new VM that stall, then `boot`, then `bootstrap` |
//! | bootstrap etcd; join; the shared address; another system than Talos | `bootstrap` |
//! | the health of the cluster; an add-on | `health` |
//!
//! The limits below end a wait before that deadline if waiting longer would not help. Timeouts of network connections are in
//! the clients of Proxmox, Talos, Kubernetes and the web. They do not scale with the clock.

use std::time::Duration;

/// Pause between two checks of a node or a cluster.
pub(crate) const NODE_PAUSE: Duration = Duration::from_secs(1);
/// Pause between two reads of a Proxmox object that can change without a request of this run.
pub(crate) const PROXMOX_PAUSE: Duration = Duration::from_secs(3);

/// First pause between two attempts of a step. Each further pause is twice as long, up to `LONGEST_RETRY_PAUSE`.
pub(crate) const FIRST_RETRY_PAUSE: Duration = Duration::from_secs(1);
pub(crate) const LONGEST_RETRY_PAUSE: Duration = Duration::from_secs(20);
/// Maximum number of attempts of a step, even if time is left. With their pauses they take about three minutes. An attempt
/// that Proxmox rejects because of a lock is not counted, because the lock belongs to another task, which can take longer on
/// a slow disk.
pub(crate) const MAX_ATTEMPTS: u32 = 12;
/// Maximum number of downloads of an image whose checksum is wrong. If all have a wrong checksum, the file at the
/// source is wrong.
pub(crate) const MAX_DOWNLOADS: u32 = 4;
/// Maximum number of requests to a running guest to release a volume, and the pause between two requests. If the guest does
/// not release the volume, Proxmox detaches it when the VM stops.
pub(crate) const MAX_DETACHES: u32 = 4;
pub(crate) const DETACH_PAUSE: Duration = Duration::from_secs(10);

/// Time without an answer from the host of a running task, after which the wait for the task ends.
pub(crate) const SILENT_HOST: Duration = Duration::from_mins(3);
/// Time in which a control plane must report whether it has etcd data. A control plane that is booting needs this time.
pub(crate) const ETCD_WITNESS: Duration = Duration::from_mins(3);
/// Time without an answer after which a VM that this run created is reset. Talos stalls in up to a third of its first boots
/// from a cloud-init drive, until the VM is reset. A boot that does not stall takes less than this time.
pub(crate) const BOOT_STALL: Duration = Duration::from_secs(150);
/// Interval between checks in Proxmox of a node that does not answer, because its host may be down, or its VM may be off.
pub(crate) const VM_CHECK: Duration = Duration::from_mins(2);
/// Time in which a node that must shut down has to answer. If it does not answer, Proxmox shuts its VM down.
pub(crate) const SILENT_NODE: Duration = Duration::from_mins(1);
/// Time for a node to shut down, before Proxmox stops its VM. Talos stops pods with a grace period of 30 seconds by default.
pub(crate) const SHUTDOWN: Duration = Duration::from_mins(5);
/// Time for a running kubelet to register its node, before it is restarted. A kubelet that started a moment ago registers the node
/// without a restart.
pub(crate) const REGISTRATION: Duration = Duration::from_secs(20);
/// Time to wait for a reboot of a node after a request whose answer was lost. After that, the request is sent again.
pub(crate) const LOST_REBOOT: Duration = Duration::from_mins(1);
/// Time for an additional network card to get its address from DHCP. The wait is limited because its network may have
/// no DHCP server.
pub(crate) const DHCP_ADDRESS: Duration = Duration::from_mins(1);
/// Time after add-ons were applied in which one of them must create a pod network. An operator creates the network some time
/// after the operator itself was applied.
pub(crate) const POD_NETWORK: Duration = Duration::from_mins(1);
/// Time in which the Kubernetes API must apply the schema of a kind whose definition has just changed.
pub(crate) const KIND_SCHEMA: Duration = Duration::from_mins(1);
/// Time after which a node reverts a config that it tries, unless talmox confirmed that the node works with it. A network card
/// that gets another address or VLAN needs some seconds. A switch may need up to a minute until it forwards packets.
pub(crate) const CONFIG_TRIAL: Duration = Duration::from_mins(2);
/// Like [`CONFIG_TRIAL`], for a control plane. Its etcd and its API server must be healthy again in this time, and may restart.
pub(crate) const CONTROL_PLANE_TRIAL: Duration = Duration::from_mins(5);
/// Time in which a node sends packets to a changed gateway. A node without such packets does not show whether the gateway exists.
pub(crate) const GATEWAY_TRAFFIC: Duration = Duration::from_secs(30);
/// Time between applying a config on trial and the first check. Before that, the node may still answer with its former
/// network.
pub(crate) const CONFIG_EFFECT: Duration = Duration::from_secs(5);
/// Time in which a node that reverted its config must answer with the former one.
pub(crate) const CONFIG_REVERT: Duration = Duration::from_mins(1);
/// Time between the deadline of a step and its abort. The answer to the last request of the step may still arrive in this
/// time.
pub(crate) const STEP_OVERTIME: Duration = Duration::from_mins(5);
