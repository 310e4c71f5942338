//! The span of a request: method, address and outcome.
//!
//! An address is shown without its query, because the query may contain a signature. The code that records traces depends on
//! the targets, names and fields of spans (ARCHITECTURE.md, "Traces").

use std::error::Error as _;
use std::future::Future;

use hyper::{Method, Response};
use talmox_values::HttpUrl;
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span, debug_span, info_span};

use super::WebError;

const TARGET: &str = "talmox::web";

/// Waits for the head of an answer inside of the span of its request.
pub(super) fn traced<B>(
    method: &Method,
    url: &HttpUrl,
    work: impl Future<Output = Result<Response<B>, WebError>>,
) -> impl Future<Output = Result<Response<B>, WebError>> {
    let span = span(method, url);
    // Boxed, because many other futures contain this one and would become large.
    let work = Box::pin(work).instrument(span.clone());
    async move {
        let result = work.await;
        match &result {
            Ok(response) => span.record("outcome", response.status().as_u16()),
            Err(error) => span.record("outcome", display(outcome(error))),
        };
        result
    }
}

fn span(method: &Method, url: &HttpUrl) -> Span {
    let object = format!("{method} {}", url.shown());
    if *method == Method::POST {
        info_span!(target: TARGET, "call", %object, outcome = Empty, retries = Empty)
    } else {
        debug_span!(target: TARGET, "call", %object, outcome = Empty, retries = Empty)
    }
}

/// Description of an error without the address, which is a field of the span.
fn outcome(error: &WebError) -> String {
    let head = match error {
        WebError::Connect { .. } => "not sent: cannot connect",
        WebError::Tls { .. } => "not sent: no trusted TLS connection",
        WebError::Broken { .. } => "no answer: the connection broke",
        WebError::Silent { .. } => "no answer in time",
        _ => "failed",
    };
    match error.source() {
        Some(source) => format!("{head}: {source}"),
        None => head.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_has_the_cause_and_no_address() {
        let source = std::io::Error::other("connection refused");
        let error = WebError::Connect { url: "https://x/y".to_owned(), source };
        assert_eq!(outcome(&error), "not sent: cannot connect: connection refused");
        let silent = WebError::Silent { url: "https://x/y".to_owned() };
        assert_eq!(outcome(&silent), "no answer in time");
    }
}
