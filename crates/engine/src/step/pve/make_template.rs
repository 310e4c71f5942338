//! Creates a template that contains Talos without a config and without the identity of a node.

use talmox_plan::ownership::TemplateMark;
use talmox_plan::plan::MakeTemplate;
use talmox_pve::api::cluster;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::api::task::{self, Filter, TaskState};
use talmox_pve::config::VmConfig;

use super::super::{Done, RunStep, StepCode, StepContext, StepError};
use super::error;
use super::vm::says_taken;
use crate::timeouts::PROXMOX_PAUSE;

impl RunStep for MakeTemplate {
    /// Creates a VM and turns it into a template.
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let doing =
            format!("create the template {} as VM {} on {}", self.name, self.vm.vmid, self.vm.node);
        let vm = match earlier_vm(self, context, &doing).await? {
            Some(vm) => vm,
            None => make(self, context, &doing).await?,
        };
        let config = context.ask(&qemu::config(&vm), &doing).await?;
        if !is_meant(self, &config) {
            let text = format!("VM {} is not the template", vm.vmid);
            return Err(StepError::failed(StepCode::VmNotOwned, text)
                .hint("delete it, or choose another vmid"));
        }
        if config.is_template() {
            await_listed(self, &vm, context, &doing).await?;
            return Ok(Done::Already);
        }
        if let Some(lock) = config.lock() {
            return Err(StepError::retry(
                StepCode::ObjectLocked,
                format!("{doing}: VM {} is locked ({lock})", vm.vmid),
            ));
        }
        context.run_task(&qemu::make_template(&vm), &doing).await?;
        let config = context.ask(&qemu::config(&vm), &doing).await?;
        if !config.is_template() {
            let text = format!("{doing}: Proxmox reported success, but the VM is not a template");
            return Err(StepError::failed(StepCode::ChangeNotVisible, text));
        }
        await_listed(self, &vm, context, &doing).await?;
        Ok(Done::Acted)
    }
}

/// Creates the VM. A vmid that is in use is not an error here, because the caller reads the VM that uses it.
async fn make(step: &MakeTemplate, context: &StepContext, doing: &str) -> Result<Vm, StepError> {
    let request = qemu::create(&step.vm, step.pool.as_ref(), &step.options);
    match context.try_task(&request).await? {
        Err(error) if !says_taken(&error) => Err(error::of(doing, error)),
        _ => Ok(step.vm.clone()),
    }
}

/// The VM that an earlier run created for this template, perhaps with another vmid. Plans depend on a list of Proxmox that
/// contains new names only after some seconds. The list of the host contains them at once. A VM that is still being created
/// has no name, and the token may not have access to it. But the token can list its own tasks, so these are awaited first.
async fn earlier_vm(
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

/// Waits until Proxmox lists the template, which takes some seconds. Later plans find templates by name in that list.
async fn await_listed(
    step: &MakeTemplate,
    vm: &Vm,
    context: &StepContext,
    doing: &str,
) -> Result<(), StepError> {
    context.waits_for("Proxmox to list the template");
    loop {
        let all = context.ask(&cluster::resources(), doing).await?;
        let mut guests = all.guests.iter().filter(|guest| guest.vmid == vm.vmid);
        if guests.any(|guest| guest.template && guest.name.as_deref() == Some(&*step.name)) {
            return Ok(());
        }
        if context.deadline.has_passed() {
            return Err(StepError::failed(
                StepCode::ChangeNotVisible,
                format!("{doing}: Proxmox does not list it"),
            )
            .hint("check that pvestatd runs on its host: it reports the VMs to the other hosts"));
        }
        context.pause_to_see(PROXMOX_PAUSE).await?;
    }
}

/// Whether this is the config of the template: its name and its mark must match. Other text in its notes is ignored.
fn is_meant(step: &MakeTemplate, config: &VmConfig) -> bool {
    let desired = TemplateMark::find(step.options.get("description").unwrap_or_default());
    config.name() == Some(step.name.as_str())
        && desired.is_some()
        && TemplateMark::find(config.description()) == desired
}
