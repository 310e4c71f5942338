//! Why a step did not get done, told apart by what is to be done about it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use talmox_plan::plan::StepId;

use super::code::StepCode;
use crate::cluster_lock::LockLost;
use crate::event::StepEnd;
use crate::web::WebError;

/// Why a step did not get done. Its texts are shown to people and hold no secrets.
#[derive(Debug)]
pub struct StepError {
    pub code: StepCode,
    pub kind: ErrorKind,
    /// What did not work, on what: `create VM 300 on pve1`.
    pub message: String,
    /// What a person can do about it.
    pub hint: Option<String>,
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The step can be run again, from its first look; not before this time, if one is given.
    Retry { after: Option<Duration> },
    /// Others hold a lock, as long as they are at work: the step can be run again, from its first look, for as
    /// long as it has time.
    Locked,
    /// Trying again would not help.
    Failed,
    /// It waited for what this step should have brought about, and that did not get done.
    Blocked { by: StepId },
    /// Somebody wanted to stop.
    Cancelled,
    /// A test wanted it to look as if the process had been killed here.
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

    /// Another run may work on the cluster now.
    pub fn lock_lost(lost: LockLost) -> Self {
        Self::failed(
            StepCode::ClusterLockLost,
            "stopped before the next change: this run no longer holds its lock",
        )
        .caused_by(lost)
        .hint(
            "see who works on the cluster; when that run has ended, run the same command to resume",
        )
    }

    pub fn blocked(by: StepId) -> Self {
        let message = format!("{by} did not get done");
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

    /// What failed on the web, while `doing`.
    pub fn web(doing: &str, error: WebError) -> Self {
        let kind = if error.may_pass() { Self::retry } else { Self::failed };
        kind(StepCode::DownloadFailed, doing).caused_by(error)
    }

    /// What it came from, the nearest first.
    pub fn causes(&self) -> Vec<String> {
        let mut causes = vec![];
        let mut next = self.source();
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        causes
    }

    /// How the step ended, as events tell it.
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
