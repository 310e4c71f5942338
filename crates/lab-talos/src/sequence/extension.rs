//! Services of the extensions in an image, and their requirements.

use super::super::hardware::Hardware;
use super::super::service::ServiceState;
use super::super::talos_state::Node;
use crate::image::TalosImage;

/// Service of the QEMU guest agent.
pub(super) const AGENT: &str = "ext-qemu-guest-agent";

/// Names of extensions, each with its services.
const SERVICES: [(&str, &[&str]); 5] = [
    ("qemu-guest-agent", &[AGENT]),
    ("tailscale", &["ext-tailscale"]),
    ("iscsi-tools", &["ext-iscsid", "ext-tgtd"]),
    ("nvidia-container-toolkit", &["ext-nvidia-persistenced"]),
    ("cloudflared", &["ext-cloudflared"]),
];

/// Extensions whose services wait until the config contains an `ExtensionServiceConfig`.
const CONFIGURED: [&str; 2] = ["tailscale", "cloudflared"];
const NVIDIA: &str = "10de";

pub(super) fn has(image: &TalosImage, name: &str) -> bool {
    names(image).any(|own| own == name || own.starts_with(&format!("{name}-")))
}

/// Names of the extensions, without the part before the slash.
fn names(image: &TalosImage) -> impl Iterator<Item = &str> {
    let all = image.schematic.customization.official_extensions.iter();
    all.map(|name| name.rsplit('/').next().unwrap_or(name))
}

/// Services of the extensions in an image. Each has the state that it will reach, and a message.
pub(super) fn services(
    image: &TalosImage,
    hardware: &Hardware,
    configured: &[String],
) -> Vec<(String, ServiceState, String)> {
    let mut all = vec![];
    for (extension, services) in SERVICES {
        if !has(image, extension) {
            continue;
        }
        for service in services {
            let name = service.trim_start_matches("ext-");
            let (state, message) = if CONFIGURED.contains(&extension)
                && !configured.iter().any(|known| known == name)
            {
                (ServiceState::Waiting, format!("Waiting for extension service config \"{name}\""))
            } else if extension.starts_with("nvidia") && !has_nvidia(hardware) {
                (
                    ServiceState::Waiting,
                    "Waiting for file \"/sys/bus/pci/drivers/nvidia\" to exist".to_owned(),
                )
            } else {
                (ServiceState::Running, "Started task".to_owned())
            };
            all.push(((*service).to_owned(), state, message));
        }
    }
    all
}

/// State that an extension service of a node will reach, and a message.
pub(super) fn outcome(node: &Node, service: &str) -> Option<(ServiceState, String)> {
    let configured = node.config.as_ref().map(|config| &config.facts.configured_extensions[..]);
    let all = services(&node.image, &node.hardware, configured.unwrap_or_default());
    all.into_iter().find(|(name, ..)| name == service).map(|(_, state, message)| (state, message))
}

/// Kernel modules of the config that cannot be loaded, each with the reason.
pub(super) fn failing_modules(
    image: &TalosImage,
    hardware: &Hardware,
    modules: &[String],
) -> Vec<(String, String)> {
    let is_there =
        has(image, "nvidia-open-gpu-kernel-modules") || has(image, "nonfree-kmod-nvidia");
    let nvidia = modules.iter().filter(|module| module.starts_with("nvidia"));
    nvidia
        .filter_map(|module| {
            let reason = if !is_there {
                "module not found"
            } else if has_nvidia(hardware) {
                return None;
            } else {
                "no such device"
            };
            Some((module.clone(), reason.to_owned()))
        })
        .collect()
}

fn has_nvidia(hardware: &Hardware) -> bool {
    hardware.pci.iter().any(|device| device.vendor.trim_start_matches("0x") == NVIDIA)
}
