//! Kinds of documents, and which kinds exclude each other.

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
use super::{
    META, Release, Struct, TEXT, V8, V10, V11, V12, V13, V14, cluster::CONFIG, keep, record,
};

/// Name that this crate gives to the kind of the v1alpha1 document, which has no kind.
pub(crate) const CONFIG_KIND: &str = "v1alpha1";

/// Kind of document.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// First release that supports the kind.
    pub(crate) since: Release,
    pub(crate) record: &'static Struct,
    /// Kinds that exclude this kind: a document of this kind must not have the same name as a document of one of them.
    pub(crate) conflicts: &'static [&'static str],
}

impl Kind {
    /// Whether documents of this kind have names.
    pub(crate) fn is_named(&self) -> bool {
        self.name != CONFIG_KIND && self.record.field("name", V14).is_some()
    }
}

/// Kind with this name; `None` if the release does not support it.
pub(crate) fn kind(name: &str, release: Release) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name && kind.since <= release)
}

/// Kind with this name, in any release.
pub(crate) fn any_kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// Kinds of documents that configure a network link. The name of the document is the name of the link.
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

const fn kind_since(since: Release, name: &'static str, record: &'static Struct) -> Kind {
    Kind { name, since, record, conflicts: &[] }
}

impl Kind {
    const fn excludes(mut self, kinds: &'static [&'static str]) -> Self {
        self.conflicts = kinds;
        self
    }
}

/// Structs for kinds whose keys are not in the table. `SINGLE` allows one document of a kind, and `NAMED` one document
/// per name.
static SINGLE: Struct = record("Config", &[META]).open();
static NAMED: Struct = record("Config", &[META, &[keep("name", TEXT)]]).open();

static KINDS: &[Kind] = &[
    kind_since(V8, CONFIG_KIND, &CONFIG),
    // Network.
    kind_since(V13, "BlackholeRouteConfig", &BLACKHOLE_ROUTE_CONFIG),
    kind_since(V12, "BondConfig", &BOND_CONFIG).excludes(LINKS),
    kind_since(V12, "BridgeConfig", &BRIDGE_CONFIG).excludes(LINKS),
    kind_since(V12, "DHCPv4Config", &DHCP_V4_CONFIG),
    kind_since(V12, "DHCPv6Config", &DHCP_V6_CONFIG),
    kind_since(V12, "DummyLinkConfig", &DUMMY_LINK_CONFIG).excludes(LINKS),
    kind_since(V10, "EthernetConfig", &ETHERNET_CONFIG),
    kind_since(V12, "HCloudVIPConfig", &HCLOUD_VIP_CONFIG).excludes(&["Layer2VIPConfig"]),
    kind_since(V12, "HostnameConfig", &HOSTNAME_CONFIG),
    kind_since(V13, "KubeSpanConfig", &KUBESPAN_CONFIG),
    kind_since(V8, "KubeSpanEndpointsConfig", &KUBESPAN_ENDPOINTS_CONFIG),
    kind_since(V12, "Layer2VIPConfig", &LAYER2_VIP_CONFIG).excludes(&["HCloudVIPConfig"]),
    kind_since(V12, "LinkAliasConfig", &LINK_ALIAS_CONFIG),
    kind_since(V12, "LinkConfig", &LINK_CONFIG).excludes(LINKS),
    kind_since(V8, "NetworkDefaultActionConfig", &DEFAULT_ACTION_CONFIG),
    kind_since(V8, "NetworkRuleConfig", &RULE_CONFIG),
    kind_since(V12, "ResolverConfig", &RESOLVER_CONFIG),
    kind_since(V13, "RoutingRuleConfig", &ROUTING_RULE_CONFIG),
    kind_since(V12, "StaticHostConfig", &STATIC_HOST_CONFIG),
    kind_since(V13, "TCPProbeConfig", &TCP_PROBE_CONFIG),
    kind_since(V12, "TimeSyncConfig", &TIME_SYNC_CONFIG),
    kind_since(V12, "VLANConfig", &VLAN_CONFIG).excludes(LINKS),
    kind_since(V13, "VRFConfig", &VRF_CONFIG).excludes(LINKS),
    kind_since(V12, "WireguardConfig", &WIREGUARD_CONFIG).excludes(LINKS),
    // Disks.
    kind_since(V11, "ExistingVolumeConfig", &EXISTING_VOLUME_CONFIG)
        .excludes(&["UserVolumeConfig"]),
    kind_since(V13, "ExternalVolumeConfig", &EXTERNAL_VOLUME_CONFIG),
    kind_since(V11, "RawVolumeConfig", &RAW_VOLUME_CONFIG),
    kind_since(V11, "SwapVolumeConfig", &SWAP_VOLUME_CONFIG),
    kind_since(V10, "UserVolumeConfig", &USER_VOLUME_CONFIG).excludes(&["ExistingVolumeConfig"]),
    kind_since(V8, "VolumeConfig", &VOLUME_CONFIG),
    kind_since(V11, "ZswapConfig", &ZSWAP_CONFIG),
    // Other documents.
    kind_since(V13, "EnvironmentConfig", &ENVIRONMENT),
    kind_since(V8, "EventSinkConfig", &EVENT_SINK),
    kind_since(V8, "ExtensionServiceConfig", &EXTENSION_SERVICE),
    kind_since(V13, "ImageVerificationConfig", &IMAGE_VERIFICATION_CONFIG),
    kind_since(V8, "KmsgLogConfig", &KMSG_LOG),
    kind_since(V12, "OOMConfig", &OOM),
    kind_since(V10, "PCIDriverRebindConfig", &PCI_DRIVER_REBIND_CONFIG),
    kind_since(V12, "RegistryAuthConfig", &REGISTRY_AUTH_CONFIG),
    kind_since(V12, "RegistryMirrorConfig", &REGISTRY_MIRROR_CONFIG),
    kind_since(V12, "RegistryTLSConfig", &REGISTRY_TLS_CONFIG),
    kind_since(V8, "SideroLinkConfig", &SIDERO_LINK),
    kind_since(V8, "TrustedRootsConfig", &TRUSTED_ROOTS_CONFIG),
    kind_since(V8, "WatchdogTimerConfig", &WATCHDOG_TIMER),
    // Kinds of Talos 1.14. Their keys are not in the table.
    kind_since(V14, "BGPInstanceConfig", &NAMED),
    kind_since(V14, "CRIBaseRuntimeSpecConfig", &SINGLE),
    kind_since(V14, "CRICustomizationConfig", &NAMED),
    kind_since(V14, "ContainerConfig", &NAMED),
    kind_since(V14, "DiscoveryIdentityConfig", &SINGLE),
    kind_since(V14, "DiscoveryServiceConfig", &NAMED),
    kind_since(V14, "EtcFileConfig", &NAMED),
    kind_since(V14, "FilesystemScrubConfig", &SINGLE),
    kind_since(V14, "FilesystemTrimConfig", &SINGLE),
    kind_since(V14, "HTTPProbeConfig", &NAMED),
    kind_since(V14, "ImageCacheConfig", &SINGLE),
    kind_since(V14, "KernelModuleConfig", &NAMED),
    kind_since(V14, "KubeAPIServerCAConfig", &SINGLE),
    kind_since(V14, "KubeAPIServerConfig", &SINGLE),
    kind_since(V14, "KubeAdmissionControlConfig", &NAMED),
    kind_since(V14, "KubeAggregatorCAConfig", &SINGLE),
    kind_since(V14, "KubeAuditPolicyConfig", &SINGLE),
    kind_since(V14, "KubeAuthenticationConfig", &SINGLE),
    kind_since(V14, "KubeAuthorizerConfig", &NAMED),
    kind_since(V14, "KubeClusterConfig", &SINGLE),
    kind_since(V14, "KubeControllerManagerConfig", &SINGLE),
    kind_since(V14, "KubeCoreDNSConfig", &SINGLE),
    kind_since(V14, "KubeCredentialProviderConfig", &SINGLE),
    kind_since(V14, "KubeEtcdEncryptionConfig", &SINGLE),
    kind_since(V14, "KubeExternalManifestConfig", &NAMED),
    kind_since(V14, "KubeFlannelCNIConfig", &SINGLE),
    kind_since(V14, "KubeInlineManifestConfig", &NAMED),
    kind_since(V14, "KubeNetworkConfig", &SINGLE),
    kind_since(V14, "KubeNodeConfig", &SINGLE),
    kind_since(V14, "KubePrismConfig", &SINGLE),
    kind_since(V14, "KubeProxyConfig", &SINGLE),
    kind_since(V14, "KubeSchedulerConfig", &SINGLE),
    kind_since(V14, "KubeServiceAccountConfig", &SINGLE),
    kind_since(V14, "KubeStaticPodConfig", &NAMED),
    kind_since(V14, "KubeTalosAPIAccessConfig", &SINGLE),
    kind_since(V14, "KubeletConfig", &SINGLE),
    kind_since(V14, "LVMLogicalVolumeConfig", &NAMED),
    kind_since(V14, "LVMVolumeGroupConfig", &NAMED),
    kind_since(V14, "RAIDArrayConfig", &NAMED),
    kind_since(V14, "SecurityProfileConfig", &SINGLE),
    kind_since(V14, "SysctlConfig", &SINGLE),
    kind_since(V14, "SysfsConfig", &SINGLE),
    kind_since(V14, "UdevRulesConfig", &SINGLE),
    kind_since(V14, "UnattendedInstallConfig", &SINGLE),
    kind_since(V14, "VethConfig", &NAMED),
];
