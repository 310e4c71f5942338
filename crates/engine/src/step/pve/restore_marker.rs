//! Restores the marker in the notes of a VM that lost it.

use talmox_plan::ownership::Owner;
use talmox_plan::plan::RestoreMarker;
use talmox_pve::api::qemu;
use talmox_pve::config::{VmChange, VmOptions};

use super::super::{Done, RunStep, StepCode, StepContext, StepError};
use super::put_config::{PutError, try_put};

impl RunStep for RestoreMarker {
    /// The VM is not an owned VM, so its config is read right before the change, and the change is conditional on the digest of
    /// that config.
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let identity = &self.own.identity;
        let vm = context.vm_cache.last_seen(&self.own.vm);
        let doing = format!("restore the marker of VM {} on {}", vm.vmid, vm.node);
        let config = context.ask(&qemu::config(&vm), &doing).await?;
        if let Owner::Owned(_) = identity.judge(&config) {
            return Ok(Done::Already);
        }
        if !identity.has_lost_marker(&config, &self.cluster) {
            let text = format!(
                "VM {} is not provably the VM of {}: its UUID, name, tags or notes changed since the plan was made",
                vm.vmid, identity.node
            );
            return Err(StepError::failed(StepCode::VmNotOwned, text)
                .hint("run the same command to make a new plan"));
        }
        let notes = identity.lost_marker().restore(config.description(), &self.cluster);
        let set = VmOptions::new().description(&notes);
        let change = VmChange { set, digest: config.digest(), ..VmChange::default() };
        match try_put(&vm, &change, &doing, context).await? {
            Ok(()) => Ok(Done::Acted),
            Err(PutError { error, .. }) => Err(error),
        }
    }
}
