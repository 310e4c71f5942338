//! Pauses, limits and numbers of attempts that no setting changes.
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
//! The limits below end a wait before that deadline, where waiting longer would not help. Timeouts of sockets are in the clients of
//! Proxmox, Talos, Kubernetes and the web; they do not scale with the clock.

use std::time::Duration;

/// Pause between two checks of a node or a cluster.
pub(crate) const NODE_PAUSE: Duration = Duration::from_secs(1);
/// Pause between two reads of a Proxmox object that can change without a request of this run.
pub(crate) const PROXMOX_PAUSE: Duration = Duration::from_secs(3);

/// First pause between two attempts of a step; each further one is twice as long, up to the longest.
pub(crate) const FIRST_RETRY_PAUSE: Duration = Duration::from_secs(1);
pub(crate) const LONGEST_RETRY_PAUSE: Duration = Duration::from_secs(20);
/// Maximum number of attempts of a step, even if time is left. With their pauses they take about three minutes. An attempt that
/// Proxmox rejects because of a lock is not counted: the lock belongs to another task, which can take longer on a slow disk.
pub(crate) const MAX_ATTEMPTS: u32 = 12;
/// Maximum number of downloads of an image whose checksum is wrong. If all have a wrong checksum, the file at the
/// source is wrong.
pub(crate) const MAX_DOWNLOADS: u32 = 4;
/// Maximum number of requests to a running guest to release a volume, and the pause between two requests. If the guest
/// does not release the volume, it is detached when the VM stops.
pub(crate) const MAX_DETACHES: u32 = 4;
pub(crate) const DETACH_PAUSE: Duration = Duration::from_secs(10);

/// Time for which the host of a running task may not answer.
pub(crate) const SILENT_HOST: Duration = Duration::from_mins(3);
/// Time in which a control plane must report whether it has etcd data. A control plane that is booting needs this time.
pub(crate) const ETCD_WITNESS: Duration = Duration::from_mins(3);
/// Time without an answer after which a VM that this run created is reset. Talos stalls in up to a third of its first boots from
/// a cloud-init drive, until the VM is reset; a boot that does not stall takes less than this.
pub(crate) const BOOT_STALL: Duration = Duration::from_secs(150);
/// Interval between checks in Proxmox of a node that does not answer: its host may be down, or its VM may be off.
pub(crate) const VM_CHECK: Duration = Duration::from_mins(2);
/// Time for an additional network card to get its address from DHCP. The wait is limited because its network may have
/// no DHCP server.
pub(crate) const DHCP_ADDRESS: Duration = Duration::from_mins(1);
/// Time after add-ons were applied in which one of them must create a pod network. An operator creates it some time
/// after it was applied.
pub(crate) const POD_NETWORK: Duration = Duration::from_mins(1);
/// Time in which the Kubernetes API must apply the schema of a kind whose definition has just changed.
pub(crate) const KIND_SCHEMA: Duration = Duration::from_mins(1);
/// Time between the deadline of a step and its abort, because the answer to its last request may still arrive.
pub(crate) const STEP_OVERTIME: Duration = Duration::from_mins(5);
