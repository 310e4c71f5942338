//! Machine configs. Talos generates the base config for a role. The settings of talmox are applied as a patch, then the
//! patches of the inventory in their order.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_model::value::{Cidr, Os, Patch as PatchSource, Role};
use talmox_model::{Cluster, Node, Span, Spanned};
use talmox_talos_config::contract::Contract;
use talmox_talos_config::generate::{self, ClusterIdentity, Input, Options, generate};
use talmox_talos_config::patch::{self, Patch};
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::validate::{Mode, validate_config};
use talmox_talos_config::{Config, Release, lint};
use talmox_values::HttpUrl;
use talmox_yaml::build::{map, text};
use talmox_yaml::{emit, emit_all};

use super::cloud_config;
use super::error::DeriveError;
use super::identity::NodeIdentity;
use super::image::{Image, Platform};
use super::inputs::{Inputs, Phase};

mod own;
mod refusal;

/// Result of rendering a node.
#[derive(Debug)]
pub struct Rendered {
    pub identity: NodeIdentity,
    /// The Talos image of the node. None for operating systems other than Talos.
    pub image: Option<Image>,
    /// The machine config, or the user-data of a node with another operating system.
    pub config: SecretText,
    /// Warnings about settings that Talos accepts but that are probably mistakes.
    pub warnings: Vec<String>,
}

/// Renders the nodes of a cluster. Parts that nodes have in common are rendered once.
#[derive(Debug)]
pub struct Renderer<'a> {
    inputs: &'a Inputs<'a>,
    talos: Option<Talos>,
}

/// Parts of machine configs that Talos nodes have in common.
#[derive(Debug)]
struct Talos {
    contract: Contract,
    controlplane: Config,
    worker: Config,
    /// The patches of the inventory, by their position in the inventory.
    patches: BTreeMap<Span, Patch>,
}

impl<'a> Renderer<'a> {
    pub fn new(inputs: &'a Inputs<'a>) -> Result<Self, DeriveError> {
        let needs_talos = inputs.cluster.nodes.iter().any(Node::is_talos);
        let talos = needs_talos.then(|| Talos::new(inputs)).transpose()?;
        Ok(Self { inputs, talos })
    }

    pub fn node(&self, node: &Node) -> Result<Rendered, DeriveError> {
        let identity = NodeIdentity::of(node, &self.inputs.bundle.cluster.id);
        match (node.settings().system.os.required(), &self.talos) {
            (Os::Talos, Some(talos)) => talos.node(node, identity, self.inputs),
            _ => Ok(Rendered {
                config: cloud_config::user_data(node, self.inputs)?,
                identity,
                image: None,
                warnings: vec![],
            }),
        }
    }
}

impl Talos {
    fn new(inputs: &Inputs<'_>) -> Result<Self, DeriveError> {
        let cluster = inputs.cluster;
        let missing = |what, hint| DeriveError::Missing { what, hint };
        let version = cluster.file.talos_version.get();
        let version = version.ok_or(missing("the Talos version", "add `talos_version:`"))?;
        let (major, minor) = version.minor();
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let contract = Contract::new(small(major), small(minor)).for_nodes();
        let release = Release::of(&version.to_string()).unwrap_or_default();

        let endpoint = endpoint(cluster, inputs.phase)
            .ok_or(missing("the endpoint", "add `network: {vip: …}` or `endpoint:`"))?;
        let kubernetes = cluster
            .kubernetes_version()
            .ok_or(missing("the Kubernetes version", "add `kubernetes_version:`"))?;
        let identity = ClusterIdentity::from(inputs.bundle);
        let input = Input {
            contract,
            cluster_name: &cluster.name,
            endpoint: &endpoint,
            kubernetes_version: &kubernetes.get().to_string(),
            identity: &identity,
            options: &options(cluster, &endpoint),
        };
        let base = |role| -> Result<Config, DeriveError> {
            let config = generate(&input, role).map_err(DeriveError::Generate)?;
            // The Talos version must support the generated settings.
            if config.release() == release {
                return Ok(config);
            }
            let text = SecretText::new(config.encode());
            Config::parse(text.expose(), release)
                .map_err(|error| DeriveError::Generate(error.into()))
        };
        Ok(Self {
            contract,
            controlplane: base(generate::Role::ControlPlane)?,
            worker: base(generate::Role::Worker)?,
            patches: patches(inputs, release)?,
        })
    }

    fn node(
        &self,
        node: &Node,
        identity: NodeIdentity,
        inputs: &Inputs<'_>,
    ) -> Result<Rendered, DeriveError> {
        let base = match node.role {
            Role::ControlPlane => &self.controlplane,
            Role::Worker => &self.worker,
        };
        let image = Image::of(inputs.cluster, node, &identity, self.contract)?;
        let own = own::documents(inputs, node, &identity, &image, self.contract)?;
        let own = SecretText::new(emit_all(&own, 4));
        let own = [Patch::parse(own.expose(), base.release()).map_err(DeriveError::Own)?];
        let mut config = patch::apply_to(base, &own).map_err(DeriveError::Own)?;
        for source in inputs.cluster.patches(node) {
            let span = source.span;
            let parsed = self.patches.get(&span).ok_or(DeriveError::Unresolved { span })?;
            config = patch::apply_to(&config, std::slice::from_ref(parsed))
                .map_err(|source| DeriveError::Patch { span, source })?;
        }
        let mode = match image.platform {
            Platform::Nocloud => Mode::Cloud,
            Platform::Metal => Mode::Metal,
        };
        let verdict = validate_config(&config, mode);
        if !verdict.is_valid() {
            let unpatched = patch::apply_to(base, &own).map_err(DeriveError::Own)?;
            let sources = inputs.cluster.patches(node);
            let patches = sources.filter_map(|it| Some((it.span, self.patches.get(&it.span)?)));
            return Err(DeriveError::Invalid(refusal::trace(unpatched, patches, mode)));
        }
        let lints = lint::lint(&config).into_iter();
        let lints = lints.map(|lint| format!("{}: {}", lint.path, lint.message));
        let left_out = super::network::left_out(inputs.cluster, self.contract);
        Ok(Rendered {
            warnings: verdict.warnings.into_iter().chain(lints).chain(left_out).collect(),
            config: SecretText::new(config.encode()),
            image: Some(image),
            identity,
        })
    }
}

/// The patches of the inventory. Each patch is parsed once.
fn patches(inputs: &Inputs<'_>, release: Release) -> Result<BTreeMap<Span, Patch>, DeriveError> {
    let mut patches = BTreeMap::new();
    for node in inputs.cluster.nodes.iter().filter(|node| node.is_talos()) {
        for source in inputs.cluster.patches(node) {
            let span = source.span;
            if patches.contains_key(&span) {
                continue;
            }
            let text = match &source.value {
                PatchSource::File(_) => {
                    inputs.files.get(&span).ok_or(DeriveError::Unresolved { span })?.clone()
                }
                PatchSource::Inline(tree) => emit(tree, 4),
                PatchSource::Text(text) => text.clone(),
            };
            let patch = Patch::parse(&text, release)
                .map_err(|source| DeriveError::Patch { span, source })?;
            patches.insert(span, patch);
        }
    }
    Ok(patches)
}

/// The endpoint of the Kubernetes API. In the phase `Dhcp` it is the first control plane, because the shared address has no
/// holder yet.
fn endpoint(cluster: &Cluster, phase: Phase) -> Option<String> {
    if phase == Phase::Dhcp {
        let first = cluster.controlplanes().next()?;
        let address = first.entry.dhcp.get().copied().or_else(|| first.address())?;
        return Some(match address {
            IpAddr::V4(address) => format!("https://{address}:6443"),
            IpAddr::V6(address) => format!("https://[{address}]:6443"),
        });
    }
    cluster.endpoint().map(|url| url.to_string())
}

/// Settings that are the same for every node of the cluster.
fn options(cluster: &Cluster, endpoint: &str) -> Options {
    let network = &cluster.file.network;
    let mut sans: Vec<String> = cluster.file.cert_sans.values().map(ToString::to_string).collect();
    let endpoint_address = HttpUrl::parse(endpoint).ok().and_then(|url| url.ip());
    if let Some(vip) = network.vip.get().copied()
        && endpoint_address != Some(vip)
        && !sans.contains(&vip.to_string())
    {
        sans.push(vip.to_string());
    }
    let has_workers = cluster.workers().next().is_some();
    Options {
        additional_sans: sans,
        dns_domain: network.dns_domain.required().to_string(),
        cni: (!network.cni.required().is_by_talos()).then(|| map([("name", Some(text("none")))])),
        allow_scheduling_on_control_planes: cluster
            .file
            .allow_scheduling_on_controlplanes
            .get()
            .copied()
            .unwrap_or(!has_workers),
        pod_subnets: subnets(&cluster.pod_cidrs(), PODS, endpoint_address),
        service_subnets: subnets(&cluster.service_cidrs(), SERVICES, endpoint_address),
        ..Options::default()
    }
}

/// The default pod network for IPv4, and for IPv6.
const PODS: [&str; 2] = ["10.244.0.0/16", "fc00:db8:10::/56"];
const SERVICES: [&str; 2] = ["10.96.0.0/12", "fc00:db8:20::/112"];

/// The networks of pods or services. The IPv4 default is replaced by the IPv6 default if the endpoint has an IPv6 address.
fn subnets(given: &[Spanned<Cidr>], builtin: [&str; 2], endpoint: Option<IpAddr>) -> Vec<String> {
    let given: Vec<String> = given.iter().map(|cidr| cidr.value.to_string()).collect();
    let is_ipv6 = endpoint.is_some_and(|address| address.is_ipv6());
    if is_ipv6 && given == [builtin[0]] { vec![builtin[1].to_owned()] } else { given }
}
