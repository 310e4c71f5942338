//! The address that control planes share: who is to bring it, and what clients are told until it answers.

use super::Builder;
use super::action::{Meanwhile, SharedAddress, VipBringer};
use super::change::Finding;
use crate::desired::Desired;
use crate::kube::Manifest;
use crate::observe::{AddonRead, PortSeen, VipSeen, World};

/// Where API servers listen.
pub(super) const PORT: u16 = 6443;

/// What the configs of nodes have to say where one of them brings it, by a static pod or by a manifest.
const BY_CONFIG: &str = "kube-vip";

/// Whether a kubeconfig that leads around the shared address is what there should be for now: nobody of this cluster answers
/// there.
pub fn leads_around(desired: &Desired, world: &World) -> bool {
    may_lead_around(desired) && world.vip != VipSeen::Answers(PortSeen::Ours)
}

/// Whether such a one may be what there should be for long: the shared address is the endpoint, and not Talos's to bring.
pub fn may_lead_around(desired: &Desired) -> bool {
    is_endpoint(desired) && !desired.is_vip_by_talos
}

/// Whether the shared address is where clients find the Kubernetes API.
fn is_endpoint(desired: &Desired) -> bool {
    let Some(address) = desired.vip else { return false };
    let host = if address.is_ipv4() { address.to_string() } else { format!("[{address}]") };
    let own = format!("https://{host}:{PORT}");
    desired.endpoint.as_ref().is_some_and(|url| url.trim_end_matches('/') == own)
}

/// The shared address, if that is where clients find the Kubernetes API.
pub(super) fn shared(builder: &Builder<'_>, meanwhile: Meanwhile) -> Option<SharedAddress> {
    let address = builder.desired.vip.filter(|_| is_endpoint(builder.desired))?;
    Some(SharedAddress { address, port: PORT, meanwhile })
}

/// Who is to bring it.
pub(super) fn bringer(builder: &Builder<'_>) -> VipBringer {
    let desired = builder.desired;
    if desired.is_vip_by_talos {
        return VipBringer::Talos;
    }
    let mut may_be = false;
    for addon in &desired.addons {
        match builder.world.addons.read.get(&addon.name) {
            Some(AddonRead::Objects(all)) if all.iter().any(Manifest::holds_shared_address) => {
                return VipBringer::Addon(addon.name.clone());
            }
            Some(AddonRead::Objects(all)) => may_be |= all.iter().any(Manifest::names_kube_vip),
            Some(AddonRead::Wrong(_) | AddonRead::Unreachable(_)) | None => may_be = true,
        }
    }
    let mut planes = desired.control_planes();
    if may_be || planes.any(|node| node.config.expose().contains(BY_CONFIG)) {
        VipBringer::Perhaps
    } else {
        VipBringer::Nobody
    }
}

/// That nobody brings it is no reason not to go on: people may do so by hand, once there is a cluster.
pub(super) fn nobody(desired: &Desired) -> Option<Finding> {
    let address = desired.vip?;
    let message = format!("nobody brings {address}: it is left to kube-vip, which no add-on has");
    let until = if is_endpoint(desired) {
        "; until somebody answers there, kubeconfig leads to one control plane"
    } else {
        ""
    };
    let hint = format!("add kube-vip to `addons:`, or let Talos hold it by `vip_by: talos`{until}");
    Some(Finding::warning("network.vip", message).hint(hint))
}
