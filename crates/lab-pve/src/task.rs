//! What a running task can do: write its log, take its time, notice that it was told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use talmox_lab_environment::Work;

use super::site::Site;
use super::world::TaskState;
use crate::fault::Trouble;

/// A task's hold on itself. Clones are the same task.
#[derive(Clone, Debug)]
pub(crate) struct TaskHandle {
    pub(crate) site: Arc<Site>,
    pub(crate) upid: String,
    warnings: Arc<AtomicU32>,
    trouble: Arc<Trouble>,
}

impl TaskHandle {
    pub(crate) fn new(site: Arc<Site>, upid: String, trouble: Trouble) -> Self {
        Self { site, upid, warnings: Arc::default(), trouble: Arc::new(trouble) }
    }

    pub(crate) fn log(&self, line: impl Into<String>) {
        if let Some(task) = self.site.world().tasks.get_mut(&self.upid) {
            task.log.push(line.into());
        }
    }

    /// Something is not as it should be, but the task goes on.
    pub(crate) fn warn(&self, text: &str) {
        self.warnings.fetch_add(1, Ordering::Relaxed);
        self.log(format!("WARN: {text}"));
    }

    /// What is to go wrong happens here, if it has not yet: whoever is about to take a lock that others need
    /// meets it before.
    pub(crate) async fn strike(&self, work: Work) -> Result<(), String> {
        self.trouble.strike(&self.site, work).await
    }

    /// Lets the time pass that this work takes. Fails when the task was told to stop meanwhile.
    pub(crate) async fn wait(&self, work: Work) -> Result<(), String> {
        let object = self.object();
        self.strike(work).await?;
        self.site.wait(work, &object).await;
        let world = self.site.world();
        match world.tasks.get(&self.upid).map(|task| &task.state) {
            Some(TaskState::Running { interrupted: true }) => Err("received interrupt".to_owned()),
            _ => Ok(()),
        }
    }

    /// What the task works on, as chance knows it.
    fn object(&self) -> String {
        let world = self.site.world();
        world
            .tasks
            .get(&self.upid)
            .map(|task| format!("{}/{}", task.kind, task.id))
            .unwrap_or_default()
    }

    /// The task is gone without a last word.
    pub(super) fn vanish(&self) {
        let ended = self.site.now();
        if let Some(task) = self.site.world().tasks.get_mut(&self.upid) {
            task.state = TaskState::Stopped { exit: "unexpected status".to_owned(), ended };
        }
    }

    pub(super) fn end(&self, result: Result<(), String>) {
        let warnings = self.warnings.load(Ordering::Relaxed);
        let (exit, line) = match result.and_then(|()| self.trouble.at_the_end()) {
            Ok(()) if warnings > 0 => {
                (format!("WARNINGS: {warnings}"), format!("TASK WARNINGS: {warnings}"))
            }
            Ok(()) => ("OK".to_owned(), "TASK OK".to_owned()),
            Err(text) => {
                let text = text.trim_end_matches('\n').replace('\n', " ");
                let line = format!("TASK ERROR: {text}");
                (text, line)
            }
        };
        let ended = self.site.now();
        if let Some(task) = self.site.world().tasks.get_mut(&self.upid) {
            task.log.push(line);
            task.state = TaskState::Stopped { exit, ended };
        }
    }
}
