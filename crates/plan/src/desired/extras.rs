//! Settings that `nvidia:` and `longhorn:` imply: extensions, kernel modules, sysctls, mounts.

use talmox_model::Node;
use talmox_model::value::NvidiaDriver;
use talmox_talos_config::contract::Contract;

/// Extensions that these settings add to the extensions of the inventory.
pub(super) fn extensions(node: &Node) -> Vec<String> {
    let mut names = vec![];
    if let Some(driver) = node.settings().system.nvidia.get() {
        let line = match driver {
            NvidiaDriver::Production => "production",
            NvidiaDriver::Lts => "lts",
        };
        names.push(format!("siderolabs/nvidia-open-gpu-kernel-modules-{line}"));
        names.push(format!("siderolabs/nvidia-container-toolkit-{line}"));
    }
    if *node.settings().system.longhorn.required() {
        names.extend(["siderolabs/iscsi-tools", "siderolabs/util-linux-tools"].map(str::to_owned));
    }
    names
}

/// Kernel modules to load, without duplicates: first those that the settings imply, then those of the inventory.
pub(super) fn kernel_modules(node: &Node) -> Vec<String> {
    let system = &node.settings().system;
    let mut modules: Vec<String> = vec![];
    let mut add = |name: &str| {
        if !modules.iter().any(|known| known == name) {
            modules.push(name.to_owned());
        }
    };
    if *system.longhorn.required() {
        ["nbd", "iscsi_tcp", "iscsi_generic", "configfs"].into_iter().for_each(&mut add);
    }
    if system.nvidia.is_given() {
        ["nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset"].into_iter().for_each(&mut add);
    }
    system.kernel_modules.values().for_each(|name| add(name));
    modules
}

/// The sysctls that the settings imply.
pub(super) fn sysctls(node: &Node, contract: Contract) -> Vec<(&'static str, &'static str)> {
    // From Talos 1.13 on, the NVIDIA toolkit uses CDI and does not need this sysctl.
    let needs_jit = node.settings().system.nvidia.is_given() && contract < Contract::new(1, 13);
    if needs_jit { vec![("net.core.bpf_jit_harden", "1")] } else { vec![] }
}

/// The folder of Longhorn that the kubelet must mount. None without Longhorn. Also none if Longhorn uses a user volume,
/// because Talos mounts user volumes itself.
pub(super) fn longhorn_mount(node: &Node) -> Option<&'static str> {
    let settings = node.settings();
    let has_volume = settings
        .hardware
        .disks
        .values()
        .any(|disk| disk.volume.get().is_some_and(|volume| volume.as_str() == "longhorn"));
    (*settings.system.longhorn.required() && !has_volume).then_some("/var/lib/longhorn")
}
