//! Checks of an inventory as a whole. The types in [`crate::value`] check single values.

mod addon;
mod address;
mod gpu;
mod identity;
mod ignored;
mod ignored_path;
mod machine;
mod network;
mod patch;
mod proxmox;
mod reference;
mod shared_proxmox;
mod version;
mod vm_option;

use crate::cluster::Cluster;
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::value::Boot;

pub use reference::ReferenceKind;
pub(crate) use reference::{Referenced, references};
pub(crate) use shared_proxmox::check_clusters;

/// Runs all checks that need only this cluster.
pub(crate) fn cluster(cluster: &Cluster, out: &mut Findings) {
    control_planes(cluster, out);
    identity::check(cluster, out);
    version::check(cluster, out);
    network::check(cluster, out);
    address::check(cluster, out);
    addon::check(cluster, out);
    proxmox::check(cluster, out);
    patch::check(cluster, out);
    for node in &cluster.nodes {
        machine::check(cluster, node, out);
        gpu::check(node, out);
        vm_option::check(node, out);
        ignored::check(node, out);
    }
}

fn control_planes(cluster: &Cluster, out: &mut Findings) {
    let list = &cluster.file.controlplane;
    // Nodes that could not be read count too, because they were already reported.
    match cluster.listed_controlplanes {
        0 if list.is_bad() => {}
        0 => out.push(
            Diagnostic::error(Code::NoControlPlane, "the cluster has no control plane")
                .at(list.span.or(cluster.file.span))
                .hint("list at least one node under `controlplane:`; three are recommended"),
        ),
        count if count % 2 == 0 => out.push(
            Diagnostic::warning(Code::EvenControlPlanes, format!("the cluster has {count} control planes, an even number"))
                .at(list.span)
                .hint(format!(
                    "use an odd number: etcd needs a majority, so {count} survive no more failures than {}",
                    count - 1
                )),
        ),
        _ => {}
    }
}

/// Whether a node with this boot way gets a static address.
fn is_static(boot: Boot) -> bool {
    boot != Boot::Dhcp
}
