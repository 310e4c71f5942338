//! Operating system and Kubernetes settings of a node.

use super::{CloudInit, Image};
use crate::language::{Chain, List, Setting, Table, mapping};
use crate::value::{
    AnnotationKey, Boot, HttpUrl, KubeletArgument, LabelKey, NvidiaDriver, Os, Patch, SecretRef,
    Sysctl, Taint,
};

mapping! {
    /// The operating system of a node.
    called "a machine"
    pub struct System {
        /// Talos, or Ubuntu with cloud-init.
        os: Setting<Os>,
        /// How the node gets its address and config at first boot.
        boot: Setting<Boot>,
        /// Image of the system disk.
        image: Image,
        /// The disk that Talos is installed to. Default: the system disk, by its id.
        install_disk: Setting<String>,
        /// Driver branch of NVIDIA: adds the extensions and the kernel modules.
        nvidia: Setting<NvidiaDriver>,
        /// Prepare for Longhorn: extensions, kernel modules and the volume's mount.
        longhorn: Setting<bool>,
        /// Kernel modules that are loaded at boot.
        kernel_modules: List<String>,
        /// Kernel parameters (sysctl).
        sysctls: Table<Setting<String>, Sysctl>,
        /// Container registries.
        registries: Registries,
        /// Patches of the machine config: files or inline; appended to those of weaker layers.
        patches: Chain<Patch>,
        /// cloud-init, for nodes that run Ubuntu.
        cloud_init: CloudInit,
    }
}

mapping! {
    /// Container registries.
    called "`registries`"
    pub struct Registries {
        /// Mirrors by registry, such as `ghcr.io`.
        mirrors: Table<Mirror>,
        /// Credentials by registry.
        auth: Table<RegistryAuth>,
    }
}

mapping! {
    /// A mirror of a registry.
    called "a mirror"
    pub struct Mirror {
        /// URLs of the mirror, in the order in which they are tried.
        endpoints: List<HttpUrl>,
        /// Use the path of the endpoint as it is, without adding `/v2`.
        override_path: Setting<bool>,
        /// Do not use the registry itself when no mirror has the image.
        skip_fallback: Setting<bool>,
    }
}

mapping! {
    /// Credentials for a registry.
    called "registry credentials"
    pub struct RegistryAuth {
        /// User name.
        username: Setting<String>,
        /// The password or token.
        password: Setting<SecretRef>,
    }
}

mapping! {
    /// Settings of the Kubernetes node.
    called "a machine"
    pub struct KubernetesNode {
        /// Labels of the node.
        labels ["node_labels"]: Table<Setting<String>, LabelKey>,
        /// Annotations of the node.
        annotations ["node_annotations"]: Table<Setting<String>, AnnotationKey>,
        /// Taints, as kubectl writes them: `gpu=true:NoSchedule`.
        taints ["node_taints"]: List<Taint>,
        /// Settings of the kubelet.
        kubelet: Kubelet,
    }
}

mapping! {
    /// Settings of the kubelet.
    called "`kubelet`"
    pub struct Kubelet {
        /// Further arguments of the kubelet, without the leading dashes.
        extra_args: Table<Setting<String>, KubeletArgument>,
        /// Further mounts of the kubelet.
        extra_mounts: List<Mount>,
    }
}

mapping! {
    /// A mount of the kubelet.
    called "a mount"
    pub struct Mount {
        /// Path inside of the kubelet's container.
        destination: Setting<String>,
        /// Path on the node. Default: the same path.
        source: Setting<String>,
        /// Type of the mount. Default: `bind`.
        kind ["type"]: Setting<String>,
        /// Mount options. Default: `bind`, `rshared`, `rw`.
        options: List<String>,
    }
}
