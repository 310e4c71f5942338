//! Schema of `machine.network` of the v1alpha1 document.

use super::{
    DURATION, FLAG, INT, Struct, TEXT, TEXTS, U8, U16, U32, V9, V12, keep, many, omit, one, ptr,
    record, refs,
};

pub(super) static NETWORK_CONFIG: Struct = record(
    "v1alpha1.NetworkConfig",
    &[&[
        omit("hostname", TEXT),
        omit("interfaces", refs!(DEVICE, ByInterface)),
        omit("nameservers", TEXTS),
        omit("searchDomains", TEXTS).since(V9),
        omit("extraHostEntries", refs!(EXTRA_HOST)),
        omit("kubespan", one!(NETWORK_KUBESPAN)),
        omit("disableSearchDomain", FLAG),
    ]],
);

pub(super) static DEVICE: Struct = record(
    "v1alpha1.Device",
    &[&[
        omit("interface", TEXT),
        omit("deviceSelector", one!(NETWORK_DEVICE_SELECTOR)),
        omit("addresses", TEXTS),
        omit("cidr", TEXT),
        omit("routes", refs!(ROUTE)),
        omit("bond", one!(BOND)),
        omit("bridge", one!(BRIDGE)),
        omit("bridgePort", one!(BRIDGE_PORT)).since(V9),
        omit("vlans", refs!(VLAN, ByKey("vlanId"))),
        omit("mtu", INT),
        omit("dhcp", FLAG),
        omit("ignore", FLAG),
        omit("dummy", FLAG),
        omit("dhcpOptions", one!(DHCP_OPTIONS)),
        omit("wireguard", one!(DEVICE_WIREGUARD_CONFIG)),
        omit("vip", one!(DEVICE_VIP_CONFIG)),
    ]],
);

pub(super) static NETWORK_DEVICE_SELECTOR: Struct = record(
    "v1alpha1.NetworkDeviceSelector",
    &[&[
        omit("busPath", TEXT),
        omit("hardwareAddr", TEXT),
        omit("permanentAddr", TEXT).since(V9),
        omit("pciID", TEXT),
        omit("driver", TEXT),
        omit("physical", FLAG),
    ]],
);

pub(super) static ROUTE: Struct = record(
    "v1alpha1.Route",
    &[&[
        keep("network", TEXT),
        keep("gateway", TEXT),
        omit("source", TEXT),
        omit("metric", U32),
        omit("mtu", U32),
    ]],
);

pub(super) static BOND: Struct = record(
    "v1alpha1.Bond",
    &[&[
        keep("interfaces", TEXTS),
        omit("deviceSelectors", many!(NETWORK_DEVICE_SELECTOR)),
        omit("arpIPTarget", TEXTS),
        keep("mode", TEXT),
        omit("xmitHashPolicy", TEXT),
        omit("lacpRate", TEXT),
        omit("adActorSystem", TEXT),
        omit("arpValidate", TEXT),
        omit("arpAllTargets", TEXT),
        omit("primary", TEXT),
        omit("primaryReselect", TEXT),
        omit("failOverMac", TEXT),
        omit("adSelect", TEXT),
        omit("miimon", U32),
        omit("updelay", U32),
        omit("downdelay", U32),
        omit("arpInterval", U32),
        omit("resendIgmp", U32),
        omit("minLinks", U32),
        omit("lpInterval", U32),
        omit("packetsPerSlave", U32),
        omit("numPeerNotif", U8),
        omit("tlbDynamicLb", U8),
        omit("allSlavesActive", U8),
        omit("useCarrier", FLAG),
        omit("adActorSysPrio", U16),
        omit("adUserPortKey", U16),
        omit("peerNotifyDelay", U32),
    ]],
);

pub(super) static BRIDGE: Struct = record(
    "v1alpha1.Bridge",
    &[&[keep("interfaces", TEXTS), omit("stp", one!(STP)), omit("vlan", one!(BRIDGE_VLAN))]],
);

pub(super) static STP: Struct = record("v1alpha1.STP", &[&[omit("enabled", FLAG)]]);

pub(super) static BRIDGE_VLAN: Struct =
    record("v1alpha1.BridgeVLAN", &[&[omit("vlanFiltering", FLAG)]]);

pub(super) static BRIDGE_PORT: Struct = record("v1alpha1.BridgePort", &[&[omit("master", TEXT)]]);

pub(super) static VLAN: Struct = record(
    "v1alpha1.Vlan",
    &[&[
        omit("addresses", TEXTS),
        omit("cidr", TEXT),
        keep("routes", refs!(ROUTE)),
        omit("dhcp", FLAG),
        keep("vlanId", U16),
        omit("mtu", U32),
        omit("vip", one!(DEVICE_VIP_CONFIG)),
        omit("dhcpOptions", one!(DHCP_OPTIONS)),
    ]],
);

pub(super) static DEVICE_VIP_CONFIG: Struct = record(
    "v1alpha1.DeviceVIPConfig",
    &[&[
        omit("ip", TEXT),
        omit("equinixMetal", one!(V_IP_EQUINIX_METAL_CONFIG)),
        omit("hcloud", one!(VIP_HCLOUD_CONFIG)),
    ]],
);

pub(super) static V_IP_EQUINIX_METAL_CONFIG: Struct =
    record("v1alpha1.VIPEquinixMetalConfig", &[&[keep("apiToken", TEXT).secret()]]);

pub(super) static VIP_HCLOUD_CONFIG: Struct =
    record("v1alpha1.VIPHCloudConfig", &[&[keep("apiToken", TEXT).secret()]]);

pub(super) static DHCP_OPTIONS: Struct = record(
    "v1alpha1.DHCPOptions",
    &[&[keep("routeMetric", U32), omit("ipv4", FLAG), omit("ipv6", FLAG), omit("duidv6", TEXT)]],
);

pub(super) static DEVICE_WIREGUARD_CONFIG: Struct = record(
    "v1alpha1.DeviceWireguardConfig",
    &[&[
        omit("privateKey", TEXT).secret(),
        omit("listenPort", INT),
        omit("firewallMark", INT),
        omit("peers", refs!(DEVICE_WIREGUARD_PEER)),
    ]],
);

pub(super) static DEVICE_WIREGUARD_PEER: Struct = record(
    "v1alpha1.DeviceWireguardPeer",
    &[&[
        omit("publicKey", TEXT),
        omit("endpoint", TEXT),
        omit("persistentKeepaliveInterval", DURATION),
        omit("allowedIPs", TEXTS),
    ]],
);

pub(super) static EXTRA_HOST: Struct =
    record("v1alpha1.ExtraHost", &[&[keep("ip", TEXT), keep("aliases", TEXTS)]]);

pub(super) static NETWORK_KUBESPAN: Struct = record(
    "v1alpha1.NetworkKubeSpan",
    &[&[
        omit("enabled", FLAG),
        omit("advertiseKubernetesNetworks", FLAG),
        omit("allowDownPeerBypass", FLAG),
        omit("harvestExtraEndpoints", FLAG),
        omit("mtu", ptr(&U32)),
        omit("filters", one!(KUBESPAN_FILTERS)),
    ]],
);

pub(super) static KUBESPAN_FILTERS: Struct = record(
    "v1alpha1.KubeSpanFilters",
    &[&[omit("endpoints", TEXTS), omit("excludeAdvertisedNetworks", TEXTS).since(V12)]],
);
