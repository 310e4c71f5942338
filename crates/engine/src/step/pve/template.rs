//! Templates: Talos alone, without config or identity.

use talmox_plan::ownership::TemplateMark;
use talmox_plan::plan::MakeTemplate;
use talmox_pve::api::cluster;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::api::task::{self, Filter, TaskState};
use talmox_pve::config::VmConfig;

use super::super::{Done, StepContext, StepError};
use super::error;
use super::vm::says_taken;
use crate::patience::LOOK_AT_PROXMOX;

/// Makes a VM and turns it into a template.
pub(in crate::step) async fn make_template(
    step: &MakeTemplate,
    context: &StepContext,
) -> Result<Done, StepError> {
    let doing =
        format!("make the template {} as VM {} on {}", step.name, step.vm.vmid, step.vm.node);
    let vm = match begun(step, context, &doing).await? {
        Some(vm) => vm,
        None => make(step, context, &doing).await?,
    };
    let config = context.ask(&qemu::config(&vm), &doing).await?;
    if !is_meant(step, &config) {
        let text = format!("VM {} is something else than the template", vm.vmid);
        return Err(StepError::failed(text).hint("delete it, or choose another vmid"));
    }
    if config.is_template() {
        await_listed(step, &vm, context, &doing).await?;
        return Ok(Done::Already);
    }
    if let Some(lock) = config.lock() {
        return Err(StepError::retry(format!("{doing}: VM {} is locked ({lock})", vm.vmid)));
    }
    context.run_task(&qemu::make_template(&vm), &doing).await?;
    let config = context.ask(&qemu::config(&vm), &doing).await?;
    if !config.is_template() {
        let text = format!("{doing}: Proxmox says it did, and it is no template");
        return Err(StepError::failed(text));
    }
    await_listed(step, &vm, context, &doing).await?;
    Ok(Done::Acted)
}

/// Creates the VM, unless something has its number: the next look tells what.
async fn make(step: &MakeTemplate, context: &StepContext, doing: &str) -> Result<Vm, StepError> {
    let request = qemu::create(&step.vm, step.pool.as_ref(), &step.options);
    match context.try_task(&request).await? {
        Err(error) if !says_taken(&error) => Err(error::of(doing, error)),
        _ => Ok(step.vm.clone()),
    }
}

/// What an earlier run made of it, perhaps under another number. The plan is made from a list that
/// knows new names only after some seconds; the host itself knows them at once. What is still being
/// made has no name at all, and may not be seen: but our own tasks can.
async fn begun(
    step: &MakeTemplate,
    context: &StepContext,
    doing: &str,
) -> Result<Option<Vm>, StepError> {
    let host = &step.vm.node;
    let filter = Filter { kind: Some("qmcreate".to_owned()), ..Filter::default() };
    let tasks = context.ask(&task::list(host, &filter), doing).await?;
    for running in tasks.iter().filter(|task| task.state == TaskState::Running) {
        context.end_of_earlier(&running.upid, doing).await?;
    }
    for entry in context.ask(&qemu::list(host), doing).await? {
        if entry.name.as_deref() != Some(&*step.name) {
            continue;
        }
        let vm = Vm::new(host, entry.vmid);
        if is_meant(step, &context.ask(&qemu::config(&vm), doing).await?) {
            return Ok(Some(vm));
        }
    }
    Ok(None)
}

/// Who clones finds templates by their names, and Proxmox lists a name some seconds later.
async fn await_listed(
    step: &MakeTemplate,
    vm: &Vm,
    context: &StepContext,
    doing: &str,
) -> Result<(), StepError> {
    context.waits("Proxmox to list it");
    loop {
        let all = context.ask(&cluster::resources(), doing).await?;
        let mut guests = all.guests.iter().filter(|guest| guest.vmid == vm.vmid);
        if guests.any(|guest| guest.template && guest.name.as_deref() == Some(&*step.name)) {
            return Ok(());
        }
        if context.deadline.has_passed() {
            return Err(StepError::failed(format!("{doing}: Proxmox does not list it"))
                .hint("see whether its host is well: pvestatd tells the others of its VMs"));
        }
        context.pause_to_see(LOOK_AT_PROXMOX).await?;
    }
}

/// Its name and the line that says what is in it tell that it is the one, whatever people wrote around it.
fn is_meant(step: &MakeTemplate, config: &VmConfig) -> bool {
    let wanted = TemplateMark::find(step.options.get("description").unwrap_or_default());
    config.name() == Some(step.name.as_str())
        && wanted.is_some()
        && TemplateMark::find(config.description()) == wanted
}
