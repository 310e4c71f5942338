//! HTTPS listener of the Kubernetes API. Several listeners may serve the same store.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT, WARNING};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request as HttpRequest, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::answer::{Answer, answer};
use super::auth::User;
use super::body::Outgoing;
use super::failure::Failure;
use super::host::{Connections, RequestFate, ServerHost};
use super::impersonation::impersonated;
use super::request::{self, Request};
use super::store::KubeStore;
use super::tls::KubeTls;

/// Maximum size of a request body.
const MAX_BODY: usize = 3 << 20;
/// Number of bytes after the maximum size that are read and discarded. A client does not read the error response while it still
/// sends the body.
const DISCARD_LIMIT: usize = 64 << 20;
/// Number of events buffered for a slow watcher.
const EVENT_BUFFER: usize = 16;
/// Time that a request waits for etcd to answer, in lab time.
const ETCD_TIMEOUT: Duration = Duration::from_secs(7);
const HANDSHAKE: Duration = Duration::from_secs(10);
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const OLD_OPENAPI: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Handle of a listener. Dropping the handle stops the listener.
#[derive(Debug)]
pub struct KubeServer {
    stop: watch::Sender<bool>,
    running: JoinHandle<()>,
}

/// Store, TLS settings, version and machine of an API server.
#[derive(Clone, Debug)]
pub struct ApiServer {
    pub store: Arc<KubeStore>,
    pub tls: KubeTls,
    /// Kubernetes version, such as `v1.34.1`. During an upgrade, the API servers of a cluster have different versions.
    pub version: Arc<str>,
    /// State of etcd. If the sender is dropped, requests do not wait for etcd.
    pub memory: watch::Receiver<Memory>,
    /// Machine that the API server runs on. Faults of the machine affect requests.
    pub host: Option<Arc<dyn ServerHost>>,
}

/// State of etcd, from the view of an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    Good,
    /// etcd is readable but not writable.
    Full,
    /// etcd does not answer.
    Lost,
}

/// Serves the store on a listener, as an API server of this version (`v1.34.1`). During an upgrade, the API servers of a
/// cluster have different versions.
pub fn serve(
    listener: TcpListener,
    tls: KubeTls,
    version: &str,
    store: Arc<KubeStore>,
) -> KubeServer {
    let (_, memory) = watch::channel(Memory::Good);
    let server = ApiServer { store, tls, version: version.into(), memory, host: None };
    serve_at(listener, server)
}

/// Serves connections from the given source.
pub fn serve_at(connections: impl Connections, server: ApiServer) -> KubeServer {
    let (stop, stop_signal) = watch::channel(false);
    let running = tokio::spawn(accept(connections, Connection { server, stop: stop_signal }));
    KubeServer { stop, running }
}

impl KubeServer {
    /// Closes the listener and all connections, as when the API server process exits.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // An error means that the task panicked, so the task has ended as well.
        self.running.await.ok();
    }
}

/// Waits until the server stops.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender was dropped, so the server has stopped as well.
    stop.wait_for(|stop| *stop).await.ok();
}

async fn accept(mut connections: impl Connections, connection: Connection) {
    let mut stop = connection.stop.clone();
    loop {
        let socket = tokio::select! {
            accepted = connections.next() => accepted,
            () = stopped(&mut stop) => return,
        };
        let Some(socket) = socket else { return };
        // Accepting a connection can fail temporarily, for instance if no file descriptor is free.
        let Ok(socket) = socket else {
            tokio::task::yield_now().await;
            continue;
        };
        tokio::spawn(connection.clone().run(socket));
    }
}

/// API server and stop signal of a connection.
#[derive(Clone)]
struct Connection {
    server: ApiServer,
    stop: watch::Receiver<bool>,
}

impl Connection {
    async fn run(self, socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.server.tls.config));
        let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(socket)).await else { return };
        let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let now = self.server.store.clock.since_epoch();
        let user = match shown.first() {
            Some(first) if self.server.tls.accepts(shown, now) => User::of_certificate(first),
            _ => None,
        };
        let mut stop = self.stop.clone();
        let this = Arc::new(self);
        // A notification of `line` closes the connection.
        let line = Arc::new(Notify::new());
        let cut = Arc::clone(&line);
        let service = service_fn(move |request| {
            let (this, user, cut) = (Arc::clone(&this), user.clone(), Arc::clone(&cut));
            async move {
                let Some(response) = this.answer(request, user).await else {
                    cut.notify_one();
                    return std::future::pending().await;
                };
                Ok::<_, Infallible>(response)
            }
        });
        let is_newer = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let stream = TokioIo::new(stream);
        let serving = async move {
            // An error of the connection is ignored, because the client notices it as well.
            if is_newer {
                let builder = http2::Builder::new(TokioExecutor::new());
                builder.serve_connection(stream, service).await.ok();
            } else {
                http1::Builder::new().serve_connection(stream, service).await.ok();
            }
        };
        let mut serving = pin!(serving);
        tokio::select! {
            () = serving.as_mut() => {}
            () = line.notified() => {}
            () = stopped(&mut stop) => {}
        }
    }

    /// Answers a request, unless a fault prevents the answer. `None` means that the connection is closed.
    async fn answer(
        &self,
        request: HttpRequest<Incoming>,
        user: Option<User>,
    ) -> Option<Response<Outgoing>> {
        let Some(host) = &self.server.host else {
            return Some(self.respond(request, user).await);
        };
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let then = match host.receive(method.as_str(), &path).await {
            RequestFate::Answered(then) => then,
            RequestFate::Rejected { status, message } => {
                return Some(error_response(&Failure::of_fault(status, &message)));
            }
            RequestFate::Cut => return None,
        };
        let response = self.respond(request, user).await;
        then().then_some(response)
    }

    async fn respond(
        &self,
        request: HttpRequest<Incoming>,
        user: Option<User>,
    ) -> Response<Outgoing> {
        let (head, body) = request.into_parts();
        let header = |name| {
            let value = head.headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let user = user.or_else(|| {
            let header = header(AUTHORIZATION);
            let token = header.strip_prefix("Bearer ")?;
            self.server.store.with(|state| User::of_token(state, token))
        });
        let Some(user) = user else { return error_response(&Failure::unauthorized()) };
        let user = self.server.store.with(|state| impersonated(state, user, &head.headers));
        let user = match user {
            Ok(user) => user,
            Err(failure) => return error_response(&failure),
        };
        let Some(body) = collect(body, MAX_BODY).await else {
            return error_response(&Failure::too_large());
        };
        let steps = head.uri.path().split('/').filter(|step| !step.is_empty());
        let request = Request {
            method: head.method.as_str().to_owned(),
            path: steps.map(|step| request::decode(step, false)).collect(),
            query: request::query(head.uri.query().unwrap_or_default()),
            accept: header(ACCEPT),
            content_type: header(CONTENT_TYPE),
            user_agent: header(USER_AGENT),
            server_version: Arc::clone(&self.server.version),
            body,
            user,
        };
        if let Some(failed) = self.is_cut_off(&request).await {
            return failed;
        }
        let (answer, warnings) = self.server.store.with(|state| answer(state, &request));
        let mut response = match answer {
            Answer::Json(code, body) => respond(code, "application/json", Outgoing::Whole(body)),
            Answer::Aggregated(body) => respond(200, AGGREGATED, Outgoing::Whole(body)),
            Answer::OldOpenApi(body) => respond(200, OLD_OPENAPI, Outgoing::Whole(body)),
            Answer::Text(code, text) => {
                respond(code, "text/plain; charset=utf-8", Outgoing::Whole(text.into()))
            }
            Answer::Watch(watch) => {
                let (sender, pieces) = mpsc::channel::<Bytes>(EVENT_BUFFER);
                tokio::spawn(watch.run(Arc::clone(&self.server.store), sender, self.stop.clone()));
                respond(200, "application/json", Outgoing::Pieces(pieces))
            }
        };
        for warning in warnings {
            let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
            // A warning that is not a valid header value is omitted.
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
                response.headers_mut().append(WARNING, value);
            }
        }
        response
    }
}

impl Connection {
    /// Error response to a request that needs etcd, if etcd is full or does not answer; `None` if the request can be answered.
    async fn is_cut_off(&self, request: &Request) -> Option<Response<Outgoing>> {
        let mut memory = self.server.memory.clone();
        let now = *memory.borrow_and_update();
        let first = request.path.first().map(String::as_str).unwrap_or_default();
        match (now, first) {
            (Memory::Good, _) | (_, "version") => None,
            (Memory::Full, _) if request.method == "GET" => None,
            (Memory::Full, _) => {
                Some(error_response(&Failure::of_etcd("etcdserver: mvcc: database space exceeded")))
            }
            (Memory::Lost, check @ ("readyz" | "healthz" | "livez")) => {
                let text = format!(
                    "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\n{check} check failed\n"
                );
                Some(respond(500, "text/plain; charset=utf-8", Outgoing::Whole(text.into())))
            }
            (Memory::Lost, _) => {
                let back = memory.wait_for(|memory| *memory != Memory::Lost);
                let clock = self.server.store.clock;
                match clock.timeout(ETCD_TIMEOUT, back).await {
                    Ok(_) => None,
                    Err(_) => {
                        Some(error_response(&Failure::of_etcd("etcdserver: request timed out")))
                    }
                }
            }
        }
    }
}

fn error_response(failure: &Failure) -> Response<Outgoing> {
    let body = failure.to_json().to_string();
    respond(failure.code, "application/json", Outgoing::Whole(body.into()))
}

fn respond(code: u16, content_type: &'static str, body: Outgoing) -> Response<Outgoing> {
    let response = Response::builder()
        .status(code)
        .header(CONTENT_TYPE, content_type)
        .header("Cache-Control", "no-cache, private")
        .body(body);
    response.expect("invariant: the code and the headers are valid")
}

/// Reads the body of a request; `None` if the body is longer than `most` or incomplete.
pub async fn collect(mut body: Incoming, most: usize) -> Option<Vec<u8>> {
    let (mut all, mut length) = (vec![], 0);
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.ok()?;
        let piece = frame.data_ref().map(AsRef::as_ref).unwrap_or_default();
        length += piece.len();
        if length > most + DISCARD_LIMIT {
            return None;
        }
        if length <= most {
            all.extend_from_slice(piece);
        }
    }
    (length <= most).then_some(all)
}
