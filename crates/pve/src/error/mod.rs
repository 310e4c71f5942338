//! What can go wrong, told apart by what is to be done about it.
//!
//! What was never sent can be sent again. What may have been applied must be looked at first. What
//! was rejected was decided by the server. A task that failed did so after the request was taken.

mod kind;

use std::collections::BTreeMap;
use std::{fmt, io};

use talmox_pve_types::id::Upid;
use talmox_pve_types::wire::Unreadable;

use crate::fingerprint::Fingerprint;

pub use kind::Distrust;

#[derive(Debug, thiserror::Error)]
pub enum PveError {
    /// Not a byte of the request reached the one who would have acted on it: safe to try again.
    #[error("{operation} was not sent")]
    NotSent { operation: String, source: NotSent },
    /// The request went out, and what became of it is not known: look first.
    #[error("{operation} may or may not have been done")]
    MaybeApplied { operation: String, source: Lost },
    /// The server said no.
    #[error(transparent)]
    Rejected(Box<Rejection>),
    /// The server took the request and did not get it done.
    #[error(transparent)]
    TaskFailed(Box<TaskFailure>),
}

/// Why a request was never sent.
#[derive(Debug, thiserror::Error)]
pub enum NotSent {
    #[error("cannot find the address of {host}")]
    Resolve { host: String, source: io::Error },
    #[error("cannot connect to {host}:{port}")]
    Connect { host: String, port: u16, source: io::Error },
    #[error("no trusted TLS connection to {host}:{port}")]
    Tls { host: String, port: u16, source: io::Error },
    /// The server is there, and shows another certificate than the one that is pinned.
    #[error(
        "{host}:{port} shows a certificate with the fingerprint {shown}, which is not the pinned one"
    )]
    NotPinned { host: String, port: u16, shown: Fingerprint },
    #[error("{host}:{port} did not answer in time")]
    Silent { host: String, port: u16 },
    #[error("the connection was closed before the request went out")]
    Closed,
    #[error("cannot log in")]
    Login(#[source] Box<PveError>),
    /// Said by the node that was asked, about the node that was meant (status 595).
    #[error("the node cannot be reached: {message}")]
    Node { message: String },
}

/// Why the fate of a request is not known.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    #[error("the connection broke before the answer came")]
    Cut(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("no answer came in time")]
    Silent,
    /// Said by something between us and the one who acts: another node's proxy (596, 597, 599) or a
    /// gateway.
    #[error("status {status}: {message}")]
    Proxy { status: u16, message: String },
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("the task {upid} has not ended in time")]
    Unfinished { upid: Upid },
    #[error("the task {upid} cannot be followed")]
    Unwatched { upid: Upid, source: Box<PveError> },
}

/// A no of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub operation: String,
    pub status: u16,
    pub message: String,
    /// What is wrong with single parameters.
    pub errors: BTreeMap<String, String>,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was refused: {} (status {})", self.operation, self.message, self.status)?;
        for (parameter, text) in &self.errors {
            write!(f, "; {parameter}: {}", text.trim_end().replace('\n', " "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejection {}

/// A task that did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFailure {
    pub operation: String,
    pub upid: Upid,
    /// What the task said in the end.
    pub exit: String,
    /// The last lines of its log, oldest first; empty if they could not be read.
    pub log_tail: Vec<String>,
}

impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, upid, exit, .. } = self;
        write!(f, "{operation} failed on {}: {exit}", upid.node())
    }
}

impl std::error::Error for TaskFailure {}

impl TaskFailure {
    /// Where the task says what went wrong: in the end, but a migration only in its log.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        let is_vague = self.exit == "migration aborted";
        let lines = self.log_tail.iter().map(String::as_str);
        let errors = lines.filter(move |line| is_vague && line.contains("ERROR: "));
        std::iter::once(self.exit.as_str()).chain(errors)
    }
}

impl From<Rejection> for PveError {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(Box::new(rejection))
    }
}

impl From<TaskFailure> for PveError {
    fn from(failure: TaskFailure) -> Self {
        Self::TaskFailed(Box::new(failure))
    }
}

impl PveError {
    pub(crate) fn not_sent(operation: &str, source: NotSent) -> Self {
        Self::NotSent { operation: operation.to_owned(), source }
    }

    pub(crate) fn lost(operation: &str, source: impl Into<Lost>) -> Self {
        Self::MaybeApplied { operation: operation.to_owned(), source: source.into() }
    }
}
