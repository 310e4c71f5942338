//! HTTPS: one listener of the API. Several may serve the same store.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request as HttpRequest, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::answer::{Answer, answer};
use super::auth::User;
use super::body::Outgoing;
use super::failure::Failure;
use super::request::{self, Request};
use super::store::KubeStore;
use super::tls::KubeTls;
use crate::pve::stopped;

/// The most that a request may carry.
const MOST: usize = 3 << 20;
/// Events that wait for a slow watcher.
const WAITING: usize = 16;
const HANDSHAKE: Duration = Duration::from_secs(10);
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const OLD_OPENAPI: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// A listener that serves until it is stopped or dropped.
#[derive(Debug)]
pub struct KubeServer {
    stop: watch::Sender<bool>,
    running: JoinHandle<()>,
}

/// Serves the store on a listener, as an API server of this version (`v1.34.1`): while a cluster is
/// upgraded, its servers differ.
pub fn serve(
    listener: TcpListener,
    tls: KubeTls,
    version: &str,
    store: Arc<KubeStore>,
) -> KubeServer {
    let (stop, told) = watch::channel(false);
    let connection = Connection { store, tls, version: version.into(), stop: told };
    let running = tokio::spawn(accept(listener, connection));
    KubeServer { stop, running }
}

impl KubeServer {
    /// Closes the listener and all connections, as when the API server's process ends.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // It ends by itself; if it panicked, it is gone as well.
        self.running.await.ok();
    }
}

async fn accept(listener: TcpListener, connection: Connection) {
    let mut stop = connection.stop.clone();
    loop {
        let socket = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => return,
        };
        // Out of sockets, for instance: the next attempt may go better.
        let Ok((socket, _)) = socket else {
            tokio::task::yield_now().await;
            continue;
        };
        tokio::spawn(connection.clone().run(socket));
    }
}

/// What a connection is served with.
#[derive(Clone)]
struct Connection {
    store: Arc<KubeStore>,
    tls: KubeTls,
    version: Arc<str>,
    stop: watch::Receiver<bool>,
}

impl Connection {
    async fn run(self, socket: TcpStream) {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.tls.config));
        let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(socket)).await else { return };
        let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let now = self.store.clock.since_epoch();
        let user = match shown.first() {
            Some(first) if self.tls.believes(shown, now) => User::of_certificate(first),
            _ => None,
        };
        let mut stop = self.stop.clone();
        let this = Arc::new(self);
        let service = service_fn(move |request| {
            let (this, user) = (Arc::clone(&this), user.clone());
            async move { Ok::<_, Infallible>(this.respond(request, user).await) }
        });
        let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        let mut serving = pin!(serving);
        tokio::select! {
            // A connection that breaks is the client's to notice.
            ended = serving.as_mut() => drop(ended),
            () = stopped(&mut stop) => {}
        }
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
            self.store.with(|state| User::of_token(state, token))
        });
        let Some(user) = user else { return refuse(&Failure::unauthorized()) };
        let Some(body) = collect(body, MOST).await else { return refuse(&Failure::too_large()) };
        let steps = head.uri.path().split('/').filter(|step| !step.is_empty());
        let request = Request {
            method: head.method.as_str().to_owned(),
            path: steps.map(|step| request::decode(step, false)).collect(),
            query: request::query(head.uri.query().unwrap_or_default()),
            accept: header(ACCEPT),
            content_type: header(CONTENT_TYPE),
            user_agent: header(USER_AGENT),
            server_version: Arc::clone(&self.version),
            body,
            user,
        };
        match self.store.with(|state| answer(state, &request)) {
            Answer::Json(code, body) => respond(code, "application/json", Outgoing::Whole(body)),
            Answer::Aggregated(body) => respond(200, AGGREGATED, Outgoing::Whole(body)),
            Answer::OldOpenApi(body) => respond(200, OLD_OPENAPI, Outgoing::Whole(body)),
            Answer::Text(code, text) => {
                respond(code, "text/plain; charset=utf-8", Outgoing::Whole(text.into()))
            }
            Answer::Watch(watch) => {
                let (sender, pieces) = mpsc::channel::<Bytes>(WAITING);
                tokio::spawn(watch.run(Arc::clone(&self.store), sender, self.stop.clone()));
                respond(200, "application/json", Outgoing::Pieces(pieces))
            }
        }
    }
}

fn refuse(failure: &Failure) -> Response<Outgoing> {
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

/// What a request carries; none if there is too much of it, or it breaks off.
pub(crate) async fn collect(mut body: Incoming, most: usize) -> Option<Vec<u8>> {
    let mut all = vec![];
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.ok()?;
        all.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
        if all.len() > most {
            return None;
        }
    }
    Some(all)
}
