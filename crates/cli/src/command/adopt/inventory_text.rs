//! Text of the inventory of an adopted cluster.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::running_node::RunningNode;
use super::vm_settings::{FoundVm, quoted};

/// A node that the inventory describes.
#[derive(Clone, Debug)]
pub(super) struct AdoptedNode {
    pub(super) node: RunningNode,
    pub(super) vm: FoundVm,
    /// Keys of the node that describe its VM.
    pub(super) settings: Vec<(&'static str, String)>,
    /// UUID of the VM, if talmox would derive another one.
    pub(super) uuid: Option<String>,
    /// Whether the inventory names the image by its schematic instead of its extensions.
    pub(super) is_by_schematic: bool,
    /// Patches of the machine config of the node.
    pub(super) patches: Vec<String>,
}

/// Settings of the whole cluster.
#[derive(Clone, Debug)]
pub(super) struct ClusterFacts {
    pub(super) name: String,
    pub(super) talos_version: String,
    /// URL of the Proxmox API, and the keys for the verification of its certificate.
    pub(super) proxmox: Vec<(&'static str, String)>,
    /// Values of the machine config of a control plane, by path.
    pub(super) values: BTreeMap<String, String>,
}

impl ClusterFacts {
    fn value(&self, path: &str) -> Option<&str> {
        self.values.get(path).map(String::as_str)
    }

    /// First value whose path ends with `end`.
    fn ending(&self, end: &str) -> Option<&str> {
        self.values.iter().find(|(path, _)| path.ends_with(end)).map(|(_, value)| value.as_str())
    }

    /// Values of the list at this path.
    fn list(&self, path: &str) -> Vec<&str> {
        let item = |index: usize| self.value(&format!("{path}[{index}]"));
        (0..).map_while(item).collect()
    }

    fn kubernetes_version(&self) -> Option<&str> {
        self.value("machine.kubelet.image")?.rsplit_once(':').map(|(_, version)| version)
    }

    /// Shared address of the control planes (VIP).
    fn vip(&self) -> Option<IpAddr> {
        let old = self.ending(".vip.ip").and_then(|address| address.parse().ok());
        let name = |path: &String| {
            let rest = path.strip_prefix("Layer2VIPConfig/")?;
            let mut ends = rest.match_indices('.').map(|(at, _)| &rest[..at]);
            ends.find_map(|name| name.parse().ok())
        };
        old.or_else(|| self.values.keys().find_map(name))
    }

    fn nameservers(&self) -> Vec<&str> {
        let old = self.list("machine.network.nameservers");
        if !old.is_empty() {
            return old;
        }
        let item =
            |index: usize| self.value(&format!("ResolverConfig.nameservers[{index}].address"));
        (0..).map_while(item).collect()
    }

    fn network(&self) -> Vec<(&'static str, String)> {
        let mut keys = vec![];
        keys.extend(self.ending(".gateway").map(|gateway| ("gateway", quoted(gateway))));
        let nameservers = self.nameservers();
        if !nameservers.is_empty() {
            keys.push(("nameservers", list_of(&nameservers)));
        }
        keys.extend(self.vip().map(|vip| ("vip", vip.to_string())));
        for (key, path) in [
            ("pod_cidr", "cluster.network.podSubnets"),
            ("svc_cidr", "cluster.network.serviceSubnets"),
        ] {
            let networks = self.list(path);
            if !networks.is_empty() {
                keys.push((key, list_of(&networks)));
            }
        }
        let domain = self.value("cluster.network.dnsDomain");
        keys.extend(domain.map(|domain| ("dns_domain", quoted(domain))));
        if self.value("cluster.network.cni.name") == Some("none") {
            keys.push(("cni", "none".to_owned()));
        }
        if self.value("cluster.proxy.disabled") == Some("true") {
            keys.push(("kube_proxy", "false".to_owned()));
        }
        if self.values.keys().any(|path| path.starts_with("LinkConfig/")) {
            keys.push(("form", "documents".to_owned()));
        }
        keys
    }
}

impl AdoptedNode {
    /// Address of the node, with the prefix length if the config sets it. The VIP is never returned, because it is shared
    /// by several nodes.
    fn address(&self, vip: Option<IpAddr>) -> Option<(IpAddr, Option<String>)> {
        let values = self.node.values();
        let fixed = |address: &IpAddr| {
            let start = format!("{address}/");
            let is_address = |path: &str| path.contains("addresses");
            let mut all = values.iter().filter(|(path, _)| is_address(path));
            all.find_map(|(_, value)| value.strip_prefix(&start).map(str::to_owned))
        };
        let own: Vec<IpAddr> =
            self.node.addresses.iter().copied().filter(|address| Some(*address) != vip).collect();
        let with_prefix = own.iter().find_map(|address| Some((*address, Some(fixed(address)?))));
        with_prefix.or_else(|| own.first().map(|address| (*address, None)))
    }

    /// Keys and values of the node's entry in the inventory, without the patches.
    fn keys(&self, vip: Option<IpAddr>) -> Vec<(&'static str, String)> {
        let mut keys = vec![("name", quoted(&self.node.name))];
        match self.address(vip) {
            Some((address, Some(length))) => {
                keys.push(("ip", quoted(&format!("{address}/{length}"))));
            }
            Some((address, None)) => {
                keys.push(("boot", "dhcp".to_owned()));
                keys.push(("dhcp", quoted(&address.to_string())));
            }
            None => keys.push(("boot", "dhcp".to_owned())),
        }
        keys.extend(self.uuid.as_ref().map(|uuid| ("uuid", quoted(uuid))));
        keys.extend(self.settings.iter().cloned());
        match &self.node.schematic {
            Some(schematic) if self.is_by_schematic => {
                keys.push(("image", format!("{{schematic: {}}}", quoted(schematic))));
            }
            _ if self.node.extensions.is_empty() => {}
            _ => {
                let names = self.node.extensions.iter().map(|name| format!("siderolabs/{name}"));
                let names: Vec<String> = names.collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                keys.push(("image", format!("{{extensions: {}}}", list_of(&names))));
            }
        }
        keys
    }
}

/// List on one line. Each item has quotes, because a text from a node could otherwise be parsed as another YAML value.
fn list_of(items: &[&str]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
    format!("[{}]", items.join(", "))
}

/// Text of `cluster.yaml`.
pub(super) fn inventory(facts: &ClusterFacts, nodes: &[AdoptedNode]) -> String {
    let mut text = format!(
        "cluster_name: {}\ntalos_version: {}\n",
        quoted(&facts.name),
        quoted(&facts.talos_version)
    );
    let kubernetes = facts.kubernetes_version();
    text.extend(kubernetes.map(|version| format!("kubernetes_version: {}\n", quoted(version))));
    let endpoint = facts.value("cluster.controlPlane.endpoint");
    text.extend(endpoint.map(|endpoint| format!("endpoint: {}\n", quoted(endpoint))));
    text.push_str(&section("network", &facts.network()));
    text.push_str(&section("proxmox", &facts.proxmox));
    let (planes, workers): (Vec<&AdoptedNode>, Vec<&AdoptedNode>) =
        nodes.iter().partition(|adopted| adopted.node.is_control_plane());
    let roles = [("controlplane", planes), ("workers", workers)];
    let shared: Vec<(&str, &[String])> =
        roles.iter().filter_map(|(role, nodes)| Some((*role, shared_patches(nodes)?))).collect();
    if !shared.is_empty() {
        text.push_str("\npatches:\n");
        for (role, patches) in &shared {
            text.push_str(&format!("  {role}:\n{}", blocks(patches, 4)));
        }
    }
    for (role, nodes) in &roles {
        if nodes.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{role}:\n"));
        for adopted in nodes {
            for (index, (key, value)) in adopted.keys(facts.vip()).iter().enumerate() {
                let start = if index == 0 { "  - " } else { "    " };
                text.push_str(&format!("{start}{key}: {value}\n"));
            }
            if shared_patches(nodes).is_none() && !adopted.patches.is_empty() {
                text.push_str(&format!("    patches:\n{}", blocks(&adopted.patches, 6)));
            }
        }
    }
    text
}

/// Patches of a role, if the role has several nodes and all of them have the same patches.
fn shared_patches<'a>(nodes: &[&'a AdoptedNode]) -> Option<&'a [String]> {
    let first = nodes.first()?;
    let is_shared = nodes.len() > 1 && nodes.iter().all(|node| node.patches == first.patches);
    (is_shared && !first.patches.is_empty()).then_some(first.patches.as_slice())
}

fn section(name: &str, keys: &[(&str, String)]) -> String {
    if keys.is_empty() {
        return String::new();
    }
    let lines = keys.iter().map(|(key, value)| format!("  {key}: {value}\n"));
    format!("\n{name}:\n{}", lines.collect::<String>())
}

/// Patches as YAML block scalars, which keep the text of a patch unchanged.
fn blocks(patches: &[String], indent: usize) -> String {
    let (dash, inner) = (" ".repeat(indent), " ".repeat(indent + 4));
    let block = |patch: &String| {
        let lines = patch.lines().map(|line| match line {
            "" => "\n".to_owned(),
            line => format!("{inner}{line}\n"),
        });
        format!("{dash}- |\n{}", lines.collect::<String>())
    };
    patches.iter().map(block).collect()
}
