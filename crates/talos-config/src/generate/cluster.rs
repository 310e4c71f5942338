//! Generation of the section `cluster` of a machine config.

use talmox_yaml::Node;

use super::Input;
use super::values::{certificate_only, key_pair, non_empty, some_texts};
use crate::format::address::parse_addr;
use crate::format::text;
use crate::format::url::Url;
use crate::tree::{flag, list, map, map_of};

impl Input<'_> {
    pub(super) fn worker_cluster(&self) -> Node {
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

    pub(super) fn control_plane_cluster(&self, endpoint: &Url) -> Node {
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
            ("controlPlane", Some(self.control_plane(self.options.local_api_server_port))),
            ("clusterName", Some(text(self.cluster_name))),
            ("network", Some(self.cluster_network())),
            ("token", Some(text(&identity.bootstrap_token))),
            ("aescbcEncryptionSecret", aescbc),
            ("secretboxEncryptionSecret", secretbox),
            ("ca", Some(key_pair(&identity.kubernetes))),
            ("aggregatorCA", Some(key_pair(&identity.aggregator))),
            ("serviceAccount", Some(service_account)),
            ("apiServer", Some(self.api_server(endpoint))),
            ("controllerManager", component("registry.k8s.io/kube-controller-manager")),
            ("proxy", component("registry.k8s.io/kube-proxy")),
            ("scheduler", component("registry.k8s.io/kube-scheduler")),
            ("discovery", Some(self.discovery())),
            ("etcd", Some(map([("ca", Some(key_pair(&identity.etcd)))]))),
            ("allowSchedulingOnControlPlanes", schedules.then(|| flag(true))),
        ])
    }

    fn control_plane(&self, local_port: u16) -> Node {
        let port = (local_port != 0).then(|| Node::plain(local_port.to_string()));
        map([("endpoint", Some(text(self.endpoint))), ("localAPIServerPort", port)])
    }

    fn cluster_network(&self) -> Node {
        // Talos parses the whole endpoint as an address. A URL is not an address, so IPv6 is never chosen for a URL.
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
            ("serviceSubnets", or_default(&self.options.service_subnets, services)),
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

/// Default of Talos: the baseline policy is enforced, and violations of the restricted policy are reported.
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
        ("apiVersion", Some(text("pod-security.admission.config.k8s.io/v1alpha1"))),
        ("defaults", Some(map_of(defaults.map(|(key, value)| (key, text(value)))))),
        ("exemptions", Some(exemptions)),
        ("kind", Some(text("PodSecurityConfiguration"))),
    ]);
    map([("name", Some(text("PodSecurity"))), ("configuration", Some(configuration))])
}

fn audit_policy() -> Node {
    map([
        ("apiVersion", Some(text("audit.k8s.io/v1"))),
        ("kind", Some(text("Policy"))),
        ("rules", Some(list([map([("level", Some(text("Metadata")))])]))),
    ])
}
