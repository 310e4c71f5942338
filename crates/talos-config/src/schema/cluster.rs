//! Schema of the v1alpha1 document and its `cluster` part.

use super::machine::{CERTIFICATE, CERTIFICATE_AND_KEY, MACHINE_CONFIG, PRIVATE_KEY};
use super::{
    ANY, ARGS, BOOL, DURATION, FLAG, Format, INT, Struct, TEXT, TEXT_MAP, TEXTS, Type, V9, V13,
    flat, keep, many, omit, one, ptr, record, refs,
};

const ENDPOINT: Type = Type::Scalar(Format::Endpoint);

pub(super) static CONFIG: Struct = record(
    "v1alpha1.Config",
    &[&[
        keep("version", TEXT),
        omit("debug", FLAG),
        omit("persist", FLAG),
        keep("machine", one!(MACHINE_CONFIG)),
        keep("cluster", one!(CLUSTER_CONFIG)),
    ]],
);

pub(super) static CLUSTER_CONFIG: Struct = record(
    "v1alpha1.ClusterConfig",
    &[&[
        omit("id", TEXT).secret(),
        omit("secret", TEXT).secret(),
        keep("controlPlane", one!(CONTROL_PLANE_CONFIG)),
        omit("clusterName", TEXT),
        omit("network", one!(CLUSTER_NETWORK_CONFIG)),
        omit("token", TEXT).secret(),
        omit("aescbcEncryptionSecret", TEXT).secret(),
        omit("secretboxEncryptionSecret", TEXT).secret(),
        omit("ca", one!(CERTIFICATE_AND_KEY)),
        omit("acceptedCAs", refs!(CERTIFICATE)),
        omit("aggregatorCA", one!(CERTIFICATE_AND_KEY)),
        omit("serviceAccount", one!(PRIVATE_KEY)),
        omit("apiServer", one!(API_SERVER_CONFIG)),
        omit("controllerManager", one!(CONTROLLER_MANAGER_CONFIG)),
        omit("proxy", one!(PROXY_CONFIG)),
        omit("scheduler", one!(SCHEDULER_CONFIG)),
        omit("discovery", one!(CLUSTER_DISCOVERY_CONFIG)),
        omit("etcd", one!(ETCD_CONFIG)),
        omit("coreDNS", one!(CORE_DNS)),
        omit("externalCloudProvider", one!(EXTERNAL_CLOUD_PROVIDER_CONFIG)),
        omit("extraManifests", TEXTS),
        omit("extraManifestHeaders", TEXT_MAP).secret(),
        omit("inlineManifests", many!(CLUSTER_INLINE_MANIFEST, Manifests)),
        omit("adminKubeconfig", one!(ADMIN_KUBECONFIG_CONFIG)),
        omit("allowSchedulingOnMasters", FLAG),
        omit("allowSchedulingOnControlPlanes", FLAG),
    ]],
);

pub(super) static CONTROL_PLANE_CONFIG: Struct = record(
    "v1alpha1.ControlPlaneConfig",
    &[&[keep("endpoint", ptr(&ENDPOINT)), omit("localAPIServerPort", INT)]],
);

pub(super) static CLUSTER_NETWORK_CONFIG: Struct = record(
    "v1alpha1.ClusterNetworkConfig",
    &[&[
        omit("cni", one!(CNI_CONFIG)),
        keep("dnsDomain", TEXT),
        keep("podSubnets", TEXTS).replaced(),
        keep("serviceSubnets", TEXTS).replaced(),
    ]],
);

pub(super) static CNI_CONFIG: Struct = record(
    "v1alpha1.CNIConfig",
    &[&[omit("name", TEXT), omit("urls", TEXTS), omit("flannel", one!(FLANNEL_CNI_CONFIG))]],
);

pub(super) static FLANNEL_CNI_CONFIG: Struct = record(
    "v1alpha1.FlannelCNIConfig",
    &[&[omit("extraArgs", TEXTS), omit("kubeNetworkPoliciesEnabled", FLAG).since(V13)]],
);

pub(super) static API_SERVER_CONFIG: Struct = record(
    "v1alpha1.APIServerConfig",
    &[&[
        omit("image", TEXT),
        omit("extraArgs", ARGS),
        omit("extraVolumes", many!(VOLUME_MOUNT_CONFIG)),
        omit("env", TEXT_MAP).secret(),
        omit("certSANs", TEXTS),
        omit("disablePodSecurityPolicy", FLAG),
        omit("admissionControl", refs!(ADMISSION_PLUGIN_CONFIG, ByKey("name"))),
        omit("auditPolicy", ANY).replaced(),
        omit("resources", one!(RESOURCES_CONFIG)),
        omit("authorizationConfig", refs!(AUTHORIZATION_CONFIG_AUTHORIZER_CONFIG)).since(V9),
    ]],
);

pub(super) static VOLUME_MOUNT_CONFIG: Struct = record(
    "v1alpha1.VolumeMountConfig",
    &[&[keep("hostPath", TEXT), keep("mountPath", TEXT), omit("readonly", BOOL)]],
);

pub(super) static ADMISSION_PLUGIN_CONFIG: Struct =
    record("v1alpha1.AdmissionPluginConfig", &[&[keep("name", TEXT), keep("configuration", ANY)]]);

pub(super) static RESOURCES_CONFIG: Struct =
    record("v1alpha1.ResourcesConfig", &[&[omit("requests", ANY), omit("limits", ANY)]]);

pub(super) static AUTHORIZATION_CONFIG_AUTHORIZER_CONFIG: Struct = record(
    "v1alpha1.AuthorizationConfigAuthorizerConfig",
    &[&[keep("type", TEXT), keep("name", TEXT), omit("webhook", ANY).shared()]],
);

pub(super) static CONTROLLER_MANAGER_CONFIG: Struct = record(
    "v1alpha1.ControllerManagerConfig",
    &[&[
        omit("image", TEXT),
        omit("extraArgs", ARGS),
        omit("extraVolumes", many!(VOLUME_MOUNT_CONFIG)),
        omit("env", TEXT_MAP).secret(),
        omit("resources", one!(RESOURCES_CONFIG)),
    ]],
);

pub(super) static PROXY_CONFIG: Struct = record(
    "v1alpha1.ProxyConfig",
    &[&[omit("disabled", FLAG), omit("image", TEXT), omit("mode", TEXT), omit("extraArgs", ARGS)]],
);

pub(super) static SCHEDULER_CONFIG: Struct = record(
    "v1alpha1.SchedulerConfig",
    &[&[
        omit("image", TEXT),
        omit("extraArgs", ARGS),
        omit("extraVolumes", many!(VOLUME_MOUNT_CONFIG)),
        omit("env", TEXT_MAP).secret(),
        omit("resources", one!(RESOURCES_CONFIG)),
        omit("config", ANY),
    ]],
);

pub(super) static CLUSTER_DISCOVERY_CONFIG: Struct = record(
    "v1alpha1.ClusterDiscoveryConfig",
    &[&[omit("enabled", FLAG), keep("registries", flat(&DISCOVERY_REGISTRIES_CONFIG))]],
);

pub(super) static DISCOVERY_REGISTRIES_CONFIG: Struct = record(
    "v1alpha1.DiscoveryRegistriesConfig",
    &[&[
        keep("kubernetes", flat(&REGISTRY_KUBERNETES_CONFIG)),
        keep("service", flat(&REGISTRY_SERVICE_CONFIG)),
    ]],
);

pub(super) static REGISTRY_KUBERNETES_CONFIG: Struct =
    record("v1alpha1.RegistryKubernetesConfig", &[&[omit("disabled", FLAG)]]);

pub(super) static REGISTRY_SERVICE_CONFIG: Struct =
    record("v1alpha1.RegistryServiceConfig", &[&[omit("disabled", FLAG), omit("endpoint", TEXT)]]);

pub(super) static ETCD_CONFIG: Struct = record(
    "v1alpha1.EtcdConfig",
    &[&[
        omit("image", TEXT),
        keep("ca", one!(CERTIFICATE_AND_KEY)),
        omit("extraArgs", ARGS),
        omit("subnet", TEXT),
        omit("advertisedSubnets", TEXTS),
        omit("listenSubnets", TEXTS),
    ]],
);

pub(super) static CORE_DNS: Struct =
    record("v1alpha1.CoreDNS", &[&[omit("disabled", FLAG), omit("image", TEXT)]]);

pub(super) static EXTERNAL_CLOUD_PROVIDER_CONFIG: Struct = record(
    "v1alpha1.ExternalCloudProviderConfig",
    &[&[omit("enabled", FLAG), omit("manifests", TEXTS)]],
);

pub(super) static CLUSTER_INLINE_MANIFEST: Struct = record(
    "v1alpha1.ClusterInlineManifest",
    &[&[keep("name", TEXT), keep("contents", TEXT).secret()]],
);

pub(super) static ADMIN_KUBECONFIG_CONFIG: Struct =
    record("v1alpha1.AdminKubeconfigConfig", &[&[omit("certLifetime", DURATION)]]);
