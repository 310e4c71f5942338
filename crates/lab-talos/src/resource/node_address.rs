//! `NodeAddresses`: sets of addresses that other controllers of Talos use.

use serde_json::json;
use talmox_talos_config::network::Prefix;

use super::network::virtual_ips;
use super::proto::Form;
use super::{Item, ResourceContext, ResourceSource};
use crate::config::{Facts, prefix};

const PREFIXES: Form = Form::Each(&Form::Prefix);

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource {
        name: "NodeAddresses.net.talos.dev",
        proto: &[("addresses", 1, PREFIXES)],
        list: node_addresses,
    },
    ResourceSource {
        name: "NodeAddressFilters.net.talos.dev",
        proto: &[("includeSubnets", 1, PREFIXES), ("excludeSubnets", 2, PREFIXES)],
        list: filters,
    },
    ResourceSource {
        name: "NodeAddressSortAlgorithms.net.talos.dev",
        proto: &[("algorithm", 1, Form::Enum(&[("v1", 0), ("v2", 1)]))],
        list: |context| vec![Item::new("default", json!({ "algorithm": algorithm(context) }))],
    },
];

fn algorithm(context: &ResourceContext<'_>) -> &'static str {
    let config = context.node.config.iter();
    let mut wanted = config.map(|config| config.value("machine.features.nodeAddressSortAlgorithm"));
    if wanted.any(|wanted| wanted == "v2") { "v2" } else { "v1" }
}

fn subnets(facts: &Facts) -> Vec<Prefix> {
    let all = facts.pod_subnets.iter().chain(&facts.service_subnets);
    all.filter_map(|subnet| prefix(subnet)).collect()
}

/// Global addresses without duplicates, in the order of the v1 sort algorithm of Talos. With `is_current`, addresses of links
/// without a carrier are omitted.
fn global(context: &ResourceContext<'_>, is_current: bool) -> Vec<Prefix> {
    let links = context.node.network.links.iter().filter(|link| link.is_up || !is_current);
    let own = links.flat_map(|link| link.addresses.iter().map(|(prefix, _)| *prefix));
    let mut all: Vec<Prefix> =
        own.chain(virtual_ips(context).into_iter().map(|(_, p)| p)).collect();
    all.sort_by_key(|prefix| (prefix.address(), prefix.length()));
    all.dedup();
    all
}

/// Addresses in the certificates of the node.
pub(super) fn accumulative(context: &ResourceContext<'_>) -> Vec<Prefix> {
    let kubernetes = context.node.config.as_ref().map(|config| subnets(&config.facts));
    let kubernetes = kubernetes.unwrap_or_default();
    let is_other = |prefix: &Prefix| !kubernetes.iter().any(|net| net.contains(prefix.address()));
    global(context, false).into_iter().filter(is_other).collect()
}

fn node_addresses(context: &ResourceContext<'_>) -> Vec<Item> {
    let has_algorithm = context.node.version.is_at_least(9);
    let item = |id: String, addresses: &[Prefix]| {
        let addresses: Vec<String> = addresses.iter().map(Prefix::to_string).collect();
        let mut spec = json!({ "addresses": addresses });
        if has_algorithm {
            spec["sortAlgorithm"] = algorithm(context).into();
        }
        Item::new(id, spec)
    };
    let (ever, current) = (global(context, false), global(context, true));
    let sets = [("accumulative", &ever), ("current", &current), ("routed", &current)];
    let mut items: Vec<Item> = sets.iter().map(|(id, set)| item((*id).to_owned(), set)).collect();
    // The default address is the smallest address of the first link, with links sorted by name.
    let links = context.node.network.links.iter();
    let own = links.flat_map(|link| link.addresses.iter().map(|(own, _)| (&link.name, *own)));
    let first = own.min_by_key(|(name, own)| ((*name).clone(), own.address(), own.length()));
    items.extend(first.map(|(_, own)| item("default".to_owned(), &[own])));
    let Some(config) = &context.node.config else { return items };
    let kubernetes = subnets(&config.facts);
    for (id, set) in sets {
        let is_theirs =
            |prefix: &&Prefix| kubernetes.iter().any(|net| net.contains(prefix.address()));
        let (theirs, own): (Vec<_>, Vec<_>) = set.iter().partition(is_theirs);
        items.push(item(format!("{id}-only-k8s"), &theirs));
        items.push(item(format!("{id}-no-k8s"), &own));
    }
    items
}

fn filters(context: &ResourceContext<'_>) -> Vec<Item> {
    let Some(config) = &context.node.config else { return vec![] };
    let subnets: Vec<String> = subnets(&config.facts).iter().map(Prefix::to_string).collect();
    vec![
        Item::new("no-k8s", json!({ "includeSubnets": [], "excludeSubnets": subnets })),
        Item::new("only-k8s", json!({ "includeSubnets": subnets, "excludeSubnets": [] })),
    ]
}
