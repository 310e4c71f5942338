//! `CertSANs`: names in the certificates of the node.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};
use talmox_talos_config::network::Prefix;

use super::kubelet::service_address;
use super::node_address::accumulative;
use super::proto::Form;
use super::{Item, ResourceContext, ResourceSource};
use crate::config::Facts;

/// Common name of the certificate of maintenance mode.
const MAINTENANCE: &str = "maintenance-service.talos.dev";

pub(super) const SOURCES: &[ResourceSource] = &[ResourceSource {
    name: "CertSANs.secrets.talos.dev",
    proto: &[
        ("ips", 1, Form::Each(&Form::Address)),
        ("dnsNames", 2, Form::Each(&Form::Text)),
        ("fqdn", 3, Form::Text),
    ],
    list: |context| {
        let mut items =
            vec![maintenance(context).owned_by("secrets.MaintenanceCertSANsController")];
        if let Some(config) = &context.node.config {
            items.push(api(context, &config.facts).owned_by("secrets.APICertSANsController"));
            if config.facts.is_control_plane {
                let owner = "secrets.KubernetesCertSANsController";
                items.push(kubernetes(context, &config.facts).owned_by(owner));
            }
        }
        items
    },
}];

/// Addresses and DNS names, sorted and without duplicates.
#[derive(Default)]
struct Names {
    addresses: BTreeSet<IpAddr>,
    hosts: BTreeSet<String>,
}

impl Names {
    /// Names and addresses of the node itself.
    fn of(context: &ResourceContext<'_>) -> Self {
        let addresses = accumulative(context).into_iter().map(Prefix::address);
        let network = &context.node.network;
        let hosts = [network.hostname.clone(), network.full_name()].into();
        Self { addresses: addresses.collect(), hosts }
    }

    fn add(&mut self, name: &str) {
        match name.parse() {
            Ok(address) => {
                self.addresses.insert(address);
            }
            Err(_) => {
                self.hosts.insert(name.to_owned());
            }
        }
    }

    fn to_spec(&self, fqdn: &str) -> Value {
        let addresses: Vec<String> = self.addresses.iter().map(IpAddr::to_string).collect();
        json!({ "ips": addresses, "dnsNames": self.hosts, "fqdn": fqdn })
    }
}

fn maintenance(context: &ResourceContext<'_>) -> Item {
    let mut names = Names::of(context);
    names.addresses.extend([IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]);
    Item::new("maintenance", names.to_spec(MAINTENANCE))
}

fn api(context: &ResourceContext<'_>, facts: &Facts) -> Item {
    let mut names = Names::of(context);
    facts.cert_sans.iter().for_each(|name| names.add(name));
    Item::new("api", names.to_spec(&context.node.network.full_name()))
}

fn kubernetes(context: &ResourceContext<'_>, facts: &Facts) -> Item {
    let mut names = Names::of(context);
    let endpoint = facts.endpoint.as_ref().map(|(host, _)| host);
    endpoint.into_iter().chain(&facts.api_sans).for_each(|name| names.add(name));
    let domain = format!("kubernetes.default.svc.{}", facts.dns_domain);
    for name in ["kubernetes", "kubernetes.default", "kubernetes.default.svc", &domain, "localhost"]
    {
        names.add(name);
    }
    let services = facts.service_subnets.iter();
    names.addresses.extend(services.filter_map(|subnet| service_address(subnet, 1)));
    names.addresses.insert(Ipv4Addr::LOCALHOST.into());
    Item::new("k8s", names.to_spec(""))
}
