//! HTTPS server that answers for all image hosts on one listener.

use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, HOST, HeaderValue, RANGE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request as HttpRequest, Response};
use hyper_util::rt::TokioIo;
use talmox_lab_environment::fault::{Action, EventSource, FaultEvent};
use talmox_lab_environment::stopped;
use talmox_lab_kube::{collect, decode, query};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::Factory;
use super::answer::HttpAnswer;
use super::body::ResponseBody;
use super::route::FactoryRequest;

/// Maximum size of a request body.
const MAX_BODY: usize = 1 << 20;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

pub struct FactoryServer {
    pub listener: TcpListener,
    pub tls: TlsAcceptor,
    pub factory: Arc<Factory>,
}

impl fmt::Debug for FactoryServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactoryServer").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl FactoryServer {
    /// Serves until `stop` becomes true.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = stopped(&mut stop) => return,
            };
            // Accepting can fail if no file descriptor is free. A later attempt can succeed.
            let Ok((socket, _)) = accepted else {
                tokio::task::yield_now().await;
                continue;
            };
            let (tls, factory) = (self.tls.clone(), Arc::clone(&self.factory));
            tokio::spawn(serve_connection(socket, tls, factory, stop.clone()));
        }
    }
}

async fn serve_connection(
    socket: TcpStream,
    tls: TlsAcceptor,
    factory: Arc<Factory>,
    mut stop: watch::Receiver<bool>,
) {
    let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, tls.accept(socket)).await else { return };
    let service = service_fn(move |request| {
        let factory = Arc::clone(&factory);
        async move { respond(&factory, request).await }
    });
    let mut http = http1::Builder::new();
    // Go capitalizes header names, so the lab does the same.
    let serving = http.title_case_headers(true).serve_connection(TokioIo::new(stream), service);
    let mut serving = pin!(serving);
    tokio::select! {
        // An error of the connection is ignored, because the client notices it as well.
        ended = serving.as_mut() => drop(ended),
        () = stopped(&mut stop) => {}
    }
}

/// Answers a request. An error breaks the connection without an answer.
async fn respond(
    factory: &Arc<Factory>,
    request: HttpRequest<Incoming>,
) -> io::Result<Response<ResponseBody>> {
    let (head, body) = request.into_parts();
    let header = |name| {
        let value = head.headers.get(name).and_then(|value| value.to_str().ok());
        value.map(str::to_owned)
    };
    let host = header(HOST).unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let method = head.method.as_str().to_owned();
    let path = decode(head.uri.path(), false);
    let event = FaultEvent {
        source: EventSource::Factory(&path),
        method: &method,
        ..FaultEvent::default()
    };
    let mut rejected = None;
    let mut cut_after = false;
    let mut truncated = None;
    for action in factory.environment.faults.matching_actions(&event) {
        factory.hypervisor.carry_out(&action);
        match action {
            Action::Reject { status, message } => {
                rejected = Some(HttpAnswer::error(status, &message));
            }
            Action::Delay(time) => factory.environment.clock.sleep(time).await,
            Action::CutBefore => return Err(io::ErrorKind::ConnectionAborted.into()),
            // The request hangs until the client disconnects or the lab stops.
            Action::Hang => return std::future::pending().await,
            Action::CutAfter => cut_after = true,
            Action::Truncate { percent } => truncated = Some(percent),
            _ => {}
        }
    }
    let is_head = method == "HEAD";
    let answer = match (rejected, collect(body, MAX_BODY).await) {
        (Some(rejected), _) => rejected,
        (None, None) => HttpAnswer::error(413, "Request Entity Too Large"),
        (None, Some(body)) => {
            let query = query(head.uri.query().unwrap_or_default());
            let request = FactoryRequest { method, host, path, query, range: header(RANGE), body };
            factory.answer(&request).await
        }
    };
    if cut_after {
        return Err(io::ErrorKind::ConnectionAborted.into());
    }
    Ok(to_response(answer, is_head, truncated))
}

fn to_response(answer: HttpAnswer, is_head: bool, truncated: Option<u8>) -> Response<ResponseBody> {
    let HttpAnswer { status, headers, body } = answer;
    let length = body.len();
    let outgoing = match truncated {
        _ if is_head => ResponseBody::whole(Bytes::new()),
        Some(percent) => {
            // At least one byte is always missing, even with 100 percent.
            let kept = (length * usize::from(percent) / 100).min(length.saturating_sub(1));
            ResponseBody::broken(body.slice(..kept))
        }
        None => ResponseBody::whole(body),
    };
    let mut response = Response::new(outgoing);
    *response.status_mut() = status.try_into().unwrap_or_default();
    let own = response.headers_mut();
    own.insert(CONTENT_LENGTH, HeaderValue::from(length));
    for (name, value) in headers {
        // A file name from the request may contain characters that are invalid in a header.
        if let Ok(value) = HeaderValue::from_str(&value) {
            own.insert(name, value);
        }
    }
    response
}
