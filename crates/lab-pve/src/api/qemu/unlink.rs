//! `PUT /nodes/{node}/qemu/{vmid}/unlink`: detaches disks. Proxmox implements this call as a config update.

use super::config_call::update_call;
use super::vmid;
use crate::call::{Call, Outcome, Reply};
use crate::vm::disk_creation::Worker;
use crate::vm::update::ConfigUpdate;

pub(super) async fn unlink(call: &Call) -> Outcome {
    let vmid = vmid(call);
    let text = |name: &str| call.params.text(name).map(str::to_owned);
    let options = [("delete", text("idlist")), ("force", text("force"))];
    let options: Vec<(&str, String)> =
        options.into_iter().filter_map(|(name, text)| Some((name, text?))).collect();
    let call = update_call(&call.site, &call.caller, &call.node, vmid, &options)?;
    let mut update = ConfigUpdate::new(&call, vmid)?;
    update.check(&call)?;
    update.apply(&Worker::Call(call.site.clone())).await?;
    Ok(Reply::NULL)
}
