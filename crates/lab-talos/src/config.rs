//! Settings of a machine config that have an effect in the lab.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use talmox_lab_kube::yaml_to_json;
use talmox_talos_config::network::Prefix;
use talmox_talos_config::{Config, Document};
use talmox_values::{Address, HttpUrl};
use talmox_yaml::Node as Yaml;

mod disk_selector;
mod links;

pub(crate) use links::{DEFAULT_VLAN_PROTOCOL, LinkFacts, LinkSelector, ROUTE_METRIC, VirtualLink};

/// Machine config that a node runs with.
#[derive(Debug)]
pub(crate) struct AppliedConfig {
    /// Text of the config as it was applied. It contains keys.
    pub(crate) text: String,
    pub(crate) config: Config,
    pub(crate) facts: Facts,
}

impl AppliedConfig {
    pub(crate) fn new(text: String, config: Config) -> Self {
        let facts = Facts::of(&config);
        Self { text, config, facts }
    }

    /// Value at a path of the v1alpha1 document, such as `machine.kubelet.extraArgs`; null if the value is not set.
    pub(crate) fn value(&self, path: &str) -> Value {
        DocumentReader(self.config.v1alpha1()).node(path).map_or(Value::Null, yaml_to_json)
    }

    /// Boolean at a path of the v1alpha1 document; false if the value is not set.
    pub(crate) fn flag(&self, path: &str) -> bool {
        DocumentReader(self.config.v1alpha1()).text(path) == "true"
    }
}

/// Settings that the lab simulates.
#[derive(Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of a config")]
pub(crate) struct Facts {
    pub(crate) is_control_plane: bool,
    /// `machine.token`, which trustd requires.
    pub(crate) token: String,
    /// CA certificate of the Talos API, in PEM.
    pub(crate) ca: String,
    pub(crate) ca_key: Option<String>,
    pub(crate) accepted_cas: Vec<String>,
    pub(crate) cert_sans: Vec<String>,
    pub(crate) cluster_id: String,
    pub(crate) cluster_secret: String,
    pub(crate) cluster_name: String,
    /// Host and port of `cluster.controlPlane.endpoint`.
    pub(crate) endpoint: Option<(String, u16)>,
    /// `cluster.token`, with which kubelets register.
    pub(crate) bootstrap_token: String,
    pub(crate) kube_ca: String,
    pub(crate) kube_ca_key: Option<String>,
    pub(crate) etcd_ca: Option<String>,
    /// Key that signs service account tokens.
    pub(crate) service_account_key: Option<String>,
    pub(crate) api_sans: Vec<String>,
    pub(crate) admin_lifetime: Option<String>,
    /// Image tag of the kubelet, such as `v1.34.1`.
    pub(crate) kubelet_version: String,
    pub(crate) api_server_image: String,
    /// Admission plugins of the API server, with their settings, as written in the config.
    pub(crate) admission_control: Vec<Value>,
    pub(crate) controller_manager_image: String,
    pub(crate) scheduler_image: String,
    pub(crate) proxy_image: String,
    pub(crate) has_proxy: bool,
    pub(crate) has_core_dns: bool,
    /// CNI plugin: `flannel`, `none` or `custom`.
    pub(crate) cni: String,
    pub(crate) pod_subnets: Vec<String>,
    pub(crate) service_subnets: Vec<String>,
    pub(crate) dns_domain: String,
    pub(crate) hostname: Option<String>,
    pub(crate) links: Vec<LinkFacts>,
    /// Alias names of network cards.
    pub(crate) link_aliases: Vec<(String, LinkSelector)>,
    /// Whether the config has link documents in addition to the v1alpha1 document.
    pub(crate) has_link_documents: bool,
    pub(crate) nameservers: Vec<IpAddr>,
    pub(crate) search_domains: Vec<String>,
    pub(crate) time_servers: Vec<String>,
    /// Subnets that the address of the kubelet must be in. The prefix `!` excludes a subnet.
    pub(crate) node_ip_subnets: Vec<String>,
    /// Subnets that the address of etcd must be in, in the same notation.
    pub(crate) etcd_subnets: Vec<String>,
    pub(crate) node_labels: BTreeMap<String, String>,
    pub(crate) node_annotations: BTreeMap<String, String>,
    /// Taints of the node: the key, and `value:effect`.
    pub(crate) node_taints: BTreeMap<String, String>,
    pub(crate) kernel_modules: Vec<String>,
    /// Names of extension services that have a config.
    pub(crate) configured_extensions: Vec<String>,
    pub(crate) install_disk: Option<String>,
    /// CEL expression that selects the install disk, if the config does not name the disk.
    pub(crate) install_match: Option<String>,
    pub(crate) install_image: Option<String>,
    /// `machine.disks`: the device of each disk, and the sizes and mount points of its partitions.
    pub(crate) user_disks: Vec<UserDisk>,
    pub(crate) has_discovery: bool,
    pub(crate) schedules_on_control_planes: bool,
    /// Inline manifests: name and contents.
    pub(crate) inline_manifests: Vec<(String, String)>,
    pub(crate) extra_manifests: Vec<String>,
    pub(crate) time_is_disabled: bool,
}

/// Entry of `machine.disks`: the device, and the size and mount point of its partitions.
type UserDisk = (String, Vec<(Option<u64>, String)>);

impl std::fmt::Debug for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Facts")
            .field("is_control_plane", &self.is_control_plane)
            .field("cluster_name", &self.cluster_name)
            .finish_non_exhaustive()
    }
}

impl Facts {
    pub(crate) fn of(config: &Config) -> Self {
        let at = DocumentReader(config.v1alpha1());
        let kind = |wanted: &'static str| config.documents().filter(move |d| d.kind() == wanted);
        let is_control_plane = matches!(at.text("machine.type").as_str(), "controlplane" | "init");
        let hostname = kind("HostnameConfig").find_map(|d| text(d.get(&["hostname"])));
        let named = |name: &str, default: &str| {
            let image = at.text(name);
            if image.is_empty() { default.to_owned() } else { image }
        };
        let version = tag(&at.text("machine.kubelet.image"));
        let cni = at.text("cluster.network.cni.name");
        let mut nameservers = at.addresses("machine.network.nameservers");
        for resolver in kind("ResolverConfig") {
            let list = resolver.get(&["nameservers"]).and_then(Yaml::as_seq);
            let items = list.map(|list| list.items.iter()).into_iter().flatten();
            nameservers
                .extend(items.filter_map(|item| {
                    text(item.as_map()?.get("address"))?.parse::<IpAddr>().ok()
                }));
        }
        Self {
            is_control_plane,
            token: at.text("machine.token"),
            ca: at.pem("machine.ca.crt").unwrap_or_default(),
            ca_key: at.pem("machine.ca.key"),
            accepted_cas: at
                .list("machine.acceptedCAs", |item| decode(&text(item.as_map()?.get("crt"))?)),
            cert_sans: at.texts("machine.certSANs"),
            cluster_id: at.text("cluster.id"),
            cluster_secret: at.text("cluster.secret"),
            cluster_name: at.text("cluster.clusterName"),
            endpoint: endpoint(&at.text("cluster.controlPlane.endpoint")),
            bootstrap_token: at.text("cluster.token"),
            kube_ca: at.pem("cluster.ca.crt").unwrap_or_default(),
            kube_ca_key: at.pem("cluster.ca.key"),
            etcd_ca: at.pem("cluster.etcd.ca.crt"),
            service_account_key: at.pem("cluster.serviceAccount.key"),
            api_sans: at.texts("cluster.apiServer.certSANs"),
            admin_lifetime: at.some("cluster.adminKubeconfig.certLifetime"),
            admission_control: at
                .list("cluster.apiServer.admissionControl", |item| Some(yaml_to_json(item))),
            api_server_image: named(
                "cluster.apiServer.image",
                &format!("registry.k8s.io/kube-apiserver:{version}"),
            ),
            controller_manager_image: named(
                "cluster.controllerManager.image",
                &format!("registry.k8s.io/kube-controller-manager:{version}"),
            ),
            scheduler_image: named(
                "cluster.scheduler.image",
                &format!("registry.k8s.io/kube-scheduler:{version}"),
            ),
            proxy_image: named(
                "cluster.proxy.image",
                &format!("registry.k8s.io/kube-proxy:{version}"),
            ),
            kubelet_version: version,
            has_proxy: at.text("cluster.proxy.disabled") != "true",
            has_core_dns: at.text("cluster.coreDNS.disabled") != "true",
            cni: if cni.is_empty() { "flannel".to_owned() } else { cni },
            pod_subnets: at.texts("cluster.network.podSubnets"),
            service_subnets: at.texts("cluster.network.serviceSubnets"),
            dns_domain: named("cluster.network.dnsDomain", "cluster.local"),
            hostname: hostname.or_else(|| at.some("machine.network.hostname")),
            links: links::of(config),
            link_aliases: links::aliases(config),
            has_link_documents: links::has_link_documents(config),
            nameservers,
            search_domains: {
                let domains = |d: &Document| texts(d.get(&["searchDomains", "domains"]));
                let own = at.texts("machine.network.searchDomains");
                own.into_iter().chain(kind("ResolverConfig").flat_map(domains)).collect()
            },
            time_servers: {
                let servers = |d: &Document| texts(d.get(&["ntp", "servers"]));
                let own = at.texts("machine.time.servers");
                own.into_iter().chain(kind("TimeSyncConfig").flat_map(servers)).collect()
            },
            node_ip_subnets: at.texts("machine.kubelet.nodeIP.validSubnets"),
            etcd_subnets: match at.texts("cluster.etcd.advertisedSubnets") {
                none if none.is_empty() => at.some("cluster.etcd.subnet").into_iter().collect(),
                some => some,
            },
            node_labels: at.table("machine.nodeLabels"),
            node_annotations: at.table("machine.nodeAnnotations"),
            node_taints: at.table("machine.nodeTaints"),
            kernel_modules: at
                .list("machine.kernel.modules", |item| text(item.as_map()?.get("name"))),
            configured_extensions: kind("ExtensionServiceConfig")
                .filter_map(|d| d.name().map(str::to_owned))
                .collect(),
            install_disk: at.some("machine.install.disk"),
            install_match: at
                .node("machine.install.diskSelector")
                .and_then(disk_selector::expression),
            install_image: at.some("machine.install.image"),
            user_disks: at.list("machine.disks", user_disk),
            has_discovery: at.text("cluster.discovery.enabled") == "true",
            schedules_on_control_planes: at.text("cluster.allowSchedulingOnControlPlanes")
                == "true"
                || at.text("cluster.allowSchedulingOnMasters") == "true",
            inline_manifests: at.list("cluster.inlineManifests", |item| {
                let map = item.as_map()?;
                Some((text(map.get("name"))?, text(map.get("contents"))?))
            }),
            extra_manifests: at.texts("cluster.extraManifests"),
            time_is_disabled: at.text("machine.time.disabled") == "true",
        }
    }

    /// Virtual IPs of this config.
    pub(crate) fn vips(&self) -> impl Iterator<Item = IpAddr> {
        self.links.iter().filter_map(|link| link.vip)
    }
}

/// Reader of values in a document by path, such as `machine.ca.crt`. The value of a missing path is `None`.
struct DocumentReader<'a>(Option<&'a Document>);

impl<'a> DocumentReader<'a> {
    fn node(&self, path: &str) -> Option<&'a Yaml> {
        self.0?.get(&path.split('.').collect::<Vec<_>>())
    }

    fn some(&self, path: &str) -> Option<String> {
        text(self.node(path)).filter(|text| !text.is_empty())
    }

    fn text(&self, path: &str) -> String {
        self.some(path).unwrap_or_default()
    }

    fn pem(&self, path: &str) -> Option<String> {
        decode(&self.some(path)?)
    }

    fn list<T>(&self, path: &str, read: impl Fn(&Yaml) -> Option<T>) -> Vec<T> {
        let list = self.node(path).and_then(Yaml::as_seq);
        list.map(|list| list.items.iter().filter_map(read).collect()).unwrap_or_default()
    }

    fn texts(&self, path: &str) -> Vec<String> {
        self.list(path, |item| item.as_str().map(str::to_owned))
    }

    fn addresses(&self, path: &str) -> Vec<IpAddr> {
        self.list(path, |item| item.as_str()?.parse().ok())
    }

    fn table(&self, path: &str) -> BTreeMap<String, String> {
        let map = self.node(path).and_then(Yaml::as_map);
        let entries = map.map(|map| map.entries.iter()).into_iter().flatten();
        entries
            .filter_map(|entry| Some((entry.key.as_str()?.to_owned(), text(Some(&entry.value))?)))
            .collect()
    }
}

fn text(node: Option<&Yaml>) -> Option<String> {
    node?.as_str().map(str::to_owned)
}

fn texts(node: Option<&Yaml>) -> Vec<String> {
    let list = node.and_then(Yaml::as_seq);
    let items = list.map(|list| list.items.iter()).into_iter().flatten();
    items.filter_map(|item| text(Some(item))).collect()
}

/// Parses an entry of `machine.disks`. A partition without a size gets the remaining space.
fn user_disk(item: &Yaml) -> Option<UserDisk> {
    let map = item.as_map()?;
    let partitions = map.get("partitions").and_then(Yaml::as_seq);
    let partitions = partitions.map(|list| list.items.iter()).into_iter().flatten();
    let partitions = partitions.filter_map(|partition| {
        let map = partition.as_map()?;
        let size = text(map.get("size")).and_then(|size| super::disk_match::size(&size));
        Some((size.filter(|size| *size > 0), text(map.get("mountpoint"))?))
    });
    Some((text(map.get("device"))?, partitions.collect()))
}

fn decode(base64: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(base64).ok()?).ok().filter(|text| !text.is_empty())
}

/// Tag of an image reference: the text after the last colon.
fn tag(image: &str) -> String {
    image.rsplit_once(':').map(|(_, tag)| tag.to_owned()).unwrap_or_default()
}

/// Host and port of a URL.
fn endpoint(url: &str) -> Option<(String, u16)> {
    let Address { host, port } = HttpUrl::parse(url).ok()?.address();
    Some((host, port))
}

/// Parses a prefix such as `10.0.0.11/24`. An address without a length means a prefix of only this address.
pub(crate) fn prefix(text: &str) -> Option<Prefix> {
    let (address, length) = text.split_once('/').unwrap_or((text, ""));
    let address: IpAddr = address.parse().ok()?;
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let length = if length.is_empty() { whole } else { length.parse().ok()? };
    Prefix::new(address, length)
}
