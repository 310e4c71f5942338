//! Validation of the section `machine` of the v1alpha1 document.

use super::{Mode, Report, View, cluster, devices, labels, multi, runtime_spec};
use crate::format::address::{parse_addr, parse_prefix};
use crate::format::url::Url;
use crate::schema::Release;

const KUBESPAN_MIN_MTU: i128 = 1280;
const KUBESPAN_DEFAULT_MTU: i128 = 1420;

/// Fields of the kubelet configuration that Talos sets itself.
const PROTECTED_KUBELET_FIELDS: &[&str] = &[
    "apiVersion",
    "authentication",
    "authorization",
    "cgroupRoot",
    "kind",
    "kubeletCgroups",
    "port",
    "protectKernelDefaults",
    "resolvConf",
    "rotateCertificates",
    "systemCgroups",
    "staticPodPath",
    "seccompDefault",
];

/// Type of a machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MachineType {
    Init,
    ControlPlane,
    Worker,
    Unknown,
}

impl MachineType {
    fn of(word: &str) -> Self {
        match word {
            "init" => Self::Init,
            "controlplane" => Self::ControlPlane,
            "worker" | "join" | "" => Self::Worker,
            _ => Self::Unknown,
        }
    }

    fn is_control_plane(self) -> bool {
        matches!(self, Self::Init | Self::ControlPlane)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::ControlPlane => "controlplane",
            Self::Worker => "worker",
            Self::Unknown => "unknown",
        }
    }
}

pub(super) fn validate(config: View<'_>, mode: Mode, release: Release, report: &mut Report) {
    let machine = config.get("machine");
    let cluster = config.get("cluster");
    if !machine.is_set() {
        report.error("machine instructions are required");
        return;
    }
    let kind = MachineType::of(machine.get("type").text());
    cluster::validate(cluster, kind.is_control_plane(), report);
    if mode.requires_install() {
        install(machine, mode, report);
    }
    let dns = machine.at(&["features", "hostDNS"]);
    host_dns(dns, mode, release, report);
    let word = machine.get("type").text();
    if kind != MachineType::Unknown && kind.name() != word {
        report.warn(format!("use {:?} instead of {word:?} for machine type", kind.name()));
    }
    let ca = machine.get("ca");
    let accepted = machine.get("acceptedCAs").items().count();
    report.check(
        ca.is_set() || accepted > 0,
        "issuing CA or some accepted CAs are required (.machine.ca, machine.acceptedCAs)",
    );
    match kind {
        MachineType::Init | MachineType::ControlPlane => {
            cluster::validate_cni(cluster.at(&["network", "cni"]), release, report);
            if !ca.is_set() {
                report.error("issuing CA is required (.machine.ca)");
            } else if ca.get("key").text().is_empty() {
                report.error("issuing CA key is required for controlplane nodes (.machine.ca.key)");
            }
        }
        MachineType::Worker => worker(machine, cluster, accepted, report),
        MachineType::Unknown => report.error(format!("unknown machine type {word:?}")),
    }
    let network = machine.get("network");
    if network.is_set() {
        devices::validate(network, report);
        let kubespan = network.get("kubespan");
        let mtu = match kubespan.get("mtu").int() {
            0 => KUBESPAN_DEFAULT_MTU,
            mtu => mtu,
        };
        if kubespan.get("enabled").is_true() && mtu < KUBESPAN_MIN_MTU {
            report.error(format!("kubespan link MTU must be at least {KUBESPAN_MIN_MTU}"));
        }
    }
    disks(machine, report);
    kubelet(machine.get("kubelet"), report);
    system_disk_encryption(machine.get("systemDiskEncryption"), report);
    if network.at(&["kubespan", "enabled"]).is_true() {
        kubespan(network.get("kubespan"), cluster, report);
    }
    logging(machine.get("logging"), report);
    extensions(machine.get("install"), release, report);
    node_metadata(machine, report);
    api_access(machine, kind, release, report);
    let sorting = machine.at(&["features", "nodeAddressSortAlgorithm"]).text();
    if !sorting.is_empty() && !matches!(sorting.to_lowercase().as_str(), "v1" | "v2") {
        report.error(format!(
            "invalid node address sort algorithm: {sorting} does not belong to AddressSortAlgorithm values"
        ));
    }
    let persist = config.get("persist");
    report.check(!persist.is_set() || persist.is_true(), ".persist should be enabled");
    runtime_spec::validate(machine.get("baseRuntimeSpecOverrides"), report);
    for (key, label) in [("config", "config"), ("mirrors", "mirrors")] {
        for (host, value) in machine.at(&["registries", key]).entries() {
            if !value.is_set() {
                report.error(format!("registries.{label}[{host:?}] is null"));
            }
        }
    }
}

fn install(machine: View<'_>, mode: Mode, report: &mut Report) {
    let install = machine.get("install");
    if !install.is_set() {
        report.error(format!("install instructions are required in {:?} mode", mode.name()));
        return;
    }
    let selector = install.get("diskSelector");
    let mut selects = selector.is_set();
    let kind = selector.get("type").text();
    if !selector.get("name").text().is_empty() {
        report.error("install disk selector is invalid: selector on name is not supported");
        selects = false;
    } else if !matches!(kind, "" | "nvme" | "sd" | "hdd" | "ssd") {
        report.error(format!("install disk selector is invalid: unsupported disk type {kind:?}"));
        selects = false;
    }
    report.check(
        selects || !install.get("disk").text().is_empty(),
        "either install disk or diskSelector should be defined",
    );
    let from_uki = install.get("grubUseUKICmdline").is_true();
    report.check(
        install.get("extraKernelArgs").is_empty() || !from_uki,
        "install.extraKernelArgs and install.grubUseUKICmdline can't be used together",
    );
}

fn host_dns(dns: View<'_>, mode: Mode, release: Release, report: &mut Report) {
    let enabled = dns.get("enabled").is_true();
    let forwards = dns.get("forwardKubeDNSToHost").is_true();
    if mode == Mode::Container {
        report.check(
            enabled,
            "feature HostDNS should be enabled in container mode (.machine.features.hostDNS.enabled)",
        );
        report.check(
            forwards,
            "feature HostDNS should forward kube-dns to host in container mode (.machine.features.hostDNS.forwardKubeDNSToHost)",
        );
    }
    if release >= Release::V1_13 {
        report.check(
            !forwards || enabled,
            "feature hostDNS.forwardKubeDNSToHost requires hostDNS.enabled to be true (.machine.features.hostDNS)",
        );
    }
}

fn worker(machine: View<'_>, cluster: View<'_>, accepted: usize, report: &mut Report) {
    let shared = "virtual (shared) IP is not allowed on non-controlplane nodes";
    for device in machine.at(&["network", "interfaces"]).items() {
        report.check(!device.get("vip").is_set(), shared);
        for vlan in device.get("vlans").items() {
            report.check(!vlan.get("vip").is_set(), shared);
        }
    }
    let ca = machine.get("ca");
    if ca.is_set() {
        report.check(
            ca.get("key").text().is_empty(),
            "issuing Talos API CA key is not allowed on non-controlplane nodes (.machine.ca)",
        );
        report.check(
            !ca.get("crt").text().is_empty() || accepted > 0,
            "trusted CA certificates are required on non-controlplane nodes (.machine.ca.crt, .machine.acceptedCAs)",
        );
    }
    report.check(
        cluster.at(&["ca", "key"]).text().is_empty(),
        "issuing Kubernetes API CA key is not allowed on non-controlplane nodes (.cluster.ca)",
    );
}

fn disks(machine: View<'_>, report: &mut Report) {
    for (at, disk) in machine.get("disks").items().enumerate() {
        if !disk.is_set() {
            report.error(format!("machine.disks[{at}] is null"));
            continue;
        }
        let partitions: Vec<_> = disk.get("partitions").items().collect();
        for (at, partition) in partitions.iter().enumerate() {
            if !partition.get("size").is_set() && at + 1 != partitions.len() {
                report.error(format!(
                    "partition for disk {:?} is set to occupy full disk, but it's not the last partition in the list",
                    disk.get("device").text()
                ));
            }
        }
    }
}

/// Invalid entries of a list of subnets or addresses. An entry with `!` is an exclusion.
pub(super) fn invalid_subnets<'a>(
    subnets: impl Iterator<Item = &'a str>,
) -> impl Iterator<Item = &'a str> {
    subnets
        .map(|subnet| subnet.strip_prefix('!').unwrap_or(subnet))
        .filter(|subnet| parse_prefix(subnet).is_none() && parse_addr(subnet).is_none())
}

fn kubelet(kubelet: View<'_>, report: &mut Report) {
    let subnets = kubelet.at(&["nodeIP", "validSubnets"]).texts();
    for subnet in invalid_subnets(subnets) {
        report.error(format!("kubelet nodeIP subnet is not valid: {subnet:?}"));
    }
    let extra: Vec<&str> = kubelet.get("extraConfig").entries().map(|(key, _)| key).collect();
    for field in PROTECTED_KUBELET_FIELDS {
        if extra.contains(field) {
            report.error(format!("kubelet configuration field {field:?} can't be overridden"));
        }
    }
}

fn system_disk_encryption(encryption: View<'_>, report: &mut Report) {
    for (label, key) in [("EPHEMERAL", "ephemeral"), ("STATE", "state")] {
        let partition = encryption.get(key);
        if !partition.is_set() {
            continue;
        }
        let keys: Vec<_> = partition.get("keys").items().collect();
        if keys.is_empty() {
            report.error(format!("partition {label:?}: no encryption keys provided"));
        }
        let mut used = vec![];
        for key in keys {
            let slot = key.get("slot").int();
            if used.contains(&slot) {
                report.error(format!(
                    "partition {label:?}: encryption key slot {slot} is already in use"
                ));
            }
            used.push(slot);
            let has_kind =
                ["nodeID", "static", "kms", "tpm"].iter().any(|kind| key.get(kind).is_set());
            if !has_kind {
                report.error(format!(
                    "partition {label:?}: encryption key at slot {slot} doesn't have the configuration parameters"
                ));
            }
        }
    }
}

fn kubespan(kubespan: View<'_>, cluster: View<'_>, report: &mut Report) {
    report.check(
        cluster.at(&["discovery", "enabled"]).is_true(),
        ".cluster.discovery should be enabled when .machine.network.kubespan is enabled",
    );
    report.check(
        !cluster.get("id").text().is_empty(),
        ".cluster.id should be set when .machine.network.kubespan is enabled",
    );
    report.check(
        !cluster.get("secret").text().is_empty(),
        ".cluster.secret should be set when .machine.network.kubespan is enabled",
    );
    for subnet in invalid_subnets(kubespan.at(&["filters", "endpoints"]).texts()) {
        report.error(format!("KubeSpan endpoint filter is not valid: {subnet:?}"));
    }
    let excluded = kubespan.at(&["filters", "excludeAdvertisedNetworks"]);
    for network in excluded.texts() {
        if parse_prefix(network).is_none() {
            report.error(format!(
                "KubeSpan exclude advertised networks filter is not valid: {network:?}"
            ));
        }
    }
}

fn logging(logging: View<'_>, report: &mut Report) {
    for destination in logging.get("destinations").items() {
        let endpoint = destination.get("endpoint");
        match Url::parse(endpoint.text()) {
            Ok(url) if endpoint.is_set() => {
                report.check(!url.host.is_empty(), "empty logging endpoint's host");
                if !matches!(url.scheme.as_str(), "tcp" | "udp") {
                    report.error(format!("unexpected logging endpoint scheme {:?}", url.scheme));
                }
            }
            _ => report.error("empty logging endpoint"),
        }
        let format = destination.get("format").text();
        if format != "json_lines" {
            report.error(format!("unknown logging format {format:?}"));
        }
    }
}

fn extensions(install: View<'_>, release: Release, report: &mut Report) {
    let mut known: Vec<&str> = vec![];
    for extension in install.get("extensions").items() {
        let image = extension.get("image").text();
        if known.contains(&image) {
            report.error(format!("duplicate system extension {image:?}"));
        }
        known.push(image);
    }
    if !known.is_empty() {
        let page = if release < Release::V1_13 {
            "https://www.talos.dev/latest/talos-guides/install/boot-assets/"
        } else {
            "https://docs.siderolabs.com/talos/latest/platform-specific-installations/boot-assets"
        };
        report.warn(format!(".machine.install.extensions is deprecated, please see {page}"));
    }
}

fn node_metadata(machine: View<'_>, report: &mut Report) {
    let mut add = |what: &str, errors: Vec<String>| {
        if !errors.is_empty() {
            report.error(format!("invalid machine node {what}: {}", multi(&errors)));
        }
    };
    add("labels", labels::check_labels(machine.get("nodeLabels")));
    add("annotations", labels::check_annotations(machine.get("nodeAnnotations")));
    add("taints", labels::check_taints(machine.get("nodeTaints")));
}

fn api_access(machine: View<'_>, kind: MachineType, release: Release, report: &mut Report) {
    let access = machine.at(&["features", "kubernetesTalosAPIAccess"]);
    if !access.get("enabled").is_true() {
        return;
    }
    report.check(
        kind.is_control_plane(),
        "feature Kubernetes Talos API Access can only be enabled on control plane machines",
    );
    for role in access.get("allowedRoles").texts() {
        let known = match role {
            "os:admin" | "os:operator" | "os:reader" | "os:etcd:backup" | "os:impersonator" => true,
            "os:image:verifier" | "os:meta:writer" => release >= Release::V1_13,
            _ => false,
        };
        if !known {
            report.error(format!(
                "invalid role {role:?} in allowed roles for Kubernetes Talos API Access"
            ));
        }
    }
}
