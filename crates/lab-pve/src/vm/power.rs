//! Switching a VM on and off.
//!
//! All of this happens under the lock file of the VM, so that a shutdown which waits for its guest
//! keeps everything else waiting, too.

use std::sync::Arc;
use std::time::Duration;

use talmox_lab_environment::Work;

use super::disks::Worker;
use super::launch::{self, Launch};
use super::{cloudinit, config, hookscript, pending, suspend};
use crate::Refusal;
use crate::guest::Moment;
use crate::lock::{CALL_PATIENCE, LockGuard};
use crate::schema::{self, FormatName};
use crate::site::Site;
use crate::world::{Caller, Config, Run, TaskState, Vm, World};

/// How long a shutdown waits for the guest if nobody says.
const SHUTDOWN_PATIENCE: Duration = Duration::from_mins(1);
/// Between two looks whether a guest is off.
const LOOK: Duration = Duration::from_secs(1);
/// How long the agent has to answer a ping.
pub(crate) const PING_PATIENCE: Duration = Duration::from_secs(3);

/// A VM whose power is switched, and on whose behalf.
#[derive(Clone, Debug)]
pub(crate) struct Power {
    pub(crate) worker: Worker,
    pub(crate) caller: Caller,
    pub(crate) node: String,
    pub(crate) vmid: u32,
}

/// How a VM is to stop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stop {
    /// The guest is asked, else its plug is pulled.
    pub(crate) shutdown: bool,
    /// The plug is pulled once the guest was waited for.
    pub(crate) force: bool,
    pub(crate) skip_lock: bool,
    pub(crate) timeout: Option<Duration>,
}

impl Power {
    fn site(&self) -> &Arc<Site> {
        self.worker.site()
    }

    async fn lock(&self) -> Result<LockGuard, Refusal> {
        let lock = self.site().locks.vm(self.vmid, CALL_PATIENCE).await;
        let guard = lock.map_err(|timeout| Refusal::failed(timeout.to_string()))?;
        self.worker.begin().await?;
        Ok(guard)
    }

    pub(crate) async fn start(
        &self,
        skip_lock: bool,
        machine: Option<&str>,
    ) -> Result<(), Refusal> {
        let _guard = self.lock().await?;
        let resume = {
            let mut world = self.site().world();
            let vm = world.vm_mut(&self.node, self.vmid)?;
            if vm.is_template() {
                return Err(Refusal::failed("you can't start a vm if it's a template"));
            }
            let suspended = vm.lock() == Some("suspended");
            if vm.lock() == Some("backup")
                && let Some(run) = &mut vm.run
            {
                // A backup keeps the QEMU that it started; there the guest goes on.
                run.paused = false;
                return Ok(());
            }
            if !skip_lock && !suspended {
                config::check_lock(vm)?;
            }
            if vm.is_running() {
                return Err(Refusal::failed(format!("VM {} already running", self.vmid)));
            }
            suspended || vm.config.contains_key("vmstate")
        };
        self.launch(resume, machine).await
    }

    /// Brings QEMU up; the lock file is held.
    async fn launch(&self, resume: bool, machine: Option<&str>) -> Result<(), Refusal> {
        let site = self.site();
        if !resume {
            self.apply_pending();
        }
        cloudinit::write_drive(&self.worker, &self.node, self.vmid).await?;
        hookscript::check_start(&site.world(), &self.node, self.vmid)?;
        let machine = match machine {
            _ if resume => {
                self.worker.log("Resuming suspended VM");
                let has_state = self.read(|vm| vm.config.contains_key("vmstate"))?;
                if !has_state {
                    // Only a scenario can say that a VM is suspended and leave out to where.
                    return Err(Refusal::failed("start failed: QEMU exited with code 1"));
                }
                self.read(|vm| vm.config.get("runningmachine").cloned())?
            }
            other => other.map(str::to_owned),
        };
        let launch = {
            let world = site.world();
            let launch =
                launch::check(&world, &site.guests, &self.node, self.vmid, machine.as_ref())?;
            // The devices are the VM's from before QEMU is up.
            site.guests.hold(self.vmid, &launch.devices);
            launch
        };
        for warning in &launch.warnings {
            self.worker.warn(warning);
        }
        let started = self.bring_up(&launch).await;
        if started.is_err() {
            site.guests.release(self.vmid);
        }
        started?;
        if resume {
            suspend::drop_state(&self.worker, &self.node, self.vmid)?;
        }
        Ok(())
    }

    async fn bring_up(&self, launch: &Launch) -> Result<(), Refusal> {
        let site = self.site();
        if let Some(lines) = &launch.exits {
            for line in lines {
                self.worker.log(line.clone());
            }
            return Err(Refusal::failed("start failed: QEMU exited with code 1"));
        }
        self.worker.wait(Work::Start, &format!("vm/{}", self.vmid)).await?;
        let pid = 2_000 + site.chance(&format!("qemu/{}", self.vmid)).below(4_000_000);
        let mut world = site.world();
        let vm = world.vm_mut(&self.node, self.vmid)?;
        vm.run = Some(Run {
            since: site.now(),
            pid: u32::try_from(pid).unwrap_or_default(),
            paused: false,
            config: vm.config.clone(),
            agent: vm.guest.agent.clone(),
            held_drives: vm.guest.held_drives.clone(),
        });
        drop(world);
        site.guests.tell(&self.node, self.vmid, Moment::Started);
        Ok(())
    }

    /// Applies what waited for this. What cannot be applied is told, and stays pending.
    fn apply_pending(&self) {
        let applied = {
            let mut world = self.site().world();
            pending::apply(&mut world, self.vmid, &self.caller)
        };
        for text in applied.err().into_iter().flat_map(std::collections::BTreeMap::into_values) {
            self.worker.log(text.trim_end());
        }
    }

    /// Looks at the VM.
    fn read<T>(&self, look: impl FnOnce(&Vm) -> T) -> Result<T, Refusal> {
        self.site().world().vm(&self.node, self.vmid).map(look)
    }

    pub(crate) async fn stop(&self, how: Stop) -> Result<(), Refusal> {
        let _guard = self.lock().await?;
        self.stop_locked(how).await
    }

    async fn stop_locked(&self, how: Stop) -> Result<(), Refusal> {
        let site = self.site();
        if !is_running(&site.world(), &self.node, self.vmid)? {
            return Ok(());
        }
        let options = {
            let world = site.world();
            let vm = world.vm(&self.node, self.vmid)?;
            if !how.skip_lock {
                config::check_lock(vm)?;
            }
            vm.config.clone()
        };
        let own = || options.get("startup").filter(|_| how.shutdown).and_then(|text| down(text));
        let patience = how.timeout.or_else(own).unwrap_or(SHUTDOWN_PATIENCE);
        if how.shutdown {
            self.ask_to_shut_down(&options).await?;
        } else {
            self.quit();
        }
        if !self.is_gone_within(patience).await? {
            if !how.force {
                return Err(Refusal::failed("VM quit/powerdown failed - got timeout"));
            }
            self.worker.log("VM still running - terminating now with SIGTERM");
            self.worker.wait(Work::Stop, &format!("vm/{}", self.vmid)).await?;
            site.guest_power_off(self.vmid);
        }
        self.apply_pending();
        Ok(())
    }

    /// By the agent if it answers, else by the power button.
    async fn ask_to_shut_down(&self, options: &Config) -> Result<(), Refusal> {
        let site = self.site();
        let is_silent = {
            let world = site.world();
            let run = world.vm(&self.node, self.vmid)?.run.as_ref();
            agent_is_enabled(&world, options) && !run.is_some_and(answers)
        };
        if is_silent {
            site.clock.sleep(PING_PATIENCE).await;
            self.worker.log(format!(
                "QEMU Guest Agent is not running - VM {} qmp command 'guest-ping' failed - got timeout",
                self.vmid
            ));
        }
        site.press_power_button(&self.node, self.vmid);
        Ok(())
    }

    /// QEMU is told to quit, which takes it a moment.
    fn quit(&self) {
        let (site, vmid) = (Arc::clone(self.site()), self.vmid);
        tokio::spawn(async move {
            site.wait(Work::Stop, &format!("vm/{vmid}")).await;
            site.guest_power_off(vmid);
        });
    }

    /// Waits for the guest to go off, and looks every second. Fails if the task is told to stop meanwhile.
    ///
    /// As a host does it counts its looks, not the time: a machine that stands still for a while takes no guest's
    /// chance to go.
    async fn is_gone_within(&self, patience: Duration) -> Result<bool, Refusal> {
        let site = self.site();
        let mut looks = patience.as_secs();
        loop {
            let stops = site.guests.next_stop();
            if !self.read(Vm::is_running)? {
                return Ok(true);
            }
            self.check_interrupt()?;
            if looks == 0 {
                return Ok(false);
            }
            // Some other guest may have stopped, which is no look.
            looks -= u64::from(site.clock.timeout(LOOK, stops).await.is_err());
        }
    }

    fn check_interrupt(&self) -> Result<(), Refusal> {
        let Worker::Task(task) = &self.worker else { return Ok(()) };
        let world = task.site.world();
        match world.tasks.get(&task.upid).map(|task| &task.state) {
            Some(TaskState::Running { interrupted: true }) => {
                Err(Refusal::failed("received interrupt"))
            }
            _ => Ok(()),
        }
    }

    /// Shuts the guest down; as soon as it is off it is started again, by itself.
    pub(crate) async fn reboot(&self, timeout: Option<Duration>) -> Result<(), Refusal> {
        let guard = self.lock().await?;
        if !is_running(&self.site().world(), &self.node, self.vmid)? {
            return Ok(());
        }
        self.stop_locked(Stop { shutdown: true, timeout, ..Stop::default() }).await?;
        drop(guard);
        let again = Self { worker: Worker::Call(Arc::clone(self.site())), ..self.clone() };
        // Nobody waits for this start: where it fails the VM stays off.
        tokio::spawn(async move { drop(again.start(false, None).await) });
        Ok(())
    }

    pub(crate) async fn reset(&self, skip_lock: bool) -> Result<(), Refusal> {
        let _guard = self.lock().await?;
        let site = self.site();
        {
            let world = site.world();
            let vm = world.vm(&self.node, self.vmid)?;
            if !skip_lock {
                config::check_lock(vm)?;
            }
            check_monitor(vm, self.vmid)?;
        }
        site.forget_agent(self.vmid);
        site.guests.tell(&self.node, self.vmid, Moment::Reset);
        Ok(())
    }

    pub(crate) async fn pause(&self, skip_lock: bool) -> Result<(), Refusal> {
        let _guard = self.lock().await?;
        let mut world = self.site().world();
        let vm = world.vm_mut(&self.node, self.vmid)?;
        if !skip_lock && vm.lock() != Some("backup") {
            config::check_lock(vm)?;
        }
        check_monitor(vm, self.vmid)?;
        self.set_paused(vm, true);
        Ok(())
    }

    pub(crate) async fn resume(&self, skip_lock: bool) -> Result<(), Refusal> {
        let _guard = self.lock().await?;
        let mut world = self.site().world();
        let vm = world.vm_mut(&self.node, self.vmid)?;
        check_monitor(vm, self.vmid)?;
        if vm.is_template() {
            let text = format!("VM {} is a template and cannot be resumed!", self.vmid);
            return Err(Refusal::failed(text));
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
        let moment = if paused { Moment::Paused } else { Moment::Resumed };
        self.site().guests.tell(&self.node, self.vmid, moment);
    }
}

/// Whether a VM runs on this host, or what calls say that look at its process first.
pub(crate) fn is_running(world: &World, node: &str, vmid: u32) -> Result<bool, Refusal> {
    let vm = world.vm(node, vmid).map_err(|_| {
        let text = format!("unable to find configuration file for VM {vmid} on node '{node}'");
        Refusal::failed(text)
    })?;
    Ok(vm.is_running())
}

/// QEMU's monitor is there as long as QEMU is.
fn check_monitor(vm: &Vm, vmid: u32) -> Result<(), Refusal> {
    if vm.is_running() {
        return Ok(());
    }
    Err(Refusal::failed(format!("VM {vmid} not running")))
}

/// Whether the configuration has a guest agent that is switched on.
pub(crate) fn agent_is_enabled(world: &World, options: &Config) -> bool {
    let format = schema::format(world.release, FormatName::Agent);
    let fields = options.get("agent").and_then(|agent| format.parse(agent).ok());
    fields.and_then(|fields| fields.flag("enabled")).unwrap_or_default()
}

/// A guest that is paused answers nothing.
pub(crate) fn answers(run: &Run) -> bool {
    run.agent.is_some() && !run.paused
}

/// How long the VM's own `startup` option says to wait for it at most.
fn down(startup: &str) -> Option<Duration> {
    let seconds = startup.split(',').find_map(|part| part.strip_prefix("down="))?;
    let seconds: u64 = seconds.parse().ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}
