//! Network settings.

use std::net::IpAddr;

use crate::language::{List, OneOrMany, Setting, mapping};
use crate::value::{Cidr, Cni, DomainName, Mtu, NetworkForm, SubjectName, VipBy, VlanId};

mapping! {
    /// The networks of the nodes, the pods and the services.
    called "`network`"
    pub struct Network {
        /// Network of the nodes. Addresses without a prefix length use its prefix length.
        subnet: Setting<Cidr>,
        /// The default gateway of the nodes.
        gateway: Setting<IpAddr>,
        /// DNS servers of the nodes.
        nameservers ["dns"]: List<IpAddr>,
        /// Search domains of the nodes.
        search ["search_domains"]: List<DomainName>,
        /// Time servers of the nodes.
        time_servers ["ntp"]: List<SubjectName>,
        /// VLAN tag of the nodes' first NIC, set on the Proxmox bridge.
        vlan: Setting<VlanId>,
        /// MTU of the nodes' first NIC.
        mtu: Setting<Mtu>,
        /// Virtual address that one of the control planes holds at any time.
        vip: Setting<IpAddr>,
        /// Component that holds the VIP.
        vip_by: Setting<VipBy>,
        /// The network of the pods; two for dual stack.
        pod_cidr ["pod_subnet"]: Setting<OneOrMany<Cidr>>,
        /// The network of the services; two for dual stack.
        svc_cidr ["service_cidr", "service_subnet"]: Setting<OneOrMany<Cidr>>,
        /// The DNS domain of the cluster.
        dns_domain: Setting<DomainName>,
        /// The pod network: flannel, which Talos installs, none if an add-on installs one, or `{managed_by: …}`.
        cni: Setting<Cni>,
        /// Run kube-proxy. False where the CNI replaces it.
        kube_proxy: Setting<bool>,
        /// Form of the network settings in machine configs.
        form: Setting<NetworkForm>,
    }
}

mapping! {
    /// Pod network that neither Talos nor talmox installs.
    called "`cni`"
    pub struct ManagedCni {
        /// Tool or team that installs the pod network, such as Flux.
        managed_by: Setting<String>,
    }
}
