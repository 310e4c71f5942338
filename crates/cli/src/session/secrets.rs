//! The bundle of a cluster: the one that there is, or must be.

use talmox_engine::ownership::Marker;
use talmox_pve::Client;
use talmox_pve::api::{cluster, qemu};
use talmox_talos_config::pki::Certificate;
use talmox_talos_config::secrets::Bundle;

use super::proxmox;
use crate::choose::Chosen;
use crate::environment;
use crate::error::CommandError;
use crate::secrets::SecretsFile;

/// The bundle that there is.
pub(crate) fn known(chosen: &Chosen) -> Result<Option<Bundle>, CommandError> {
    let file = SecretsFile::open(chosen)?;
    Ok(file.as_ref().map(SecretsFile::bundle).transpose()?.flatten())
}

/// Refuses authorities whose time is over: nobody would believe what they sign.
pub(super) fn check(bundle: &Bundle) -> Result<(), CommandError> {
    let certs = &bundle.certs;
    let all = [("Talos", &certs.os), ("Kubernetes", &certs.k8s), ("etcd", &certs.etcd)];
    let now = environment::now();
    for (name, pair) in all {
        let Ok(authority) = Certificate::from_pem(&pair.crt) else { continue };
        if authority.not_after <= now {
            let message =
                format!("the authority of {name} in the secrets ended at {}", authority.not_after);
            return Err(CommandError::failed(message).hint(
                "is the clock of this machine right? If so, nodes believe nobody any more: give them a new authority \
                 by hand first (talosctl rotate-ca), and put it into the secrets",
            ));
        }
    }
    Ok(())
}

/// Where VMs of the cluster exist there must be a bundle somewhere: another one would lock everybody out.
pub(super) async fn refuse_lost(chosen: &Chosen, client: &Client) -> Result<(), CommandError> {
    let all = client.send(&cluster::resources()).await.map_err(proxmox::unreachable)?;
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
