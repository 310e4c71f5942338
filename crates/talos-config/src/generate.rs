//! Control plane and worker configs, byte for byte as Talos generates them from the same secrets
//! and options.
//!
//! Nothing here makes secrets: an [`Identity`] comes in. Per-node settings are patches on top.

use std::collections::BTreeMap;
use std::fmt;

use talmox_yaml::Node;

use crate::contract::Contract;
use crate::decode::{self, Lines};
use crate::document::{Config, DecodeError, Document, Item};
use crate::format::address::parse_addr;
use crate::format::text;
use crate::format::url::Url;
use crate::schema::{self, CONFIG_KIND, Release};
use crate::tree::{flag, list, map, map_of, texts};

const KUBE_PRISM_PORT: u16 = 7445;

/// Why no config can be generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    #[error("the endpoint is no URL: {0}")]
    Endpoint(String),
    #[error("failed to parse registry mirror endpoint {endpoint:?}: {reason}")]
    Mirror { endpoint: String, reason: String },
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// What a machine does in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    ControlPlane,
    Worker,
}

/// A certificate and its key, each as base64 of its PEM text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KeyPair {
    pub crt: String,
    pub key: String,
}

/// The secrets of a cluster, as they stand in its configs.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Identity {
    pub cluster_id: String,
    pub cluster_secret: String,
    pub bootstrap_token: String,
    pub secretbox_encryption_secret: String,
    pub aescbc_encryption_secret: String,
    /// `trustdinfo.token` of the bundle.
    pub machine_token: String,
    pub os: KeyPair,
    pub kubernetes: KeyPair,
    pub aggregator: KeyPair,
    pub etcd: KeyPair,
    /// The service account's key, as base64 of its PEM text.
    pub service_account_key: String,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("KeyPair(..)")
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Identity(..)")
    }
}

/// What a config is made for.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    pub contract: Contract,
    pub cluster_name: &'a str,
    /// The Kubernetes API's URL.
    pub endpoint: &'a str,
    /// Without a `v`. Empty: no images are named.
    pub kubernetes_version: &'a str,
    pub identity: &'a Identity,
    pub options: &'a Options,
}

/// What can be chosen, with Talos's defaults.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of Talos's generator"
)]
#[derive(Clone, Debug)]
pub struct Options {
    pub install_disk: String,
    pub install_image: String,
    pub extra_kernel_args: Vec<String>,
    pub additional_sans: Vec<String>,
    pub dns_domain: String,
    pub sysctls: BTreeMap<String, String>,
    /// A list as in `machine.kubelet.extraMounts`.
    pub kubelet_extra_mounts: Option<Node>,
    /// Hosts and the URLs of their mirrors.
    pub registry_mirrors: BTreeMap<String, Vec<String>>,
    /// Hosts and the PEM text of the CA they are trusted by.
    pub registry_ca_certs: BTreeMap<String, String>,
    /// Hosts whose certificates are not checked.
    pub registry_insecure: Vec<String>,
    /// Control planes only; 0 is Talos's default.
    pub local_api_server_port: u16,
    /// A mapping as in `cluster.network.cni`.
    pub cni: Option<Node>,
    /// Control planes only.
    pub allow_scheduling_on_control_planes: bool,
    /// Empty: Talos's default for the endpoint's address family.
    pub pod_subnets: Vec<String>,
    pub service_subnets: Vec<String>,
    pub discovery: bool,
    pub kubespan: Option<bool>,
    /// 0 turns KubePrism off.
    pub kube_prism_port: Option<u16>,
    pub host_dns_forward_kube_dns: bool,
    /// A list as in `machine.disks`.
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

/// A document from its keys, in any order.
fn document(kind_name: &str, keys: &Node) -> Result<Item, GenerateError> {
    let release = Release::default();
    let kind = schema::kind(kind_name, release)
        .ok_or_else(|| DecodeError(format!("{kind_name:?}: not registered")))?;
    let mut keys = keys.clone();
    if let talmox_yaml::Value::Map(map) = &mut keys.value
        && kind_name != CONFIG_KIND
    {
        for (key, value) in [("apiVersion", "v1alpha1"), ("kind", kind_name)] {
            map.entries.push(talmox_yaml::Entry {
                key: text(key),
                value: text(value),
            });
        }
    }
    let body = decode::decode(&keys, kind.record, &Lines::of(""), release).map_err(DecodeError)?;
    Ok(Item::Document(Document { kind, body }))
}

fn non_empty(value: &str) -> Option<Node> {
    (!value.is_empty()).then(|| text(value))
}

fn some_texts(values: &[String]) -> Option<Node> {
    (!values.is_empty()).then(|| texts(values))
}

fn text_map(values: &BTreeMap<String, String>) -> Option<Node> {
    let entries = values
        .iter()
        .map(|(key, value)| (key.as_str(), text(value)));
    (!values.is_empty()).then(|| map_of(entries))
}

fn key_pair(pair: &KeyPair) -> Node {
    map([
        ("crt", Some(text(&pair.crt))),
        ("key", Some(text(&pair.key))),
    ])
}

/// What a worker may know of a CA.
fn certificate_only(pair: &KeyPair) -> Node {
    map([("crt", Some(text(&pair.crt))), ("key", Some(text("")))])
}

impl Input<'_> {
    fn machine(&self, role: Role) -> Node {
        let options = self.options;
        let (kind, ca, labels) = match role {
            Role::ControlPlane => ("controlplane", key_pair(&self.identity.os), self.labels()),
            Role::Worker => ("worker", certificate_only(&self.identity.os), None),
        };
        let kubespan = options
            .kubespan
            .filter(|_| !self.contract.kubespan_document())
            .map(|enabled| map([("enabled", Some(flag(enabled)))]));
        let network = (self.contract.shows_empty_network() || kubespan.is_some())
            .then(|| map([("kubespan", kubespan)]));
        let registries = (!self.contract.network_documents()).then(|| self.registries());
        map([
            ("type", Some(text(kind))),
            ("token", Some(text(&self.identity.machine_token))),
            ("ca", Some(ca)),
            ("certSANs", Some(texts(&options.additional_sans))),
            ("kubelet", Some(self.kubelet())),
            ("network", network),
            ("disks", options.user_disks.clone()),
            ("install", Some(self.install())),
            ("sysctls", text_map(&options.sysctls)),
            ("registries", registries),
            ("features", Some(self.features())),
            ("nodeLabels", labels),
        ])
    }

    fn labels(&self) -> Option<Node> {
        let label = "node.kubernetes.io/exclude-from-external-load-balancers";
        self.contract
            .excludes_from_load_balancers()
            .then(|| map([(label, Some(text("")))]))
    }

    fn image(&self, repository: &str) -> Option<Node> {
        let version = self.kubernetes_version;
        (!version.is_empty()).then(|| text(format!("{repository}:v{version}")))
    }

    fn kubelet(&self) -> Node {
        map([
            ("image", self.image("ghcr.io/siderolabs/kubelet")),
            ("extraMounts", self.options.kubelet_extra_mounts.clone()),
            ("defaultRuntimeSeccompProfileEnabled", Some(flag(true))),
            ("disableManifestsDirectory", Some(flag(true))),
        ])
    }

    fn install(&self) -> Node {
        let from_uki = self.contract.grub_uses_uki_cmdline();
        map([
            ("disk", non_empty(&self.options.install_disk)),
            (
                "extraKernelArgs",
                some_texts(&self.options.extra_kernel_args),
            ),
            ("image", non_empty(&self.options.install_image)),
            ("wipe", Some(flag(false))),
            ("grubUseUKICmdline", from_uki.then(|| flag(true))),
        ])
    }

    fn features(&self) -> Node {
        let contract = self.contract;
        let on = |wanted: bool| wanted.then(|| flag(true));
        let prism_port = match self.options.kube_prism_port {
            Some(port) => Some(port).filter(|port| *port > 0),
            None => contract.kube_prism().then_some(KUBE_PRISM_PORT),
        };
        let prism = prism_port.map(|port| {
            map([
                ("enabled", Some(flag(true))),
                ("port", Some(Node::plain(port.to_string()))),
            ])
        });
        let forwards =
            self.options.host_dns_forward_kube_dns || contract.forwards_kube_dns_to_host();
        let dns = contract.host_dns().then(|| {
            map([
                ("enabled", Some(flag(true))),
                ("forwardKubeDNSToHost", on(forwards)),
            ])
        });
        map([
            ("rbac", on(contract.shows_rbac_features())),
            ("stableHostname", on(contract.stable_hostname_feature())),
            ("apidCheckExtKeyUsage", on(contract.shows_rbac_features())),
            ("diskQuotaSupport", on(contract.disk_quota())),
            ("kubePrism", prism),
            ("hostDNS", dns),
        ])
    }

    /// `machine.registries`, before there were documents.
    fn registries(&self) -> Node {
        let options = self.options;
        let mirrors = options
            .registry_mirrors
            .iter()
            .map(|(host, endpoints)| (host.as_str(), map([("endpoints", Some(texts(endpoints)))])));
        let hosts = self.registries_with_tls();
        let config = hosts.iter().map(|host| {
            let ca = options.registry_ca_certs.get(*host).map(|pem| {
                use base64::Engine as _;
                text(base64::engine::general_purpose::STANDARD.encode(pem))
            });
            let insecure = self.is_insecure(host).then(|| flag(true));
            let tls = map([("ca", ca), ("insecureSkipVerify", insecure)]);
            (*host, map([("tls", Some(tls))]))
        });
        map([
            ("mirrors", Some(map_of(mirrors))),
            ("config", Some(map_of(config))),
        ])
    }

    fn registries_with_tls(&self) -> Vec<&str> {
        let trusted = self.options.registry_ca_certs.keys();
        let mut hosts: Vec<&str> = trusted
            .chain(&self.options.registry_insecure)
            .map(String::as_str)
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    fn is_insecure(&self, host: &str) -> bool {
        self.options
            .registry_insecure
            .iter()
            .any(|other| other == host)
    }

    fn registry_documents(&self) -> Result<Vec<Item>, GenerateError> {
        let mut documents = vec![];
        for (host, endpoints) in &self.options.registry_mirrors {
            let mut urls = vec![];
            for endpoint in endpoints {
                let url = Url::parse(endpoint).map_err(|reason| GenerateError::Mirror {
                    endpoint: endpoint.clone(),
                    reason,
                })?;
                urls.push(map([("url", Some(text(url.to_string())))]));
            }
            let mirror = map([("name", Some(text(host))), ("endpoints", Some(list(urls)))]);
            documents.push(document("RegistryMirrorConfig", &mirror)?);
        }
        for host in self.registries_with_tls() {
            let tls = map([
                ("name", Some(text(host))),
                ("ca", self.options.registry_ca_certs.get(host).map(text)),
                (
                    "insecureSkipVerify",
                    self.is_insecure(host).then(|| flag(true)),
                ),
            ]);
            documents.push(document("RegistryTLSConfig", &tls)?);
        }
        Ok(documents)
    }

    fn worker_cluster(&self) -> Node {
        let identity = self.identity;
        let name = self.contract.cluster_name_for_workers();
        map([
            ("id", non_empty(&identity.cluster_id)),
            ("secret", non_empty(&identity.cluster_secret)),
            ("controlPlane", Some(self.control_plane(0))),
            ("clusterName", name.then(|| text(self.cluster_name))),
            ("network", Some(self.cluster_network())),
            ("token", Some(text(&identity.bootstrap_token))),
            ("ca", Some(certificate_only(&identity.kubernetes))),
            ("discovery", Some(self.discovery())),
        ])
    }

    fn control_plane_cluster(&self, endpoint: &Url) -> Node {
        let identity = self.identity;
        let (secretbox, aescbc) = if self.contract.secretbox() {
            (non_empty(&identity.secretbox_encryption_secret), None)
        } else {
            (None, non_empty(&identity.aescbc_encryption_secret))
        };
        let service_account = map([("key", Some(text(&identity.service_account_key)))]);
        let component = |repository| Some(map([("image", self.image(repository))]));
        let schedules = self.options.allow_scheduling_on_control_planes;
        map([
            ("id", non_empty(&identity.cluster_id)),
            ("secret", non_empty(&identity.cluster_secret)),
            (
                "controlPlane",
                Some(self.control_plane(self.options.local_api_server_port)),
            ),
            ("clusterName", Some(text(self.cluster_name))),
            ("network", Some(self.cluster_network())),
            ("token", Some(text(&identity.bootstrap_token))),
            ("aescbcEncryptionSecret", aescbc),
            ("secretboxEncryptionSecret", secretbox),
            ("ca", Some(key_pair(&identity.kubernetes))),
            ("aggregatorCA", Some(key_pair(&identity.aggregator))),
            ("serviceAccount", Some(service_account)),
            ("apiServer", Some(self.api_server(endpoint))),
            (
                "controllerManager",
                component("registry.k8s.io/kube-controller-manager"),
            ),
            ("proxy", component("registry.k8s.io/kube-proxy")),
            ("scheduler", component("registry.k8s.io/kube-scheduler")),
            ("discovery", Some(self.discovery())),
            ("etcd", Some(map([("ca", Some(key_pair(&identity.etcd)))]))),
            (
                "allowSchedulingOnControlPlanes",
                schedules.then(|| flag(true)),
            ),
        ])
    }

    fn control_plane(&self, local_port: u16) -> Node {
        let port = (local_port != 0).then(|| Node::plain(local_port.to_string()));
        map([
            ("endpoint", Some(text(self.endpoint))),
            ("localAPIServerPort", port),
        ])
    }

    fn cluster_network(&self) -> Node {
        // Talos looks at the bare text: an URL never makes it choose IPv6.
        let is_ipv6 = parse_addr(self.endpoint).is_some_and(|(addr, _)| addr.is_ipv6());
        let (pods, services) = if is_ipv6 {
            ("fc00:db8:10::/56", "fc00:db8:20::/112")
        } else {
            ("10.244.0.0/16", "10.96.0.0/12")
        };
        let or_default = |given: &[String], default: &str| {
            Some(some_texts(given).unwrap_or_else(|| list([text(default)])))
        };
        map([
            ("cni", self.options.cni.clone()),
            ("dnsDomain", non_empty(&self.options.dns_domain)),
            ("podSubnets", or_default(&self.options.pod_subnets, pods)),
            (
                "serviceSubnets",
                or_default(&self.options.service_subnets, services),
            ),
        ])
    }

    fn discovery(&self) -> Node {
        let kubernetes = map([("disabled", Some(flag(true)))]);
        map([
            ("enabled", Some(flag(self.options.discovery))),
            ("registries", Some(map([("kubernetes", Some(kubernetes))]))),
        ])
    }

    fn api_server(&self, endpoint: &Url) -> Node {
        let mut sans = vec![];
        if self.contract.endpoint_in_api_server_sans() {
            sans.push(endpoint.hostname().to_owned());
        }
        sans.extend(self.options.additional_sans.iter().cloned());
        let psp = self.contract.shows_disabled_psp();
        map([
            ("image", self.image("registry.k8s.io/kube-apiserver")),
            ("certSANs", some_texts(&sans)),
            ("disablePodSecurityPolicy", psp.then(|| flag(true))),
            ("admissionControl", Some(list([pod_security()]))),
            ("auditPolicy", Some(audit_policy())),
        ])
    }
}

/// Talos's default: the baseline is enforced, restrictions are reported.
fn pod_security() -> Node {
    let defaults = [
        ("audit", "restricted"),
        ("audit-version", "latest"),
        ("enforce", "baseline"),
        ("enforce-version", "latest"),
        ("warn", "restricted"),
        ("warn-version", "latest"),
    ];
    let exemptions = map([
        ("namespaces", Some(list([text("kube-system")]))),
        ("runtimeClasses", Some(list([]))),
        ("usernames", Some(list([]))),
    ]);
    let configuration = map([
        (
            "apiVersion",
            Some(text("pod-security.admission.config.k8s.io/v1alpha1")),
        ),
        (
            "defaults",
            Some(map_of(defaults.map(|(key, value)| (key, text(value))))),
        ),
        ("exemptions", Some(exemptions)),
        ("kind", Some(text("PodSecurityConfiguration"))),
    ]);
    map([
        ("name", Some(text("PodSecurity"))),
        ("configuration", Some(configuration)),
    ])
}

fn audit_policy() -> Node {
    map([
        ("apiVersion", Some(text("audit.k8s.io/v1"))),
        ("kind", Some(text("Policy"))),
        (
            "rules",
            Some(list([map([("level", Some(text("Metadata")))])])),
        ),
    ])
}
