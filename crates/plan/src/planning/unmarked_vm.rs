//! VMs that have a sign of this cluster but no marker, while a bootstrap of etcd is planned.
//!
//! If the notes or the name of a VM were edited, or if the inventory was edited, planning does not recognise the VM as a
//! witness. The VM may still be a control plane with etcd data. So such a VM is reported before anything is created.

use super::builder::Builder;
use crate::desired::DesiredNode;
use crate::ownership::UnmarkedSign;
use crate::plan::{Finding, FindingCode};

/// Errors that prevent a bootstrap of etcd, one for each VM.
pub(super) fn keep_from_bootstrap(builder: &Builder<'_>) -> Vec<Finding> {
    let (desired, pve) = (builder.desired, &builder.observed.pve);
    let cluster = &desired.cluster;
    let mut findings = vec![];
    for (vmid, seen) in &pve.vms {
        let Ok(config) = &seen.config else { continue };
        // A VM with the UUID of a node is reported together with that node.
        let uuid = config.smbios().uuid;
        let is_of = |node: &DesiredNode| uuid == Some(node.identity.uuid.to_string());
        if desired.nodes.iter().any(is_of) {
            continue;
        }
        let pool = pve.guest(*vmid).and_then(|guest| guest.pool.as_ref());
        let is_in_pool =
            pool.is_some() && desired.nodes.iter().any(|node| node.pool.as_ref() == pool);
        let Some(sign) = UnmarkedSign::find(config, cluster, is_in_pool) else { continue };
        let name = config.name().unwrap_or("without a name");
        let message = format!(
            "etcd is not bootstrapped: VM {vmid} ({name}) on {} {}, so it may be a control plane with etcd data",
            seen.host,
            sign.describe(cluster)
        );
        findings.push(
            Finding::error(FindingCode::VmUnidentified, cluster, message).hint(sign.hint(
                *vmid,
                cluster,
                &desired.mark,
            )),
        );
    }
    findings
}
