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
    /// The Talos version (1.x) whose nodes understand it.
    pub(crate) talos_minor: u32,
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
    KINDS.iter().find(|kind| kind.name == name && kind.since <= release)
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

/// A kind that Talos 1.`minor` brought; what came before 1.12 is in our oldest table.
const fn kind_since(minor: u32, name: &'static str, record: &'static Struct) -> Kind {
    Kind {
        name,
        talos_minor: minor,
        since: if minor <= 12 { Release::V1_12 } else { Release::V1_13 },
        record,
        conflicts: &[],
    }
}

impl Kind {
    const fn excludes(mut self, kinds: &'static [&'static str]) -> Self {
        self.conflicts = kinds;
        self
    }
}

static KINDS: &[Kind] = &[
    kind_since(8, CONFIG_KIND, &CONFIG),
    // Network.
    kind_since(13, "BlackholeRouteConfig", &BLACKHOLE_ROUTE_CONFIG),
    kind_since(12, "BondConfig", &BOND_CONFIG).excludes(LINKS),
    kind_since(12, "BridgeConfig", &BRIDGE_CONFIG).excludes(LINKS),
    kind_since(12, "DHCPv4Config", &DHCP_V4_CONFIG),
    kind_since(12, "DHCPv6Config", &DHCP_V6_CONFIG),
    kind_since(12, "DummyLinkConfig", &DUMMY_LINK_CONFIG).excludes(LINKS),
    kind_since(10, "EthernetConfig", &ETHERNET_CONFIG),
    kind_since(12, "HCloudVIPConfig", &HCLOUD_VIP_CONFIG).excludes(&["Layer2VIPConfig"]),
    kind_since(12, "HostnameConfig", &HOSTNAME_CONFIG),
    kind_since(13, "KubeSpanConfig", &KUBESPAN_CONFIG),
    kind_since(8, "KubeSpanEndpointsConfig", &KUBESPAN_ENDPOINTS_CONFIG),
    kind_since(12, "Layer2VIPConfig", &LAYER2_VIP_CONFIG).excludes(&["HCloudVIPConfig"]),
    kind_since(12, "LinkAliasConfig", &LINK_ALIAS_CONFIG),
    kind_since(12, "LinkConfig", &LINK_CONFIG).excludes(LINKS),
    kind_since(8, "NetworkDefaultActionConfig", &DEFAULT_ACTION_CONFIG),
    kind_since(8, "NetworkRuleConfig", &RULE_CONFIG),
    kind_since(12, "ResolverConfig", &RESOLVER_CONFIG),
    kind_since(13, "RoutingRuleConfig", &ROUTING_RULE_CONFIG),
    kind_since(12, "StaticHostConfig", &STATIC_HOST_CONFIG),
    kind_since(13, "TCPProbeConfig", &TCP_PROBE_CONFIG),
    kind_since(12, "TimeSyncConfig", &TIME_SYNC_CONFIG),
    kind_since(12, "VLANConfig", &VLAN_CONFIG).excludes(LINKS),
    kind_since(13, "VRFConfig", &VRF_CONFIG).excludes(LINKS),
    kind_since(12, "WireguardConfig", &WIREGUARD_CONFIG).excludes(LINKS),
    // Disks.
    kind_since(11, "ExistingVolumeConfig", &EXISTING_VOLUME_CONFIG).excludes(&["UserVolumeConfig"]),
    kind_since(13, "ExternalVolumeConfig", &EXTERNAL_VOLUME_CONFIG),
    kind_since(11, "RawVolumeConfig", &RAW_VOLUME_CONFIG),
    kind_since(11, "SwapVolumeConfig", &SWAP_VOLUME_CONFIG),
    kind_since(10, "UserVolumeConfig", &USER_VOLUME_CONFIG).excludes(&["ExistingVolumeConfig"]),
    kind_since(8, "VolumeConfig", &VOLUME_CONFIG),
    kind_since(11, "ZswapConfig", &ZSWAP_CONFIG),
    // The rest.
    kind_since(13, "EnvironmentConfig", &ENVIRONMENT),
    kind_since(8, "EventSinkConfig", &EVENT_SINK),
    kind_since(8, "ExtensionServiceConfig", &EXTENSION_SERVICE),
    kind_since(13, "ImageVerificationConfig", &IMAGE_VERIFICATION_CONFIG),
    kind_since(8, "KmsgLogConfig", &KMSG_LOG),
    kind_since(12, "OOMConfig", &OOM),
    kind_since(10, "PCIDriverRebindConfig", &PCI_DRIVER_REBIND_CONFIG),
    kind_since(12, "RegistryAuthConfig", &REGISTRY_AUTH_CONFIG),
    kind_since(12, "RegistryMirrorConfig", &REGISTRY_MIRROR_CONFIG),
    kind_since(12, "RegistryTLSConfig", &REGISTRY_TLS_CONFIG),
    kind_since(8, "SideroLinkConfig", &SIDERO_LINK),
    kind_since(8, "TrustedRootsConfig", &TRUSTED_ROOTS_CONFIG),
    kind_since(8, "WatchdogTimerConfig", &WATCHDOG_TIMER),
];
