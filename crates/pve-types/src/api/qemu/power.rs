use std::time::Duration;

use super::Vm;
use crate::id::Upid;
use crate::request::Request;

pub fn start(vm: &Vm) -> Request<Upid> {
    vm.post(&[&"status", &"start"])
}

/// Stops a VM immediately. Succeeds if the VM is already stopped. With `overrule_shutdown`, a running shutdown is
/// aborted.
pub fn stop(vm: &Vm, overrule_shutdown: bool) -> Request<Upid> {
    vm.post(&[&"status", &"stop"]).with_flag("overrule-shutdown", overrule_shutdown)
}

/// Shuts the guest down and waits. At the timeout the task fails, or, with `force_stop`, stops the VM.
pub fn shutdown(vm: &Vm, timeout: Duration, force_stop: bool) -> Request<Upid> {
    vm.post(&[&"status", &"shutdown"])
        .with("timeout", timeout.as_secs())
        .with_flag("forceStop", force_stop)
}

/// Shuts the VM down and starts it again. This applies pending changes.
pub fn reboot(vm: &Vm, timeout: Duration) -> Request<Upid> {
    vm.post(&[&"status", &"reboot"]).with("timeout", timeout.as_secs())
}

/// Resets the VM. This does not apply pending changes.
pub fn reset(vm: &Vm) -> Request<Upid> {
    vm.post(&[&"status", &"reset"])
}

/// Pauses the VM. With `to_disk`, the memory of the VM is saved to disk and the VM stops.
pub fn suspend(vm: &Vm, to_disk: bool) -> Request<Upid> {
    vm.post(&[&"status", &"suspend"]).with_flag("todisk", to_disk)
}

pub fn resume(vm: &Vm) -> Request<Upid> {
    vm.post(&[&"status", &"resume"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::VmId;

    #[test]
    fn power_requests_use_the_status_path() {
        let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(300).unwrap());
        let seconds = Duration::from_secs(90);
        let all = [
            start(&vm),
            stop(&vm, true),
            shutdown(&vm, seconds, true),
            reboot(&vm, seconds),
            reset(&vm),
            suspend(&vm, false),
            resume(&vm),
        ];
        let shown: Vec<String> = all
            .iter()
            .map(|request| format!("{} {}", request.path(), request.body().unwrap()))
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r"
        /nodes/pve1/qemu/300/status/start 
        /nodes/pve1/qemu/300/status/stop overrule-shutdown=1
        /nodes/pve1/qemu/300/status/shutdown timeout=90&forceStop=1
        /nodes/pve1/qemu/300/status/reboot timeout=90
        /nodes/pve1/qemu/300/status/reset 
        /nodes/pve1/qemu/300/status/suspend 
        /nodes/pve1/qemu/300/status/resume 
        ");
    }
}
