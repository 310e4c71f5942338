//! The bundle of a cluster: the one that there is, or must be.

use talmox_engine::ownership::Marker;
use talmox_pve::Client;
use talmox_pve::api::{cluster, qemu};
use talmox_talos_config::secrets::Bundle;

use crate::choose::Chosen;
use crate::error::CommandError;
use crate::secrets::SecretsFile;

/// The bundle that there is.
pub(crate) fn known(chosen: &Chosen) -> Result<Option<Bundle>, CommandError> {
    let file = SecretsFile::open(chosen)?;
    Ok(file.as_ref().map(SecretsFile::bundle).transpose()?.flatten())
}

/// Where VMs of the cluster exist there must be a bundle somewhere: another one would lock everybody out.
pub(super) async fn refuse_lost(chosen: &Chosen, client: &Client) -> Result<(), CommandError> {
    let failed = |error| CommandError::failed("cannot look at Proxmox").because(error);
    let all = client.send(&cluster::resources()).await.map_err(failed)?;
    let nodes = &chosen.cluster().nodes;
    for seen in all.guests.iter().filter(|guest| guest.is_vm) {
        let is_named = nodes.iter().any(|node| {
            seen.name.as_deref() == Some(node.name.value.as_str())
                || node.entry.vmid.get().is_some_and(|vmid| vmid.get() == seen.vmid.get())
        });
        if !is_named {
            continue;
        }
        let vm = qemu::Vm::new(&seen.node, seen.vmid);
        // One that may not be looked at is not ours: ours are in our reach.
        let Ok(config) = client.send(&qemu::config(&vm)).await else { continue };
        if Marker::find(config.description()).is_some() {
            let message = format!(
                "VM {} on {} is of a talmox cluster, and {} is missing",
                seen.vmid,
                seen.node,
                chosen.secrets_path().display()
            );
            return Err(CommandError::failed(message).hint(
                "restore the file from a backup or from git: without it nobody gets into the cluster. If \
                 the VM is of another cluster, give the node another name and vmid",
            ));
        }
    }
    Ok(())
}
