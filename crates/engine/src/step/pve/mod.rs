//! Steps that change Proxmox.

mod change_vm;
mod clone_vm;
mod create_mapping;
mod create_vm;
mod delete_image;
mod destroy_vm;
mod detach_cidata;
mod download_log;
mod earlier;
mod error;
mod fetch_image;
mod finish_vm;
mod image_check;
mod make_template;
mod making;
mod migrate_vm;
mod power;
mod power_state;
mod published_checksum;
mod put_config;
mod resize_disk;
mod restore_marker;
mod scrub_cidata;
mod shutdown_vm;
mod start_vm;
mod stop_vm;
mod storage_file;
mod tags;
mod upload_cidata;
mod vm;

use talmox_clock::Wait;
use talmox_pve::PveError;
use talmox_pve::client::{Permits, Running, TaskDone};
use talmox_pve::id::Upid;
use talmox_pve::request::{Request, Scope};

use super::{StepContext, StepError};
use crate::timeouts::SILENT_HOST;

pub(super) use error::UNANSWERED;
pub(super) use power::reset;
pub(super) use power_state::is_off;
pub(super) use shutdown_vm::{is_stopped, shut_down, vm_power};

impl StepContext {
    /// Sends a request, and stores it in the context until Proxmox answers.
    pub(super) async fn send<T>(&self, request: &Request<T>) -> Result<T, PveError> {
        self.answered(request.operation(), Box::pin(self.run.pve.send(request))).await
    }

    /// Sends a read request. `doing` describes the request in errors.
    async fn ask<T>(&self, request: &Request<T>, doing: &str) -> Result<T, StepError> {
        self.try_ask(request).await?.map_err(|error| error::of(doing, error))
    }

    /// Like [`Self::ask`], for callers that handle errors of Proxmox.
    async fn try_ask<T>(&self, request: &Request<T>) -> Result<Result<T, PveError>, StepError> {
        self.see(self.send(request)).await
    }

    /// Sends a change that starts no task.
    async fn change(&self, request: &Request<()>, doing: &str) -> Result<(), StepError> {
        let room = self.turn(request.scope(), self.run.pve.room_to_send(request)).await?;
        let send = Box::pin(self.run.pve.send_in(room, request));
        let send = self.answered(request.operation(), send);
        self.act(async { send.await.map_err(|error| error::of(doing, error)) }).await
    }

    /// Starts a task and waits for its end, even if the run is cancelled.
    async fn run_task(&self, request: &Request<Upid>, doing: &str) -> Result<TaskDone, StepError> {
        self.try_task(request).await?.map_err(|error| error::of(doing, error))
    }

    /// Like [`Self::run_task`], for callers that handle errors of Proxmox.
    async fn try_task(
        &self,
        request: &Request<Upid>,
    ) -> Result<Result<TaskDone, PveError>, StepError> {
        match self.start_task(request).await? {
            Ok(running) => self.end_of(running).await,
            Err(error) => Ok(Err(error)),
        }
    }

    async fn start_task(
        &self,
        request: &Request<Upid>,
    ) -> Result<Result<Running, PveError>, StepError> {
        // The wait for room can be cancelled, so that a cancelled run does not start a task later.
        let room = self.room(request.scope()).await?;
        let start = Box::pin(self.run.pve.start_in(room, request));
        let has_started_task = self.has_started_task();
        let starting = async {
            self.set_started_task(true);
            Ok(self.answered(request.operation(), start).await)
        };
        let started = self.act(starting).await?;
        // After an error, a task can be running only if the answer was lost.
        if matches!(&started, Err(error) if !matches!(error, PveError::MaybeApplied { .. })) {
            self.set_started_task(has_started_task);
        }
        Ok(started)
    }

    /// Waits until the host and its storages have room for another task.
    async fn room(&self, scope: &Scope) -> Result<Permits, StepError> {
        self.turn(scope, self.run.pve.room(scope)).await
    }

    /// Waits until there is room for a request. The deadline of the step is paused meanwhile.
    async fn turn(
        &self,
        scope: &Scope,
        room: impl Future<Output = Permits>,
    ) -> Result<Permits, StepError> {
        let mut room = std::pin::pin!(room);
        // If there is room, no wait is reported.
        tokio::select! {
            biased;
            room = &mut room => return Ok(room),
            () = std::future::ready(()) => {}
        }
        let host = scope.node.as_ref().map(|host| format!(" on {host}"));
        self.waits_for(format!("other tasks{} to end", host.unwrap_or_default()));
        let _pause = self.deadline.pause();
        let room = self.wait(room).await?;
        self.waits_for("Proxmox to answer");
        Ok(room)
    }

    async fn end_of(&self, running: Running) -> Result<Result<TaskDone, PveError>, StepError> {
        self.set_started_task(true);
        let ended = Box::pin(self.run.pve.finish_with(running, self.task_wait())).await;
        if matches!(ended, Err(PveError::TaskFailed(_))) {
            self.set_started_task(false);
        }
        Ok(ended)
    }

    /// Waits for a task of an earlier run, or of an attempt whose answer was lost. The next read of the VM or storage
    /// shows whether the task succeeded.
    async fn end_of_earlier(&self, upid: &Upid, doing: &str) -> Result<(), StepError> {
        let ended = self.see(Box::pin(self.run.pve.wait_with(upid, self.task_wait()))).await;
        if ended.is_err() {
            let (kind, host) = (upid.kind(), upid.node());
            self.note(format!(
                "stopped waiting for the earlier task {kind} on {host}; the task continues in Proxmox"
            ));
        }
        match ended? {
            Ok(_) | Err(PveError::TaskFailed(_) | PveError::Rejected(_)) => Ok(()),
            Err(error) => Err(error::of(doing, error)),
        }
    }

    /// A wait for a task, until the deadline of the step. The wait ends earlier if the host does not answer for
    /// [`SILENT_HOST`].
    fn task_wait(&self) -> Wait<'_> {
        Wait::new(self.run.clock, self.deadline.clone(), "a task of Proxmox")
            .silence_limit(SILENT_HOST)
            .reporting(move |line| self.report_wait(line))
    }
}
