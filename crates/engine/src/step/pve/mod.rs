//! Steps that change Proxmox.

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
mod power;
mod published_checksum;
mod resize_disk;
mod scrub_cidata;
mod start_vm;
mod stop_vm;
mod storage_file;
mod tags;
mod upload_cidata;
mod vm;

use talmox_pve::PveError;
use talmox_pve::client::{Permits, Running, TaskDone, TaskPatience};
use talmox_pve::id::Upid;
use talmox_pve::request::{Request, Scope};

use super::{StepContext, StepError};
use crate::patience::SILENT_HOST;

pub(super) use error::UNANSWERED;
pub(super) use power::reset;

impl StepContext {
    /// Sends a request, and remembers it until it is answered.
    pub(super) async fn send<T>(&self, request: &Request<T>) -> Result<T, PveError> {
        self.answered(request.operation(), Box::pin(self.run.pve.send(request))).await
    }

    /// Asks Proxmox for something, while `doing`.
    async fn ask<T>(&self, request: &Request<T>, doing: &str) -> Result<T, StepError> {
        self.try_ask(request).await?.map_err(|error| error::of(doing, error))
    }

    /// The same for who knows what to do about errors.
    async fn try_ask<T>(&self, request: &Request<T>) -> Result<Result<T, PveError>, StepError> {
        self.see(self.send(request)).await
    }

    /// Changes something at once.
    async fn change(&self, request: &Request<()>, doing: &str) -> Result<(), StepError> {
        let room = self.turn(request.scope(), self.run.pve.room_to_send(request)).await?;
        let send = Box::pin(self.run.pve.send_in(room, request));
        let send = self.answered(request.operation(), send);
        self.act(async { send.await.map_err(|error| error::of(doing, error)) }).await
    }

    /// Starts a task and waits for its end, also where somebody wants to stop.
    async fn run_task(&self, request: &Request<Upid>, doing: &str) -> Result<TaskDone, StepError> {
        self.try_task(request).await?.map_err(|error| error::of(doing, error))
    }

    /// The same for who knows what to do about errors.
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
        // Who wants to stop must not begin something when others have made room.
        let room = self.room(request.scope()).await?;
        let start = Box::pin(self.run.pve.start_in(room, request));
        let has_begun = self.has_begun();
        let starting = async {
            self.set_begun(true);
            Ok(self.answered(request.operation(), start).await)
        };
        let started = self.act(starting).await?;
        // Only where the answer was lost is it unknown whether there is a task.
        if matches!(&started, Err(error) if !matches!(error, PveError::MaybeApplied { .. })) {
            self.set_begun(has_begun);
        }
        Ok(started)
    }

    /// Room on the host and its storages, which others may burden.
    async fn room(&self, scope: &Scope) -> Result<Permits, StepError> {
        self.turn(scope, self.run.pve.room(scope)).await
    }

    /// Waits for its turn. That takes nothing of its own time.
    async fn turn(
        &self,
        scope: &Scope,
        room: impl Future<Output = Permits>,
    ) -> Result<Permits, StepError> {
        let mut room = std::pin::pin!(room);
        // Where there is room there is nothing to say.
        tokio::select! {
            biased;
            room = &mut room => return Ok(room),
            () = std::future::ready(()) => {}
        }
        let host = scope.node.as_ref().map(|host| format!(" on {host}"));
        self.waits(format!("other tasks{} to end", host.unwrap_or_default()));
        let _still = self.deadline.stand_still();
        let room = self.wait(room).await?;
        self.waits("Proxmox to answer");
        Ok(room)
    }

    async fn end_of(&self, running: Running) -> Result<Result<TaskDone, PveError>, StepError> {
        self.set_begun(true);
        let upid = running.upid.clone();
        let what = format!("the task {} on {}", upid.kind(), upid.node());
        self.waits(&*what);
        let tell = |trouble: Option<&PveError>| self.tell_task(&what, trouble);
        let ended = Box::pin(self.run.pve.finish(running, self.task_patience(&tell))).await;
        if matches!(ended, Err(PveError::TaskFailed(_))) {
            self.set_begun(false);
        }
        Ok(ended)
    }

    /// Waits for a task of an earlier run, or of an attempt whose answer was lost. Whether its end was a good one the next
    /// look shows.
    async fn end_of_earlier(&self, upid: &Upid, doing: &str) -> Result<(), StepError> {
        let what = format!("the task {} on {} from before", upid.kind(), upid.node());
        self.waits(&*what);
        let tell = |trouble: Option<&PveError>| self.tell_task(&what, trouble);
        let ended = self.see(Box::pin(self.run.pve.wait(upid, self.task_patience(&tell)))).await;
        if ended.is_err() {
            self.note(format!("{what} goes on in Proxmox"));
        }
        match ended? {
            Ok(_) | Err(PveError::TaskFailed(_) | PveError::Rejected(_)) => Ok(()),
            Err(error) => Err(error::of(doing, error)),
        }
    }

    fn task_patience<'a>(
        &self,
        tell: &'a (dyn Fn(Option<&PveError>) + Send + Sync),
    ) -> TaskPatience<'a> {
        TaskPatience { whole: self.deadline.left(), unseen: SILENT_HOST, tell }
    }

    /// Why nothing is known of a task, while that is so.
    fn tell_task(&self, what: &str, trouble: Option<&PveError>) {
        match trouble {
            None => self.waits(what),
            Some(error) => match error.silent_node() {
                Some(host) => self.waits(format!("{what}: the host {host} does not answer")),
                None => self.waits(format!("{what}: {error}")),
            },
        }
    }
}
