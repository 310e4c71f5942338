//! Generation of control plane and worker configs. For the same secrets and options, the output is equal to the output
//! of Talos, byte for byte.
//!
//! This module does not generate secrets: a [`ClusterIdentity`] is the input. Settings of single nodes are applied
//! afterwards, as patches.

mod cluster;
mod machine;
mod values;

use std::collections::BTreeMap;
use std::fmt;

use talmox_yaml::Node;

use crate::contract::Contract;
use crate::decode::{self, Lines};
use crate::document::{Config, DecodeError, Document, Item};
use crate::format::text;
use crate::format::url::Url;
use crate::schema::{self, CONFIG_KIND, Release};
use crate::tree::{flag, map};

/// Reason why a config cannot be generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    #[error("the endpoint is not a URL: {0}")]
    Endpoint(String),
    #[error("failed to parse registry mirror endpoint {endpoint:?}: {reason}")]
    Mirror { endpoint: String, reason: String },
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// Role of a machine in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    ControlPlane,
    Worker,
}

/// Certificate and key. Each is the base64 of a PEM text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KeyPair {
    pub crt: String,
    pub key: String,
}

/// Secrets of a cluster, in the form that machine configs contain.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClusterIdentity {
    pub cluster_id: String,
    pub cluster_secret: String,
    pub bootstrap_token: String,
    pub secretbox_encryption_secret: String,
    pub aescbc_encryption_secret: String,
    /// `trustdinfo.token` of the secrets bundle.
    pub machine_token: String,
    pub os: KeyPair,
    pub kubernetes: KeyPair,
    pub aggregator: KeyPair,
    pub etcd: KeyPair,
    /// Key of the service account: the base64 of its PEM text.
    pub service_account_key: String,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("KeyPair(..)")
    }
}

impl fmt::Debug for ClusterIdentity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ClusterIdentity(..)")
    }
}

/// Input for generating a config.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    pub contract: Contract,
    pub cluster_name: &'a str,
    /// URL of the Kubernetes API.
    pub endpoint: &'a str,
    /// Kubernetes version without `v`. If it is empty, the config does not set the images of Kubernetes.
    pub kubernetes_version: &'a str,
    pub identity: &'a ClusterIdentity,
    pub options: &'a Options,
}

/// Options of the generator. The defaults are those of Talos.
#[expect(clippy::struct_excessive_bools, reason = "independent switches of Talos's generator")]
#[derive(Clone, Debug)]
pub struct Options {
    pub install_disk: String,
    pub install_image: String,
    pub extra_kernel_args: Vec<String>,
    pub additional_sans: Vec<String>,
    pub dns_domain: String,
    pub sysctls: BTreeMap<String, String>,
    /// List in the form of `machine.kubelet.extraMounts`.
    pub kubelet_extra_mounts: Option<Node>,
    /// URLs of mirrors, by registry host.
    pub registry_mirrors: BTreeMap<String, Vec<String>>,
    /// PEM text of the CA that signs the certificate of the registry, by registry host.
    pub registry_ca_certs: BTreeMap<String, String>,
    /// Registry hosts whose certificates are not verified.
    pub registry_insecure: Vec<String>,
    /// Port of the API server on control planes. 0 means the default of Talos.
    pub local_api_server_port: u16,
    /// Mapping in the form of `cluster.network.cni`.
    pub cni: Option<Node>,
    /// Whether pods may run on control planes.
    pub allow_scheduling_on_control_planes: bool,
    /// Pod subnets. If the list is empty, Talos's default for the address family of the endpoint is used.
    pub pod_subnets: Vec<String>,
    pub service_subnets: Vec<String>,
    pub discovery: bool,
    pub kubespan: Option<bool>,
    /// Port of KubePrism. 0 disables KubePrism.
    pub kube_prism_port: Option<u16>,
    pub host_dns_forward_kube_dns: bool,
    /// List in the form of `machine.disks`.
    pub user_disks: Option<Node>,
    pub debug: bool,
    pub persist: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            install_disk: String::new(),
            install_image: String::new(),
            extra_kernel_args: vec![],
            additional_sans: vec![],
            dns_domain: "cluster.local".to_owned(),
            sysctls: BTreeMap::new(),
            kubelet_extra_mounts: None,
            registry_mirrors: BTreeMap::new(),
            registry_ca_certs: BTreeMap::new(),
            registry_insecure: vec![],
            local_api_server_port: 0,
            cni: None,
            allow_scheduling_on_control_planes: false,
            pod_subnets: vec![],
            service_subnets: vec![],
            discovery: true,
            kubespan: None,
            kube_prism_port: None,
            host_dns_forward_kube_dns: false,
            user_disks: None,
            debug: false,
            persist: true,
        }
    }
}

/// Generates the config of a role.
pub fn generate(input: &Input<'_>, role: Role) -> Result<Config, GenerateError> {
    let endpoint =
        Url::parse(input.endpoint).map_err(|reason| GenerateError::Endpoint(reason.clone()))?;
    let (machine, cluster) = match role {
        Role::ControlPlane => (input.machine(role), input.control_plane_cluster(&endpoint)),
        Role::Worker => (input.machine(role), input.worker_cluster()),
    };
    let legacy = map([
        ("version", Some(text("v1alpha1"))),
        ("debug", Some(flag(input.options.debug))),
        ("persist", Some(flag(input.options.persist))),
        ("machine", Some(machine)),
        ("cluster", Some(cluster)),
    ]);
    let mut documents = vec![document(CONFIG_KIND, &legacy)?];
    if input.contract.network_documents() {
        documents.extend(input.registry_documents()?);
        let hostname = map([("auto", Some(text("stable")))]);
        documents.push(document("HostnameConfig", &hostname)?);
    }
    if let Some(enabled) = input.options.kubespan
        && input.contract.kubespan_document()
    {
        let kubespan = map([("enabled", Some(flag(enabled)))]);
        documents.push(document("KubeSpanConfig", &kubespan)?);
    }
    Ok(Config::collect(documents, Release::default())?)
}

/// Document with these keys. The keys may be in any order.
fn document(kind_name: &str, keys: &Node) -> Result<Item, GenerateError> {
    let release = Release::default();
    let kind = schema::kind(kind_name, release)
        .ok_or_else(|| DecodeError(format!("{kind_name:?}: not registered")))?;
    let mut keys = keys.clone();
    if let talmox_yaml::Value::Map(map) = &mut keys.value
        && kind_name != CONFIG_KIND
    {
        for (key, value) in [("apiVersion", "v1alpha1"), ("kind", kind_name)] {
            map.entries.push(talmox_yaml::Entry { key: text(key), value: text(value) });
        }
    }
    let body = decode::decode(&keys, kind.record, &Lines::of(""), release).map_err(DecodeError)?;
    Ok(Item::Document(Document { kind, body }))
}
