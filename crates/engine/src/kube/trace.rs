//! The span of a request: its method, path and outcome, and whether it was retried.
//!
//! A span never contains queries, bodies or headers, because manifests contain secrets. The code that records traces depends
//! on the targets, names and fields of spans (ARCHITECTURE.md, "Traces").

use std::future::Future;

use hyper::{Method, Request, Response};
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span, debug_span, info, info_span};

const TARGET: &str = "talmox::kube";

/// The span of a request. Its parent is the current span, so call this function before a task is spawned.
pub(super) fn span<B>(request: &Request<B>) -> Span {
    let (method, path) = (request.method(), request.uri().path());
    let is_dry = request.uri().query().is_some_and(|query| query.contains("dryRun="));
    let dry = if is_dry { " (dry run)" } else { "" };
    let object = format_args!("{method} {path}{dry}");
    if is_dry || *method == Method::GET {
        debug_span!(target: TARGET, "call", %object, outcome = Empty, retries = Empty)
    } else {
        info_span!(target: TARGET, "call", %object, outcome = Empty, retries = Empty)
    }
}

/// Waits for the head of the answer inside of the span. `outcome` converts an error into a text.
pub(super) fn traced<B, E>(
    span: Span,
    work: impl Future<Output = Result<Response<B>, E>>,
    outcome: fn(&E) -> String,
) -> impl Future<Output = Result<Response<B>, E>> {
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

/// Records that a request which was not sent is retried. Must be called inside of the span.
pub(super) fn resent<B>(request: &Request<B>) {
    Span::current().record("retries", 1_u64);
    let (method, path) = (request.method(), request.uri().path());
    let subject = format_args!("{method} {path}");
    info!(target: TARGET, %subject, "retry: the connection was closed before the request was sent");
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::super::connection::Unanswered;
    use super::*;

    /// Keeps the level and the fields of every span.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<(Level, String)>>>);

    struct Fields<'a>(&'a mut String);

    impl Visit for Fields<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            self.0.push_str(&format!("{}={value:?};", field.name()));
        }
    }

    impl Subscriber for Kept {
        fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            let mut kept = self.0.lock().unwrap();
            let mut text = String::new();
            span.record(&mut Fields(&mut text));
            kept.push((*span.metadata().level(), text));
            Id::from_u64(kept.len() as u64)
        }

        fn record(&self, span: &Id, values: &Record<'_>) {
            let mut kept = self.0.lock().unwrap();
            let index = usize::try_from(span.into_u64()).unwrap() - 1;
            values.record(&mut Fields(&mut kept[index].1));
        }

        fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
        fn event(&self, _event: &Event<'_>) {}
        fn enter(&self, _span: &Id) {}
        fn exit(&self, _span: &Id) {}
    }

    #[test]
    fn a_request_is_named_by_method_and_path_alone() {
        let kept = Kept::default();
        let path = "/api/v1/namespaces/a/secrets/b";
        tracing::subscriber::with_default(kept.clone(), || {
            for (method, query) in
                [("GET", "?token=hunter2"), ("PATCH", "?force=true"), ("PATCH", "?dryRun=All")]
            {
                let request = Request::builder().method(method).uri(format!("{path}{query}"));
                let request = request.header("authorization", "hunter2").body("hunter2").unwrap();
                drop(span(&request));
            }
        });
        let kept = kept.0.lock().unwrap();
        let object = |text: &str| format!("object={text};");
        assert_eq!(kept[0], (Level::DEBUG, object(&format!("GET {path}"))));
        assert_eq!(kept[1], (Level::INFO, object(&format!("PATCH {path}"))));
        assert_eq!(kept[2], (Level::DEBUG, object(&format!("PATCH {path} (dry run)"))));
    }

    #[tokio::test]
    async fn an_outcome_is_a_status_or_an_error() {
        let kept = Kept::default();
        let _guard = tracing::subscriber::set_default(kept.clone());
        let request = Request::builder().uri("/version").body(()).unwrap();
        let answer = async { Ok(Response::builder().status(403).body(()).unwrap()) };
        traced(span(&request), answer, Unanswered::outcome).await.unwrap();
        let unsent = async { Err::<Response<()>, _>(Unanswered::Dial { failures: vec![] }) };
        traced(span(&request), unsent, Unanswered::outcome).await.unwrap_err();
        let kept = kept.0.lock().unwrap();
        assert_eq!(kept[0].1, "object=GET /version;outcome=403;");
        assert!(kept[1].1.contains("outcome=not sent: "), "{:?}", kept[1]);
    }
}
