//! What is done to Proxmox.

mod cidata;
mod clone;
mod create;
mod destroy;
mod detach;
mod error;
mod finish;
mod image;
mod image_check;
mod making;
mod mapping;
mod power;
mod resize;
mod template;
mod vm;

use std::time::Duration;

use talmox_pve::client::TaskDone;
use talmox_pve::id::Upid;
use talmox_pve::request::Request;
use talmox_pve::{PveError, client};

use super::{StepContext, StepError};

pub(super) use cidata::{scrub_cidata, upload_cidata};
pub(super) use clone::clone;
pub(super) use create::create;
pub(super) use destroy::destroy;
pub(super) use detach::detach_cidata;
pub(super) use finish::finish;
pub(super) use image::{delete_image, fetch_image};
pub(super) use mapping::create_mapping;
pub(super) use power::{reset, start, stop};
pub(super) use resize::resize;
pub(super) use template::make_template;

/// How long to wait between two looks at something that changes by itself.
const LOOK_EVERY: Duration = Duration::from_secs(3);

impl StepContext {
    /// Asks Proxmox for something, while `doing`.
    async fn ask<T>(&self, request: &Request<T>, doing: &str) -> Result<T, StepError> {
        self.wait(self.run.pve.send(request)).await?.map_err(|error| error::of(doing, error))
    }

    /// Changes something at once.
    async fn change(&self, request: &Request<()>, doing: &str) -> Result<(), StepError> {
        let act =
            async { self.run.pve.send(request).await.map_err(|error| error::of(doing, error)) };
        self.act(act).await
    }

    /// Starts a task and waits for its end. Where somebody wants to stop, the task goes on, and the
    /// next run finds it or what it made.
    async fn run_task(&self, request: &Request<Upid>, doing: &str) -> Result<TaskDone, StepError> {
        self.try_task(request).await?.map_err(|error| error::of(doing, error))
    }

    /// The same for who knows what to do about errors.
    async fn try_task(
        &self,
        request: &Request<Upid>,
    ) -> Result<Result<TaskDone, PveError>, StepError> {
        let started = self.act(async { Ok(self.run.pve.start(request).await) }).await?;
        match started {
            Ok(running) => self.end_of(running).await,
            Err(error) => Ok(Err(error)),
        }
    }

    async fn end_of(
        &self,
        running: client::Running,
    ) -> Result<Result<TaskDone, PveError>, StepError> {
        self.waits(format!("the task {} on {}", running.upid.kind(), running.upid.node()));
        self.wait(self.run.pve.finish(running, self.deadline.left())).await
    }
}
