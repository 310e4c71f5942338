//! A whole cluster, as it should be.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use talmox_model::value::{Boot, Cni, Role, VipBy};
use talmox_model::{Node, Span};
use talmox_pve::config::VmConfig;
use talmox_pve::id::{NodeName, PoolId, StorageId, VmId};
use talmox_talos_api::Expected;
use talmox_talos_config::network::{FirstLink, FirstNetwork, MacAddress, Prefix};
use talmox_talos_config::pki::Certificate;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::{Config, Release};
use talmox_yaml::Node as Yaml;

use super::boot_image::BootImage;
use super::identity::NodeIdentity;
use super::machine_config::Renderer;
use super::vm::VmSpec;
use super::{DeriveError, Inputs, SmbiosUuid, network};
use crate::ownership::{ClusterMark, Identity};
use crate::plan::{AddonSource, Contact, Manifest};

/// As whom we speak to Proxmox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Such as `talmox@pve`.
    pub user: String,
    /// The name of a token of theirs, if that is used.
    pub token: Option<String>,
}

impl Login {
    /// Whether raw PCI devices may be passed on: only root with a password may, not even by a token.
    pub fn is_root(&self) -> bool {
        self.user == "root@pam" && self.token.is_none()
    }

    /// As Proxmox names who began a task.
    pub fn id(&self) -> String {
        match &self.token {
            Some(token) => format!("{}!{token}", self.user),
            None => self.user.clone(),
        }
    }
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub task: Duration,
    pub image: Duration,
    pub boot: Duration,
    pub bootstrap: Duration,
    pub health: Duration,
}

/// An add-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addon {
    pub name: String,
    pub source: AddonSource,
}

/// A cluster.
#[derive(Clone, Debug)]
pub struct Desired {
    pub cluster: String,
    pub mark: ClusterMark,
    cluster_id: SecretText,
    /// Control planes first.
    pub nodes: Vec<DesiredNode>,
    pub talos_version: Option<String>,
    pub kubernetes_version: Option<String>,
    /// Where the Kubernetes API is found.
    pub endpoint: Option<String>,
    /// An address that control planes share.
    pub vip: Option<IpAddr>,
    /// Whether Talos moves it between them. Otherwise somebody else has to.
    pub is_vip_by_talos: bool,
    /// Whether Talos brings a network for pods.
    pub has_cni: bool,
    /// Whether control planes take all pods because there are no workers, and not because somebody says so.
    pub derives_scheduling: bool,
    pub addons: Vec<Addon>,
    pub timeouts: Timeouts,
    /// The vmids for nodes without one, both ends included.
    pub vmid_range: (u32, u32),
    /// Hosts for nodes that name none.
    pub hosts: Vec<NodeName>,
    pub image_storage: StorageId,
    pub login: Login,
    /// The certificate of the authority that the Kubernetes API is known by, in DER form.
    pub kubernetes_authority: Option<Vec<u8>>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct DesiredNode {
    pub name: String,
    pub is_control_plane: bool,
    pub is_talos: bool,
    pub identity: NodeIdentity,
    pub vmid: Option<VmId>,
    pub host: Option<NodeName>,
    pub pool: Option<PoolId>,
    pub boot: Boot,
    /// What its disk is made from, clones apart.
    pub image: Option<BootImage>,
    /// The schematic that its Talos is made of.
    pub schematic: Option<String>,
    /// The template that is cloned, by name or vmid.
    pub template: Option<String>,
    /// What such a template is made from.
    pub template_image: Option<BootImage>,
    pub vm: VmSpec,
    /// The machine config, or user-data.
    pub config: SecretText,
    /// The network before there is a config, where a volume tells it.
    pub first_network: Option<FirstNetwork>,
    pub contact: Contact,
    pub has_gateway: bool,
    /// What it must have in the end; empty where DHCP decides.
    pub addresses: Vec<IpAddr>,
}

impl DesiredNode {
    /// What a first boot from a volume is called: a new one for each VM that is made.
    pub fn instance_id(&self) -> String {
        self.identity.uuid.to_string()
    }

    /// The node as its VM was created, where that was with a cloud-init drive and `boot:` says otherwise by now.
    pub(crate) fn as_created(&self, config: &VmConfig) -> Cow<'_, Self> {
        match self.vm.with_kept_drive(config) {
            Some(vm) => Cow::Owned(Self { vm, ..self.clone() }),
            None => Cow::Borrowed(self),
        }
    }

    /// What the node's machine must say of itself. A volume of ours names it; what a drive of Proxmox's calls it only
    /// Proxmox knows.
    pub fn machine(&self) -> Expected {
        Expected {
            uuid: Some(self.identity.uuid.to_string()),
            macs: self.identity.macs.iter().map(|mac| mac.to_string().to_lowercase()).collect(),
            instance_id: self.vm.cidata.is_some().then(|| self.instance_id()),
        }
    }
}

impl Desired {
    /// Derives a cluster. `manifests` are the texts of its add-ons by the place that names them.
    pub fn of(
        inputs: &Inputs<'_>,
        manifests: &BTreeMap<Span, Vec<Manifest>>,
        login: Login,
    ) -> Result<Self, DeriveError> {
        let cluster = inputs.cluster;
        let file = &cluster.file;
        let renderer = Renderer::new(inputs)?;
        let nodes = cluster.nodes.iter();
        let nodes =
            nodes.map(|node| derive(inputs, &renderer, node).map_err(|error| error.of(node)));
        let nodes: Vec<DesiredNode> = nodes.collect::<Result<_, _>>()?;
        let timeouts = &file.timeouts;
        let range = file.proxmox.vmid_range.get();
        let hosts = file.proxmox.hosts.values().map(|host| host.as_str().parse());
        let is_talos = nodes.iter().any(|node| node.is_talos);
        // Patches have the last word.
        let mut planes = nodes.iter().filter(|node| node.is_control_plane && node.is_talos);
        let version = file.talos_version.get().map(ToString::to_string).unwrap_or_default();
        let by_config = planes.next().and_then(|node| brings_network(&node.config, &version));
        let has_cni = by_config.unwrap_or(*file.network.cni.required() != Cni::None);
        Ok(Self {
            cluster: cluster.name.clone(),
            mark: ClusterMark::of(&inputs.bundle.cluster.id),
            cluster_id: SecretText::new(inputs.bundle.cluster.id.clone()),
            nodes,
            talos_version: file.talos_version.get().map(ToString::to_string),
            kubernetes_version: cluster.kubernetes_version().map(|version| version.to_string()),
            // Where nothing of ours serves it, only what somebody wrote down is to be believed.
            endpoint: cluster
                .endpoint()
                .filter(|_| is_talos || file.endpoint.get().is_some())
                .map(|url| url.to_string()),
            vip: file.network.vip.get().copied().filter(|_| is_talos),
            is_vip_by_talos: *file.network.vip_by.required() == VipBy::Talos,
            derives_scheduling: file.allow_scheduling_on_controlplanes.get().is_none(),
            has_cni,
            addons: file.addons.values().map(|addon| derive_addon(addon, manifests)).collect(),
            timeouts: Timeouts {
                task: timeouts.task.required().get(),
                image: timeouts.image.required().get(),
                boot: timeouts.boot.required().get(),
                bootstrap: timeouts.bootstrap.required().get(),
                health: timeouts.health.required().get(),
            },
            vmid_range: range.map_or((100, 999_999_999), |range| (range.first, range.last)),
            hosts: hosts.collect::<Result<_, _>>()?,
            image_storage: file.proxmox.image_datastore.required().as_str().parse()?,
            login,
            kubernetes_authority: Certificate::from_pem(&inputs.bundle.certs.k8s.crt)
                .ok()
                .map(|authority| authority.as_der().to_vec()),
        })
    }

    pub fn node(&self, name: &str) -> Option<&DesiredNode> {
        self.nodes.iter().find(|node| node.name == name)
    }

    pub fn control_planes(&self) -> impl Iterator<Item = &DesiredNode> {
        self.nodes.iter().filter(|node| node.is_control_plane && node.is_talos)
    }

    /// What the VM of a node of this name is recognised by, whether or not the inventory still has
    /// such a node.
    pub fn identity_of(&self, node: &str) -> Identity {
        Identity {
            cluster: self.mark.clone(),
            node: node.to_owned(),
            uuid: SmbiosUuid::of(self.cluster_id.expose(), node),
        }
    }
}

fn derive(
    inputs: &Inputs<'_>,
    renderer: &Renderer<'_>,
    node: &Node,
) -> Result<DesiredNode, DeriveError> {
    let cluster = inputs.cluster;
    let rendered = renderer.node(node)?;
    let settings = node.settings();
    let placement = &settings.placement;
    let boot = *settings.system.boot.required();
    let is_talos = node.is_talos();
    let is_clone = is_talos && boot == Boot::Template;
    let vm = VmSpec::of(cluster, node, &rendered.identity, &rendered.config)?;
    let boot_image = BootImage::of(cluster, node, rendered.image.as_ref())?;
    let (image, template_image) =
        if is_clone { (None, Some(boot_image)) } else { (Some(boot_image), None) };
    let first_network = match vm.cidata {
        Some(_) => {
            let mut first = network::first_network(cluster, node, &rendered.identity)?;
            if !is_talos {
                first.links.extend(further_links(node, &rendered.identity));
            }
            Some(first)
        }
        None => None,
    };
    let template = placement.template.get().filter(|_| is_clone).cloned();
    let parse = |text: &str| text.parse();
    Ok(DesiredNode {
        name: node.name.value.to_string(),
        is_control_plane: node.role == Role::ControlPlane,
        is_talos,
        vmid: node.entry.vmid.get().map(|vmid| VmId::new(vmid.get())).transpose()?,
        host: placement.host.get().map(|host| parse(host.as_str())).transpose()?,
        pool: placement.pool.get().map(|pool| pool.as_str().parse()).transpose()?,
        boot,
        image,
        schematic: rendered.image.map(|image| image.id),
        template,
        template_image,
        vm,
        config: rendered.config,
        first_network,
        contact: node.contact().map_or(Contact::AskAgent, Contact::At),
        has_gateway: placement.gateway.is_given(),
        addresses: if boot == Boot::Dhcp { vec![] } else { addresses(node) },
        identity: rendered.identity,
    })
}

/// Whether Talos brings a network for pods by this config of a control plane, if it can be read.
fn brings_network(config: &SecretText, talos_version: &str) -> Option<bool> {
    let release = Release::of(talos_version).unwrap_or_default();
    let config = Config::parse(config.expose(), release).ok()?;
    let name = config.v1alpha1()?.get(&["cluster", "network", "cni", "name"]);
    let is_named = name.and_then(Yaml::as_str) != Some("none");
    Some(is_named || config.documents().any(|one| one.kind() == "KubeFlannelCNIConfig"))
}

/// The static addresses of all network cards.
fn addresses(node: &Node) -> Vec<IpAddr> {
    let further = node.settings().hardware.nics.values();
    let further = further.filter_map(|nic| nic.ip.get().map(|ip| ip.address));
    node.address().into_iter().chain(further).collect()
}

/// Systems other than Talos learn about all their cards from the volume.
fn further_links(node: &Node, identity: &NodeIdentity) -> Vec<FirstLink> {
    let nics = node.settings().hardware.nics.values().enumerate();
    nics.filter_map(|(index, nic)| {
        let ip = nic.ip.get().copied()?;
        let mac = identity.macs.get(index + 1)?;
        Some(FirstLink {
            name: format!("eth{}", index + 1),
            mac: Some(MacAddress(mac.0)),
            addresses: Prefix::new(ip.address, network::prefix_or_whole(ip)).into_iter().collect(),
            gateways: vec![],
            mtu: nic.mtu.get().map(|mtu| mtu.get()),
            vlan: None,
        })
    })
    .collect()
}

fn derive_addon(
    addon: &talmox_model::inventory::Addon,
    manifests: &BTreeMap<Span, Vec<Manifest>>,
) -> Addon {
    let source = if let Some(url) = addon.url.get() {
        let checksum = addon.checksum.get().map(talmox_model::value::Checksum::hex);
        AddonSource::Url { url: url.to_string(), checksum }
    } else {
        let texts = addon.files.iter().filter_map(|file| manifests.get(&file.span));
        AddonSource::Texts(texts.flatten().cloned().collect())
    };
    let name = addon.name.get().cloned().unwrap_or_else(|| "unnamed".to_owned());
    Addon { name, source }
}
