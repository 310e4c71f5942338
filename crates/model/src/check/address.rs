//! Checks of the addresses of the nodes.

use std::collections::HashMap;
use std::net::IpAddr;

use super::is_static;
use crate::cluster::{Cluster, Node};
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::language::Spanned;
use crate::source::Span;
use crate::value::Cidr;

pub(super) fn check(cluster: &Cluster, out: &mut Findings) {
    gateway_or_vip_in_use(cluster, out);
    missing_for_static_addresses(cluster, out);
    let foreign = foreign_networks(cluster);
    for node in &cluster.nodes {
        node_address(cluster, node, out);
        own_gateway(cluster, node, out);
        for (address, span) in addresses(node) {
            unusable_address(node, address, span, out);
            in_foreign_network(address, span, &foreign, out);
        }
    }
}

/// All addresses of a node, with their positions in the inventory.
fn addresses(node: &Node) -> impl Iterator<Item = (IpAddr, Span)> {
    let own = node.entry.ip.spanned().map(|ip| (ip.value.address, ip.span));
    let leased = node.entry.dhcp.spanned().map(|lease| (lease.value, lease.span));
    let nics = node.settings().hardware.nics.values();
    let further = nics.filter_map(|nic| nic.ip.spanned()).map(|ip| (ip.value.address, ip.span));
    own.into_iter().chain(leased).chain(further)
}

/// Reports a gateway or VIP that is also the address of a node, and a VIP that is also the gateway.
fn gateway_or_vip_in_use(cluster: &Cluster, out: &mut Findings) {
    let network = &cluster.file.network;
    let mut holders: HashMap<IpAddr, (&Node, Span)> = HashMap::new();
    for node in &cluster.nodes {
        for (address, span) in addresses(node) {
            holders.entry(address).or_insert((node, span));
        }
    }
    for (what, address) in [("gateway", &network.gateway), ("VIP", &network.vip)] {
        let Some(address) = address.spanned() else {
            continue;
        };
        if let Some((node, span)) = holders.get(&address.value) {
            let message =
                format!("the {what} {} is also an address of `{}`", address.value, node.name.value);
            let hint = if what == "VIP" {
                "choose an address for the VIP that no machine uses"
            } else {
                "give the node another address"
            };
            out.push(
                Diagnostic::error(Code::AddressClash, message)
                    .at(address.span)
                    .related(*span, "this node's address")
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
                .hint("choose an address for the VIP that no machine uses"),
        );
    }
}

/// Reports a node whose own gateway is its own address. `gateway_or_vip_in_use` checks the gateway of the cluster.
fn own_gateway(cluster: &Cluster, node: &Node, out: &mut Findings) {
    let (Some(gateway), Some(ip)) =
        (node.settings().placement.gateway.spanned(), node.entry.ip.spanned())
    else {
        return;
    };
    if gateway.value == ip.value.address
        && Some(gateway.span) != cluster.file.network.gateway.span()
    {
        let message =
            format!("`{}` uses its own address {} as gateway", node.name.value, gateway.value);
        out.push(
            Diagnostic::error(Code::AddressClash, message)
                .at(gateway.span)
                .related(ip.span, "the node's address")
                .hint("set `gateway` to the address of the router"),
        );
    }
}

/// Reports an address that a machine cannot use, such as a loopback or multicast address.
fn unusable_address(node: &Node, address: IpAddr, span: Span, out: &mut Findings) {
    let is_mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    let kind = if address.is_unspecified() {
        "the unspecified address"
    } else if address.is_loopback() {
        "a loopback address"
    } else if address.is_multicast() || address == IpAddr::from([255; 4]) {
        "a multicast or broadcast address"
    } else if is_link_local(address) {
        "a link-local address"
    } else if is_mapped {
        "an IPv4-mapped IPv6 address"
    } else {
        return;
    };
    out.push(
        Diagnostic::error(Code::BadValue, format!("`{}`: {address} is {kind}", node.name.value))
            .at(span)
            .hint("give the node an address of your network, such as `10.0.0.11`"),
    );
}

pub(super) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Networks of the pods and the services. A network that overlaps the subnet is omitted, because the check of
/// overlapping networks reports it.
fn foreign_networks(cluster: &Cluster) -> Vec<(&'static str, Spanned<Cidr>)> {
    let pods = cluster.pod_cidrs().into_iter().map(|cidr| ("the pods", cidr));
    let services = cluster.service_cidrs().into_iter().map(|cidr| ("the services", cidr));
    let subnet = cluster.file.network.subnet.get();
    let overlaps = |cidr: Cidr| subnet.is_some_and(|subnet| subnet.overlaps(cidr));
    pods.chain(services).filter(|(_, cidr)| !overlaps(cidr.value)).collect()
}

fn in_foreign_network(
    address: IpAddr,
    span: Span,
    networks: &[(&'static str, Spanned<Cidr>)],
    out: &mut Findings,
) {
    for (whose, network) in networks {
        if network.value.contains(address) {
            let message = format!("{address} is in the network of {whose} ({})", network.value);
            out.push(
                Diagnostic::error(Code::NetworkOverlap, message)
                    .at(span)
                    .related(network.span, "this network")
                    .hint("use different networks for nodes, pods and services"),
            );
        }
    }
}

/// Reports an address that is outside the subnet, or that is the network or broadcast address of the subnet.
pub(super) fn in_subnet(
    what: &str,
    address: IpAddr,
    span: Span,
    subnet: &Spanned<Cidr>,
    out: &mut Findings,
) {
    if !subnet.value.contains(address) {
        out.push(
            Diagnostic::error(
                Code::OutsideSubnet,
                format!("{what} {address} is outside the subnet {}", subnet.value),
            )
            .at(span)
            .related(subnet.span, "the subnet")
            .hint("change the address or the subnet"),
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
            .hint("choose another address of the subnet"),
        );
    }
}

fn node_address(cluster: &Cluster, node: &Node, out: &mut Findings) {
    let boot = *node.settings().system.boot.required();
    let Some(ip) = node.entry.ip.spanned() else {
        if is_static(boot) && node.entry.ip.is_absent() {
            out.push(
                Diagnostic::warning(
                    Code::NeededLater,
                    format!("`{}` has no address", node.name.value),
                )
                .at(node.name.span)
                .hint(format!("add `ip: …`, which `boot: {boot}` needs")),
            );
        }
        return;
    };
    let (what, address) = (format!("`{}`:", node.name.value), ip.value.address);
    match ip.value.network() {
        // The prefix length of the address determines its network.
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
        && !is_link_local(gateway.value)
    {
        out.push(
            Diagnostic::error(
                Code::OutsideSubnet,
                format!("the gateway {} is not in the node's network {network}", gateway.value),
            )
            .at(gateway.span)
            .related(ip.span, "the node's address")
            .hint("use a gateway in the network of the node"),
        );
    }
}

/// Reports missing settings that static addresses need. There is one finding for all nodes.
fn missing_for_static_addresses(cluster: &Cluster, out: &mut Findings) {
    let is_static_node = |node: &&Node| {
        is_static(*node.settings().system.boot.required()) && node.entry.ip.is_given()
    };
    let network = &cluster.file.network;
    let at = network.span.or(cluster.file.controlplane.span);
    let without = |lacks: fn(&Node, &Cluster) -> bool| {
        cluster.nodes.iter().filter(is_static_node).find(|node| lacks(node, cluster))
    };
    if network.subnet.is_absent()
        && let Some(node) = without(|node, cluster| node.prefix_len(cluster).is_none())
    {
        out.push(
            Diagnostic::warning(Code::NeededLater, "the nodes' addresses have no prefix length")
                .at(at)
                .related(node.entry.ip.span(), "this address has no prefix length")
                .hint("add `network: {subnet: …}`, or write addresses as `10.0.0.11/24`"),
        );
    }
    if network.gateway.is_absent()
        && without(|node, _| node.settings().placement.gateway.is_absent()).is_some()
    {
        out.push(
            Diagnostic::warning(Code::NeededLater, "the nodes have no gateway").at(at).hint(
                "add `network: {gateway: …}`: static addresses need it to reach the internet",
            ),
        );
    }
}
