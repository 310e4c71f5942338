//! Checks of networks, the VIP and the endpoint of the cluster.

use super::address::{in_subnet, is_link_local};
use crate::cluster::{Cluster, Node};
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::language::Spanned;
use crate::value::{Boot, Cidr, NetworkForm, VipBy};

pub(super) fn check(cluster: &Cluster, out: &mut Findings) {
    overlaps(cluster, out);
    special_addresses(cluster, out);
    if cluster.nodes.iter().any(Node::is_talos) {
        vip(cluster, out);
    }
    form(cluster, out);
    kube_vip(cluster, out);
    endpoint(cluster, out);
}

fn overlaps(cluster: &Cluster, out: &mut Findings) {
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
}

/// Reports a gateway or VIP outside the subnet.
fn special_addresses(cluster: &Cluster, out: &mut Findings) {
    let network = &cluster.file.network;
    let Some(subnet) = network.subnet.spanned() else {
        return;
    };
    for (what, address) in [("gateway", &network.gateway), ("VIP", &network.vip)] {
        // IPv6 routers use link-local addresses, so a link-local gateway is allowed.
        if let Some(address) = address.spanned()
            && !(what == "gateway" && is_link_local(address.value))
        {
            in_subnet(&format!("the {what}"), address.value, address.span, subnet, out);
        }
    }
}

fn vip(cluster: &Cluster, out: &mut Findings) {
    let network = &cluster.file.network;
    let Some(vip) = network.vip.spanned() else {
        let controlplanes = cluster.listed_controlplanes;
        let mut planes = cluster.controlplanes().filter(|node| node.is_talos()).peekable();
        let is_hidden = |node: &Node| {
            let system = &node.settings().system;
            let has_agent = system.image.has_extension("siderolabs/qemu-guest-agent");
            *system.boot.required() == Boot::Dhcp && has_agent && node.contact().is_none()
        };
        if network.vip.is_absent() && planes.peek().is_some() && planes.all(is_hidden) {
            out.push(
                Diagnostic::warning(
                    Code::NeededLater,
                    "the address of the Kubernetes API is not known: all control planes get theirs by DHCP",
                )
                .at(network.span.or(cluster.file.controlplane.span))
                .hint("add `vip: …` with a free address, or the address of a control plane's lease as `dhcp: …`"),
            );
        } else if controlplanes > 1 && cluster.file.endpoint.is_absent() && network.vip.is_absent()
        {
            out.push(
                Diagnostic::warning(
                    Code::Questionable,
                    format!("clients reach only the first of {controlplanes} control planes"),
                )
                .at(network.span.or(cluster.file.controlplane.span))
                .hint("add `vip: …` with a free address, or `endpoint:` with a load balancer"),
            );
        }
        return;
    };
    if let Some(endpoint) = cluster.file.endpoint.spanned()
        && let Some(address) = endpoint.value.ip()
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
            .hint(format!("omit `endpoint` to use https://{}:6443", vip.value)),
        );
    }
}

/// Reports network documents for a Talos version that does not support them.
fn form(cluster: &Cluster, out: &mut Findings) {
    let network = &cluster.file.network;
    let (Some(form), Some(talos)) = (network.form.spanned(), cluster.file.talos_version.spanned())
    else {
        return;
    };
    if form.value == NetworkForm::Documents && talos.value.minor() < (1, 12) {
        out.push(
            Diagnostic::error(
                Code::Conflict,
                format!("Talos {} does not support network documents", talos.value),
            )
            .at(form.span)
            .related(talos.span, "the Talos version")
            .hint("omit `form`, or use Talos v1.12 or newer"),
        );
    }
}

fn kube_vip(cluster: &Cluster, out: &mut Findings) {
    let network = &cluster.file.network;
    if network.vip_by.get() == Some(&VipBy::KubeVip) && network.vip.is_absent() {
        out.push(
            Diagnostic::warning(
                Code::Questionable,
                "`vip_by: kube-vip` has no effect without `vip`",
            )
            .at(network.vip_by.span())
            .hint("add `vip: …`"),
        );
    }
}

/// Reports an endpoint that does not use https or has a path.
fn endpoint(cluster: &Cluster, out: &mut Findings) {
    let Some(endpoint) = cluster.file.endpoint.spanned() else {
        return;
    };
    let problem = if !endpoint.value.https {
        "the Kubernetes API answers on https only"
    } else if !matches!(endpoint.value.path.as_str(), "" | "/") {
        "the endpoint of a cluster cannot have a path"
    } else {
        return;
    };
    out.push(
        Diagnostic::error(Code::BadValue, problem)
            .at(endpoint.span)
            .hint("write `https://HOST:6443`"),
    );
}
