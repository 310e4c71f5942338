//! The shared address of the control planes: its holder, and the content of client files until the address answers.

use super::builder::Builder;
use crate::desired::Desired;
use crate::manifest::Manifest;
use crate::observed::{AddonRead, Observed, PortSeen, VipSeen};
use crate::plan::{Finding, FindingCode, Meanwhile, SharedAddress, VipBringer};

/// The port of the Kubernetes API.
pub(super) const PORT: u16 = 6443;

/// Text in a machine config with a static pod or a manifest that assigns the shared address.
const BY_CONFIG: &str = "kube-vip";

/// Whether kubeconfig may contain the address of a control plane now, because this cluster does not answer at the shared
/// address.
pub fn leads_around(desired: &Desired, observed: &Observed) -> bool {
    may_lead_around(desired) && observed.vip != VipSeen::Answers(PortSeen::ThisCluster)
}

/// Whether kubeconfig may contain the address of a control plane at any time. This is so if the shared address is the
/// endpoint and Talos does not assign it.
pub fn may_lead_around(desired: &Desired) -> bool {
    is_endpoint(desired) && !desired.is_vip_by_talos
}

/// Whether the shared address is the endpoint of the Kubernetes API.
fn is_endpoint(desired: &Desired) -> bool {
    let Some(address) = desired.vip else { return false };
    let host = if address.is_ipv4() { address.to_string() } else { format!("[{address}]") };
    let own = format!("https://{host}:{PORT}");
    desired.endpoint.as_ref().is_some_and(|url| url.trim_end_matches('/') == own)
}

/// The shared address, if it is the endpoint of the Kubernetes API.
pub(super) fn shared(builder: &Builder<'_>, meanwhile: Meanwhile) -> Option<SharedAddress> {
    let address = builder.desired.vip.filter(|_| is_endpoint(builder.desired))?;
    Some(SharedAddress { address, port: PORT, meanwhile })
}

/// The component that will hold the shared address.
pub(super) fn bringer(builder: &Builder<'_>) -> VipBringer {
    let desired = builder.desired;
    if desired.is_vip_by_talos {
        return VipBringer::Talos;
    }
    let mut may_be = false;
    for addon in &desired.addons {
        match builder.observed.addons.read.get(&addon.name) {
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

/// The warning that no holder of the shared address is known. It is not an error, because the user may install one after the
/// cluster runs.
pub(super) fn unheld(desired: &Desired) -> Option<Finding> {
    let address = desired.vip?;
    let message =
        format!("no component holds {address}: it is left to kube-vip, which no add-on brings");
    let until = if is_endpoint(desired) {
        "; until it answers, kubeconfig leads to one control plane"
    } else {
        ""
    };
    let hint = format!("add kube-vip to `addons:`, or let Talos hold it by `vip_by: talos`{until}");
    Some(Finding::warning(FindingCode::VipUnheld, "network.vip", message).hint(hint))
}
