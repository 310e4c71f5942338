//! Clusters that share a Proxmox must not take each other's names, addresses and vmids.

use std::collections::HashMap;

use super::identity::{Device, Identity, identities};
use crate::cluster::Cluster;
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::language::OneOrMany;
use crate::source::{Sources, Span};

pub(crate) fn fleet(
    clusters: &[Cluster],
    neighbours: &[Cluster],
    sources: &Sources,
    out: &mut Findings,
) {
    for (index, cluster) in clusters.iter().enumerate() {
        for other in clusters[..index].iter().chain(neighbours) {
            same_name(cluster, other, out);
            if shares_proxmox(cluster, other) {
                clashes(cluster, other, sources, out);
                devices(cluster, other, sources, out);
                vmid_ranges(cluster, other, sources, out);
            }
        }
    }
}

/// Clusters are told apart by name: on Proxmox, in kubeconfigs, on the command line.
fn same_name(cluster: &Cluster, other: &Cluster, out: &mut Findings) {
    if cluster.name != other.name || cluster.is_torn || other.is_torn {
        return;
    }
    let place = |cluster: &Cluster| cluster.file.cluster_name.span().or(cluster.place);
    out.push(
        Diagnostic::error(
            Code::SharedClash,
            format!("two clusters of the inventory are called `{}`", cluster.name),
        )
        .at(place(cluster))
        .related(place(other), "the other one")
        .hint("give each its own `cluster_name`"),
    );
}

/// Two clusters share a Proxmox if they have an endpoint in common; where one of them names none,
/// if they live on the same host.
fn shares_proxmox(a: &Cluster, b: &Cluster) -> bool {
    let endpoints = |cluster: &Cluster| -> Vec<(String, u16)> {
        let endpoint = cluster.file.proxmox.endpoint.get();
        let urls = endpoint.into_iter().flat_map(OneOrMany::values);
        urls.map(|url| (url.host.to_lowercase(), url.port)).collect()
    };
    let (of_a, of_b) = (endpoints(a), endpoints(b));
    if of_a.is_empty() || of_b.is_empty() {
        let host = |cluster: &Cluster| {
            cluster.file.proxmox.node.get().map(|host| host.as_str().to_lowercase())
        };
        return host(a).is_some() && host(a) == host(b);
    }
    of_a.iter().any(|url| of_b.contains(url))
}

fn clashes(cluster: &Cluster, other: &Cluster, sources: &Sources, out: &mut Findings) {
    let mut theirs: HashMap<Identity, (Span, Option<&str>)> = HashMap::new();
    for (identity, span, node) in all_identities(other) {
        theirs.entry(identity).or_insert((span, node));
    }
    for (identity, span, ours) in all_identities(cluster) {
        let Some((their_span, whose)) = theirs.get(&identity) else {
            continue;
        };
        let ours = match (&identity, ours) {
            (Identity::Address(address), None) => format!("the VIP {address}"),
            (_, node) => format!("{identity} of `{}`", node.unwrap_or_default()),
        };
        let whose = match whose {
            Some(node) => format!("`{node}`'s"),
            None => "the VIP".to_owned(),
        };
        out.push(
            Diagnostic::error(
                Code::SharedClash,
                format!("{ours} is {whose} of the cluster `{}` too", other.name),
            )
            .at(span)
            .related(*their_span, "used there")
            .hint(format!("both live on one Proxmox; see {}", sources.locate(*their_span))),
        );
    }
}

/// What the nodes have, and the VIP, which is no node's.
fn all_identities(cluster: &Cluster) -> impl Iterator<Item = (Identity, Span, Option<&str>)> {
    let of_nodes = identities(cluster).map(|(identity, span, node)| (identity, span, Some(node)));
    let vip = cluster.file.network.vip.spanned();
    of_nodes.chain(vip.map(|vip| (Identity::Address(vip.value), vip.span, None)))
}

/// Two clusters that take new vmids from one range will take the same ones.
fn vmid_ranges(cluster: &Cluster, other: &Cluster, sources: &Sources, out: &mut Findings) {
    let range = |cluster: &Cluster| cluster.file.proxmox.vmid_range.spanned().cloned();
    let (Some(ours), Some(theirs)) = (range(cluster), range(other)) else {
        return;
    };
    // A range in defaults.yaml is shared on purpose.
    let is_overlap = ours.value.first <= theirs.value.last && theirs.value.first <= ours.value.last;
    if is_overlap && ours.span != theirs.span {
        out.push(
            Diagnostic::warning(
                Code::SharedClash,
                format!(
                    "the vmids {} overlap those of the cluster `{}` ({})",
                    ours.value, other.name, theirs.value
                ),
            )
            .at(ours.span)
            .related(theirs.span, "the other range")
            .hint(format!("both live on one Proxmox; see {}", sources.locate(theirs.span))),
        );
    }
}

/// One device cannot be in machines of two clusters.
fn devices(cluster: &Cluster, other: &Cluster, sources: &Sources, out: &mut Findings) {
    let mut theirs: HashMap<_, Vec<Device<'_>>> = HashMap::new();
    for device in Device::all(other) {
        theirs.entry(device.slot()).or_default().push(device);
    }
    for ours in Device::all(cluster) {
        let in_slot = theirs.get(&ours.slot()).into_iter().flatten();
        let Some(theirs) = in_slot.into_iter().find(|theirs| theirs.overlaps(&ours)) else {
            continue;
        };
        let message = format!(
            "`{}` wants the device {} of {}, which is `{}`'s of the cluster `{}`",
            ours.node.value, ours.pci.value, ours.host, theirs.node.value, other.name
        );
        out.push(
            Diagnostic::error(Code::SharedClash, message)
                .at(ours.pci.span)
                .related(theirs.pci.span, "used there")
                .hint(format!("both live on one Proxmox; see {}", sources.locate(theirs.pci.span))),
        );
    }
}
