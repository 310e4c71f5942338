//! The kinds of documents, and which of them exclude each other.

use super::block::{
    EXISTING_VOLUME_CONFIG, EXTERNAL_VOLUME_CONFIG, RAW_VOLUME_CONFIG, SWAP_VOLUME_CONFIG,
    USER_VOLUME_CONFIG, VOLUME_CONFIG, ZSWAP_CONFIG,
};
use super::network::{
    BLACKHOLE_ROUTE_CONFIG, BOND_CONFIG, BRIDGE_CONFIG, DEFAULT_ACTION_CONFIG, DHCP_V4_CONFIG,
    DHCP_V6_CONFIG, DUMMY_LINK_CONFIG, ETHERNET_CONFIG, HCLOUD_VIP_CONFIG, HOSTNAME_CONFIG,
    KUBESPAN_CONFIG, KUBESPAN_ENDPOINTS_CONFIG, LAYER2_VIP_CONFIG, LINK_ALIAS_CONFIG, LINK_CONFIG,
    RESOLVER_CONFIG, ROUTING_RULE_CONFIG, RULE_CONFIG, STATIC_HOST_CONFIG, TCP_PROBE_CONFIG,
    TIME_SYNC_CONFIG, VLAN_CONFIG, VRF_CONFIG, WIREGUARD_CONFIG,
};
use super::services::{
    ENVIRONMENT, EVENT_SINK, EXTENSION_SERVICE, IMAGE_VERIFICATION_CONFIG, KMSG_LOG, OOM,
    PCI_DRIVER_REBIND_CONFIG, REGISTRY_AUTH_CONFIG, REGISTRY_MIRROR_CONFIG, REGISTRY_TLS_CONFIG,
    SIDERO_LINK, TRUSTED_ROOTS_CONFIG, WATCHDOG_TIMER,
};
use super::{Release, Struct, cluster::CONFIG};

/// How the document without a kind is called.
pub(crate) const CONFIG_KIND: &str = "v1alpha1";

/// A kind of document.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) since: Release,
    pub(crate) record: &'static Struct,
    /// Kinds of which no document may have the same name as one of this kind.
    pub(crate) conflicts: &'static [&'static str],
}

impl Kind {
    /// Whether documents of this kind are told apart by their name.
    pub(crate) fn is_named(&self) -> bool {
        self.name != CONFIG_KIND && self.record.field("name", Release::V1_13).is_some()
    }
}

/// The kind of this name, if the release knows it.
pub(crate) fn kind(name: &str, release: Release) -> Option<&'static Kind> {
    KINDS
        .iter()
        .find(|kind| kind.name == name && kind.since <= release)
}

/// The kinds that configure a network link of their name.
pub(crate) fn link_kinds() -> &'static [&'static str] {
    LINKS
}

const LINKS: &[&str] = &[
    "BondConfig",
    "BridgeConfig",
    "DummyLinkConfig",
    "LinkConfig",
    "VLANConfig",
    "VRFConfig",
    "WireguardConfig",
];

const fn since(since: Release, name: &'static str, record: &'static Struct) -> Kind {
    Kind {
        name,
        since,
        record,
        conflicts: &[],
    }
}

const fn old(name: &'static str, record: &'static Struct) -> Kind {
    since(Release::V1_12, name, record)
}

const fn new(name: &'static str, record: &'static Struct) -> Kind {
    since(Release::V1_13, name, record)
}

impl Kind {
    const fn excludes(mut self, kinds: &'static [&'static str]) -> Self {
        self.conflicts = kinds;
        self
    }
}

static KINDS: &[Kind] = &[
    old(CONFIG_KIND, &CONFIG),
    // Network.
    new("BlackholeRouteConfig", &BLACKHOLE_ROUTE_CONFIG),
    old("BondConfig", &BOND_CONFIG).excludes(LINKS),
    old("BridgeConfig", &BRIDGE_CONFIG).excludes(LINKS),
    old("DHCPv4Config", &DHCP_V4_CONFIG),
    old("DHCPv6Config", &DHCP_V6_CONFIG),
    old("DummyLinkConfig", &DUMMY_LINK_CONFIG).excludes(LINKS),
    old("EthernetConfig", &ETHERNET_CONFIG),
    old("HCloudVIPConfig", &HCLOUD_VIP_CONFIG).excludes(&["Layer2VIPConfig"]),
    old("HostnameConfig", &HOSTNAME_CONFIG),
    new("KubeSpanConfig", &KUBESPAN_CONFIG),
    old("KubeSpanEndpointsConfig", &KUBESPAN_ENDPOINTS_CONFIG),
    old("Layer2VIPConfig", &LAYER2_VIP_CONFIG).excludes(&["HCloudVIPConfig"]),
    old("LinkAliasConfig", &LINK_ALIAS_CONFIG),
    old("LinkConfig", &LINK_CONFIG).excludes(LINKS),
    old("NetworkDefaultActionConfig", &DEFAULT_ACTION_CONFIG),
    old("NetworkRuleConfig", &RULE_CONFIG),
    old("ResolverConfig", &RESOLVER_CONFIG),
    new("RoutingRuleConfig", &ROUTING_RULE_CONFIG),
    old("StaticHostConfig", &STATIC_HOST_CONFIG),
    new("TCPProbeConfig", &TCP_PROBE_CONFIG),
    old("TimeSyncConfig", &TIME_SYNC_CONFIG),
    old("VLANConfig", &VLAN_CONFIG).excludes(LINKS),
    new("VRFConfig", &VRF_CONFIG).excludes(LINKS),
    old("WireguardConfig", &WIREGUARD_CONFIG).excludes(LINKS),
    // Disks.
    old("ExistingVolumeConfig", &EXISTING_VOLUME_CONFIG).excludes(&["UserVolumeConfig"]),
    new("ExternalVolumeConfig", &EXTERNAL_VOLUME_CONFIG),
    old("RawVolumeConfig", &RAW_VOLUME_CONFIG),
    old("SwapVolumeConfig", &SWAP_VOLUME_CONFIG),
    old("UserVolumeConfig", &USER_VOLUME_CONFIG).excludes(&["ExistingVolumeConfig"]),
    old("VolumeConfig", &VOLUME_CONFIG),
    old("ZswapConfig", &ZSWAP_CONFIG),
    // The rest.
    new("EnvironmentConfig", &ENVIRONMENT),
    old("EventSinkConfig", &EVENT_SINK),
    old("ExtensionServiceConfig", &EXTENSION_SERVICE),
    new("ImageVerificationConfig", &IMAGE_VERIFICATION_CONFIG),
    old("KmsgLogConfig", &KMSG_LOG),
    old("OOMConfig", &OOM),
    old("PCIDriverRebindConfig", &PCI_DRIVER_REBIND_CONFIG),
    old("RegistryAuthConfig", &REGISTRY_AUTH_CONFIG),
    old("RegistryMirrorConfig", &REGISTRY_MIRROR_CONFIG),
    old("RegistryTLSConfig", &REGISTRY_TLS_CONFIG),
    old("SideroLinkConfig", &SIDERO_LINK),
    old("TrustedRootsConfig", &TRUSTED_ROOTS_CONFIG),
    old("WatchdogTimerConfig", &WATCHDOG_TIMER),
];
