//! Detaches the cidata volume from a VM, and destroys the volume.

use talmox_plan::plan::DetachCidata;
use talmox_pve::api::qemu;
use talmox_pve::config::{PendingChange, VmChange, VmOptions};

use super::super::{Done, RunStep, StepCode, StepContext, StepError};
use super::error;
use super::vm::{FoundVm, owned_vm};
use crate::timeouts::{DETACH_PAUSE, MAX_DETACHES};

impl RunStep for DetachCidata {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let Self { own, slot, protect, .. } = self;
        let FoundVm { vm, config, .. } = owned_vm(own, context).await?;
        let is_protected = config.get("protection").is_some_and(|flag| flag != "0");
        let protection =
            |on: bool| VmChange { set: VmOptions::new().protection(on), ..VmChange::default() };
        if config.drive(slot).is_none() {
            if is_protected || !protect {
                return Ok(Done::Already);
            }
            let doing = format!("protect VM {}", vm.vmid);
            let change = VmChange { digest: config.digest(), ..protection(true) };
            context
                .act(async { Ok(context.send(&qemu::set_config(&vm, &change)).await) })
                .await?
                .map_err(|error| error::of(&doing, error))?;
            return Ok(Done::Acted);
        }
        let doing = format!("detach {slot} from VM {}", vm.vmid);
        // The VM may be protected already: by a user, or by an earlier attempt in which the guest did not release the drive.
        let mut digest = config.digest();
        if is_protected {
            let change = VmChange { digest: digest.take(), ..protection(false) };
            context
                .act(async { Ok(context.send(&qemu::set_config(&vm, &change)).await) })
                .await?
                .map_err(|error| error::of(&doing, error))?;
        }
        // The drive is detached and the VM is protected in one call. A run that is killed between two calls would leave the
        // VM unprotected.
        let set = if *protect || is_protected { protection(true).set } else { VmOptions::new() };
        let change = VmChange {
            set,
            delete: vec![slot.to_string()],
            destroy: true,
            digest,
            ..VmChange::default()
        };
        let sent = context.act(async { Ok(context.send(&qemu::set_config(&vm, &change)).await) });
        let Err(error) = sent.await? else { return Ok(Done::Acted) };
        if error.status().is_none() || error.is_locked() || error.is_digest_mismatch() {
            return Err(error::of(&doing, error));
        }
        // If the guest did not release the drive, the deletion stays pending until the VM stops.
        let pending = context.ask(&qemu::pending(&vm), &doing).await?;
        let waits = pending.iter().any(|option| {
            option.key == slot.as_str()
                && matches!(option.pending, Some(PendingChange::Delete | PendingChange::Destroy))
        });
        if !waits {
            return Err(error::of(&doing, error));
        }
        if context.attempt < MAX_DETACHES {
            return Err(StepError::retry(StepCode::TaskFailed, doing)
                .after(DETACH_PAUSE)
                .caused_by(error));
        }
        context.note(format!(
            "the guest does not release {slot}: it is removed when VM {} stops",
            vm.vmid
        ));
        Ok(Done::Acted)
    }
}
