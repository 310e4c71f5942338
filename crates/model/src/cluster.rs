//! Clusters with all settings resolved.

use std::collections::HashMap;
use std::mem;
use std::net::IpAddr;

use crate::diagnostic::{Code, Diagnostic, Findings, Severity};
use crate::inventory::{Addon, Gpu, InventoryFile, NodeEntry, Settings};
use crate::language::{Explained, Mapping, Setting, Slot, Spanned, closest, take_items};
use crate::release::Release;
use crate::source::{Sources, Span};
use crate::value::{Boot, Cidr, Cni, HttpUrl, KubernetesVersion, NodeName, Os, Patch, Role};

/// Loaded clusters, with the findings about them.
#[derive(Debug)]
pub struct Inventory {
    pub sources: Sources,
    /// Findings, in the order of the files.
    pub diagnostics: Vec<Diagnostic>,
    /// Number of findings that were dropped because there are too many findings.
    pub unlisted: usize,
    pub clusters: Vec<Cluster>,
}

impl Inventory {
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

/// Cluster with its merged settings and its nodes. The settings come from the built-in settings, defaults.yaml and
/// cluster.yaml.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub name: String,
    /// Built-in settings, defaults.yaml and cluster.yaml, merged. The lists of nodes in it are empty, because `nodes`
    /// contains the nodes.
    pub file: InventoryFile,
    /// Nodes of the cluster: first the control planes, then the workers, each in the order of the files.
    pub nodes: Vec<Node>,
    /// Number of control planes in the files, including control planes without a usable name.
    pub(crate) listed_controlplanes: usize,
    /// Position for findings about settings that are missing in the whole cluster.
    pub(crate) place: Option<Span>,
    /// Whether a file of the cluster could not be read at all. If so, the settings of this cluster are not checked
    /// against other clusters.
    pub(crate) is_unreadable: bool,
}

/// Node with the settings of all layers.
#[derive(Clone, Debug)]
pub struct Node {
    pub name: Spanned<NodeName>,
    pub role: Role,
    pub entry: NodeEntry,
    /// Whether the inventory has a valid name for the node. If not, `name` is a placeholder, and the inventory has an error.
    pub(crate) is_named: bool,
}

impl Node {
    pub fn settings(&self) -> &Settings {
        &self.entry.settings
    }

    pub fn is_talos(&self) -> bool {
        *self.settings().system.os.required() == Os::Talos
    }

    /// Address of the node, without the prefix length.
    pub fn address(&self) -> Option<IpAddr> {
        self.entry.ip.get().map(|ip| ip.address)
    }

    /// Address at which talmox contacts the node: with `boot: dhcp` the address of the lease, otherwise the address of
    /// the node.
    pub fn contact(&self) -> Option<IpAddr> {
        let lease = self.entry.dhcp.get().copied();
        let is_leased = *self.settings().system.boot.required() == Boot::Dhcp;
        if is_leased { lease.or_else(|| self.address()) } else { self.address().or(lease) }
    }

    /// Prefix length of the node's network: the prefix length of the node's address, or of the subnet.
    pub fn prefix_len(&self, cluster: &Cluster) -> Option<u8> {
        let own = self.entry.ip.get().and_then(|ip| ip.prefix_len);
        own.or_else(|| cluster.file.network.subnet.get().map(|subnet| subnet.prefix_len()))
    }

    /// Whether a PCI device is passed through to the node.
    pub fn has_gpu(&self) -> bool {
        let gpu = &self.settings().hardware.gpu;
        gpu.pci.is_given() || gpu.mapping.is_given()
    }
}

impl Cluster {
    /// Merges the layers, lowest precedence first, and then the settings of each node.
    pub(crate) fn resolve(
        default_name: String,
        layers: Vec<InventoryFile>,
        findings: &mut Findings,
    ) -> Self {
        let place = layers.last().and_then(|own| own.span);
        let builtin = layers.first().cloned().unwrap_or_default();
        let builtin_settings = layer_settings(&builtin);
        let mut file = InventoryFile::default();
        let mut base = Settings::default();
        for layer in layers {
            Mapping::overlay(&mut base, layer_settings(&layer));
            Mapping::overlay(&mut file, layer);
        }
        Mapping::apply_builtin(&mut file, &builtin);
        suit_network_addon(&mut file);
        let mut controlplane = base.clone();
        Mapping::overlay(&mut controlplane, role_settings(&file, Role::ControlPlane));
        let mut worker = base;
        Mapping::overlay(&mut worker, role_settings(&file, Role::Worker));

        // The nodes are moved out of the lists, so that the nodes of a large inventory are in memory only once.
        let lists = [
            (Role::ControlPlane, &controlplane, take_items(&mut file.controlplane)),
            (Role::Worker, &worker, take_items(&mut file.workers)),
        ];
        let listed_controlplanes = lists[0].2.len();
        let mut nodes = Vec::with_capacity(lists.iter().map(|(.., items)| items.len()).sum());
        let classes = Classes { by_name: file.classes.index(), file: &file };
        for (role, base, items) in lists {
            for item in items {
                let number = nodes.len() + 1;
                let mut node = resolve_node(item, number, role, base, &classes, findings);
                Mapping::apply_builtin(&mut node.entry.settings, &builtin_settings);
                nodes.push(node);
            }
        }
        let name = file.cluster_name.get().map_or(default_name, ToString::to_string);
        Self { name, file, nodes, listed_controlplanes, place, is_unreadable: false }
    }

    /// Whether all files of the cluster could be read.
    pub fn is_readable(&self) -> bool {
        !self.is_unreadable
    }

    pub fn controlplanes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.role == Role::ControlPlane)
    }

    pub fn workers(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.role == Role::Worker)
    }

    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.is_named && node.name.value.as_str() == name)
    }

    /// Name of a node that is similar to the given name, if there is one.
    pub fn closest_node(&self, name: &str) -> Option<&str> {
        let named = self.nodes.iter().filter(|node| node.is_named);
        closest(name, named.map(|node| node.name.value.as_str()))
    }

    /// Kubernetes version: the version in the inventory, or the default version of the Talos release.
    pub fn kubernetes_version(&self) -> Option<KubernetesVersion> {
        let given = self.file.kubernetes_version.get().cloned();
        given.or_else(|| {
            let release = Release::of(self.file.talos_version.get()?)?;
            Some(release.default_kubernetes())
        })
    }

    /// URL of the Kubernetes API: the endpoint in the inventory, the VIP, or the first control plane.
    pub fn endpoint(&self) -> Option<HttpUrl> {
        if let Some(url) = self.file.endpoint.get() {
            return Some(url.clone());
        }
        let vip = self.file.network.vip.get().copied();
        let address = vip.or_else(|| self.controlplanes().next()?.contact())?;
        Some(HttpUrl {
            https: true,
            host: address.to_string(),
            port: Some(6443),
            path: String::new(),
        })
    }

    pub fn pod_cidrs(&self) -> Vec<Spanned<Cidr>> {
        self.file.network.pod_cidr.get().map(|cidrs| cidrs.0.clone()).unwrap_or_default()
    }

    pub fn service_cidrs(&self) -> Vec<Spanned<Cidr>> {
        self.file.network.svc_cidr.get().map(|cidrs| cidrs.0.clone()).unwrap_or_default()
    }

    /// All settings of a node, each with the position of its value.
    pub fn explain(&self, node: &Node) -> Vec<Explained> {
        let mut rows = vec![];
        if node.has_gpu() {
            Mapping::explain(&node.entry, "", &mut rows);
        } else {
            // If no device is passed through, the settings of the device have no effect and are omitted.
            let mut entry = node.entry.clone();
            entry.settings.hardware.gpu = Gpu::default();
            Mapping::explain(&entry, "", &mut rows);
        }
        let later = [
            ("vmid", node.entry.vmid.is_absent(), "(assigned by the plan)"),
            ("mac", node.entry.mac.is_absent(), "(derived from the cluster's id and the name)"),
        ];
        for (path, is_open, value) in later {
            rows.extend(is_open.then(|| derived(path, Some(value))).flatten());
        }
        self.file.talos_version.explain("talos_version", &mut rows);
        match &self.file.kubernetes_version {
            Setting::Given(_) => {
                self.file.kubernetes_version.explain("kubernetes_version", &mut rows);
            }
            _ => rows.extend(derived("kubernetes_version", self.kubernetes_version())),
        }
        match &self.file.endpoint {
            Setting::Given(_) => self.file.endpoint.explain("endpoint", &mut rows),
            _ => rows.extend(derived("endpoint", self.endpoint())),
        }
        self.file.cert_sans.explain("cert_sans", &mut rows);
        self.file.proxmox.image_datastore.explain("proxmox.image_datastore", &mut rows);
        let first = rows.len();
        Mapping::explain(&self.file.network, "network", &mut rows);
        // These settings were already added as settings of the node.
        let is_doubled =
            |path: &str| matches!(path, "network.vlan" | "network.mtu" | "network.gateway");
        let network = rows.split_off(first);
        rows.extend(network.into_iter().filter(|row| !is_doubled(&row.path)));
        rows
    }

    /// All patches of a node, in the order in which they are applied.
    pub fn patches<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Spanned<Patch>> {
        node.settings().system.patches.iter()
    }
}

fn derived(path: &str, value: Option<impl ToString>) -> Option<Explained> {
    Some(Explained { path: path.to_owned(), value: value?.to_string(), span: None })
}

/// Sets `network.cni` and `network.kube_proxy` for a built-in add-on that installs the pod network and replaces kube-proxy.
/// Values of the inventory are kept, and a check compares them with the add-on. The new values have the position of the
/// add-on, so that `check --explain` shows it as their origin.
fn suit_network_addon(file: &mut InventoryFile) {
    let is_network = |addon: &Addon| addon.builtin_addon().is_some_and(|known| known.is_network);
    let addon = file.addons.iter().find(|addon| is_network(&addon.value));
    let Some(span) = addon.and_then(|addon| addon.value.builtin.span()) else { return };
    let network = &mut file.network;
    if network.cni.span().is_some_and(Span::is_builtin) {
        network.cni = Setting::Given(Spanned { value: Cni::None, span });
    }
    if network.kube_proxy.span().is_some_and(Span::is_builtin) {
        network.kube_proxy = Setting::Given(Spanned { value: false, span });
    }
}

/// Settings of one file for every node. `machine` takes precedence over keys of the cluster that set the same value.
fn layer_settings(file: &InventoryFile) -> Settings {
    let mut settings = Settings::default();
    settings.system.boot = file.boot.clone();
    settings.system.image = file.image.clone();
    settings.placement.host = file.proxmox.node.clone();
    settings.placement.datastore = file.proxmox.datastore.clone();
    settings.placement.bridge = file.proxmox.bridge.clone();
    settings.placement.pool = file.proxmox.pool.clone();
    settings.placement.vlan = file.network.vlan.clone();
    settings.placement.mtu = file.network.mtu.clone();
    settings.placement.gateway = file.network.gateway.clone();
    settings.system.patches = file.patches.all.clone();
    Mapping::overlay(&mut settings, file.machine.clone());
    settings
}

fn role_settings(file: &InventoryFile, role: Role) -> Settings {
    let (patches, settings) = match role {
        Role::ControlPlane => (&file.patches.controlplane, &file.roles.controlplane),
        Role::Worker => (&file.patches.workers, &file.roles.workers),
    };
    let mut by_role = Settings::default();
    by_role.system.patches = patches.clone();
    Mapping::overlay(&mut by_role, settings.clone());
    by_role
}

/// Classes of a cluster, indexed by name.
struct Classes<'a> {
    by_name: HashMap<&'a str, &'a Settings>,
    file: &'a InventoryFile,
}

fn resolve_node(
    item: Spanned<NodeEntry>,
    number: usize,
    role: Role,
    base: &Settings,
    classes: &Classes<'_>,
    findings: &mut Findings,
) -> Node {
    let mut entry = item.value;
    let own = mem::replace(&mut entry.settings, base.clone());
    for class in entry.class.get().into_iter().flat_map(|classes| &classes.0) {
        match classes.by_name.get(class.value.as_str()) {
            Some(class) => Mapping::overlay(&mut entry.settings, (*class).clone()),
            None if classes.file.classes.is_bad() => {}
            None => findings.push(unknown_class(class.value.as_str(), class.span, classes.file)),
        }
    }
    Mapping::overlay(&mut entry.settings, own);
    if entry.name.is_absent() {
        let diagnostic = Diagnostic::error(Code::Missing, "the node has no name");
        findings.push(diagnostic.at(item.span).hint("add `name: …`"));
    }
    let is_named = entry.name.is_given();
    let name = entry.name.spanned().cloned().unwrap_or_else(|| Spanned {
        value: NodeName::placeholder(number),
        span: entry.name.span().unwrap_or(item.span),
    });
    Node { name, role, entry, is_named }
}

fn unknown_class(name: &str, span: Span, file: &InventoryFile) -> Diagnostic {
    let diagnostic =
        Diagnostic::error(Code::UnknownClass, format!("the class `{name}` is not defined"))
            .at(span);
    match closest(name, file.classes.names()) {
        Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
        None if file.classes.is_empty() => diagnostic.hint("define it under `classes:`"),
        None => {
            let known: Vec<&str> = file.classes.names().collect();
            diagnostic.hint(format!("known classes: {}", known.join(", ")))
        }
    }
}
