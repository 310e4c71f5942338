//! CEL message type of the variable `link`, and the message types of its fields.

use super::env::{FieldType, Message};

pub(super) static LINK: Message = Message {
    name: "talos.resource.definitions.network.LinkStatusSpec",
    fields: &[
        ("index", FieldType::Uint),
        ("type", FieldType::Int),
        ("link_index", FieldType::Uint),
        ("flags", FieldType::Uint),
        ("hardware_addr", FieldType::Bytes),
        ("broadcast_addr", FieldType::Bytes),
        ("mtu", FieldType::Uint),
        ("queue_disc", FieldType::Text),
        ("master_index", FieldType::Uint),
        ("operational_state", FieldType::Int),
        ("kind", FieldType::Text),
        ("slave_kind", FieldType::Text),
        ("bus_path", FieldType::Text),
        ("pciid", FieldType::Text),
        ("driver", FieldType::Text),
        ("driver_version", FieldType::Text),
        ("firmware_version", FieldType::Text),
        ("product_id", FieldType::Text),
        ("vendor_id", FieldType::Text),
        ("product", FieldType::Text),
        ("vendor", FieldType::Text),
        ("link_state", FieldType::Bool),
        ("speed_megabits", FieldType::Int),
        ("port", FieldType::Int),
        ("duplex", FieldType::Int),
        ("vlan", FieldType::Message(&VLAN)),
        ("bridge_master", FieldType::Message(&BRIDGE_MASTER)),
        ("bond_master", FieldType::Message(&BOND_MASTER)),
        ("wireguard", FieldType::Message(&WIREGUARD)),
        ("permanent_addr", FieldType::Bytes),
        ("alias", FieldType::Text),
        ("alt_names", FieldType::Texts),
        ("vrf_master", FieldType::Message(&VRF_MASTER)),
    ],
};

static VLAN: Message = Message {
    name: "talos.resource.definitions.network.VLANSpec",
    fields: &[("vid", FieldType::Uint), ("protocol", FieldType::Int)],
};

static BRIDGE_MASTER: Message = Message {
    name: "talos.resource.definitions.network.BridgeMasterSpec",
    fields: &[("stp", FieldType::Message(&STP)), ("vlan", FieldType::Message(&BRIDGE_VLAN))],
};

static STP: Message = Message {
    name: "talos.resource.definitions.network.STPSpec",
    fields: &[("enabled", FieldType::Bool)],
};

static BRIDGE_VLAN: Message = Message {
    name: "talos.resource.definitions.network.BridgeVLANSpec",
    fields: &[("filtering_enabled", FieldType::Bool)],
};

static BOND_MASTER: Message = Message {
    name: "talos.resource.definitions.network.BondMasterSpec",
    fields: &[
        ("mode", FieldType::Int),
        ("hash_policy", FieldType::Int),
        ("lacp_rate", FieldType::Int),
        ("arp_validate", FieldType::Int),
        ("arp_all_targets", FieldType::Int),
        ("primary_index", FieldType::Uint),
        ("primary_reselect", FieldType::Int),
        ("fail_over_mac", FieldType::Int),
        ("ad_select", FieldType::Int),
        ("mii_mon", FieldType::Uint),
        ("up_delay", FieldType::Uint),
        ("down_delay", FieldType::Uint),
        ("arp_interval", FieldType::Uint),
        ("resend_igmp", FieldType::Uint),
        ("min_links", FieldType::Uint),
        ("lp_interval", FieldType::Uint),
        ("packets_per_slave", FieldType::Uint),
        ("num_peer_notif", FieldType::Uint),
        ("tlb_dynamic_lb", FieldType::Uint),
        ("all_slaves_active", FieldType::Uint),
        ("use_carrier", FieldType::Bool),
        ("ad_actor_sys_prio", FieldType::Uint),
        ("ad_user_port_key", FieldType::Uint),
        ("peer_notify_delay", FieldType::Uint),
        ("arpip_targets", FieldType::Messages(&NET_IP)),
        ("nsip6_targets", FieldType::Messages(&NET_IP)),
        ("adlacp_active", FieldType::Int),
        ("missed_max", FieldType::Uint),
    ],
};

static WIREGUARD: Message = Message {
    name: "talos.resource.definitions.network.WireguardSpec",
    fields: &[
        ("private_key", FieldType::Text),
        ("public_key", FieldType::Text),
        ("listen_port", FieldType::Int),
        ("firewall_mark", FieldType::Int),
        ("peers", FieldType::Messages(&WIREGUARD_PEER)),
    ],
};

static WIREGUARD_PEER: Message = Message {
    name: "talos.resource.definitions.network.WireguardPeer",
    fields: &[
        ("public_key", FieldType::Text),
        ("preshared_key", FieldType::Text),
        ("endpoint", FieldType::Text),
        ("persistent_keepalive_interval", FieldType::Duration),
        ("allowed_ips", FieldType::Messages(&NET_IP_PREFIX)),
    ],
};

static VRF_MASTER: Message = Message {
    name: "talos.resource.definitions.network.VRFMasterSpec",
    fields: &[("table", FieldType::Int)],
};

static NET_IP: Message = Message { name: "common.NetIP", fields: &[("ip", FieldType::Bytes)] };

static NET_IP_PREFIX: Message = Message {
    name: "common.NetIPPrefix",
    fields: &[("ip", FieldType::Bytes), ("prefix_length", FieldType::Int)],
};
