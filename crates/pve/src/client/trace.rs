//! Span of a request: method, path, outcome and number of retries.
//!
//! The span never contains parameters, bodies or headers, because they contain passwords, tickets and machine configs.
//! Targets, names and fields of spans are a contract with the listener (ARCHITECTURE.md, "Traces").

use std::error::Error;
use std::fmt::Write as _;
use std::future::Future;

use talmox_pve_types::id::Upid;
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span, debug_span, info, info_span};

use super::TaskDone;
use crate::error::PveError;

const TARGET: &str = "talmox::pve";

/// Sends a request inside the span of the request.
pub(super) fn traced<T>(
    operation: &str,
    is_read: bool,
    work: impl Future<Output = Result<T, PveError>>,
) -> impl Future<Output = Result<T, PveError>> {
    let span = if is_read {
        debug_span!(target: TARGET, "call", object = operation, outcome = Empty, retries = Empty)
    } else {
        info_span!(target: TARGET, "call", object = operation, outcome = Empty, retries = Empty)
    };
    // Boxed, because this future is part of many other futures, which would become large.
    let work = Box::pin(work).instrument(span.clone());
    async move {
        let result = work.await;
        if let Err(error) = &result
            && !span.is_disabled()
        {
            span.record("outcome", display(outcome(error)));
        }
        result
    }
}

/// Records the HTTP status of an answer. Call this inside the span of the request.
pub(super) fn answered(status: u16) {
    Span::current().record("outcome", status);
}

/// Records a retry and the failure before it. Call this inside the span of the request.
pub(super) fn retried(operation: &str, retries: u64, failure: &PveError) {
    Span::current().record("retries", retries);
    info!(target: TARGET, subject = operation, retries, "retry: {}", outcome(failure));
}

/// Logs the result of a task, or the reason why the result is unknown.
pub(super) fn task_ended(upid: &Upid, operation: &str, result: &Result<TaskDone, PveError>) {
    let kind = upid.kind();
    match result {
        Ok(TaskDone { warnings: 0, .. }) => {
            info!(target: TARGET, subject = operation, "the task {kind} ended");
        }
        Ok(TaskDone { warnings, .. }) => {
            info!(target: TARGET, subject = operation, "the task {kind} ended with {warnings} warnings");
        }
        Err(error) => {
            info!(target: TARGET, subject = operation, "the task {kind}: {}", outcome(error));
        }
    }
}

/// Text of an error, without the operation, because the span already contains the operation.
fn outcome(error: &PveError) -> String {
    match error {
        PveError::NotSent { source, .. } => chain("not sent", source),
        PveError::MaybeApplied { source, .. } => chain("no answer", source),
        PveError::Rejected(rejection) => format!("{} {}", rejection.status, rejection.message),
        PveError::TaskFailed(failure) => format!("failed: {}", failure.exit),
    }
}

fn chain(head: &str, error: &dyn Error) -> String {
    let mut text = format!("{head}: {error}");
    let mut source = error.source();
    while let Some(error) = source {
        // Writing to a string cannot fail.
        write!(text, ": {error}").ok();
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{NotSent, Rejection};

    #[test]
    fn an_outcome_has_the_cause_and_no_parameters() {
        let source = std::io::Error::other("connection refused");
        let connect = NotSent::Connect { host: "pve1".to_owned(), port: 8006, source };
        let error = PveError::not_sent("GET /version", connect);
        assert_eq!(outcome(&error), "not sent: cannot connect to pve1:8006: connection refused");
        let rejected = PveError::from(Rejection {
            operation: "POST /nodes/pve1/qemu".to_owned(),
            status: 400,
            message: "Parameter verification failed.".to_owned(),
            errors: [("sshkeys".to_owned(), "invalid: hunter2".to_owned())].into(),
        });
        assert_eq!(outcome(&rejected), "400 Parameter verification failed.");
    }
}
