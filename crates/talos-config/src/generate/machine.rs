//! Generation of the section `machine` of a machine config, and of the documents that replace parts of it.

use talmox_yaml::Node;

use super::values::{certificate_only, key_pair, non_empty, some_texts, text_map};
use super::{GenerateError, Input, Role, document};
use crate::document::Item;
use crate::format::text;
use crate::format::url::Url;
use crate::tree::{flag, list, map, map_of, texts};

const KUBE_PRISM_PORT: u16 = 7445;

impl Input<'_> {
    pub(super) fn machine(&self, role: Role) -> Node {
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
        self.contract.excludes_from_load_balancers().then(|| map([(label, Some(text("")))]))
    }

    pub(super) fn image(&self, repository: &str) -> Option<Node> {
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
            ("extraKernelArgs", some_texts(&self.options.extra_kernel_args)),
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
            map([("enabled", Some(flag(true))), ("port", Some(Node::plain(port.to_string())))])
        });
        let forwards =
            self.options.host_dns_forward_kube_dns || contract.forwards_kube_dns_to_host();
        let dns = contract
            .host_dns()
            .then(|| map([("enabled", Some(flag(true))), ("forwardKubeDNSToHost", on(forwards))]));
        map([
            ("rbac", on(contract.shows_rbac_features())),
            ("stableHostname", on(contract.stable_hostname_feature())),
            ("apidCheckExtKeyUsage", on(contract.shows_rbac_features())),
            ("diskQuotaSupport", on(contract.disk_quota())),
            ("kubePrism", prism),
            ("hostDNS", dns),
        ])
    }

    /// `machine.registries`, for Talos versions without registry documents.
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
        map([("mirrors", Some(map_of(mirrors))), ("config", Some(map_of(config)))])
    }

    fn registries_with_tls(&self) -> Vec<&str> {
        let trusted = self.options.registry_ca_certs.keys();
        let mut hosts: Vec<&str> =
            trusted.chain(&self.options.registry_insecure).map(String::as_str).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    fn is_insecure(&self, host: &str) -> bool {
        self.options.registry_insecure.iter().any(|other| other == host)
    }

    pub(super) fn registry_documents(&self) -> Result<Vec<Item>, GenerateError> {
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
                ("insecureSkipVerify", self.is_insecure(host).then(|| flag(true))),
            ]);
            documents.push(document("RegistryTLSConfig", &tls)?);
        }
        Ok(documents)
    }
}
