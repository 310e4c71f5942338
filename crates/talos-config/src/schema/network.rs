//! Schema of the documents about the network.

use super::enums::{
    AD_SELECT, ADLACP_ACTIVE, ARP_ALL_TARGETS, ARP_VALIDATE, AUTO_HOSTNAME_KIND, BOND_MODE,
    BOND_XMIT_HASH_POLICY, CLIENT_IDENTIFIER, DEFAULT_ACTION, DNS_PROTOCOL, FAIL_OVER_MAC,
    LACP_RATE, PRIMARY_RESELECT, PROTOCOL, ROUTING_RULE_ACTION, ROUTING_TABLE, VLAN_PROTOCOL,
    WOL_MODE,
};
use super::{
    ADDR, ADDR_PORT, BOOL, CEL, DURATION, FLAG, Field, Format, INT, MAC, META, PREFIX, Struct,
    TEXT, TEXTS, Type, U8, U16, U32, V12, V14, choice, flat, keep, list, many, map, omit, one, ptr,
    record,
};

const PORT_RANGE: Type = Type::Scalar(Format::PortRange);

pub(super) static BLACKHOLE_ROUTE_CONFIG: Struct = record(
    "network.BlackholeRouteConfigV1Alpha1",
    &[META, &[keep("name", TEXT), omit("metric", U32)]],
);

pub(super) static BOND_CONFIG: Struct = record(
    "network.BondConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("hardwareAddr", MAC),
            omit("links", TEXTS),
            omit("bondMode", ptr(&choice(&BOND_MODE))),
            omit("miimon", ptr(&U32)),
            omit("updelay", ptr(&U32)),
            omit("downdelay", ptr(&U32)),
            omit("useCarrier", FLAG),
            omit("xmitHashPolicy", ptr(&choice(&BOND_XMIT_HASH_POLICY))),
            omit("arpInterval", ptr(&U32)),
            omit("arpIpTargets", list(&ADDR)),
            omit("nsIp6Targets", list(&ADDR)),
            omit("arpValidate", ptr(&choice(&ARP_VALIDATE))),
            omit("arpAllTargets", ptr(&choice(&ARP_ALL_TARGETS))),
            omit("lacpRate", ptr(&choice(&LACP_RATE))),
            omit("failOverMac", ptr(&choice(&FAIL_OVER_MAC))),
            omit("adSelect", ptr(&choice(&AD_SELECT))),
            omit("adActorSysPrio", ptr(&U16)),
            omit("adUserPortKey", ptr(&U16)),
            omit("adLACPActive", ptr(&choice(&ADLACP_ACTIVE))),
            omit("primaryReselect", ptr(&choice(&PRIMARY_RESELECT))),
            omit("resendIGMP", ptr(&U32)),
            omit("minLinks", ptr(&U32)),
            omit("lpInterval", ptr(&U32)),
            omit("packetsPerSlave", ptr(&U32)),
            omit("numPeerNotif", ptr(&U8)),
            omit("tlbLogicalLb", ptr(&U8)),
            omit("allSlavesActive", ptr(&U8)),
            omit("peerNotifDelay", ptr(&U32)),
            omit("missedMax", ptr(&U8)),
        ],
        COMMON_LINK,
    ],
);

static COMMON_LINK: &[Field] = &[
    omit("up", FLAG),
    omit("mtu", U32),
    omit("addresses", many!(ADDRESS_CONFIG)),
    omit("routes", many!(ROUTE_CONFIG)),
    omit("multicast", FLAG),
];

pub(super) static ADDRESS_CONFIG: Struct = record(
    "network.AddressConfig",
    &[&[keep("address", PREFIX), omit("routePriority", ptr(&U32))]],
);

pub(super) static ROUTE_CONFIG: Struct = record(
    "network.RouteConfig",
    &[&[
        omit("destination", PREFIX),
        omit("gateway", ADDR),
        omit("source", ADDR),
        omit("metric", U32),
        omit("mtu", U32),
        omit("table", choice(&ROUTING_TABLE)),
    ]],
);

pub(super) static BRIDGE_CONFIG: Struct = record(
    "network.BridgeConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("hardwareAddr", MAC),
            omit("links", TEXTS),
            omit("stp", flat(&BRIDGE_STP_CONFIG)),
            omit("vlan", flat(&BRIDGE_VLAN_CONFIG)),
        ],
        COMMON_LINK,
    ],
);

pub(super) static BRIDGE_STP_CONFIG: Struct =
    record("network.BridgeSTPConfig", &[&[omit("enabled", FLAG)]]);

pub(super) static BRIDGE_VLAN_CONFIG: Struct =
    record("network.BridgeVLANConfig", &[&[omit("filtering", FLAG)]]);

pub(super) static DHCP_V4_CONFIG: Struct = record(
    "network.DHCPv4ConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("routeMetric", U32),
            omit("ignoreHostname", FLAG),
            omit("ignoreRoutes", FLAG).since(V14),
            omit("clientIdentifier", ptr(&choice(&CLIENT_IDENTIFIER))),
            omit("duidRaw", MAC),
        ],
    ],
);

pub(super) static DHCP_V6_CONFIG: Struct = record(
    "network.DHCPv6ConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("routeMetric", U32),
            omit("ignoreHostname", FLAG),
            omit("clientIdentifier", ptr(&choice(&CLIENT_IDENTIFIER))),
            omit("duidRaw", MAC),
        ],
    ],
);

pub(super) static DUMMY_LINK_CONFIG: Struct = record(
    "network.DummyLinkConfigV1Alpha1",
    &[META, &[keep("name", TEXT), omit("hardwareAddr", MAC)], COMMON_LINK],
);

pub(super) static ETHERNET_CONFIG: Struct = record(
    "network.EthernetConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("features", map(&BOOL)),
            omit("rings", one!(ETHERNET_RINGS_CONFIG)),
            omit("channels", one!(ETHERNET_CHANNELS_CONFIG)),
            omit("wakeOnLan", list(&choice(&WOL_MODE))).since(V12),
        ],
    ],
);

pub(super) static ETHERNET_RINGS_CONFIG: Struct = record(
    "network.EthernetRingsConfig",
    &[&[
        omit("rx", ptr(&U32)),
        omit("tx", ptr(&U32)),
        omit("rx-mini", ptr(&U32)),
        omit("rx-jumbo", ptr(&U32)),
        omit("rx-buf-len", ptr(&U32)),
        omit("cqe-size", ptr(&U32)),
        omit("tx-push", FLAG),
        omit("rx-push", FLAG),
        omit("tx-push-buf-len", ptr(&U32)),
        omit("tcp-data-split", FLAG),
    ]],
);

pub(super) static ETHERNET_CHANNELS_CONFIG: Struct = record(
    "network.EthernetChannelsConfig",
    &[&[
        omit("rx", ptr(&U32)),
        omit("tx", ptr(&U32)),
        omit("other", ptr(&U32)),
        omit("combined", ptr(&U32)),
    ]],
);

pub(super) static HCLOUD_VIP_CONFIG: Struct = record(
    "network.HCloudVIPConfigV1Alpha1",
    &[META, &[keep("name", TEXT), keep("link", TEXT), keep("apiToken", TEXT).secret()]],
);

pub(super) static HOSTNAME_CONFIG: Struct = record(
    "network.HostnameConfigV1Alpha1",
    &[META, &[omit("auto", ptr(&choice(&AUTO_HOSTNAME_KIND))), omit("hostname", TEXT)]],
);

pub(super) static KUBESPAN_CONFIG: Struct = record(
    "network.KubeSpanConfigV1Alpha1",
    &[
        META,
        &[
            omit("enabled", FLAG),
            omit("advertiseKubernetesNetworks", FLAG),
            omit("allowDownPeerBypass", FLAG),
            omit("harvestExtraEndpoints", FLAG),
            omit("mtu", ptr(&U32)),
            omit("filters", one!(KUBESPAN_FILTERS_CONFIG)),
        ],
    ],
);

pub(super) static KUBESPAN_FILTERS_CONFIG: Struct = record(
    "network.KubeSpanFiltersConfig",
    &[&[omit("endpoints", TEXTS), omit("excludeAdvertisedNetworks", list(&PREFIX))]],
);

pub(super) static KUBESPAN_ENDPOINTS_CONFIG: Struct = record(
    "network.KubespanEndpointsConfigV1Alpha1",
    &[META, &[keep("extraAnnouncedEndpoints", list(&ADDR_PORT))]],
);

pub(super) static LAYER2_VIP_CONFIG: Struct =
    record("network.Layer2VIPConfigV1Alpha1", &[META, &[keep("name", TEXT), keep("link", TEXT)]]);

pub(super) static LINK_ALIAS_CONFIG: Struct = record(
    "network.LinkAliasConfigV1Alpha1",
    &[META, &[keep("name", TEXT), omit("selector", flat(&LINK_SELECTOR))]],
);

pub(super) static LINK_SELECTOR: Struct = record("network.LinkSelector", &[&[omit("match", CEL)]]);

pub(super) static LINK_CONFIG: Struct =
    record("network.LinkConfigV1Alpha1", &[META, &[keep("name", TEXT)], COMMON_LINK]);

pub(super) static DEFAULT_ACTION_CONFIG: Struct = record(
    "network.DefaultActionConfigV1Alpha1",
    &[META, &[keep("ingress", choice(&DEFAULT_ACTION))]],
);

pub(super) static RULE_CONFIG: Struct = record(
    "network.RuleConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            keep("portSelector", flat(&RULE_PORT_SELECTOR)),
            keep("ingress", many!(INGRESS_RULE)).replaced(),
        ],
    ],
);

pub(super) static RULE_PORT_SELECTOR: Struct = record(
    "network.RulePortSelector",
    &[&[keep("ports", list(&PORT_RANGE)).replaced(), keep("protocol", choice(&PROTOCOL))]],
);

pub(super) static INGRESS_RULE: Struct =
    record("network.IngressRule", &[&[keep("subnet", PREFIX), omit("except", PREFIX)]]);

pub(super) static RESOLVER_CONFIG: Struct = record(
    "network.ResolverConfigV1Alpha1",
    &[
        META,
        &[
            omit("nameservers", many!(NAMESERVER_CONFIG)),
            omit("searchDomains", flat(&SEARCH_DOMAINS_CONFIG)),
            omit("hostDNS", flat(&HOST_DNS_CONFIG)).since(V14),
        ],
    ],
);

pub(super) static NAMESERVER_CONFIG: Struct = record(
    "network.NameserverConfig",
    &[&[
        keep("address", ADDR),
        omit("protocol", choice(&DNS_PROTOCOL)).since(V14),
        omit("tlsServerName", TEXT).since(V14),
    ]],
);

pub(super) static HOST_DNS_CONFIG: Struct = record(
    "network.HostDNSConfig",
    &[&[
        omit("enabled", FLAG),
        omit("forwardKubeDNSToHost", FLAG),
        omit("resolveMemberNames", FLAG),
    ]],
);

pub(super) static SEARCH_DOMAINS_CONFIG: Struct = record(
    "network.SearchDomainsConfig",
    &[&[omit("domains", TEXTS), omit("disableDefault", FLAG)]],
);

pub(super) static ROUTING_RULE_CONFIG: Struct = record(
    "network.RoutingRuleConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("src", PREFIX),
            omit("dst", PREFIX),
            keep("table", choice(&ROUTING_TABLE)),
            omit("action", choice(&ROUTING_RULE_ACTION)),
            omit("iifName", TEXT),
            omit("oifName", TEXT),
            omit("fwMark", U32),
            omit("fwMask", U32),
        ],
    ],
);

pub(super) static STATIC_HOST_CONFIG: Struct = record(
    "network.StaticHostConfigV1Alpha1",
    &[META, &[keep("name", TEXT), keep("hostnames", TEXTS)]],
);

pub(super) static TCP_PROBE_CONFIG: Struct = record(
    "network.TCPProbeConfigV1Alpha1",
    &[
        META,
        &[keep("name", TEXT)],
        COMMON_PROBE,
        &[keep("endpoint", TEXT), omit("timeout", DURATION)],
    ],
);

static COMMON_PROBE: &[Field] = &[omit("interval", DURATION), omit("failureThreshold", INT)];

pub(super) static TIME_SYNC_CONFIG: Struct = record(
    "network.TimeSyncConfigV1Alpha1",
    &[
        META,
        &[
            omit("enabled", FLAG),
            omit("bootTimeout", DURATION),
            omit("ntp", one!(NTP_CONFIG)),
            omit("ptp", one!(PTP_CONFIG)),
        ],
    ],
);

pub(super) static NTP_CONFIG: Struct =
    record("network.NTPConfig", &[&[omit("servers", TEXTS), omit("useNTS", FLAG).since(V14)]]);

pub(super) static PTP_CONFIG: Struct = record("network.PTPConfig", &[&[omit("devices", TEXTS)]]);

pub(super) static VLAN_CONFIG: Struct = record(
    "network.VLANConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("vlanID", U16),
            omit("vlanMode", ptr(&choice(&VLAN_PROTOCOL))),
            omit("parent", TEXT),
        ],
        COMMON_LINK,
    ],
);

pub(super) static VRF_CONFIG: Struct = record(
    "network.VRFConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("hardwareAddr", MAC),
            omit("links", TEXTS),
            keep("table", choice(&ROUTING_TABLE)),
        ],
        COMMON_LINK,
    ],
);

pub(super) static WIREGUARD_CONFIG: Struct = record(
    "network.WireguardConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("privateKey", TEXT).secret(),
            omit("listenPort", INT),
            omit("firewallMark", INT),
            omit("peers", many!(WIREGUARD_PEER)),
        ],
        COMMON_LINK,
    ],
);

pub(super) static WIREGUARD_PEER: Struct = record(
    "network.WireguardPeer",
    &[&[
        omit("publicKey", TEXT),
        omit("presharedKey", TEXT).secret(),
        omit("endpoint", ADDR_PORT),
        omit("persistentKeepaliveInterval", DURATION),
        omit("allowedIPs", list(&PREFIX)),
    ]],
);
