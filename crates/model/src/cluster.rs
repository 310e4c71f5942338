//! Clusters with every setting resolved.

use std::mem;
use std::net::IpAddr;

use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::inventory::{InventoryFile, NodeEntry, Settings};
use crate::language::{Explained, Mapping, Setting, Slot, Spanned, closest};
use crate::release::Release;
use crate::source::{Sources, Span};
use crate::value::{Cidr, HttpUrl, KubernetesVersion, NodeName, Os, Patch, Role};

/// What was loaded, and what is wrong with it.
#[derive(Debug)]
pub struct Inventory {
    pub sources: Sources,
    /// In the order of the files.
    pub diagnostics: Vec<Diagnostic>,
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
        diagnostics: &mut Vec<Diagnostic>,
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
            (Role::ControlPlane, &controlplane, mem::take(&mut file.controlplane.items)),
            (Role::Worker, &worker, mem::take(&mut file.workers.items)),
        ];
        let listed_controlplanes = lists[0].2.len();
        let mut nodes = Vec::with_capacity(lists.iter().map(|(.., items)| items.len()).sum());
        for (role, base, items) in lists {
            for item in items {
                if let Some(mut node) = resolve_node(item, role, base, &file, diagnostics) {
                    Mapping::settle(&mut node.entry.settings, &builtin_settings);
                    nodes.push(node);
                }
            }
        }
        let name = file.cluster_name.get().map_or(default_name, ToString::to_string);
        Self { name, file, nodes, listed_controlplanes, place, is_torn: false }
    }

    pub fn controlplanes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.role == Role::ControlPlane)
    }

    pub fn workers(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.role == Role::Worker)
    }

    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name.value.as_str() == name)
    }

    /// The node whose name is most like the given one.
    pub fn closest_node(&self, name: &str) -> Option<&str> {
        closest(name, self.nodes.iter().map(|node| node.name.value.as_str()))
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
        let address = vip.or_else(|| self.controlplanes().next()?.address())?;
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
        Mapping::explain(&node.entry, "", &mut rows);
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
        Mapping::explain(&self.file.network, "network", &mut rows);
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

fn resolve_node(
    item: Spanned<NodeEntry>,
    role: Role,
    base: &Settings,
    file: &InventoryFile,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Node> {
    let mut entry = item.value;
    let own = mem::replace(&mut entry.settings, base.clone());
    for class in entry.class.get().into_iter().flat_map(|classes| &classes.0) {
        match file.classes.get(class.value.as_str()) {
            Some(class) => Mapping::overlay(&mut entry.settings, class.clone()),
            None => diagnostics.push(unknown_class(&class.value.to_string(), class.span, file)),
        }
    }
    Mapping::overlay(&mut entry.settings, own);
    let Some(name) = entry.name.spanned().cloned() else {
        // A name that is there and bad has been reported.
        if entry.name.span().is_none() {
            let diagnostic = Diagnostic::error(Code::Missing, "a node without a name");
            diagnostics.push(diagnostic.at(item.span).hint("add `name: …`"));
        }
        return None;
    };
    Some(Node { name, role, entry })
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
