//! Problems of configs that Talos does not report.
//!
//! Talos accepts these settings, but they fail or have no effect on the machine. Lints are advice: a config with lints
//! is valid.

use std::net::IpAddr;

use talmox_yaml::Node;

use crate::contract::Contract;
use crate::document::{Config, Document};
use crate::format::address::parse_prefix;
use crate::schema::{any_kind, link_kinds};
use crate::validate::View;

/// Setting that Talos accepts, but that fails or has no effect on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    /// Path of the setting, such as `cluster.network.podSubnets[0]` or `LinkConfig/eth0 routes[1]`.
    pub path: String,
    pub message: String,
}

/// Finds problems that Talos does not report.
pub fn lint(config: &Config) -> Vec<Lint> {
    let mut lints = Lints(vec![]);
    let legacy = config.v1alpha1().map(|document| View::of(&document.body));
    if let Some(legacy) = legacy {
        subnets(legacy, &mut lints);
        cluster_dns(legacy, &mut lints);
        cni(legacy, &mut lints);
        legacy_routes(legacy, &mut lints);
        let name = legacy.at(&["machine", "network", "hostname"]).text();
        host_name(name, "machine.network.hostname", &mut lints);
    }
    for document in config.documents() {
        let view = View::of(&document.body);
        match document.kind() {
            "HostnameConfig" => {
                host_name(view.get("hostname").text(), "HostnameConfig hostname", &mut lints);
            }
            "Layer2VIPConfig" if legacy.is_some_and(is_worker) => lints.add(
                at(document),
                "a worker does not take part in the election of a virtual IP; configure it on control planes only",
            ),
            "RegistryMirrorConfig" => mirror_twice(document, legacy, &mut lints),
            kind if link_kinds().contains(&kind) => {
                routes(document, &mut lints);
                link_twice(document, legacy, &mut lints);
            }
            _ => {}
        }
    }
    lints.0
}

/// Finds documents that nodes of a Talos version do not support. Such a node rejects the whole config, and its message
/// says only that the kind is unknown.
pub fn lint_kinds(text: &str, talos: Contract) -> Vec<Lint> {
    let mut lints = Lints(vec![]);
    for document in talmox_yaml::read_nodes(text).unwrap_or_default() {
        let get = |key| document.as_map().and_then(|map| map.get(key)).and_then(Node::as_str);
        let Some(kind) = get("kind").and_then(any_kind) else { continue };
        // A deletion is not a document. Every release accepts a deletion.
        if get("$patch") == Some("delete") {
            continue;
        }
        let needed = kind.since.contract();
        if needed > talos {
            let name = get("name").filter(|_| kind.is_named());
            let path =
                name.map_or_else(|| kind.name.into(), |name| format!("{}/{name}", kind.name));
            let message = format!(
                "{} exists since Talos {needed}; Talos {talos} rejects the config",
                kind.name
            );
            lints.add(path, message);
        }
    }
    lints.0
}

struct Lints(Vec<Lint>);

impl Lints {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Lint { path: path.into(), message: message.into() });
    }
}

fn at(document: &Document) -> String {
    match document.name() {
        Some(name) => format!("{}/{name}", document.kind()),
        None => document.kind().to_owned(),
    }
}

fn is_worker(legacy: View<'_>) -> bool {
    let kind = legacy.at(&["machine", "type"]).text();
    matches!(kind, "worker" | "join" | "")
}

fn subnets(legacy: View<'_>, lints: &mut Lints) {
    for key in ["podSubnets", "serviceSubnets"] {
        let subnets = legacy.at(&["cluster", "network", key]);
        for (index, subnet) in subnets.texts().enumerate() {
            if parse_prefix(subnet).is_none() {
                lints.add(
                    format!("cluster.network.{key}[{index}]"),
                    format!("{subnet:?} is not a subnet: write an address and a prefix length, such as 10.244.0.0/16"),
                );
            }
        }
    }
}

fn cluster_dns(legacy: View<'_>, lints: &mut Lints) {
    let servers = legacy.at(&["machine", "kubelet", "clusterDNS"]);
    for (index, server) in servers.texts().enumerate() {
        if server.parse::<IpAddr>().is_err() {
            lints.add(
                format!("machine.kubelet.clusterDNS[{index}]"),
                format!("{server:?} is not an IP address; the kubelet does not start with it"),
            );
        }
    }
}

fn cni(legacy: View<'_>, lints: &mut Lints) {
    let cni = legacy.at(&["cluster", "network", "cni"]);
    if cni.get("name").text() == "custom" && cni.get("urls").is_empty() {
        lints.add(
            "cluster.network.cni.urls",
            "a custom CNI without URLs installs nothing; use \"none\" if another tool installs the CNI",
        );
    }
}

/// Reports a host name that Kubernetes rejects as the name of a node.
fn host_name(name: &str, path: &str, lints: &mut Lints) {
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(is_edge)
            && label.ends_with(is_edge)
            && label.chars().all(|c| is_edge(c) || c == '-')
    };
    let lower = name.to_ascii_lowercase();
    if !name.is_empty() && !lower.split('.').all(is_label) {
        lints.add(
            path,
            format!(
                "{name:?} is not a host name: labels consist of letters, digits and inner hyphens"
            ),
        );
    }
}

const NO_GATEWAY: &str =
    "a route without a gateway reaches only the link itself; add a gateway if one is missing";

fn legacy_routes(legacy: View<'_>, lints: &mut Lints) {
    let interfaces = legacy.at(&["machine", "network", "interfaces"]);
    for (index, interface) in interfaces.items().enumerate() {
        let path = format!("machine.network.interfaces[{index}]");
        routes_of(interface, &path, lints);
        for (vlan_index, vlan) in interface.get("vlans").items().enumerate() {
            routes_of(vlan, &format!("{path}.vlans[{vlan_index}]"), lints);
        }
    }
}

fn routes_of(link: View<'_>, path: &str, lints: &mut Lints) {
    for (index, route) in link.get("routes").items().enumerate() {
        if route.get("gateway").text().is_empty() {
            lints.add(format!("{path}.routes[{index}]"), NO_GATEWAY);
        }
    }
}

fn routes(document: &Document, lints: &mut Lints) {
    let routes = View::of(&document.body).get("routes");
    for (index, route) in routes.items().enumerate() {
        if route.get("gateway").text().is_empty() {
            lints.add(format!("{} routes[{index}]", at(document)), NO_GATEWAY);
        }
    }
}

/// Reports a link that is configured both in a document and in `machine.network.interfaces`, because Talos combines the
/// addresses and routes of both.
fn link_twice(document: &Document, legacy: Option<View<'_>>, lints: &mut Lints) {
    let (Some(name), Some(legacy)) = (document.name(), legacy) else {
        return;
    };
    let mut interfaces = legacy.at(&["machine", "network", "interfaces"]).items();
    if interfaces.any(|interface| interface.get("interface").text() == name) {
        lints.add(
            at(document),
            format!("{name} is also configured in machine.network.interfaces; use one of the two"),
        );
        return;
    }
    // Only the machine can determine which link a selector matches.
    let mut interfaces = legacy.at(&["machine", "network", "interfaces"]).items();
    if interfaces.any(|interface| interface.get("interface").text().is_empty()) {
        lints.add(
            at(document),
            format!(
                "machine.network.interfaces selects a link by its properties; if it selects {name}, the link \
                 is configured twice"
            ),
        );
    }
}

fn mirror_twice(document: &Document, legacy: Option<View<'_>>, lints: &mut Lints) {
    let (Some(host), Some(legacy)) = (document.name(), legacy) else {
        return;
    };
    let mut mirrors = legacy.at(&["machine", "registries", "mirrors"]).entries();
    if mirrors.any(|(other, _)| other == host) {
        lints.add(
            at(document),
            format!("{host} also has a mirror in machine.registries, which Talos ignores"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Release;

    fn paths(text: &str) -> Vec<String> {
        let config = Config::parse(text, Release::default()).expect("a config");
        lint(&config).into_iter().map(|lint| lint.path).collect()
    }

    #[test]
    fn problems_that_talos_accepts_are_reported() {
        let text = "\
machine:
    type: worker
    kubelet:
        clusterDNS: [garbage, 10.96.0.10]
    network:
        hostname: -bad-
        interfaces:
            - interface: eth0
              routes:
                - network: 10.0.0.0/8
    registries:
        mirrors:
            ghcr.io: {endpoints: [https://a]}
cluster:
    network:
        cni: {name: custom}
        podSubnets: [10.244.0.0]
        serviceSubnets: [10.96.0.0/12]
---
apiVersion: v1alpha1
kind: Layer2VIPConfig
name: 10.0.0.20
link: eth0
---
apiVersion: v1alpha1
kind: LinkConfig
name: eth0
routes:
    - destination: 10.1.0.0/16
---
apiVersion: v1alpha1
kind: RegistryMirrorConfig
name: ghcr.io
---
apiVersion: v1alpha1
kind: HostnameConfig
hostname: a_b
";
        assert_eq!(
            paths(text),
            [
                "cluster.network.podSubnets[0]",
                "machine.kubelet.clusterDNS[0]",
                "cluster.network.cni.urls",
                "machine.network.interfaces[0].routes[0]",
                "machine.network.hostname",
                "Layer2VIPConfig/10.0.0.20",
                "LinkConfig/eth0 routes[0]",
                "LinkConfig/eth0",
                "RegistryMirrorConfig/ghcr.io",
                "HostnameConfig hostname",
            ]
        );
    }

    #[test]
    fn kinds_of_newer_talos_versions_are_reported() {
        let text = "\
machine: {type: worker}
---
apiVersion: v1alpha1
kind: UserVolumeConfig
name: data
---
apiVersion: v1alpha1
kind: HostnameConfig
auto: stable
---
apiVersion: v1alpha1
kind: ResolverConfig
$patch: delete
";
        let paths = |minor| -> Vec<String> {
            let lints = lint_kinds(text, Contract::new(1, minor));
            lints.into_iter().map(|lint| lint.path).collect()
        };
        assert_eq!(paths(8), ["UserVolumeConfig/data", "HostnameConfig"]);
        assert_eq!(paths(11), ["HostnameConfig"]);
        assert!(paths(12).is_empty());
    }

    #[test]
    fn correct_configs_have_no_lints() {
        let text = "\
machine:
    type: controlplane
    network:
        interfaces:
            - interface: eth0
              routes:
                - network: 0.0.0.0/0
                  gateway: 10.0.0.1
---
apiVersion: v1alpha1
kind: Layer2VIPConfig
name: 10.0.0.20
link: eth0
---
apiVersion: v1alpha1
kind: HostnameConfig
hostname: talos-cp-01.example.org
";
        assert!(paths(text).is_empty());
    }
}
