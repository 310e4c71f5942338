//! `POST /nodes/{node}/qemu/{vmid}/template`: converting a VM or one of its disks to a template.

use super::vmid;
use crate::ApiError;
use crate::call::{Call, Outcome, Reply};
use crate::lock::CALL_LOCK_TIMEOUT;
use crate::pve_state::PveState;
use crate::task::TaskHandle;
use crate::vm::{config, template_disks};

/// Parsed request to convert a VM or disk to a template.
#[derive(Debug)]
struct TemplateRequest {
    node: String,
    vmid: u32,
    /// Disk to convert; all disks if `None`.
    disk: Option<String>,
}

pub(super) fn template(call: &Call) -> Outcome {
    let disk = call.params.text("disk").map(str::to_owned);
    let template = TemplateRequest { node: call.node.clone(), vmid: vmid(call), disk };
    template.check(&call.pve_state())?;
    let id = template.vmid.to_string();
    let upid = call.site.start(&call.node, "qmtemplate", &id, &call.caller, |task| async move {
        template.run(&task).await.map_err(|error| error.to_string())
    });
    Ok(Reply::upid(upid))
}

impl TemplateRequest {
    fn check(&self, pve_state: &PveState) -> Result<(), ApiError> {
        let vm = pve_state.vm(&self.node, self.vmid)?;
        config::check_lock(vm)?;
        let rejected = if !vm.snapshots.is_empty() {
            "unable to create template, because VM contains snapshots"
        } else if vm.is_template() && self.disk.is_none() {
            "you can't convert a template to a template"
        } else if vm.is_running() {
            "you can't convert a VM to template if VM is running"
        } else {
            return Ok(());
        };
        Err(ApiError::failed(rejected))
    }

    async fn run(&self, task: &TaskHandle) -> Result<(), ApiError> {
        let site = &task.site;
        let _guard = site.locks.vm(self.vmid, CALL_LOCK_TIMEOUT).await?;
        self.check(&site.pve_state())?;
        {
            let mut pve_state = site.pve_state();
            let vm = pve_state.vm_mut(&self.node, self.vmid)?;
            vm.config.insert("template".to_owned(), "1".to_owned());
        }
        template_disks::convert(task, &self.node, self.vmid, self.disk.as_deref()).await
    }
}
