//! Server side of the API: services on one HTTP/2 connection, for simulated nodes.

use std::convert::Infallible;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;

pub use tonic::{Request as Asked, Response as Answered, Status, Streaming};

type Handler =
    Box<dyn Fn(Request<Incoming>) -> BoxFuture<Response<Body>, Infallible> + Send + Sync>;

/// Services by name. The answer to a request for another service is `Unimplemented`, as in Talos.
#[derive(Clone, Default)]
pub struct Services(Arc<Vec<(&'static str, Handler)>>);

/// Builder of services.
#[derive(Default)]
pub struct ServicesBuilder(Vec<(&'static str, Handler)>);

impl ServicesBuilder {
    #[must_use]
    pub fn with<S>(mut self, service: S) -> Self
    where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        let handler: Handler = Box::new(move |request| Box::pin(service.clone().call(request)));
        self.0.push((S::NAME, handler));
        self
    }

    pub fn build(self) -> Services {
        Services(Arc::new(self.0))
    }
}

impl Services {
    pub fn builder() -> ServicesBuilder {
        ServicesBuilder::default()
    }

    /// Serves one connection until it ends. The server sends its first data immediately.
    pub async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<(), hyper::Error> {
        self.serve_until(stream, std::future::pending()).await
    }

    /// Serves one connection. When `leaving` completes, new requests are rejected, and pending requests are still
    /// answered.
    pub async fn serve_until(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        leaving: impl Future<Output = ()>,
    ) -> Result<(), hyper::Error> {
        let answer = |request: Request<Incoming>| {
            let services = Arc::clone(&self.0);
            async move {
                let name = request.uri().path().split('/').nth(1).unwrap_or_default();
                let known = services.iter().find(|(known, _)| *known == name);
                if let Some((_, handler)) = known {
                    return handler(request).await;
                }
                Ok(Status::unimplemented(format!("unknown service {name}")).into_http())
            }
        };
        let serving = http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service_fn(answer));
        let mut serving = pin!(serving);
        tokio::select! {
            ended = serving.as_mut() => return ended,
            () = leaving => serving.as_mut().graceful_shutdown(),
        }
        serving.await
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl fmt::Debug for ServicesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}
