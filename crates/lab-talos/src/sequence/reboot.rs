//! Reboots and shutdowns of nodes.

use std::sync::Arc;

use talmox_talos_api::proto::machine::reboot_request::Mode;
use talmox_talos_api::server::Status;

use super::super::simulation::Simulation;
use super::super::talos_state::Stage;
use super::drain;
use super::sequence_run::{STOP_PHASES, SequenceRun};

const CLEAN_UP: &[(&str, &str)] = &[("cleanup", "stopAllPods"), ("dbus", "stopDBus")];

impl Simulation {
    /// Starts a reboot, and returns the actor id of its events.
    pub(crate) fn reboot(
        self: &Arc<Self>,
        vmid: u32,
        boot: u64,
        mode: Mode,
    ) -> Result<String, Status> {
        let (actor, run) = SequenceRun::start(self, vmid, boot, "reboot", Stage::Rebooting)?;
        if let Some(run) = run {
            tokio::spawn(async move {
                let is_forced = mode == Mode::Force;
                if is_forced || run.phases(CLEAN_UP).await && run.phases(STOP_PHASES).await {
                    run.reboot().await;
                }
            });
        }
        Ok(actor)
    }

    pub(crate) fn shut_down(
        self: &Arc<Self>,
        vmid: u32,
        boot: u64,
        is_forced: bool,
    ) -> Result<String, Status> {
        let (actor, run) = SequenceRun::start(self, vmid, boot, "shutdown", Stage::ShuttingDown)?;
        if let Some(run) = run {
            tokio::spawn(async move {
                if !run.phases(&[("storeShutdown", "storeShutdownEmergency")]).await
                    || !is_forced && !drain::drain(&run).await
                {
                    return;
                }
                if run.phases(CLEAN_UP).await && run.phases(STOP_PHASES).await {
                    run.shut_down().await;
                }
            });
        }
        Ok(actor)
    }
}
