//! Templates: Talos alone, without config or identity.

use talmox_pve::api::{cluster, qemu};
use talmox_pve::config::VmConfig;

use super::super::{Done, StepContext, StepError};
use super::vm::says_taken;
use super::{LOOK_EVERY, error};
use crate::plan::MakeTemplate;

/// Makes a VM and turns it into a template.
pub(in crate::step) async fn make_template(
    step: &MakeTemplate,
    context: &StepContext,
) -> Result<Done, StepError> {
    let vm = &step.vm;
    let doing = format!("make the template {} as VM {} on {}", step.name, vm.vmid, vm.node);
    let made = context.try_task(&qemu::create(vm, step.pool.as_ref(), &step.options)).await?;
    match made {
        Ok(_) => {}
        Err(error) if says_taken(&error) => {
            let config = context.ask(&qemu::config(vm), &doing).await?;
            if !is_meant(step, &config) {
                let text = format!("VM {} is something else than the template", vm.vmid);
                return Err(StepError::failed(text).hint("choose another vmid for it"));
            }
            if config.is_template() {
                return Ok(Done::Already);
            }
            if let Some(lock) = config.lock() {
                return Err(StepError::retry(format!(
                    "{doing}: VM {} is locked ({lock})",
                    vm.vmid
                )));
            }
        }
        Err(error) => return Err(error::of(&doing, error)),
    }
    context.run_task(&qemu::make_template(vm), &doing).await?;
    let config = context.ask(&qemu::config(vm), &doing).await?;
    if !config.is_template() {
        let text = format!("{doing}: Proxmox says it did, and it is no template");
        return Err(StepError::failed(text));
    }
    await_listed(step, context, &doing).await?;
    Ok(Done::Acted)
}

/// Who clones finds templates by their names, and Proxmox lists a name some seconds later.
async fn await_listed(
    step: &MakeTemplate,
    context: &StepContext,
    doing: &str,
) -> Result<(), StepError> {
    context.waits("Proxmox to list it");
    loop {
        let all = context.ask(&cluster::resources(), doing).await?;
        let mut guests = all.guests.iter().filter(|guest| guest.vmid == step.vm.vmid);
        if guests.any(|guest| guest.template && guest.name.as_deref() == Some(&*step.name)) {
            return Ok(());
        }
        if context.deadline.has_passed() {
            return Err(StepError::failed(format!("{doing}: Proxmox does not list it")));
        }
        context.pause(LOOK_EVERY).await?;
    }
}

/// A template has no marker; its name and the text that we gave it tell that it is the one.
fn is_meant(step: &MakeTemplate, config: &VmConfig) -> bool {
    let description = step.options.get("description").unwrap_or_default();
    config.name() == Some(step.name.as_str())
        && config.description().trim_end() == description.trim_end()
}
