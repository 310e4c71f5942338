//! Networks and addresses.

use std::net::IpAddr;

use super::is_static;
use crate::cluster::{Cluster, Node};
use crate::diagnostic::{Code, Diagnostic};
use crate::language::Spanned;
use crate::source::Span;
use crate::value::{Cidr, NetworkForm, VipBy};

pub(super) fn check(cluster: &Cluster, out: &mut Vec<Diagnostic>) {
    overlaps(cluster, out);
    taken_addresses(cluster, out);
    special_addresses(cluster, out);
    if cluster.nodes.iter().any(Node::is_talos) {
        vip(cluster, out);
    }
    documents_form(cluster, out);
    missing_for_static_addresses(cluster, out);
    for node in &cluster.nodes {
        node_address(cluster, node, out);
    }
}

fn overlaps(cluster: &Cluster, out: &mut Vec<Diagnostic>) {
    let mut networks: Vec<(&str, Spanned<Cidr>)> = vec![];
    networks
        .extend(cluster.file.network.subnet.spanned().map(|subnet| ("the nodes", subnet.clone())));
    networks.extend(cluster.pod_cidrs().into_iter().map(|cidr| ("the pods", cidr)));
    networks.extend(cluster.service_cidrs().into_iter().map(|cidr| ("the services", cidr)));
    for (index, (whose, network)) in networks.iter().enumerate() {
        for (other_whose, other) in &networks[..index] {
            if network.value.overlaps(other.value) {
                let message = format!(
                    "the network of {whose} ({}) overlaps that of {other_whose} ({})",
                    network.value, other.value
                );
                out.push(
                    Diagnostic::error(Code::NetworkOverlap, message)
                        .at(network.span)
                        .related(other.span, "overlaps this one")
                        .hint("choose networks that have no address in common"),
                );
            }
        }
    }
    // Without a subnet the addresses of the nodes themselves tell.
    if cluster.file.network.subnet.is_given() {
        return;
    }
    for node in &cluster.nodes {
        let Some(ip) = node.entry.ip.spanned() else {
            continue;
        };
        for (whose, network) in &networks {
            if network.value.contains(ip.value.address) {
                let message = format!(
                    "{} lies in the network of {whose} ({})",
                    ip.value.address, network.value
                );
                out.push(
                    Diagnostic::error(Code::NetworkOverlap, message)
                        .at(ip.span)
                        .related(network.span, "this network")
                        .hint("nodes, pods and services need networks of their own"),
                );
            }
        }
    }
}

/// The gateway and the VIP are no node's.
fn taken_addresses(cluster: &Cluster, out: &mut Vec<Diagnostic>) {
    let network = &cluster.file.network;
    let special = [("gateway", &network.gateway), ("VIP", &network.vip)];
    for (what, address) in special {
        let Some(address) = address.spanned() else {
            continue;
        };
        let holder = cluster.nodes.iter().find(|node| node.address() == Some(address.value));
        if let Some(node) = holder {
            let message =
                format!("the {what} {} is the address of `{}`", address.value, node.name.value);
            let hint = if what == "VIP" {
                "a VIP is an address that no machine has; choose a free one"
            } else {
                "give the node another address"
            };
            out.push(
                Diagnostic::error(Code::AddressClash, message)
                    .at(address.span)
                    .related(node.entry.ip.span(), "this node's address")
                    .hint(hint),
            );
        }
    }
    if let (Some(gateway), Some(vip)) = (network.gateway.spanned(), network.vip.spanned())
        && gateway.value == vip.value
    {
        out.push(
            Diagnostic::error(Code::AddressClash, format!("the VIP {} is the gateway", vip.value))
                .at(vip.span)
                .related(gateway.span, "the gateway")
                .hint("a VIP is an address that no machine has; choose a free one"),
        );
    }
}

/// The gateway and the VIP lie in the subnet.
fn special_addresses(cluster: &Cluster, out: &mut Vec<Diagnostic>) {
    let network = &cluster.file.network;
    let Some(subnet) = network.subnet.spanned() else {
        return;
    };
    for (what, address) in [("gateway", &network.gateway), ("VIP", &network.vip)] {
        if let Some(address) = address.spanned() {
            in_subnet(&format!("the {what}"), address.value, address.span, subnet, out);
        }
    }
}

fn in_subnet(
    what: &str,
    address: IpAddr,
    span: Span,
    subnet: &Spanned<Cidr>,
    out: &mut Vec<Diagnostic>,
) {
    if !subnet.value.contains(address) {
        out.push(
            Diagnostic::error(
                Code::OutsideSubnet,
                format!("{what} {address} is outside the subnet {}", subnet.value),
            )
            .at(span)
            .related(subnet.span, "the subnet")
            .hint("correct one of the two"),
        );
    } else if address == subnet.value.network() && subnet.value.prefix_len() < 31
        || Some(address) == subnet.value.broadcast()
    {
        out.push(
            Diagnostic::error(
                Code::OutsideSubnet,
                format!("{what} {address} is the network or broadcast address of {}", subnet.value),
            )
            .at(span)
            .hint("no machine can have it; choose another"),
        );
    }
}

fn node_address(cluster: &Cluster, node: &Node, out: &mut Vec<Diagnostic>) {
    let boot = *node.settings().system.boot.required();
    let Some(ip) = node.entry.ip.spanned() else {
        if is_static(boot) && node.entry.ip.span().is_none() {
            out.push(
                Diagnostic::warning(
                    Code::NeededLater,
                    format!("`{}` has no address", node.name.value),
                )
                .at(node.name.span)
                .hint(format!("`boot: {boot}` will need `ip: …`")),
            );
        }
        return;
    };
    let (what, address) = (format!("`{}`:", node.name.value), ip.value.address);
    match ip.value.network() {
        // An address with its own prefix says itself which network it is in.
        Some(own) => {
            in_subnet(&what, address, ip.span, &Spanned { value: own, span: ip.span }, out);
        }
        None => {
            if let Some(subnet) = cluster.file.network.subnet.spanned() {
                in_subnet(&what, address, ip.span, subnet, out);
            }
        }
    }
    let gateway = &node.settings().placement.gateway;
    let network = ip.value.network().or(cluster.file.network.subnet.get().copied());
    if let (Some(gateway), Some(network)) = (gateway.spanned(), network)
        && gateway.span != cluster.file.network.gateway.span().unwrap_or(ip.span)
        && !network.contains(gateway.value)
    {
        out.push(
            Diagnostic::error(
                Code::OutsideSubnet,
                format!("the gateway {} cannot be reached from {network}", gateway.value),
            )
            .at(gateway.span)
            .related(ip.span, "the node's address")
            .hint("a gateway lies in the network of the node"),
        );
    }
}

fn vip(cluster: &Cluster, out: &mut Vec<Diagnostic>) {
    let network = &cluster.file.network;
    let Some(vip) = network.vip.spanned() else {
        let controlplanes = cluster.listed_controlplanes;
        if controlplanes > 1 && !cluster.file.endpoint.is_given() {
            out.push(
                Diagnostic::warning(
                    Code::Questionable,
                    format!("{controlplanes} control planes, but clients only know the first"),
                )
                .at(network.span.or(cluster.file.controlplane.span))
                .hint("add `vip: …` with a free address, or `endpoint:` with a load balancer"),
            );
        }
        return;
    };
    if let Some(endpoint) = cluster.file.endpoint.spanned()
        && let Some(address) = endpoint.value.address()
        && address != vip.value
        && !cluster.nodes.iter().any(|node| node.address() == Some(address))
    {
        out.push(
            Diagnostic::warning(
                Code::Questionable,
                format!("the endpoint {address} is neither the VIP nor a node"),
            )
            .at(endpoint.span)
            .related(vip.span, "the VIP")
            .hint(format!("leave `endpoint` out to use https://{}:6443", vip.value)),
        );
    }
}

fn documents_form(cluster: &Cluster, out: &mut Vec<Diagnostic>) {
    let network = &cluster.file.network;
    let (Some(form), Some(talos)) = (network.form.spanned(), cluster.file.talos_version.spanned())
    else {
        return;
    };
    if form.value == NetworkForm::Documents && talos.value.minor() < (1, 12) {
        out.push(
            Diagnostic::error(
                Code::Conflict,
                format!("Talos {} has no network documents", talos.value),
            )
            .at(form.span)
            .related(talos.span, "this version")
            .hint("they came with v1.12; leave `form` out"),
        );
    }
    if network.vip_by.get() == Some(&VipBy::KubeVip) && !network.vip.is_given() {
        out.push(
            Diagnostic::warning(Code::Questionable, "kube-vip holds no address")
                .at(network.vip_by.span())
                .hint("add `vip: …`"),
        );
    }
}

/// What a plan will need for static addresses. One finding for all nodes.
fn missing_for_static_addresses(cluster: &Cluster, out: &mut Vec<Diagnostic>) {
    let is_static_node = |node: &&Node| {
        is_static(*node.settings().system.boot.required()) && node.entry.ip.is_given()
    };
    let network = &cluster.file.network;
    let at = network.span.or(cluster.file.controlplane.span);
    let without = |lacks: fn(&Node, &Cluster) -> bool| {
        cluster.nodes.iter().filter(is_static_node).find(|node| lacks(node, cluster))
    };
    if network.subnet.span().is_none()
        && let Some(node) = without(|node, cluster| node.prefix_len(cluster).is_none())
    {
        out.push(
            Diagnostic::warning(Code::NeededLater, "the prefix length of the nodes is not known")
                .at(at)
                .related(node.entry.ip.span(), "how large is this network?")
                .hint("add `network: {subnet: …}`, or write addresses as `10.0.0.11/24`"),
        );
    }
    if network.gateway.span().is_none()
        && without(|node, _| !node.settings().placement.gateway.is_given()).is_some()
    {
        out.push(
            Diagnostic::warning(Code::NeededLater, "the nodes have no gateway").at(at).hint(
                "add `network: {gateway: …}`: static addresses need it to reach the internet",
            ),
        );
    }
}
