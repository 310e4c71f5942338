use serde_json::Value;

use super::Vm;
use crate::id::{NodeName, VmId};
use crate::property::Tags;
use crate::request::Request;
use crate::wire::{Decode, Fields, Unreadable};

/// VM in the list of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmEntry {
    pub vmid: VmId,
    pub name: Option<String>,
    /// Whether the VM runs. A VM without a reported power state counts as running.
    pub running: bool,
    pub template: bool,
    pub lock: Option<String>,
    pub tags: Tags,
}

impl Decode for VmEntry {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        Ok(Self {
            vmid: fields.need("vmid")?,
            name: fields.text("name"),
            running: fields.text("status").as_deref() != Some("stopped"),
            template: fields.flag("template"),
            lock: fields.text("lock"),
            tags: Tags::of(fields.list("tags")),
        })
    }
}

/// Lists the VMs on a node.
pub fn list(node: &NodeName) -> Request<Vec<VmEntry>> {
    Request::get(&[&"nodes", node, &"qemu"]).on(node)
}

/// Current status of a VM.
#[derive(Clone, Debug, PartialEq)]
pub struct VmStatus {
    /// Whether the VM runs. A state other than `stopped` counts as running.
    pub running: bool,
    /// Status of QEMU, such as `running`, `paused` or `prelaunch`.
    pub qmp_status: Option<String>,
    pub name: Option<String>,
    pub lock: Option<String>,
    pub template: bool,
    /// Whether HA manages the VM. If so, start and stop are requests to HA.
    pub ha_managed: bool,
    /// Uptime in seconds.
    pub uptime: Option<u64>,
    pub cpu: Option<f64>,
    pub memory: Option<u64>,
    pub max_memory: Option<u64>,
}

impl Decode for VmStatus {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        Ok(Self {
            running: fields.need_text("status")? != "stopped",
            qmp_status: fields.text("qmpstatus"),
            name: fields.text("name"),
            lock: fields.text("lock"),
            template: fields.flag("template"),
            ha_managed: fields.inner("ha").is_some_and(|ha| ha.flag("managed")),
            uptime: fields.number("uptime"),
            cpu: fields.fraction("cpu"),
            memory: fields.number("mem"),
            max_memory: fields.number("maxmem"),
        })
    }
}

pub fn current(vm: &Vm) -> Request<VmStatus> {
    vm.get(&[&"status", &"current"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn status_is_decoded_leniently() {
        let status = VmStatus::decode(&json!({
            "status": "running", "qmpstatus": "paused", "ha": {"managed": 1}, "uptime": "12", "cpu": 0,
        }))
        .unwrap();
        assert!(status.running && status.ha_managed && !status.template);
        assert_eq!((status.uptime, status.cpu), (Some(12), Some(0.0)));
        let entry =
            VmEntry::decode(&json!({"vmid": "300", "status": "stopped", "template": ""})).unwrap();
        assert!(!entry.running && !entry.template);
        let unknown = VmEntry::decode(&json!({"vmid": 301, "status": "unknown"})).unwrap();
        assert!(unknown.running);
        assert!(VmStatus::decode(&json!({"status": "unknown"})).unwrap().running);
    }
}
