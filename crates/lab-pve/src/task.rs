//! Handle of a running task. The task uses the handle to write its log, to wait, and to detect interruption.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use talmox_lab_environment::Work;

use super::pve_state::TaskState;
use super::site::Site;
use crate::fault::TaskFault;

/// Handle of a running task. Clones refer to the same task.
#[derive(Clone, Debug)]
pub(crate) struct TaskHandle {
    pub(crate) site: Arc<Site>,
    pub(crate) upid: String,
    warnings: Arc<AtomicU32>,
    fault: Arc<TaskFault>,
}

impl TaskHandle {
    pub(crate) fn new(site: Arc<Site>, upid: String, fault: TaskFault) -> Self {
        Self { site, upid, warnings: Arc::default(), fault: Arc::new(fault) }
    }

    pub(crate) fn log(&self, line: impl Into<String>) {
        if let Some(task) = self.site.pve_state().tasks.get_mut(&self.upid) {
            task.log.push(line.into());
        }
    }

    /// Logs a warning. The exit status contains the number of warnings.
    pub(crate) fn warn(&self, text: &str) {
        self.warnings.fetch_add(1, Ordering::Relaxed);
        self.log(format!("WARN: {text}"));
    }

    /// Applies the fault of the task, if it was not applied before. This is called before a lock is acquired, so that no lock
    /// is held during the delay of a fault.
    pub(crate) async fn apply_fault(&self, work: Work) -> Result<(), String> {
        self.fault.apply(&self.site, work).await
    }

    /// Waits for the time that this work takes. Fails if the task is interrupted in the meantime.
    pub(crate) async fn wait(&self, work: Work) -> Result<(), String> {
        let object = self.object();
        self.apply_fault(work).await?;
        self.site.wait(work, &object).await;
        let pve_state = self.site.pve_state();
        match pve_state.tasks.get(&self.upid).map(|task| &task.state) {
            Some(TaskState::Running { interrupted: true }) => Err("received interrupt".to_owned()),
            _ => Ok(()),
        }
    }

    /// Object of the task. It selects the random numbers of the task.
    fn object(&self) -> String {
        let pve_state = self.site.pve_state();
        pve_state
            .tasks
            .get(&self.upid)
            .map(|task| format!("{}/{}", task.kind, task.id))
            .unwrap_or_default()
    }

    /// Ends the task with an unknown status, as after a host failure.
    pub(super) fn end_with_unknown_status(&self) {
        let ended = self.site.now();
        if let Some(task) = self.site.pve_state().tasks.get_mut(&self.upid) {
            task.state = TaskState::Stopped { exit: "unexpected status".to_owned(), ended };
        }
    }

    pub(super) fn end(&self, result: Result<(), String>) {
        let warnings = self.warnings.load(Ordering::Relaxed);
        let (exit, line) = match result.and_then(|()| self.fault.check_end()) {
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
        if let Some(task) = self.site.pve_state().tasks.get_mut(&self.upid) {
            task.log.push(line);
            task.state = TaskState::Stopped { exit, ended };
        }
    }
}
