//! Errors of requests, grouped by how the caller must react.
//!
//! `NotSent`: a retry is safe. `MaybeApplied`: the caller must check the state before a retry. `Rejected`: the server
//! did not execute the request. `TaskFailed`: the server accepted the request, but its task failed.

mod classification;

use std::collections::BTreeMap;
use std::{fmt, io};

use talmox_pve_types::id::Upid;
use talmox_pve_types::wire::Unreadable;

use crate::fingerprint::Fingerprint;

pub use classification::Distrust;

#[derive(Debug, thiserror::Error)]
pub enum PveError {
    /// No byte of the request reached the node that would have executed it. A retry is safe.
    #[error("{operation} was not sent")]
    NotSent { operation: String, source: NotSent },
    /// The request was sent, but its result is unknown. The caller must check the state before a retry.
    #[error("the result of {operation} is not known")]
    MaybeApplied { operation: String, source: Lost },
    /// The server rejected the request.
    #[error(transparent)]
    Rejected(Box<Rejection>),
    /// The server accepted the request, but its task failed.
    #[error(transparent)]
    TaskFailed(Box<TaskFailure>),
}

/// Reason why a request was never sent.
#[derive(Debug, thiserror::Error)]
pub enum NotSent {
    #[error("cannot find the address of {host}")]
    Resolve { host: String, source: io::Error },
    #[error("cannot connect to {host}:{port}")]
    Connect { host: String, port: u16, source: io::Error },
    #[error("cannot establish a trusted TLS connection to {host}:{port}")]
    Tls { host: String, port: u16, source: io::Error },
    /// No trusted CA verifies the certificate of the server.
    #[error(
        "cannot establish a trusted TLS connection to {host}:{port}, whose certificate has the fingerprint {shown}"
    )]
    Untrusted { host: String, port: u16, shown: Fingerprint, source: Box<rustls::Error> },
    /// The certificate of the server is not the pinned certificate.
    #[error(
        "{host}:{port} presents a certificate with the fingerprint {shown}, which is not the pinned one"
    )]
    NotPinned { host: String, port: u16, shown: Fingerprint },
    #[error("{host}:{port} did not answer in time")]
    Silent { host: String, port: u16 },
    #[error("the connection was closed before the request was sent")]
    Closed,
    #[error("cannot log in")]
    Login(#[source] Box<PveError>),
    /// Status 595: the node that received the request cannot reach the target node.
    #[error("the node cannot be reached: {message}")]
    Node { message: String },
}

/// Reason why the result of a request is unknown.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    #[error("the connection was closed before the answer was complete")]
    Cut(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the server did not answer in time")]
    Silent,
    /// Answer of a proxy in front of the node that executes the request: the proxy of another node (596, 597, 599) or a
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

/// Rejection of a request by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub operation: String,
    pub status: u16,
    pub message: String,
    /// Errors of single parameters, by the name of the parameter.
    pub errors: BTreeMap<String, String>,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was rejected: {} (status {})", self.operation, self.message, self.status)?;
        for (parameter, text) in &self.errors {
            write!(f, "; {parameter}: {}", text.trim_end().replace('\n', " "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejection {}

/// Failed task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFailure {
    pub operation: String,
    pub upid: Upid,
    /// Exit status of the task.
    pub exit: String,
    /// Last lines of the task log, oldest first; empty if they could not be read.
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
    /// Texts that contain the cause: the exit status and, for a failed migration, the error lines of the log.
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
