//! Desired state of a cluster and its nodes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use talmox_model::value::{Boot, Role, VipBy};
use talmox_model::{Node, Span};
use talmox_pve_types::config::VmConfig;
use talmox_pve_types::id::{NodeName, PoolId, StorageId, VmId};
use talmox_talos_config::cidata::network_config;
use talmox_talos_config::machine::Expected;
use talmox_talos_config::network::{FirstLink, FirstNetwork, Prefix};
use talmox_talos_config::pki::Certificate;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::{Config, Release};
use talmox_yaml::Node as Yaml;

use super::addon::{Addon, SourceTexts};
use super::boot_image::BootImage;
use super::contact::Contact;
use super::error::DeriveError;
use super::identity::NodeIdentity;
use super::inputs::Inputs;
use super::login::Login;
use super::machine_config::Renderer;
use super::network;
use super::vm::VmSpec;
use crate::ownership::{Adoption, ClusterMark, Identity, Marker, SmbiosUuid};
use crate::sha256::sha256_hex;

/// Timeouts of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub task: Duration,
    pub image: Duration,
    pub boot: Duration,
    pub bootstrap: Duration,
    pub health: Duration,
}

/// Desired state of a cluster.
#[derive(Clone, Debug)]
pub struct Desired {
    pub cluster: String,
    pub mark: ClusterMark,
    cluster_id: SecretText,
    /// The nodes, control planes first.
    pub nodes: Vec<DesiredNode>,
    pub talos_version: Option<String>,
    pub kubernetes_version: Option<String>,
    /// The endpoint of the Kubernetes API.
    pub endpoint: Option<String>,
    /// The shared address of the control planes.
    pub vip: Option<IpAddr>,
    /// Whether Talos assigns the shared address to a control plane. If not, an add-on must assign it.
    pub is_vip_by_talos: bool,
    /// Whether Talos installs a pod network.
    pub has_cni: bool,
    /// The tool or team that installs the pod network, if it is neither Talos nor an add-on.
    pub cni_managed_by: Option<String>,
    /// Whether the inventory does not set `allow_scheduling_on_controlplanes`. Control planes are then schedulable if there
    /// are no workers.
    pub derives_scheduling: bool,
    pub addons: Vec<Addon>,
    pub timeouts: Timeouts,
    /// The first and the last vmid of the range for nodes without `vmid:` in the inventory.
    pub vmid_range: (u32, u32),
    /// Hosts for nodes without `host:` in the inventory.
    pub hosts: Vec<NodeName>,
    pub image_storage: StorageId,
    pub login: Login,
    /// The certificate of the Kubernetes CA, in DER form.
    pub kubernetes_authority: Option<Vec<u8>>,
}

/// Desired state of a node.
#[derive(Clone, Debug)]
pub struct DesiredNode {
    pub name: String,
    pub is_control_plane: bool,
    pub is_talos: bool,
    pub identity: NodeIdentity,
    pub vmid: Option<VmId>,
    pub host: Option<NodeName>,
    /// The host, if `host:` of the node sets it. None if the host comes from `proxmox.node`, which applies to all nodes.
    pub pinned_host: Option<NodeName>,
    pub pool: Option<PoolId>,
    pub boot: Boot,
    /// The image of the system disk. None if the VM is cloned.
    pub image: Option<BootImage>,
    /// The schematic ID of the image.
    pub schematic: Option<String>,
    /// The name or vmid of the template that is cloned.
    pub template: Option<String>,
    /// The image from which the template is created.
    pub template_image: Option<BootImage>,
    pub vm: VmSpec,
    /// The machine config, or the user-data of a node with another operating system.
    pub config: SecretText,
    /// The network before the config is applied. None if the VM has no cidata volume.
    pub first_network: Option<FirstNetwork>,
    pub contact: Contact,
    pub has_gateway: bool,
    /// The static addresses of the node. Empty with DHCP.
    pub addresses: Vec<IpAddr>,
    /// Differences that the inventory accepts.
    pub ignored: Vec<AcceptedDifference>,
}

/// A difference that the inventory accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedDifference {
    /// The field, as a plan shows it. Fields below this field are accepted as well.
    pub path: String,
    pub reason: String,
}

impl DesiredNode {
    /// The instance id in the cidata volume. It is the UUID of the VM, so each VM has a different one.
    pub fn instance_id(&self) -> String {
        self.identity.uuid.to_string()
    }

    /// Whether the first network settings of the node are on a cidata volume, which a new volume can replace.
    pub(crate) fn renews_volume(&self) -> bool {
        self.is_talos
            && self.vm.cidata.is_some()
            && !self.vm.has_cloudinit
            && self.first_network.is_some()
    }

    /// The node, with a cloud-init drive if its VM has one from an earlier `boot:`. Otherwise the node itself.
    pub(crate) fn as_created(&self, config: &VmConfig) -> Cow<'_, Self> {
        match self.vm.with_kept_drive(config) {
            Some(vm) => Cow::Owned(Self { vm, ..self.clone() }),
            None => Cow::Borrowed(self),
        }
    }

    /// Hash of the user-data and of the first network config of the node. None for Talos. The hash is stored in the marker of
    /// the VM, because an operating system other than Talos does not report its config.
    pub(crate) fn user_data_mark(&self) -> Option<String> {
        let network = self.first_network.as_ref().map(network_config).unwrap_or_default();
        let data = SecretText::new(format!("{}{network}", self.config.expose()));
        (!self.is_talos).then(|| sha256_hex(data.expose().as_bytes())[..12].to_owned())
    }

    /// The identity that the machine must report. It contains the instance id only if talmox creates the cidata volume,
    /// because Proxmox generates the instance id of a cloud-init drive.
    pub fn machine(&self) -> Expected {
        Expected {
            uuid: Some(self.identity.uuid.to_string()),
            macs: self.identity.macs.iter().map(|mac| mac.lower_case()).collect(),
            instance_id: self.vm.cidata.is_some().then(|| self.instance_id()),
        }
    }
}

impl Desired {
    /// Derives the desired state. `manifests` contains the manifests of add-ons, by the position of their path or chart in the
    /// inventory.
    pub fn of(
        inputs: &Inputs<'_>,
        manifests: &BTreeMap<Span, SourceTexts>,
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
        // The rendered config is read instead of the inventory, because patches may change the CNI setting.
        let mut planes = nodes.iter().filter(|node| node.is_control_plane && node.is_talos);
        let version = file.talos_version.get().map(ToString::to_string).unwrap_or_default();
        let by_config = planes.next().and_then(|node| brings_network(&node.config, &version));
        let has_cni = by_config.unwrap_or(file.network.cni.required().is_by_talos());
        Ok(Self {
            cluster: cluster.name.clone(),
            mark: ClusterMark::of(&inputs.bundle.cluster.id),
            cluster_id: SecretText::new(inputs.bundle.cluster.id.clone()),
            nodes,
            talos_version: file.talos_version.get().map(ToString::to_string),
            kubernetes_version: cluster.kubernetes_version().map(|version| version.to_string()),
            // Without Talos nodes, the endpoint is known only if the inventory sets it.
            endpoint: cluster
                .endpoint()
                .filter(|_| is_talos || file.endpoint.get().is_some())
                .map(|url| url.to_string()),
            vip: file.network.vip.get().copied().filter(|_| is_talos),
            is_vip_by_talos: *file.network.vip_by.required() == VipBy::Talos,
            derives_scheduling: file.allow_scheduling_on_controlplanes.get().is_none(),
            has_cni,
            cni_managed_by: file.network.cni.required().managed_by().map(str::to_owned),
            addons: file.addons.values().map(|addon| Addon::of(addon, manifests)).collect(),
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

    /// The UUID that talmox gives to the VM of a node. An adopted VM has another UUID.
    pub(crate) fn derived_uuid(&self, node: &str) -> SmbiosUuid {
        SmbiosUuid::of(self.cluster_id.expose(), node)
    }

    /// The identity of the VM of the node with this name. The inventory need not contain such a node.
    pub fn identity_of(&self, node: &str) -> Identity {
        let recorded = self.node(node).map(|node| node.identity.uuid);
        let derived = || SmbiosUuid::of(self.cluster_id.expose(), node);
        Identity {
            cluster: self.mark.clone(),
            node: node.to_owned(),
            uuid: recorded.unwrap_or_else(derived),
        }
    }

    /// The identity that a VM with this marker must have. The inventory decides for its nodes. An orphan may be an adopted VM,
    /// whose notes prove the UUID.
    pub(crate) fn identity_of_vm(&self, marker: &Marker, config: &VmConfig) -> Identity {
        let identity = self.identity_of(&marker.node);
        if self.node(&marker.node).is_some() {
            return identity;
        }
        match Adoption::proven_uuid(self.cluster_id.expose(), &marker.node, config) {
            Some(uuid) => Identity { uuid, ..identity },
            None => identity,
        }
    }

    /// The record for the notes of a new VM whose UUID is not derived but recorded in the inventory. Without it, the VM would
    /// be a foreign VM as soon as the inventory does not contain the node any more.
    pub(crate) fn adoption_of(&self, node: &DesiredNode) -> Option<Adoption> {
        let (id, uuid) = (self.cluster_id.expose(), node.identity.uuid);
        let is_derived = uuid == SmbiosUuid::of(id, &node.name);
        (!is_derived).then(|| Adoption::of(id, &node.name, &uuid.to_string()))
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
    let host: Option<NodeName> =
        placement.host.get().map(|host| host.as_str().parse()).transpose()?;
    let is_pinned = placement.host.span() != cluster.file.proxmox.node.span();
    Ok(DesiredNode {
        name: node.name.value.to_string(),
        is_control_plane: node.role == Role::ControlPlane,
        is_talos,
        vmid: node.entry.vmid.get().map(|vmid| VmId::new(vmid.get())).transpose()?,
        pinned_host: host.clone().filter(|_| is_pinned),
        host,
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
        ignored: ignored(node),
    })
}

fn ignored(node: &Node) -> Vec<AcceptedDifference> {
    let complete = node.settings().ignore.values().filter_map(|one| {
        let (path, reason) = (one.path.get()?.clone(), one.reason.get()?.clone());
        Some(AcceptedDifference { path, reason })
    });
    complete.collect()
}

/// Whether Talos installs a pod network with this config of a control plane. None if the config cannot be parsed.
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

/// The network cards after the first one. Operating systems other than Talos read the settings of all cards from the cidata
/// volume.
fn further_links(node: &Node, identity: &NodeIdentity) -> Vec<FirstLink> {
    let nics = node.settings().hardware.nics.values().enumerate();
    nics.filter_map(|(index, nic)| {
        let ip = nic.ip.get().copied()?;
        let mac = identity.macs.get(index + 1).copied()?;
        Some(FirstLink {
            name: format!("eth{}", index + 1),
            mac: Some(mac),
            addresses: Prefix::new(ip.address, network::prefix_or_whole(ip)).into_iter().collect(),
            gateways: vec![],
            mtu: nic.mtu.get().map(|mtu| mtu.get()),
            vlan: None,
        })
    })
    .collect()
}
