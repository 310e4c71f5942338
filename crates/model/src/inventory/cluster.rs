//! A whole file.

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
        /// The version of Kubernetes. Default: the one that the Talos version brings.
        kubernetes_version: Setting<KubernetesVersion>,
        /// Where clients find the Kubernetes API. Default: the VIP, else the first control plane.
        endpoint: Setting<HttpUrl>,
        /// Further names and addresses for the certificates of the APIs.
        cert_sans ["additional_sans"]: List<SubjectName>,
        /// Let ordinary pods run on control planes. Default: only if there are no workers.
        allow_scheduling_on_controlplanes: Setting<bool>,
        /// The networks of the nodes, the pods and the services.
        network: Network,
        /// The Proxmox VE that the VMs live on.
        proxmox: Proxmox,
        /// How nodes get their address and config at first boot. Only `cidata` sends no config over the network.
        boot: Setting<Boot>,
        /// The Talos image.
        image: Image,
        /// Settings of every node. Roles, classes and nodes take the same keys, and win.
        machine: Settings,
        /// Settings by role.
        roles: Roles,
        /// Settings for nodes that name the class.
        classes: Table<Settings>,
        /// Patches of the machine configs, by role.
        patches: Patches,
        /// Join the nodes to a Tailscale or Headscale network.
        tailscale: Tailscale,
        /// What is installed into the cluster once it runs.
        addons: List<Addon>,
        /// Address or host:port → where it really is, seen from here (NAT, a jump host).
        reach: Table<Setting<String>, Target>,
        /// How long to wait for what.
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
        /// For every control plane.
        controlplane ["controlplanes", "control_plane", "control_planes"]: Settings,
        /// For every worker.
        workers ["worker"]: Settings,
    }
}

mapping! {
    /// Patches of the machine configs: files beside the inventory, or inline. They are applied in
    /// this order: all, role, class, node.
    called "`patches`"
    pub struct Patches {
        /// For every node.
        all: Chain<Patch>,
        /// For every control plane.
        controlplane ["controlplanes", "control_plane", "control_planes"]: Chain<Patch>,
        /// For every worker.
        workers ["worker"]: Chain<Patch>,
    }
}

mapping! {
    /// How long to wait for what, before it is called a failure.
    called "`timeouts`"
    pub struct Timeouts {
        /// For a task on Proxmox (create, clone, start…), downloads and imports apart.
        task: Setting<Duration>,
        /// For an image to be downloaded or imported.
        image: Setting<Duration>,
        /// For a started VM to answer on the Talos API.
        boot: Setting<Duration>,
        /// For a configured node to come up, and for etcd to be bootstrapped.
        bootstrap: Setting<Duration>,
        /// For the whole cluster to be healthy.
        health: Setting<Duration>,
    }
}
