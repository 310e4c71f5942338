//! Clusters that share a Proxmox must not take each other's names, addresses and vmids.

use std::collections::HashMap;

use super::identity::{Device, Identity, identities};
use crate::cluster::Cluster;
use crate::diagnostic::{Code, Diagnostic};
use crate::source::{Sources, Span};

pub(crate) fn fleet(
    clusters: &[Cluster],
    neighbours: &[Cluster],
    sources: &Sources,
    out: &mut Vec<Diagnostic>,
) {
    for (index, cluster) in clusters.iter().enumerate() {
        let others = clusters[..index].iter().chain(neighbours);
        for other in others.filter(|other| shares_proxmox(cluster, other)) {
            clashes(cluster, other, sources, out);
            devices(cluster, other, sources, out);
        }
    }
}

/// Two clusters share a Proxmox if they have an endpoint in common, or name no endpoint but the
/// same host.
fn shares_proxmox(a: &Cluster, b: &Cluster) -> bool {
    let endpoints = |cluster: &Cluster| -> Vec<String> {
        let endpoint = cluster.file.proxmox.endpoint.get();
        endpoint.into_iter().flat_map(|urls| urls.values().map(ToString::to_string)).collect()
    };
    let (of_a, of_b) = (endpoints(a), endpoints(b));
    if of_a.is_empty() && of_b.is_empty() {
        let host = |cluster: &Cluster| cluster.file.proxmox.node.get().map(ToString::to_string);
        return host(a).is_some() && host(a) == host(b);
    }
    of_a.iter().any(|url| of_b.contains(url))
}

fn clashes(cluster: &Cluster, other: &Cluster, sources: &Sources, out: &mut Vec<Diagnostic>) {
    let mut theirs: HashMap<Identity, (Span, String)> = HashMap::new();
    for (identity, span, node) in identities(other).chain(vip(other)) {
        theirs.entry(identity).or_insert_with(|| (span, node.to_owned()));
    }
    for (identity, span, node) in identities(cluster).chain(vip(cluster)) {
        if let Some((their_span, their_node)) = theirs.get(&identity) {
            let message = format!(
                "`{node}` has {identity}, which is `{their_node}`'s of the cluster `{}`",
                other.name
            );
            out.push(
                Diagnostic::error(Code::SharedClash, message)
                    .at(span)
                    .related(*their_span, "used there")
                    .hint(format!("both live on one Proxmox; see {}", sources.locate(*their_span))),
            );
        }
    }
}

fn vip(cluster: &Cluster) -> impl Iterator<Item = (Identity, Span, &str)> {
    let vip = cluster.file.network.vip.spanned();
    vip.into_iter().map(|vip| (Identity::Address(vip.value), vip.span, "the VIP"))
}

/// One device cannot be in machines of two clusters.
fn devices(cluster: &Cluster, other: &Cluster, sources: &Sources, out: &mut Vec<Diagnostic>) {
    let theirs: Vec<Device<'_>> = Device::all(other).collect();
    for ours in Device::all(cluster) {
        let Some(theirs) = theirs.iter().find(|theirs| theirs.overlaps(&ours)) else {
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
