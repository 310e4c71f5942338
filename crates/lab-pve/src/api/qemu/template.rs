//! Making a template of a VM, or of one of its disks.

use super::vmid;
use crate::Refusal;
use crate::call::{Call, Outcome, Reply};
use crate::lock::CALL_PATIENCE;
use crate::task::TaskHandle;
use crate::vm::{base, config};
use crate::world::World;

#[derive(Debug)]
struct Template {
    node: String,
    vmid: u32,
    /// The only disk that is to be converted.
    disk: Option<String>,
}

pub(super) fn template(call: &Call) -> Outcome {
    let disk = call.params.text("disk").map(str::to_owned);
    let template = Template { node: call.node.clone(), vmid: vmid(call), disk };
    template.check(&call.world())?;
    let id = template.vmid.to_string();
    let upid = call.site.start(&call.node, "qmtemplate", &id, &call.caller, |task| async move {
        template.run(&task).await.map_err(|refusal| refusal.to_string())
    });
    Ok(Reply::upid(upid))
}

impl Template {
    fn check(&self, world: &World) -> Result<(), Refusal> {
        let vm = world.vm(&self.node, self.vmid)?;
        config::check_lock(vm)?;
        let refused = if !vm.snapshots.is_empty() {
            "unable to create template, because VM contains snapshots"
        } else if vm.is_template() && self.disk.is_none() {
            "you can't convert a template to a template"
        } else if vm.is_running() {
            "you can't convert a VM to template if VM is running"
        } else {
            return Ok(());
        };
        Err(Refusal::failed(refused))
    }

    async fn run(&self, task: &TaskHandle) -> Result<(), Refusal> {
        let site = &task.site;
        let _guard = site.locks.vm(self.vmid, CALL_PATIENCE).await?;
        self.check(&site.world())?;
        {
            let mut world = site.world();
            let vm = world.vm_mut(&self.node, self.vmid)?;
            vm.config.insert("template".to_owned(), "1".to_owned());
        }
        base::convert(task, &self.node, self.vmid, self.disk.as_deref()).await
    }
}
