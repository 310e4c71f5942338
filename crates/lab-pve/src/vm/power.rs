//! Power operations of a VM.
//!
//! Each operation holds the lock of the VM. So a shutdown that waits for its guest delays all other operations on the VM.

use std::sync::Arc;
use std::time::Duration;

use talmox_lab_environment::Work;

use super::disk_creation::Worker;
use super::start_check::{self, StartCheck};
use super::{cloudinit, config, hookscript, pending_changes, suspend};
use crate::ApiError;
use crate::guest::GuestEventKind;
use crate::lock::{CALL_LOCK_TIMEOUT, LockGuard};
use crate::pve_state::{Caller, Config, PveState, Run, TaskState, Vm};
use crate::pve_state_guard;
use crate::schema::{self, FormatName};
use crate::site::Site;

/// Default timeout of a shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_mins(1);
/// Time between two checks whether a guest is off.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of a ping to the guest agent.
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(3);

/// VM whose power state changes, and the caller that requested the change.
#[derive(Clone, Debug)]
pub(crate) struct Power {
    pub(crate) worker: Worker,
    pub(crate) caller: Caller,
    pub(crate) node: String,
    pub(crate) vmid: u32,
}

/// Parameters of a stop or shutdown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StopOptions {
    /// Whether the guest is asked to shut down. Otherwise QEMU is stopped immediately.
    pub(crate) shutdown: bool,
    /// Whether QEMU is stopped if the guest does not shut down before the timeout.
    pub(crate) force: bool,
    pub(crate) skip_lock: bool,
    pub(crate) timeout: Option<Duration>,
}

impl Power {
    fn site(&self) -> &Arc<Site> {
        self.worker.site()
    }

    async fn lock(&self) -> Result<LockGuard, ApiError> {
        let lock = self.site().locks.vm(self.vmid, CALL_LOCK_TIMEOUT).await;
        let guard = lock.map_err(|timeout| ApiError::failed(timeout.to_string()))?;
        self.worker.begin().await?;
        Ok(guard)
    }

    pub(crate) async fn start(
        &self,
        skip_lock: bool,
        machine: Option<&str>,
    ) -> Result<(), ApiError> {
        let _guard = self.lock().await?;
        let resume = {
            let mut pve_state = self.site().pve_state();
            let vm = pve_state.vm_mut(&self.node, self.vmid)?;
            if vm.is_template() {
                return Err(ApiError::failed("you can't start a vm if it's a template"));
            }
            let suspended = vm.lock() == Some("suspended");
            if vm.lock() == Some("backup")
                && let Some(run) = &mut vm.run
            {
                // During a backup of a stopped VM, a paused QEMU process exists. A start resumes this process.
                run.paused = false;
                return Ok(());
            }
            if !skip_lock && !suspended {
                config::check_lock(vm)?;
            }
            if vm.is_running() {
                return Err(ApiError::failed(format!("VM {} already running", self.vmid)));
            }
            suspended || vm.config.contains_key("vmstate")
        };
        self.launch(resume, machine).await
    }

    /// Starts QEMU. The caller holds the lock of the VM.
    async fn launch(&self, resume: bool, machine: Option<&str>) -> Result<(), ApiError> {
        let site = self.site();
        if !resume {
            self.apply_pending();
        }
        cloudinit::write_drive(&self.worker, &self.node, self.vmid).await?;
        hookscript::check_start(&site.pve_state(), &self.node, self.vmid)?;
        let machine = match machine {
            _ if resume => {
                self.worker.log("Resuming suspended VM");
                let has_state = self.read(|vm| vm.config.contains_key("vmstate"))?;
                if !has_state {
                    // A suspended VM without a state volume can come only from a scenario.
                    return Err(ApiError::failed("start failed: QEMU exited with code 1"));
                }
                self.read(|vm| vm.config.get("runningmachine").cloned())?
            }
            other => other.map(str::to_owned),
        };
        let launch = {
            let pve_state = site.pve_state();
            let launch = start_check::check(
                &pve_state,
                &site.guests,
                &self.node,
                self.vmid,
                machine.as_ref(),
            )?;
            // The PCI devices are assigned before QEMU starts.
            site.guests.hold(self.vmid, &launch.devices);
            launch
        };
        for warning in &launch.warnings {
            self.worker.warn(warning);
        }
        let started = self.run_qemu(&launch).await;
        if started.is_err() {
            site.guests.release(self.vmid);
        }
        started?;
        if resume {
            suspend::drop_state(&self.worker, &self.node, self.vmid)?;
        }
        Ok(())
    }

    async fn run_qemu(&self, launch: &StartCheck) -> Result<(), ApiError> {
        let site = self.site();
        if let Some(lines) = &launch.exits {
            for line in lines {
                self.worker.log(line.clone());
            }
            return Err(ApiError::failed("start failed: QEMU exited with code 1"));
        }
        self.worker.wait(Work::Start, &format!("vm/{}", self.vmid)).await?;
        let pid = 2_000 + site.chance(&format!("qemu/{}", self.vmid)).below(4_000_000);
        let mut pve_state = site.pve_state();
        let vm = pve_state.vm_mut(&self.node, self.vmid)?;
        vm.run = Some(Run {
            since: site.now(),
            pid: u32::try_from(pid).unwrap_or_default(),
            paused: false,
            config: vm.config.clone(),
            agent: vm.guest.agent.clone(),
            held_drives: vm.guest.held_drives.clone(),
        });
        drop(pve_state);
        site.guests.emit(&self.node, self.vmid, GuestEventKind::Started);
        Ok(())
    }

    /// Applies pending changes. Changes that cannot be applied are logged and stay pending.
    fn apply_pending(&self) {
        let applied = {
            let mut pve_state = self.site().pve_state();
            pending_changes::apply(&mut pve_state, self.vmid, &self.caller)
        };
        for text in applied.err().into_iter().flat_map(std::collections::BTreeMap::into_values) {
            self.worker.log(text.trim_end());
        }
    }

    /// Reads a value of the VM.
    fn read<T>(&self, look: impl FnOnce(&Vm) -> T) -> Result<T, ApiError> {
        self.site().pve_state().vm(&self.node, self.vmid).map(look)
    }

    pub(crate) async fn stop(&self, how: StopOptions) -> Result<(), ApiError> {
        let _guard = self.lock().await?;
        self.stop_locked(how).await
    }

    async fn stop_locked(&self, how: StopOptions) -> Result<(), ApiError> {
        let site = self.site();
        if !is_running(&site.pve_state(), &self.node, self.vmid)? {
            return Ok(());
        }
        let options = {
            let pve_state = site.pve_state();
            let vm = pve_state.vm(&self.node, self.vmid)?;
            if !how.skip_lock {
                config::check_lock(vm)?;
            }
            vm.config.clone()
        };
        let own = || {
            options.get("startup").filter(|_| how.shutdown).and_then(|text| shutdown_timeout(text))
        };
        let timeout = how.timeout.or_else(own).unwrap_or(SHUTDOWN_TIMEOUT);
        if how.shutdown {
            self.ask_to_shut_down(&options).await?;
        } else {
            self.quit();
        }
        if !self.is_off_within(timeout).await? {
            if !how.force {
                return Err(ApiError::failed("VM quit/powerdown failed - got timeout"));
            }
            self.worker.log("VM still running - terminating now with SIGTERM");
            self.worker.wait(Work::Stop, &format!("vm/{}", self.vmid)).await?;
            site.guest_power_off(self.vmid);
        }
        self.apply_pending();
        Ok(())
    }

    /// Asks the guest to shut down: through the guest agent if it answers, or else through the power button.
    async fn ask_to_shut_down(&self, options: &Config) -> Result<(), ApiError> {
        let site = self.site();
        let is_silent = {
            let pve_state = site.pve_state();
            let run = pve_state.vm(&self.node, self.vmid)?.run.as_ref();
            agent_is_enabled(&pve_state, options) && !run.is_some_and(answers)
        };
        if is_silent {
            site.clock.sleep(PING_TIMEOUT).await;
            self.worker.log(format!(
                "QEMU Guest Agent is not running - VM {} qmp command 'guest-ping' failed - got timeout",
                self.vmid
            ));
        }
        site.press_power_button(&self.node, self.vmid);
        Ok(())
    }

    /// Stops QEMU after a short delay.
    fn quit(&self) {
        let (site, vmid) = (Arc::clone(self.site()), self.vmid);
        pve_state_guard::spawn(async move {
            site.wait(Work::Stop, &format!("vm/{vmid}")).await;
            site.guest_power_off(vmid);
        });
    }

    /// Waits until the guest is off, with one check per second. Fails if the task is interrupted in the meantime.
    ///
    /// Like Proxmox, this function counts checks instead of elapsed time. So the timeout does not pass while the machine that
    /// runs the lab is suspended.
    async fn is_off_within(&self, timeout: Duration) -> Result<bool, ApiError> {
        let site = self.site();
        let mut checks_left = timeout.as_secs();
        loop {
            let stops = site.guests.next_stop();
            if !self.read(Vm::is_running)? {
                return Ok(true);
            }
            self.check_interrupt()?;
            if checks_left == 0 {
                return Ok(false);
            }
            // If another guest stops, the wait ends early and does not count as a check.
            checks_left -= u64::from(site.clock.timeout(CHECK_INTERVAL, stops).await.is_err());
        }
    }

    fn check_interrupt(&self) -> Result<(), ApiError> {
        let Worker::Task(task) = &self.worker else { return Ok(()) };
        let pve_state = task.site.pve_state();
        match pve_state.tasks.get(&task.upid).map(|task| &task.state) {
            Some(TaskState::Running { interrupted: true }) => {
                Err(ApiError::failed("received interrupt"))
            }
            _ => Ok(()),
        }
    }

    /// Shuts the guest down. Afterwards a background task starts the VM again.
    pub(crate) async fn reboot(&self, timeout: Option<Duration>) -> Result<(), ApiError> {
        let guard = self.lock().await?;
        if !is_running(&self.site().pve_state(), &self.node, self.vmid)? {
            return Ok(());
        }
        self.stop_locked(StopOptions { shutdown: true, timeout, ..StopOptions::default() }).await?;
        drop(guard);
        let again = Self { worker: Worker::Call(Arc::clone(self.site())), ..self.clone() };
        // If this start fails, the VM stays off.
        pve_state_guard::spawn(async move { drop(again.start(false, None).await) });
        Ok(())
    }

    pub(crate) async fn reset(&self, skip_lock: bool) -> Result<(), ApiError> {
        let _guard = self.lock().await?;
        let site = self.site();
        {
            let pve_state = site.pve_state();
            let vm = pve_state.vm(&self.node, self.vmid)?;
            if !skip_lock {
                config::check_lock(vm)?;
            }
            check_monitor(vm, self.vmid)?;
        }
        site.forget_agent(self.vmid);
        site.guests.emit(&self.node, self.vmid, GuestEventKind::Reset);
        Ok(())
    }

    pub(crate) async fn pause(&self, skip_lock: bool) -> Result<(), ApiError> {
        let _guard = self.lock().await?;
        let mut pve_state = self.site().pve_state();
        let vm = pve_state.vm_mut(&self.node, self.vmid)?;
        if !skip_lock && vm.lock() != Some("backup") {
            config::check_lock(vm)?;
        }
        check_monitor(vm, self.vmid)?;
        self.set_paused(vm, true);
        Ok(())
    }

    pub(crate) async fn resume(&self, skip_lock: bool) -> Result<(), ApiError> {
        let _guard = self.lock().await?;
        let mut pve_state = self.site().pve_state();
        let vm = pve_state.vm_mut(&self.node, self.vmid)?;
        check_monitor(vm, self.vmid)?;
        if vm.is_template() {
            let text = format!("VM {} is a template and cannot be resumed!", self.vmid);
            return Err(ApiError::failed(text));
        }
        if vm.run.as_ref().is_none_or(|run| !run.paused) {
            return Ok(());
        }
        if !skip_lock && vm.lock() != Some("backup") {
            config::check_lock(vm)?;
        }
        self.set_paused(vm, false);
        Ok(())
    }

    fn set_paused(&self, vm: &mut Vm, paused: bool) {
        if let Some(run) = &mut vm.run {
            run.paused = paused;
        }
        let kind = if paused { GuestEventKind::Paused } else { GuestEventKind::Resumed };
        self.site().guests.emit(&self.node, self.vmid, kind);
    }
}

/// Whether a VM runs on this host. The error for a missing VM is the one of calls that check the QEMU process first.
pub(crate) fn is_running(pve_state: &PveState, node: &str, vmid: u32) -> Result<bool, ApiError> {
    let vm = pve_state.vm(node, vmid).map_err(|_| {
        let text = format!("unable to find configuration file for VM {vmid} on node '{node}'");
        ApiError::failed(text)
    })?;
    Ok(vm.is_running())
}

/// Rejects a command to the QEMU monitor of a stopped VM.
fn check_monitor(vm: &Vm, vmid: u32) -> Result<(), ApiError> {
    if vm.is_running() {
        return Ok(());
    }
    Err(ApiError::failed(format!("VM {vmid} not running")))
}

/// Whether the guest agent is enabled in a config.
pub(crate) fn agent_is_enabled(pve_state: &PveState, options: &Config) -> bool {
    let format = schema::format(pve_state.release, FormatName::Agent);
    let fields = options.get("agent").and_then(|agent| format.parse(agent).ok());
    fields.and_then(|fields| fields.flag("enabled")).unwrap_or_default()
}

/// Whether the guest agent answers. The agent of a paused VM does not answer.
pub(crate) fn answers(run: &Run) -> bool {
    run.agent.is_some() && !run.paused
}

/// Shutdown timeout in the `startup` option (`down=`).
fn shutdown_timeout(startup: &str) -> Option<Duration> {
    let seconds = startup.split(',').find_map(|part| part.strip_prefix("down="))?;
    let seconds: u64 = seconds.parse().ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}
