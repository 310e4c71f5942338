//! Clusters with every setting resolved.

use std::collections::HashMap;
use std::mem;
use std::net::IpAddr;

use crate::diagnostic::{Code, Diagnostic, Findings, Severity};
use crate::inventory::{Gpu, InventoryFile, NodeEntry, Settings};
use crate::language::{Explained, Mapping, Setting, Slot, Spanned, closest, take_items};
use crate::release::Release;
use crate::source::{Sources, Span};
use crate::value::{Boot, Cidr, HttpUrl, KubernetesVersion, NodeName, Os, Patch, Role};

/// What was loaded, and what is wrong with it.
#[derive(Debug)]
pub struct Inventory {
    pub sources: Sources,
    /// In the order of the files.
    pub diagnostics: Vec<Diagnostic>,
    /// How many more findings there are than are kept.
    pub unlisted: usize,
    pub clusters: Vec<Cluster>,
}

impl Inventory {
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

/// A cluster: the settings of all layers below its nodes, and the nodes.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub name: String,
    /// Built-in settings, defaults.yaml and cluster.yaml laid over each other. Its lists of nodes
    /// are empty: see `nodes`.
    pub file: InventoryFile,
    /// Control planes first, each role in the order of the files.
    pub nodes: Vec<Node>,
    /// How many control planes the files list, those without a usable name included.
    pub(crate) listed_controlplanes: usize,
    /// Where to point at for what the cluster as a whole lacks.
    pub(crate) place: Option<Span>,
    /// A file of it could not be read at all: what the rest says is no use.
    pub(crate) is_torn: bool,
}

/// A node with the settings of all layers.
#[derive(Clone, Debug)]
pub struct Node {
    pub name: Spanned<NodeName>,
    pub role: Role,
    pub entry: NodeEntry,
    /// False if the name is missing or bad, and `name` only stands in for it. That is an error:
    /// whoever acts on an inventory without errors sees no such node.
    pub(crate) is_named: bool,
}

impl Node {
    pub fn settings(&self) -> &Settings {
        &self.entry.settings
    }

    pub fn is_talos(&self) -> bool {
        *self.settings().system.os.required() == Os::Talos
    }

    /// Its address, without the prefix length.
    pub fn address(&self) -> Option<IpAddr> {
        self.entry.ip.get().map(|ip| ip.address)
    }

    /// Where it is reached: its lease with `boot: dhcp`, else its address.
    pub fn contact(&self) -> Option<IpAddr> {
        let lease = self.entry.dhcp.get().copied();
        let is_leased = *self.settings().system.boot.required() == Boot::Dhcp;
        if is_leased { lease.or_else(|| self.address()) } else { self.address().or(lease) }
    }

    /// The prefix length of its network: its own, or that of the subnet it is in.
    pub fn prefix_len(&self, cluster: &Cluster) -> Option<u8> {
        let own = self.entry.ip.get().and_then(|ip| ip.prefix_len);
        own.or_else(|| cluster.file.network.subnet.get().map(|subnet| subnet.prefix_len()))
    }

    /// True if a PCI device is passed through.
    pub fn has_gpu(&self) -> bool {
        let gpu = &self.settings().hardware.gpu;
        gpu.pci.is_given() || gpu.mapping.is_given()
    }
}

impl Cluster {
    /// Lays the layers over each other, weakest first, and the nodes' own on top.
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
        Mapping::settle(&mut file, &builtin);
        let mut controlplane = base.clone();
        Mapping::overlay(&mut controlplane, role_settings(&file, Role::ControlPlane));
        let mut worker = base;
        Mapping::overlay(&mut worker, role_settings(&file, Role::Worker));

        // The nodes leave the lists: a large inventory is held once.
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
                Mapping::settle(&mut node.entry.settings, &builtin_settings);
                nodes.push(node);
            }
        }
        let name = file.cluster_name.get().map_or(default_name, ToString::to_string);
        Self { name, file, nodes, listed_controlplanes, place, is_torn: false }
    }

    /// False if a file of it could not be read at all: what is known of it is no use.
    pub fn is_readable(&self) -> bool {
        !self.is_torn
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

    /// The node whose name is most like the given one.
    pub fn closest_node(&self, name: &str) -> Option<&str> {
        let named = self.nodes.iter().filter(|node| node.is_named);
        closest(name, named.map(|node| node.name.value.as_str()))
    }

    /// The version of Kubernetes: the one given, or the one that the Talos version brings.
    pub fn kubernetes_version(&self) -> Option<KubernetesVersion> {
        let given = self.file.kubernetes_version.get().cloned();
        given.or_else(|| {
            let release = Release::of(self.file.talos_version.get()?)?;
            Some(release.default_kubernetes())
        })
    }

    /// Where clients find the Kubernetes API: as given, the VIP, or the first control plane.
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

    /// Every setting that shapes a node, with the place it came from.
    pub fn explain(&self, node: &Node) -> Vec<Explained> {
        let mut rows = vec![];
        if node.has_gpu() {
            Mapping::explain(&node.entry, "", &mut rows);
        } else {
            // Without a device there is nothing that its settings could be about.
            let mut entry = node.entry.clone();
            entry.settings.hardware.gpu = Gpu::default();
            Mapping::explain(&entry, "", &mut rows);
        }
        let later = [
            ("vmid", node.entry.vmid.is_absent(), "(assigned by the plan)"),
            ("mac", node.entry.mac.is_absent(), "(from the cluster's id and the name)"),
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
        // These are the node's own, above.
        let is_doubled =
            |path: &str| matches!(path, "network.vlan" | "network.mtu" | "network.gateway");
        let network = rows.split_off(first);
        rows.extend(network.into_iter().filter(|row| !is_doubled(&row.path)));
        rows
    }

    /// Every patch that a node gets, in the order of application.
    pub fn patches<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Spanned<Patch>> {
        node.settings().system.patches.iter()
    }
}

fn derived(path: &str, value: Option<impl ToString>) -> Option<Explained> {
    Some(Explained { path: path.to_owned(), value: value?.to_string(), span: None })
}

/// What one file says about every node. `machine` wins over the keys that set the same for the
/// cluster as a whole.
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

/// The classes of a cluster, quick to look up.
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
        let diagnostic = Diagnostic::error(Code::Missing, "a node without a name");
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
        Diagnostic::error(Code::UnknownClass, format!("there is no class `{name}`")).at(span);
    match closest(name, file.classes.names()) {
        Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
        None if file.classes.is_empty() => diagnostic.hint("define it under `classes:`"),
        None => {
            let known: Vec<&str> = file.classes.names().collect();
            diagnostic.hint(format!("known classes: {}", known.join(", ")))
        }
    }
}
