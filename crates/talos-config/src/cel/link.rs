//! The message that selectors of network links look at, and the messages in it.

use super::env::{Kind, Message};

pub(super) static LINK: Message = Message {
    name: "talos.resource.definitions.network.LinkStatusSpec",
    fields: &[
        ("index", Kind::Uint),
        ("type", Kind::Int),
        ("link_index", Kind::Uint),
        ("flags", Kind::Uint),
        ("hardware_addr", Kind::Bytes),
        ("broadcast_addr", Kind::Bytes),
        ("mtu", Kind::Uint),
        ("queue_disc", Kind::Text),
        ("master_index", Kind::Uint),
        ("operational_state", Kind::Int),
        ("kind", Kind::Text),
        ("slave_kind", Kind::Text),
        ("bus_path", Kind::Text),
        ("pciid", Kind::Text),
        ("driver", Kind::Text),
        ("driver_version", Kind::Text),
        ("firmware_version", Kind::Text),
        ("product_id", Kind::Text),
        ("vendor_id", Kind::Text),
        ("product", Kind::Text),
        ("vendor", Kind::Text),
        ("link_state", Kind::Bool),
        ("speed_megabits", Kind::Int),
        ("port", Kind::Int),
        ("duplex", Kind::Int),
        ("vlan", Kind::Message(&VLAN)),
        ("bridge_master", Kind::Message(&BRIDGE_MASTER)),
        ("bond_master", Kind::Message(&BOND_MASTER)),
        ("wireguard", Kind::Message(&WIREGUARD)),
        ("permanent_addr", Kind::Bytes),
        ("alias", Kind::Text),
        ("alt_names", Kind::Texts),
        ("vrf_master", Kind::Message(&VRF_MASTER)),
    ],
};

static VLAN: Message = Message {
    name: "talos.resource.definitions.network.VLANSpec",
    fields: &[("vid", Kind::Uint), ("protocol", Kind::Int)],
};

static BRIDGE_MASTER: Message = Message {
    name: "talos.resource.definitions.network.BridgeMasterSpec",
    fields: &[("stp", Kind::Message(&STP)), ("vlan", Kind::Message(&BRIDGE_VLAN))],
};

static STP: Message = Message {
    name: "talos.resource.definitions.network.STPSpec",
    fields: &[("enabled", Kind::Bool)],
};

static BRIDGE_VLAN: Message = Message {
    name: "talos.resource.definitions.network.BridgeVLANSpec",
    fields: &[("filtering_enabled", Kind::Bool)],
};

static BOND_MASTER: Message = Message {
    name: "talos.resource.definitions.network.BondMasterSpec",
    fields: &[
        ("mode", Kind::Int),
        ("hash_policy", Kind::Int),
        ("lacp_rate", Kind::Int),
        ("arp_validate", Kind::Int),
        ("arp_all_targets", Kind::Int),
        ("primary_index", Kind::Uint),
        ("primary_reselect", Kind::Int),
        ("fail_over_mac", Kind::Int),
        ("ad_select", Kind::Int),
        ("mii_mon", Kind::Uint),
        ("up_delay", Kind::Uint),
        ("down_delay", Kind::Uint),
        ("arp_interval", Kind::Uint),
        ("resend_igmp", Kind::Uint),
        ("min_links", Kind::Uint),
        ("lp_interval", Kind::Uint),
        ("packets_per_slave", Kind::Uint),
        ("num_peer_notif", Kind::Uint),
        ("tlb_dynamic_lb", Kind::Uint),
        ("all_slaves_active", Kind::Uint),
        ("use_carrier", Kind::Bool),
        ("ad_actor_sys_prio", Kind::Uint),
        ("ad_user_port_key", Kind::Uint),
        ("peer_notify_delay", Kind::Uint),
        ("arpip_targets", Kind::Messages(&NET_IP)),
        ("nsip6_targets", Kind::Messages(&NET_IP)),
        ("adlacp_active", Kind::Int),
        ("missed_max", Kind::Uint),
    ],
};

static WIREGUARD: Message = Message {
    name: "talos.resource.definitions.network.WireguardSpec",
    fields: &[
        ("private_key", Kind::Text),
        ("public_key", Kind::Text),
        ("listen_port", Kind::Int),
        ("firewall_mark", Kind::Int),
        ("peers", Kind::Messages(&WIREGUARD_PEER)),
    ],
};

static WIREGUARD_PEER: Message = Message {
    name: "talos.resource.definitions.network.WireguardPeer",
    fields: &[
        ("public_key", Kind::Text),
        ("preshared_key", Kind::Text),
        ("endpoint", Kind::Text),
        ("persistent_keepalive_interval", Kind::Duration),
        ("allowed_ips", Kind::Messages(&NET_IP_PREFIX)),
    ],
};

static VRF_MASTER: Message = Message {
    name: "talos.resource.definitions.network.VRFMasterSpec",
    fields: &[("table", Kind::Int)],
};

static NET_IP: Message = Message { name: "common.NetIP", fields: &[("ip", Kind::Bytes)] };

static NET_IP_PREFIX: Message = Message {
    name: "common.NetIPPrefix",
    fields: &[("ip", Kind::Bytes), ("prefix_length", Kind::Int)],
};
