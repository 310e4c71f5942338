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

/// Pause between two looks at a node or a cluster.
pub(crate) const NODE_PAUSE: Duration = Duration::from_secs(1);
/// Pause between two looks at an object of Proxmox that changes without a request.
pub(crate) const PROXMOX_PAUSE: Duration = Duration::from_secs(3);

/// First pause between two attempts of a step; each further one is twice as long, up to the longest.
pub(crate) const FIRST_RETRY_PAUSE: Duration = Duration::from_secs(1);
pub(crate) const LONGEST_RETRY_PAUSE: Duration = Duration::from_secs(20);
/// Attempts of a step, however much time is left. With their pauses they take about three minutes. Attempts that end at a lock are
/// not counted: another task works under the lock, and a slow disk can delay it for longer.
pub(crate) const MAX_ATTEMPTS: u32 = 12;
/// Downloads of an image whose checksum is wrong. After these the source is wrong.
pub(crate) const MAX_DOWNLOADS: u32 = 4;
/// Requests to a running guest to release a volume, and the pause in between. After these the volume is detached at the next stop.
pub(crate) const MAX_DETACHES: u32 = 4;
pub(crate) const DETACH_PAUSE: Duration = Duration::from_secs(10);

/// Time for which the host of a running task may be silent.
pub(crate) const SILENT_HOST: Duration = Duration::from_mins(3);
/// Time in which a control plane must answer whether it has etcd data: it may be booting.
pub(crate) const ETCD_WITNESS: Duration = Duration::from_mins(3);
/// Time without an answer after which a VM that this run created is reset. Talos stalls in up to a third of its first boots from
/// a cloud-init drive, until the VM is reset; a boot that does not stall takes less than this.
pub(crate) const BOOT_STALL: Duration = Duration::from_secs(150);
/// Interval at which Proxmox is asked about a node that does not answer: its host may be down, or its VM off.
pub(crate) const VM_CHECK: Duration = Duration::from_mins(2);
/// Time for a further network card to get its address from DHCP: there may be no DHCP server.
pub(crate) const DHCP_ADDRESS: Duration = Duration::from_mins(1);
/// Time after add-ons were applied in which one of them must create a pod network: operators create it gradually.
pub(crate) const POD_NETWORK: Duration = Duration::from_mins(1);
/// Time in which the Kubernetes API learns the fields of a kind whose definition has just changed.
pub(crate) const KIND_SCHEMA: Duration = Duration::from_mins(1);
/// Time after its deadline at which a step is aborted: its last answer may still come.
pub(crate) const STEP_OVERTIME: Duration = Duration::from_mins(5);
