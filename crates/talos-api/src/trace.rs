//! Span of a call: operation, node, outcome and number of retries.
//!
//! The span never contains requests or answers. It does not contain the message of a rejected call either, because that
//! message quotes the config. Targets, names and fields of spans are a contract with the listener (ARCHITECTURE.md,
//! "Traces").

use std::future::Future;

use talmox_values::Address;
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span, debug_span, info_span};

use crate::dial::{Dialed, Dialer, Failed};
use crate::error::{Call, TalosError};

const TARGET: &str = "talmox::talos";

/// Waits for the answer to a call inside the span of the call. `detail` is the name of the object that is read, and may
/// be empty.
pub(crate) fn traced<T>(
    call: &Call,
    detail: &str,
    work: impl Future<Output = Result<T, TalosError>>,
) -> impl Future<Output = Result<T, TalosError>> {
    let span = span(call, detail);
    // Boxed, because this future is part of many other futures, which would become large.
    let work = Box::pin(work).instrument(span.clone());
    async move {
        let result = work.await;
        if !span.is_disabled() {
            match &result {
                Ok(_) => span.record("outcome", "ok"),
                Err(error) => span.record("outcome", display(outcome(error))),
            };
        }
        result
    }
}

/// Opens a connection to identify the machine or server that answers at an address.
pub(crate) async fn dialed(dialer: Dialer) -> Result<Dialed, Failed> {
    let call = Call { operation: "Connect", node: dialer.address.clone() };
    let span = span(&call, "");
    let result = Box::pin(dialer.dial()).instrument(span.clone()).await;
    match &result {
        Ok(_) => span.record("outcome", "ok"),
        Err(failed) => span.record("outcome", display(&failed.error)),
    };
    result
}

/// Records that a request is sent again because the node never received it. Call this inside the span of the call.
pub(crate) fn resent(node: &Address) {
    Span::current().record("retries", 1_u64);
    tracing::info!(target: TARGET, subject = %node, "retry: the connection was closed before the request was sent");
}

fn span(call: &Call, detail: &str) -> Span {
    let Call { operation, node } = call;
    let blank = if detail.is_empty() { "" } else { " " };
    let object = format_args!("{operation}{blank}{detail} on {node}");
    if call.is_read() {
        debug_span!(target: TARGET, "call", %object, outcome = Empty, retries = Empty)
    } else {
        info_span!(target: TARGET, "call", %object, outcome = Empty, retries = Empty)
    }
}

fn outcome(error: &TalosError) -> String {
    match error {
        TalosError::Unreachable { source, .. } => format!("not sent: {source}"),
        TalosError::NotYet { code, .. } | TalosError::No { code, .. } => format!("{code:?}"),
        TalosError::Lost { .. } => "no answer: the connection was lost".to_owned(),
        TalosError::Late { .. } => "no answer in time".to_owned(),
        TalosError::Unreadable { .. } => "unreadable answer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;
    use crate::address::node_address;
    use crate::error::DRY_RUN;

    #[test]
    fn an_outcome_does_not_contain_the_text_of_a_rejected_config() {
        let call = Call { operation: "ApplyConfiguration", node: node_address("10.0.0.11") };
        let status = Status::invalid_argument("cannot unmarshal !!str `hunter2` into int");
        let error = TalosError::new(call, status);
        assert_eq!(outcome(&error), "InvalidArgument");
    }

    #[test]
    fn a_dry_run_is_a_read() {
        let call = |operation| Call { operation, node: node_address("10.0.0.11") };
        assert!(call(DRY_RUN).is_read());
        assert!(!call("ApplyConfiguration").is_read());
        assert_eq!(call(DRY_RUN).to_string(), "ApplyConfiguration (dry run) on 10.0.0.11:50000");
    }
}
