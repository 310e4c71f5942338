//! Errors of steps. The kind of an error determines whether the step is retried.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use talmox_plan::plan::StepId;

use super::code::StepCode;
use crate::cluster_lock::LockLost;
use crate::event::StepEnd;
use crate::web::WebError;

/// Error of a step. Its texts are shown to users and contain no secrets.
#[derive(Debug)]
pub struct StepError {
    pub code: StepCode,
    pub kind: ErrorKind,
    /// The operation and its object: `create VM 300 on pve1`.
    pub message: String,
    /// Instruction for the user.
    pub hint: Option<String>,
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The step can be retried, after this time if one is given.
    Retry { after: Option<Duration> },
    /// Another task holds a lock, or Proxmox does not confirm the cluster lock. The step is retried until its deadline.
    Locked,
    /// A retry would not help.
    Failed,
    /// The step waited for the effect of the step `by`, which failed or was skipped.
    Blocked { by: StepId },
    /// The run was cancelled.
    Cancelled,
    /// A test ended the run here, as if the process had been killed.
    Cut,
}

impl StepError {
    pub fn failed(code: StepCode, message: impl Into<String>) -> Self {
        Self { code, kind: ErrorKind::Failed, message: message.into(), hint: None, source: None }
    }

    pub fn retry(code: StepCode, message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Retry { after: None }, ..Self::failed(code, message) }
    }

    pub fn locked(code: StepCode, message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Locked, ..Self::failed(code, message) }
    }

    pub fn cancelled() -> Self {
        Self { kind: ErrorKind::Cancelled, ..Self::failed(StepCode::Cancelled, "cancelled") }
    }

    /// Error of a step whose run lost its lock. Another run may change the cluster now.
    pub fn lock_lost(lost: LockLost) -> Self {
        Self::failed(
            StepCode::ClusterLockLost,
            "stopped before the next change: this run no longer holds its lock",
        )
        .caused_by(lost)
        .hint(
            "check which run works on the cluster; when it has ended, run the same command to resume",
        )
    }

    pub fn blocked(by: StepId) -> Self {
        let message = format!("skipped: {by} failed");
        Self { kind: ErrorKind::Blocked { by }, ..Self::failed(StepCode::Skipped, message) }
    }

    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self { kind: ErrorKind::Retry { after: Some(time) }, ..self }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    #[must_use]
    pub fn caused_by(self, source: impl Error + Send + Sync + 'static) -> Self {
        Self { source: Some(Box::new(source)), ..self }
    }

    /// Error of a web request. `doing` describes the request in the message.
    pub fn web(doing: &str, error: WebError) -> Self {
        let kind = if error.may_pass() { Self::retry } else { Self::failed };
        kind(StepCode::DownloadFailed, doing).caused_by(error)
    }

    /// The causes of the error. The first one is the direct cause.
    pub fn causes(&self) -> Vec<String> {
        let mut causes = vec![];
        let mut next = self.source();
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        causes
    }

    /// The end of the step, for events.
    pub(crate) fn end(&self) -> StepEnd {
        match &self.kind {
            ErrorKind::Cancelled => StepEnd::Cancelled,
            ErrorKind::Blocked { by } => StepEnd::Blocked { by: by.to_string() },
            _ => StepEnd::Failed {
                code: Some(self.code.to_string()),
                message: self.message.clone(),
                causes: self.causes(),
                hint: self.hint.clone(),
            },
        }
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for StepError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
