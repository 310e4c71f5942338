//! Proxmox VE.

use crate::language::{List, OneOrMany, Setting, mapping};
use crate::value::{
    Bridge, Datastore, FilePath, Fingerprint, Pool, ProxmoxUrl, PveHost, SecretRef, VmIdRange,
};

mapping! {
    /// The Proxmox VE that the VMs live on.
    called "`proxmox`"
    pub struct Proxmox {
        /// Its address; several of one Proxmox cluster for failover.
        endpoint ["endpoints"]: Setting<OneOrMany<ProxmoxUrl>>,
        /// The SHA-256 fingerprint of its certificate.
        fingerprint: Setting<Fingerprint>,
        /// A file with the CA of its certificate. Default: the CAs that the system trusts.
        ca_file: Setting<FilePath>,
        /// Trust any certificate. Everyone on the way can then read the token.
        insecure: Setting<bool>,
        /// An API token, `user@realm!id=uuid`.
        token: Setting<SecretRef>,
        /// A user such as `root@pam`, for what no token may do (raw PCI devices).
        username: Setting<String>,
        /// The password of that user.
        password: Setting<SecretRef>,
        /// The host for nodes that name none.
        node ["host"]: Setting<PveHost>,
        /// Hosts to spread nodes over that name none.
        hosts ["nodes"]: List<PveHost>,
        /// The storage for disks.
        datastore: Setting<Datastore>,
        /// The storage for images; it must take the content type `import`.
        image_datastore: Setting<Datastore>,
        /// The bridge for network cards.
        bridge: Setting<Bridge>,
        /// The resource pool that VMs are put into.
        pool: Setting<Pool>,
        /// The vmids that nodes without one are given from.
        vmid_range: Setting<VmIdRange>,
    }
}
