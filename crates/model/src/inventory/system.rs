//! What runs on a node.

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
        /// How it gets its address and config at first boot.
        boot: Setting<Boot>,
        /// What its system disk starts from.
        image: Image,
        /// The disk that Talos is installed to. Default: the system disk, by its id.
        install_disk: Setting<String>,
        /// NVIDIA's driver line: adds the extensions and the kernel modules.
        nvidia: Setting<NvidiaDriver>,
        /// Prepare for Longhorn: extensions, kernel modules and the volume's mount.
        longhorn: Setting<bool>,
        /// Kernel modules to load.
        kernel_modules: List<String>,
        /// Kernel settings.
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
        /// Mirrors by the registry that they stand in for, such as `ghcr.io`.
        mirrors: Table<Mirror>,
        /// Credentials by registry.
        auth: Table<RegistryAuth>,
    }
}

mapping! {
    /// A mirror of a registry.
    called "a mirror"
    pub struct Mirror {
        /// Where to look, in order.
        endpoints: List<HttpUrl>,
        /// The endpoint's path is the whole path, nothing is added to it.
        override_path: Setting<bool>,
        /// Do not ask the registry itself when no mirror has the image.
        skip_fallback: Setting<bool>,
    }
}

mapping! {
    /// Credentials for a registry.
    called "registry credentials"
    pub struct RegistryAuth {
        /// The user.
        username: Setting<String>,
        /// The password or token.
        password: Setting<SecretRef>,
    }
}

mapping! {
    /// What Kubernetes knows about a node.
    called "a machine"
    pub struct KubernetesNode {
        /// Labels.
        labels ["node_labels"]: Table<Setting<String>, LabelKey>,
        /// Annotations.
        annotations ["node_annotations"]: Table<Setting<String>, AnnotationKey>,
        /// Taints, as kubectl writes them: `gpu=true:NoSchedule`.
        taints ["node_taints"]: List<Taint>,
        /// The kubelet.
        kubelet: Kubelet,
    }
}

mapping! {
    /// The kubelet.
    called "`kubelet`"
    pub struct Kubelet {
        /// Further arguments, without the dashes.
        extra_args: Table<Setting<String>, KubeletArgument>,
        /// Further mounts.
        extra_mounts: List<Mount>,
    }
}

mapping! {
    /// A mount.
    called "a mount"
    pub struct Mount {
        /// Where it is seen.
        destination: Setting<String>,
        /// What is mounted. Default: the same path.
        source: Setting<String>,
        /// The kind of mount. Default: `bind`.
        kind ["type"]: Setting<String>,
        /// Options. Default: `bind`, `rshared`, `rw`.
        options: List<String>,
    }
}
