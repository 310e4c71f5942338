//! Resources of the machine: stage, services, extensions, kernel modules and time.

use serde_json::{Value, json};

use super::proto::{Field, Form};
use super::{Item, ResourceContext, ResourceSource};
use crate::service::ServiceState;
use crate::talos_state::Node;

const CONDITION: &[Field] = &[("name", 1, Form::Text), ("reason", 2, Form::Text)];
const STATUS: &[Field] =
    &[("ready", 1, Form::Number), ("unmetConditions", 2, Form::Each(&Form::Message(CONDITION)))];
const STAGES: &[(&str, u64)] = &[
    ("booting", 1),
    ("installing", 2),
    ("maintenance", 3),
    ("running", 4),
    ("rebooting", 5),
    ("shutting down", 6),
    ("resetting", 7),
    ("upgrading", 8),
];
const EXTENSION: &[Field] = &[
    ("name", 1, Form::Text),
    ("version", 2, Form::Text),
    ("author", 3, Form::Text),
    ("description", 4, Form::Text),
];
const PLATFORM: &[Field] =
    &[("platform", 1, Form::Text), ("hostname", 2, Form::Text), ("instanceId", 6, Form::Text)];

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource {
        name: "MachineStatuses.runtime.talos.dev",
        proto: &[("stage", 1, Form::Enum(STAGES)), ("status", 2, Form::Message(STATUS))],
        list: machine_status,
    },
    ResourceSource {
        name: "Versions.runtime.talos.dev",
        proto: &[("version", 1, Form::Text), ("name", 2, Form::Text)],
        list: |context| {
            let version = context.node.version.to_string();
            let spec = if context.node.version.is_at_least(13) {
                json!({ "name": "Talos", "version": version })
            } else {
                json!({ "version": version })
            };
            vec![Item::new("version", spec)]
        },
    },
    ResourceSource {
        name: "DevicesStatuses.runtime.talos.dev",
        proto: &[("ready", 1, Form::Number)],
        list: |_| vec![Item::new("devices", json!({ "ready": true }))],
    },
    ResourceSource {
        name: "ImageCacheConfigs.cri.talos.dev",
        proto: &[],
        // No image of the lab has an image cache.
        list: |_| {
            let spec = json!({ "status": "disabled", "copyStatus": "skipped", "roots": [] });
            vec![Item::new("image-cache", spec)]
        },
    },
    ResourceSource {
        name: "Services.v1alpha1.talos.dev",
        proto: &[
            ("running", 1, Form::Number),
            ("healthy", 2, Form::Number),
            ("unknown", 3, Form::Number),
        ],
        list: services,
    },
    ResourceSource {
        name: "ExtensionStatuses.runtime.talos.dev",
        proto: &[("image", 1, Form::Text), ("metadata", 2, Form::Message(EXTENSION))],
        list: extensions,
    },
    ResourceSource { name: "PlatformMetadatas.talos.dev", proto: PLATFORM, list: platform },
    ResourceSource {
        name: "MetaKeys.runtime.talos.dev",
        proto: &[("value", 1, Form::Text)],
        list: |context| {
            let keys = context.node.meta.iter();
            keys.map(|(key, value)| Item::new(format!("0x{key:02x}"), json!({ "value": value })))
                .collect()
        },
    },
    ResourceSource {
        name: "Diagnostics.runtime.talos.dev",
        proto: &[("message", 1, Form::Text), ("details", 2, Form::Each(&Form::Text))],
        list: diagnostics,
    },
    ResourceSource {
        name: "SecurityStates.talos.dev",
        proto: &[("secureBoot", 1, Form::Number)],
        list: security,
    },
    ResourceSource {
        name: "LoadedKernelModules.runtime.talos.dev",
        proto: &[("state", 4, Form::Text), ("address", 5, Form::Text)],
        list: modules,
    },
    ResourceSource {
        name: "KernelCmdlines.runtime.talos.dev",
        proto: &[("cmdline", 1, Form::Text)],
        list: |context| {
            let line = crate::api::command_line(context.node);
            vec![Item::new("cmdline", json!({ "cmdline": line.trim_end() }))]
        },
    },
    ResourceSource {
        name: "TimeStatuses.v1alpha1.talos.dev",
        proto: &[
            ("synced", 1, Form::Number),
            ("epoch", 2, Form::Number),
            ("syncDisabled", 3, Form::Number),
        ],
        list: time,
    },
];

fn machine_status(context: &ResourceContext<'_>) -> Vec<Item> {
    let node = context.node;
    let unmet = node.unmet.iter().map(|(name, reason)| json!({ "name": name, "reason": reason }));
    let status =
        json!({ "ready": node.is_ready(), "unmetConditions": unmet.collect::<Vec<Value>>() });
    vec![Item::new("machine", json!({ "stage": node.stage.name(), "status": status }))]
}

/// Running services with their health. Services that do not run have no resource.
fn services(context: &ResourceContext<'_>) -> Vec<Item> {
    let running =
        context.node.services.iter().filter(|(_, service)| service.state == ServiceState::Running);
    running
        .map(|(id, service)| {
            let healthy = service.health.as_ref().is_some_and(|health| health.healthy);
            let spec =
                json!({ "running": true, "healthy": healthy, "unknown": service.health.is_none() });
            Item::new(id, spec)
        })
        .collect()
}

/// Extensions of the image. The schematic is listed as an additional extension.
fn extensions(context: &ResourceContext<'_>) -> Vec<Item> {
    let image = &context.node.image;
    let version = context.node.version.to_string();
    let mut names: Vec<(String, String)> = image
        .schematic
        .customization
        .official_extensions
        .iter()
        .map(|name| {
            let short = name.rsplit('/').next().unwrap_or(name);
            (short.to_owned(), version.clone())
        })
        .collect();
    names.push(("schematic".to_owned(), image.schematic_id.clone()));
    let number = |index: usize| index.to_string();
    names
        .into_iter()
        .enumerate()
        .map(|(index, (name, version))| {
            let is_schematic = name == "schematic";
            let author = if is_schematic { "Image Factory" } else { "Sidero Labs" };
            let about =
                if is_schematic { "The schematic that the image was made of.\n" } else { "" };
            let image = if is_schematic {
                String::new()
            } else {
                format!("{index:03}.ghcr.io-siderolabs-{name}-{version}.sqsh")
            };
            let metadata = json!({
                "name": name, "version": version, "author": author, "description": about,
                "compatibility": { "talos": { "version": ">= v1.0.0" } },
            });
            Item::new(number(index), json!({ "image": image, "metadata": metadata }))
        })
        .collect()
}

fn platform(context: &ResourceContext<'_>) -> Vec<Item> {
    let platform = &context.node.platform;
    let mut spec = json!({ "platform": platform.name });
    if let Some(hostname) = &platform.hostname {
        spec["hostname"] = hostname.as_str().into();
    }
    if let Some(id) = &platform.instance_id {
        spec["instanceId"] = id.as_str().into();
    }
    vec![Item::new("platformmetadata", spec)]
}

fn diagnostics(context: &ResourceContext<'_>) -> Vec<Item> {
    let found = problems(context.node).into_iter();
    found
        .map(|details| {
            let message = "host and Kubernetes pod/service CIDR addresses overlap";
            Item::new("address-overlap", json!({ "message": message, "details": [details] }))
        })
        .collect()
}

/// Problems that the node reports about itself.
pub(crate) fn problems(node: &Node) -> Vec<String> {
    let Some(config) = &node.config else { return vec![] };
    let subnets = config.facts.pod_subnets.iter().chain(&config.facts.service_subnets);
    let ranges: Vec<_> = subnets.filter_map(|subnet| crate::config::prefix(subnet)).collect();
    let own = node.network.addresses();
    let inside = own.filter(|address| ranges.iter().any(|range| range.contains(*address)));
    let inside: Vec<String> = inside.map(|address| address.to_string()).collect();
    if inside.is_empty() {
        return vec![];
    }
    vec![format!("addresses of the host among those of pods and services: {}", inside.join(", "))]
}

fn security(context: &ResourceContext<'_>) -> Vec<Item> {
    let mut spec = json!({ "secureBoot": context.node.image.secureboot });
    if context.node.version.is_at_least(10) {
        spec["selinuxState"] = "enabled, permissive".into();
        spec["bootedWithUKI"] = true.into();
    }
    vec![Item::new("securitystate", spec)]
}

/// Loaded kernel modules: the virtio modules, which are always loaded, and the modules of the config whose extension and device
/// exist.
fn modules(context: &ResourceContext<'_>) -> Vec<Item> {
    let always = ["virtio_net", "virtio_blk", "virtio_scsi"].map(str::to_owned);
    let asked = context.node.config.iter().flat_map(|config| config.facts.kernel_modules.iter());
    let loaded = asked.filter(|name| is_loaded(context.node, name)).cloned();
    always
        .into_iter()
        .chain(loaded)
        .map(|name| {
            let spec = json!({
                "size": 16_384, "referenceCount": 0, "state": "Live", "address": "0x0000000000000000",
            });
            Item::new(name, spec)
        })
        .collect()
}

fn is_loaded(node: &Node, module: &str) -> bool {
    let needs_gpu = module.starts_with("nvidia");
    let mut extensions = node.image.schematic.customization.official_extensions.iter();
    let has_driver = !needs_gpu || extensions.any(|name| name.contains("nvidia"));
    let has_device = !needs_gpu || node.hardware.pci.iter().any(|pci| pci.vendor.contains("10de"));
    has_driver && has_device
}

fn time(context: &ResourceContext<'_>) -> Vec<Item> {
    let node = context.node;
    let disabled = node.config.as_ref().is_some_and(|config| config.facts.time_is_disabled);
    let synced = node.is_time_in_sync || disabled;
    let spec = json!({ "synced": synced, "epoch": u8::from(synced), "syncDisabled": disabled });
    vec![Item::new("node", spec)]
}
