//! Checks that clusters on the same Proxmox use different names, addresses and vmids.

use std::collections::HashMap;

use super::identity::{Device, Identity, identities};
use crate::cluster::Cluster;
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::language::OneOrMany;
use crate::source::{Sources, Span};

pub(crate) fn check_clusters(
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

/// Reports two clusters with the same name, because Proxmox tags, kubeconfigs and commands identify a cluster by its
/// name.
fn same_name(cluster: &Cluster, other: &Cluster, out: &mut Findings) {
    if cluster.name != other.name || cluster.is_unreadable || other.is_unreadable {
        return;
    }
    let place = |cluster: &Cluster| cluster.file.cluster_name.span().or(cluster.place);
    out.push(
        Diagnostic::error(
            Code::SharedClash,
            format!("two clusters of the inventory are named `{}`", cluster.name),
        )
        .at(place(cluster))
        .related(place(other), "the other cluster")
        .hint("give each cluster its own `cluster_name`"),
    );
}

/// Reason to assume that two clusters use the same Proxmox.
#[derive(Clone, Debug)]
enum Common {
    /// The clusters have the same endpoint, so they use the same Proxmox.
    Endpoint,
    /// The clusters have a host name in common, and one of them has no endpoint, so they may use the same Proxmox.
    Host(String),
}

/// Another cluster that uses, or may use, the same Proxmox.
struct Neighbour<'a> {
    other: &'a Cluster,
    common: Common,
    sources: &'a Sources,
}

impl Neighbour<'_> {
    /// Hint for a conflict with the object at `span` of the other cluster.
    fn hint(&self, span: Span) -> String {
        let place = self.sources.locate(span);
        match &self.common {
            Common::Endpoint => {
                format!("change one of the two: both clusters use the same Proxmox; see {place}")
            }
            Common::Host(host) => format!(
                "change one of the two: both clusters use a Proxmox host named `{host}`. If these are two hosts, give each cluster its `proxmox.endpoint`; see {place}"
            ),
        }
    }
}

/// Reason to assume that two clusters use the same Proxmox: a common endpoint, or a common host name if one cluster has
/// no endpoint.
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
    for (identity, span, own) in all_identities(cluster) {
        let Some((their_span, whose)) = theirs.get(&identity) else {
            continue;
        };
        let own = match (&identity, own) {
            (Identity::Address(address), None) => format!("the VIP {address}"),
            (_, node) => format!("{identity} of `{}`", node.unwrap_or_default()),
        };
        let whose = match whose {
            Some(node) => format!("used by `{node}`"),
            None => "the VIP".to_owned(),
        };
        out.push(
            Diagnostic::error(
                Code::SharedClash,
                format!("{own} is also {whose} of the cluster `{}`", other.name),
            )
            .at(span)
            .related(*their_span, "used there")
            .hint(neighbour.hint(*their_span)),
        );
    }
}

/// Identities of all nodes, and the VIP. The VIP has no node.
fn all_identities(cluster: &Cluster) -> impl Iterator<Item = (Identity, Span, Option<&str>)> {
    let of_nodes = identities(cluster).map(|(identity, span, node)| (identity, span, Some(node)));
    let vip = cluster.file.network.vip.spanned();
    of_nodes.chain(vip.map(|vip| (Identity::Address(vip.value), vip.span, None)))
}

/// Reports overlapping vmid ranges, because both clusters would use the same vmids for new VMs.
fn vmid_ranges(cluster: &Cluster, neighbour: &Neighbour<'_>, out: &mut Findings) {
    let other = neighbour.other;
    let range = |cluster: &Cluster| cluster.file.proxmox.vmid_range.spanned().cloned();
    let (Some(own), Some(theirs)) = (range(cluster), range(other)) else {
        return;
    };
    // If both clusters have the range from defaults.yaml, they share it on purpose.
    let is_overlap = own.value.first <= theirs.value.last && theirs.value.first <= own.value.last;
    if is_overlap && own.span != theirs.span {
        out.push(
            Diagnostic::warning(
                Code::SharedClash,
                format!(
                    "the vmid range {} overlaps the range of the cluster `{}` ({})",
                    own.value, other.name, theirs.value
                ),
            )
            .at(own.span)
            .related(theirs.span, "the other range")
            .hint(neighbour.hint(theirs.span)),
        );
    }
}

/// Reports a PCI device that two clusters pass through.
fn devices(cluster: &Cluster, neighbour: &Neighbour<'_>, out: &mut Findings) {
    let other = neighbour.other;
    let mut theirs: HashMap<_, Vec<Device<'_>>> = HashMap::new();
    for device in Device::all(other) {
        theirs.entry(device.slot()).or_default().push(device);
    }
    for own in Device::all(cluster) {
        let in_slot = theirs.get(&own.slot()).into_iter().flatten();
        let Some(theirs) = in_slot.into_iter().find(|theirs| theirs.overlaps(&own)) else {
            continue;
        };
        let message = format!(
            "`{}` passes through the device {} of {}, which `{}` of the cluster `{}` uses",
            own.node.value, own.pci.value, own.host, theirs.node.value, other.name
        );
        out.push(
            Diagnostic::error(Code::SharedClash, message)
                .at(own.pci.span)
                .related(theirs.pci.span, "used there")
                .hint(neighbour.hint(theirs.pci.span)),
        );
    }
}
