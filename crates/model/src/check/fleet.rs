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
            if let Some(common) = common_proxmox(cluster, other) {
                let neighbour = Neighbour { other, common, sources };
                clashes(cluster, &neighbour, out);
                devices(cluster, &neighbour, out);
                vmid_ranges(cluster, &neighbour, out);
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

/// What two clusters have in common that makes them share a Proxmox.
#[derive(Clone, Debug)]
enum Common {
    /// An endpoint: it is one Proxmox.
    Endpoint,
    /// The name of a host, where one of them names no endpoint: it may be one Proxmox.
    Host(String),
}

/// Another cluster that shares a Proxmox, or may.
struct Neighbour<'a> {
    other: &'a Cluster,
    common: Common,
    sources: &'a Sources,
}

impl Neighbour<'_> {
    /// What a clash with something at `span` of the other cluster is about.
    fn hint(&self, span: Span) -> String {
        let place = self.sources.locate(span);
        match &self.common {
            Common::Endpoint => format!("both live on one Proxmox; see {place}"),
            Common::Host(host) => format!(
                "both name the Proxmox host `{host}`; if these are two hosts, give each cluster its `proxmox.endpoint`; see {place}"
            ),
        }
    }
}

/// Two clusters share a Proxmox if they have an endpoint in common; where one of them names none,
/// they may if they live on a host of the same name.
fn common_proxmox(a: &Cluster, b: &Cluster) -> Option<Common> {
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
        return host(a).filter(|_| host(a) == host(b)).map(Common::Host);
    }
    of_a.iter().any(|url| of_b.contains(url)).then_some(Common::Endpoint)
}

fn clashes(cluster: &Cluster, neighbour: &Neighbour<'_>, out: &mut Findings) {
    let other = neighbour.other;
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
            .hint(neighbour.hint(*their_span)),
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
fn vmid_ranges(cluster: &Cluster, neighbour: &Neighbour<'_>, out: &mut Findings) {
    let other = neighbour.other;
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
            .hint(neighbour.hint(theirs.span)),
        );
    }
}

/// One device cannot be in machines of two clusters.
fn devices(cluster: &Cluster, neighbour: &Neighbour<'_>, out: &mut Findings) {
    let other = neighbour.other;
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
                .hint(neighbour.hint(theirs.pci.span)),
        );
    }
}
