//! What can be wrong with an inventory as a whole. Single values check themselves.

mod addon;
mod address;
mod fleet;
mod gpu;
mod identity;
mod machine;
mod network;
mod patch;
mod proxmox;
mod reference;
mod version;

use crate::cluster::Cluster;
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::value::Boot;

pub(crate) use fleet::fleet;
pub use reference::ReferenceKind;
pub(crate) use reference::{Referenced, references};

/// Everything that one cluster shows by itself.
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
    }
}

fn control_planes(cluster: &Cluster, out: &mut Findings) {
    let list = &cluster.file.controlplane;
    // Nodes that could not be read have been reported, and count.
    match cluster.listed_controlplanes {
        0 if list.is_bad() => {}
        0 => out.push(
            Diagnostic::error(Code::NoControlPlane, "the cluster has no control plane")
                .at(list.span.or(cluster.file.span))
                .hint("list at least one node under `controlplane:`, best three"),
        ),
        count if count % 2 == 0 => out.push(
            Diagnostic::warning(Code::EvenControlPlanes, format!("{count} control planes"))
                .at(list.span)
                .hint(format!(
                    "etcd needs a majority: {count} survive no more failures than {}; use an odd number",
                    count - 1
                )),
        ),
        _ => {}
    }
}

/// True if a node booted this way gets a static address.
fn is_static(boot: Boot) -> bool {
    boot != Boot::Dhcp
}
