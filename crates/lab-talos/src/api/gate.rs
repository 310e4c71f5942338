//! Where every call comes in: sent on, refused, or answered here.

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::{Request, Response};
use talmox_lab_environment::Work;
use talmox_lab_environment::fault::Place;
use talmox_talos_api::proto::cluster::cluster_service_server::ClusterServiceServer;
use talmox_talos_api::proto::cosi::resource::state_server::StateServer;
use talmox_talos_api::proto::machine::image_service_server::ImageServiceServer;
use talmox_talos_api::proto::machine::lifecycle_service_server::LifecycleServiceServer;
use talmox_talos_api::proto::machine::machine_service_server::MachineServiceServer;
use talmox_talos_api::proto::storage::storage_service_server::StorageServiceServer;
use talmox_talos_api::server::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;

use super::forward::{self, Route};
use super::{NodeApi, Session, container, fan, gone, method};
use crate::fault::Fate;

/// The biggest message that goes through: snapshots come in pieces, configs do not.
const MESSAGE: usize = 32 << 20;

/// The gate in front of one service.
pub(super) struct Gate<S> {
    session: Arc<Session>,
    service: PhantomData<fn() -> S>,
}

impl<S> Gate<S> {
    pub(super) fn new(session: &Arc<Session>) -> Self {
        Self { session: Arc::clone(session), service: PhantomData }
    }
}

impl<S> Clone for Gate<S> {
    fn clone(&self) -> Self {
        Self::new(&self.session)
    }
}

impl<S> fmt::Debug for Gate<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("session", &self.session).finish_non_exhaustive()
    }
}

impl<S: NamedService> NamedService for Gate<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Incoming>> for Gate<S> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let session = Arc::clone(&self.session);
        Box::pin(async move { Ok(route(&session, request.map(Body::new)).await) })
    }
}

/// What apid does: finds out who is meant.
async fn route(session: &Arc<Session>, request: Request<Body>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    match forward::route(session, &path, request.headers()) {
        Ok(Route::Here) => match reach(Arc::clone(session), request).await {
            Some(response) => response,
            None => session.hang_up().await,
        },
        Ok(Route::One(target)) => match forward::dial(session, &target) {
            // It is the connection between the two nodes that broke.
            Ok(target) => {
                reach(Arc::new(target), request).await.unwrap_or_else(|| gone().into_http())
            }
            Err(status) => status.into_http(),
        },
        Ok(Route::Many(targets)) => fan::out(session, &targets, request).await,
        Err(status) => status.into_http(),
    }
}

/// Asks a node, as far as the script of faults lets it. None where the connection to it breaks.
pub(super) async fn reach(session: Arc<Session>, request: Request<Body>) -> Option<Response<Body>> {
    let (simulation, vmid) = (Arc::clone(&session.simulation), session.vmid);
    let path = request.uri().path().to_owned();
    let then = match simulation.apply_faults(vmid, Place::Talos(&path), "").await {
        Ok(then) => then,
        Err(Fate::RefusedCall(status)) => return Some(status.into_http()),
        Err(Fate::Refused { message, .. }) => {
            return Some(Status::unavailable(message).into_http());
        }
        Err(Fate::Cut) => return None,
    };
    let response = answer(session, request).await;
    (!then.carry_out(&simulation, vmid)).then_some(response)
}

/// What machined does: answers, if the caller may ask, after the time that a call takes.
async fn answer(session: Arc<Session>, request: Request<Body>) -> Response<Body> {
    let path = request.uri().path();
    if let Err(status) = method::admit(&session, path) {
        return status.into_http();
    }
    let name = path.split('/').nth(1).unwrap_or_default().to_owned();
    let is_containers = path == container::PATH;
    session.simulation.environment.wait(Work::Call, &format!("node/{}/call", session.vmid)).await;
    if is_containers {
        return container::answer(&session, request).await;
    }
    let api = NodeApi(session);
    let answered = match name.as_str() {
        "machine.MachineService" => {
            MachineServiceServer::new(api)
                .max_decoding_message_size(MESSAGE)
                .max_encoding_message_size(MESSAGE)
                .call(request)
                .await
        }
        "cluster.ClusterService" => ClusterServiceServer::new(api).call(request).await,
        "storage.StorageService" => StorageServiceServer::new(api).call(request).await,
        "cosi.resource.State" => {
            StateServer::new(api).max_encoding_message_size(MESSAGE).call(request).await
        }
        "machine.LifecycleService" => LifecycleServiceServer::new(api).call(request).await,
        "machine.ImageService" => ImageServiceServer::new(api).call(request).await,
        _ => Ok(Status::unimplemented(format!("unknown service {name}")).into_http()),
    };
    answered.unwrap_or_else(|never| match never {})
}
