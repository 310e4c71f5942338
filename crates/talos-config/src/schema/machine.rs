//! Schema of the `machine` part of the v1alpha1 document, without its network.

use super::machine_network::NETWORK_CONFIG;
use super::{
    ANY, ARGS, DURATION, FLAG, Format, INT, Struct, TEXT, TEXT_MAP, TEXTS, Type, U32, U64, UINT,
    V9, V12, flat, keep, list, many, map, omit, one, ptr, record, refs,
};

const BASE64: Type = Type::Scalar(Format::Base64);
const DISK_SIZE: Type = Type::Scalar(Format::DiskSize);
const FILE_MODE: Type = Type::Scalar(Format::FileMode);
const SIZE_CONDITION: Type = Type::Scalar(Format::SizeCondition);
const ENDPOINT: Type = Type::Scalar(Format::Endpoint);
const SECRET: Type = Type::Scalar(Format::Secret);

/// Certificates and keys are the base64 of their PEM texts.
pub(super) static CERTIFICATE_AND_KEY: Struct = record(
    "x509.PEMEncodedCertificateAndKey",
    &[&[keep("crt", BASE64).secret(), keep("key", SECRET).secret()]],
)
.complete();

pub(super) static PRIVATE_KEY: Struct =
    record("x509.PEMEncodedKey", &[&[keep("key", SECRET).secret()]]).complete();

pub(super) static CERTIFICATE: Struct =
    record("x509.PEMEncodedCertificate", &[&[keep("crt", BASE64).secret()]]).complete();

pub(super) static MACHINE_CONFIG: Struct = record(
    "v1alpha1.MachineConfig",
    &[&[
        keep("type", TEXT),
        keep("token", TEXT).secret(),
        omit("ca", one!(CERTIFICATE_AND_KEY)),
        omit("acceptedCAs", refs!(CERTIFICATE)),
        keep("certSANs", TEXTS),
        omit("controlPlane", one!(MACHINE_CONTROL_PLANE_CONFIG)),
        omit("kubelet", one!(KUBELET_CONFIG)),
        omit("pods", list(&ANY)).secret(),
        omit("network", one!(NETWORK_CONFIG)),
        omit("disks", refs!(MACHINE_DISK)),
        omit("install", one!(INSTALL_CONFIG)),
        omit("files", refs!(MACHINE_FILE)),
        omit("env", TEXT_MAP).secret(),
        omit("time", one!(TIME_CONFIG)),
        omit("sysctls", TEXT_MAP),
        omit("sysfs", TEXT_MAP),
        omit("registries", flat(&REGISTRIES_CONFIG)),
        omit("systemDiskEncryption", one!(SYSTEM_DISK_ENCRYPTION_CONFIG)),
        omit("features", one!(FEATURES_CONFIG)),
        omit("udev", one!(UDEV_CONFIG)),
        omit("logging", one!(LOGGING_CONFIG)),
        omit("kernel", one!(KERNEL_CONFIG)),
        omit("seccompProfiles", refs!(MACHINE_SECCOMP_PROFILE)),
        omit("baseRuntimeSpecOverrides", ANY).shared().since(V9),
        omit("nodeLabels", TEXT_MAP),
        omit("nodeAnnotations", TEXT_MAP),
        omit("nodeTaints", TEXT_MAP),
    ]],
);

pub(super) static MACHINE_CONTROL_PLANE_CONFIG: Struct = record(
    "v1alpha1.MachineControlPlaneConfig",
    &[&[
        omit("controllerManager", one!(MACHINE_CONTROLLER_MANAGER_CONFIG)),
        omit("scheduler", one!(MACHINE_SCHEDULER_CONFIG)),
    ]],
);

pub(super) static MACHINE_CONTROLLER_MANAGER_CONFIG: Struct =
    record("v1alpha1.MachineControllerManagerConfig", &[&[omit("disabled", FLAG)]]);

pub(super) static MACHINE_SCHEDULER_CONFIG: Struct =
    record("v1alpha1.MachineSchedulerConfig", &[&[omit("disabled", FLAG)]]);

pub(super) static KUBELET_CONFIG: Struct = record(
    "v1alpha1.KubeletConfig",
    &[&[
        omit("image", TEXT),
        omit("clusterDNS", TEXTS),
        omit("extraArgs", ARGS),
        omit("extraMounts", many!(EXTRA_MOUNT)),
        omit("extraConfig", ANY),
        omit("credentialProviderConfig", ANY).secret(),
        omit("defaultRuntimeSeccompProfileEnabled", FLAG),
        omit("registerWithFQDN", FLAG),
        omit("nodeIP", one!(KUBELET_NODE_IP_CONFIG)),
        omit("skipNodeRegistration", FLAG),
        omit("disableManifestsDirectory", FLAG),
    ]],
);

pub(super) static EXTRA_MOUNT: Struct = record(
    "v1alpha1.ExtraMount",
    &[&[
        keep("destination", TEXT),
        omit("type", TEXT),
        omit("source", TEXT),
        omit("options", TEXTS),
        omit("uidMappings", many!(LINUX_ID_MAPPING)),
        omit("gidMappings", many!(LINUX_ID_MAPPING)),
    ]],
);

pub(super) static LINUX_ID_MAPPING: Struct = record(
    "v1alpha1.LinuxIDMapping",
    &[&[keep("containerID", U32), keep("hostID", U32), keep("size", U32)]],
);

pub(super) static KUBELET_NODE_IP_CONFIG: Struct =
    record("v1alpha1.KubeletNodeIPConfig", &[&[omit("validSubnets", TEXTS)]]);

pub(super) static MACHINE_DISK: Struct = record(
    "v1alpha1.MachineDisk",
    &[&[omit("device", TEXT), omit("partitions", refs!(DISK_PARTITION))]],
);

pub(super) static DISK_PARTITION: Struct =
    record("v1alpha1.DiskPartition", &[&[omit("size", DISK_SIZE), omit("mountpoint", TEXT)]]);

pub(super) static INSTALL_CONFIG: Struct = record(
    "v1alpha1.InstallConfig",
    &[&[
        omit("disk", TEXT),
        omit("diskSelector", one!(INSTALL_DISK_SELECTOR)),
        omit("extraKernelArgs", TEXTS),
        omit("image", TEXT),
        omit("extensions", many!(INSTALL_EXTENSION_CONFIG)),
        omit("bootloader", FLAG),
        keep("wipe", FLAG),
        omit("legacyBIOSSupport", FLAG),
        omit("grubUseUKICmdline", FLAG).since(V12),
    ]],
);

pub(super) static INSTALL_DISK_SELECTOR: Struct = record(
    "v1alpha1.InstallDiskSelector",
    &[&[
        omit("size", ptr(&SIZE_CONDITION)),
        omit("name", TEXT),
        omit("model", TEXT),
        omit("serial", TEXT),
        omit("modalias", TEXT),
        omit("uuid", TEXT),
        omit("wwid", TEXT),
        omit("type", TEXT),
        omit("busPath", TEXT),
    ]],
);

pub(super) static INSTALL_EXTENSION_CONFIG: Struct =
    record("v1alpha1.InstallExtensionConfig", &[&[keep("image", TEXT)]]);

pub(super) static MACHINE_FILE: Struct = record(
    "v1alpha1.MachineFile",
    &[&[
        keep("content", TEXT).secret(),
        keep("permissions", FILE_MODE),
        keep("path", TEXT),
        keep("op", TEXT),
    ]],
);

pub(super) static TIME_CONFIG: Struct = record(
    "v1alpha1.TimeConfig",
    &[&[omit("disabled", FLAG), omit("servers", TEXTS), omit("bootTimeout", DURATION)]],
);

pub(super) static REGISTRIES_CONFIG: Struct = record(
    "v1alpha1.RegistriesConfig",
    &[&[
        omit("mirrors", map(&one!(REGISTRY_MIRROR_CONFIG))),
        omit("config", map(&one!(REGISTRY_CONFIG))),
    ]],
);

pub(super) static REGISTRY_MIRROR_CONFIG: Struct = record(
    "v1alpha1.RegistryMirrorConfig",
    &[&[
        keep("endpoints", TEXTS),
        omit("overridePath", FLAG),
        omit("skipFallback", FLAG).since(V9),
    ]],
);

pub(super) static REGISTRY_CONFIG: Struct = record(
    "v1alpha1.RegistryConfig",
    &[&[omit("tls", one!(REGISTRY_TLS_CONFIG)), omit("auth", one!(REGISTRY_AUTH_CONFIG))]],
);

pub(super) static REGISTRY_TLS_CONFIG: Struct = record(
    "v1alpha1.RegistryTLSConfig",
    &[&[
        omit("clientIdentity", one!(CERTIFICATE_AND_KEY)),
        omit("ca", BASE64).secret(),
        omit("insecureSkipVerify", FLAG),
    ]],
);

pub(super) static REGISTRY_AUTH_CONFIG: Struct = record(
    "v1alpha1.RegistryAuthConfig",
    &[&[
        omit("username", TEXT).secret(),
        omit("password", TEXT).secret(),
        omit("auth", TEXT).secret(),
        omit("identityToken", TEXT).secret(),
    ]],
);

pub(super) static SYSTEM_DISK_ENCRYPTION_CONFIG: Struct = record(
    "v1alpha1.SystemDiskEncryptionConfig",
    &[&[omit("state", one!(ENCRYPTION_CONFIG)), omit("ephemeral", one!(ENCRYPTION_CONFIG))]],
);

pub(super) static ENCRYPTION_CONFIG: Struct = record(
    "v1alpha1.EncryptionConfig",
    &[&[
        keep("provider", TEXT),
        keep("keys", refs!(ENCRYPTION_KEY)),
        omit("cipher", TEXT),
        omit("keySize", UINT),
        omit("blockSize", U64),
        omit("options", TEXTS),
    ]],
);

pub(super) static ENCRYPTION_KEY: Struct = record(
    "v1alpha1.EncryptionKey",
    &[&[
        omit("static", one!(ENCRYPTION_KEY_STATIC)),
        omit("nodeID", one!(ENCRYPTION_KEY_NODE_ID)),
        omit("kms", one!(ENCRYPTION_KEY_KMS)),
        keep("slot", INT),
        omit("tpm", one!(ENCRYPTION_KEY_TPM)),
    ]],
);

pub(super) static ENCRYPTION_KEY_STATIC: Struct =
    record("v1alpha1.EncryptionKeyStatic", &[&[omit("passphrase", TEXT).secret()]]);

pub(super) static ENCRYPTION_KEY_NODE_ID: Struct = record("v1alpha1.EncryptionKeyNodeID", &[]);

pub(super) static ENCRYPTION_KEY_KMS: Struct =
    record("v1alpha1.EncryptionKeyKMS", &[&[keep("endpoint", TEXT)]]);

pub(super) static ENCRYPTION_KEY_TPM: Struct =
    record("v1alpha1.EncryptionKeyTPM", &[&[omit("checkSecurebootStatusOnEnroll", FLAG)]]);

pub(super) static FEATURES_CONFIG: Struct = record(
    "v1alpha1.FeaturesConfig",
    &[&[
        omit("rbac", FLAG),
        omit("stableHostname", FLAG),
        omit("kubernetesTalosAPIAccess", one!(KUBERNETES_TALOS_API_ACCESS_CONFIG)),
        omit("apidCheckExtKeyUsage", FLAG),
        omit("diskQuotaSupport", FLAG),
        omit("kubePrism", one!(KUBE_PRISM)),
        omit("hostDNS", one!(HOST_DNS_CONFIG)),
        omit("imageCache", one!(IMAGE_CACHE_CONFIG)).since(V9),
        omit("nodeAddressSortAlgorithm", TEXT).since(V9),
    ]],
);

pub(super) static KUBERNETES_TALOS_API_ACCESS_CONFIG: Struct = record(
    "v1alpha1.KubernetesTalosAPIAccessConfig",
    &[&[
        omit("enabled", FLAG),
        omit("allowedRoles", TEXTS),
        omit("allowedKubernetesNamespaces", TEXTS),
    ]],
);

pub(super) static KUBE_PRISM: Struct =
    record("v1alpha1.KubePrism", &[&[omit("enabled", FLAG), omit("port", INT)]]);

pub(super) static HOST_DNS_CONFIG: Struct = record(
    "v1alpha1.HostDNSConfig",
    &[&[
        omit("enabled", FLAG),
        omit("forwardKubeDNSToHost", FLAG),
        omit("resolveMemberNames", FLAG),
    ]],
);

pub(super) static IMAGE_CACHE_CONFIG: Struct =
    record("v1alpha1.ImageCacheConfig", &[&[omit("localEnabled", FLAG)]]);

pub(super) static UDEV_CONFIG: Struct = record("v1alpha1.UdevConfig", &[&[omit("rules", TEXTS)]]);

pub(super) static LOGGING_CONFIG: Struct =
    record("v1alpha1.LoggingConfig", &[&[keep("destinations", many!(LOGGING_DESTINATION))]]);

pub(super) static LOGGING_DESTINATION: Struct = record(
    "v1alpha1.LoggingDestination",
    &[&[keep("endpoint", ptr(&ENDPOINT)), keep("format", TEXT), omit("extraTags", TEXT_MAP)]],
);

pub(super) static KERNEL_CONFIG: Struct =
    record("v1alpha1.KernelConfig", &[&[omit("modules", refs!(KERNEL_MODULE_CONFIG))]]);

pub(super) static KERNEL_MODULE_CONFIG: Struct =
    record("v1alpha1.KernelModuleConfig", &[&[keep("name", TEXT), omit("parameters", TEXTS)]]);

pub(super) static MACHINE_SECCOMP_PROFILE: Struct =
    record("v1alpha1.MachineSeccompProfile", &[&[keep("name", TEXT), keep("value", ANY)]]);
