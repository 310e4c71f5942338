//! Top-level keys of an inventory file.

use super::{Addon, Image, Network, NodeEntry, Proxmox, Settings, Tailscale};
use crate::language::{Chain, List, Setting, Table, mapping};
use crate::value::{
    Boot, ClusterName, Duration, HttpUrl, KubernetesVersion, Patch, SubjectName, TalosVersion,
    Target,
};

mapping! {
    /// A file of a talmox inventory: `cluster.yaml`, `nodes.yaml` or `defaults.yaml`.
    called "the inventory"
    pub struct InventoryFile {
        /// The name of the cluster. Default: the name of its folder.
        cluster_name ["name"]: Setting<ClusterName>,
        /// The version of Talos that the nodes run, such as `v1.11.2`.
        talos_version: Setting<TalosVersion>,
        /// The version of Kubernetes. Default: the default version of the Talos version.
        kubernetes_version: Setting<KubernetesVersion>,
        /// URL of the Kubernetes API. Default: the VIP, else the first control plane.
        endpoint: Setting<HttpUrl>,
        /// Further names and addresses for the certificates of the APIs.
        cert_sans ["additional_sans"]: List<SubjectName>,
        /// Let ordinary pods run on control planes. Default: only if there are no workers.
        allow_scheduling_on_controlplanes: Setting<bool>,
        /// The networks of the nodes, the pods and the services.
        network: Network,
        /// The Proxmox VE that runs the VMs.
        proxmox: Proxmox,
        /// How nodes get their address and config at first boot. Only `cidata` sends no config over the network.
        boot: Setting<Boot>,
        /// The Talos image.
        image: Image,
        /// Settings of every node. Roles, classes and nodes take the same keys, and win.
        machine: Settings,
        /// Settings by role.
        roles: Roles,
        /// Settings of the nodes that name the class.
        classes: Table<Settings>,
        /// Patches of the machine configs, by role.
        patches: Patches,
        /// Join the nodes to a Tailscale or Headscale network.
        tailscale: Tailscale,
        /// Software that is installed into the cluster once it runs.
        addons: List<Addon>,
        /// Address or host:port → address at which talmox reaches it instead (NAT, a jump host).
        reach: Table<Setting<String>, Target>,
        /// Timeouts of operations.
        timeouts: Timeouts,
        /// The control planes.
        controlplane ["controlplanes", "control_plane", "control_planes"]: List<NodeEntry>,
        /// The workers.
        workers ["worker"]: List<NodeEntry>,
        own_prefix "x-",
    }
}

mapping! {
    /// Settings by role. They win over `machine`; classes and nodes win over them.
    called "`roles`"
    pub struct Roles {
        /// Settings of every control plane.
        controlplane ["controlplanes", "control_plane", "control_planes"]: Settings,
        /// Settings of every worker.
        workers ["worker"]: Settings,
    }
}

mapping! {
    /// Patches of the machine configs: files beside the inventory, or inline. They are applied in
    /// this order: all, role, class, node.
    called "`patches`"
    pub struct Patches {
        /// Patches of every node.
        all: Chain<Patch>,
        /// Patches of every control plane.
        controlplane ["controlplanes", "control_plane", "control_planes"]: Chain<Patch>,
        /// Patches of every worker.
        workers ["worker"]: Chain<Patch>,
    }
}

mapping! {
    /// Timeouts: maximum times after which an operation fails.
    called "`timeouts`"
    pub struct Timeouts {
        /// Timeout of a Proxmox task (create, clone, start…) or another short step, except for downloads and imports.
        task: Setting<Duration>,
        /// Timeout of the download or import of an image.
        image: Setting<Duration>,
        /// Timeout for a started VM to answer on the Talos API.
        boot: Setting<Duration>,
        /// Timeout for a configured node to start, and for the bootstrap of etcd.
        bootstrap: Setting<Duration>,
        /// Timeout for the whole cluster to become healthy.
        health: Setting<Duration>,
    }
}
