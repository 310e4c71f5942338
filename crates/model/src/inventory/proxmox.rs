//! Proxmox VE settings.

use crate::language::{List, OneOrMany, Setting, mapping};
use crate::value::{
    Bridge, Datastore, FilePath, Fingerprint, Pool, ProxmoxUrl, PveHost, SecretRef, VmIdRange,
};

mapping! {
    /// The Proxmox VE that runs the VMs.
    called "`proxmox`"
    pub struct Proxmox {
        /// URL of the Proxmox API; several URLs of one Proxmox cluster for failover.
        endpoint ["endpoints"]: Setting<OneOrMany<ProxmoxUrl>>,
        /// SHA-256 fingerprint of its certificate.
        fingerprint: Setting<Fingerprint>,
        /// File with the CA of its certificate. Default: the CAs that the system trusts.
        ca_file: Setting<FilePath>,
        /// Accept any certificate. A machine on the network path can then read the token.
        insecure: Setting<bool>,
        /// An API token, `user@realm!id=uuid`.
        token: Setting<SecretRef>,
        /// A user such as `root@pam`, for operations that tokens cannot do (raw PCI devices).
        username: Setting<String>,
        /// The password of that user.
        password: Setting<SecretRef>,
        /// The host of nodes without `host`.
        node ["host"]: Setting<PveHost>,
        /// Hosts that nodes without `host` are distributed over.
        hosts ["nodes"]: List<PveHost>,
        /// The storage for disks.
        datastore: Setting<Datastore>,
        /// The storage for images; its content types must include `import`.
        image_datastore: Setting<Datastore>,
        /// The bridge for network cards.
        bridge: Setting<Bridge>,
        /// The resource pool of the VMs.
        pool: Setting<Pool>,
        /// vmids for nodes without a `vmid`.
        vmid_range: Setting<VmIdRange>,
    }
}
