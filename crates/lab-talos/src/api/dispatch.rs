//! Entry point of every API call. The call is forwarded, rejected, or answered by this node.

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::{Request, Response};
use talmox_lab_environment::Work;
use talmox_lab_environment::fault::EventSource;
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

use super::forward::{self, CallTarget};
use super::{NodeApi, Session, container, fan_out, gone, method};
use crate::fault::InterruptedCall;

/// Maximum size of a message. A snapshot is sent in several messages, a config in one message.
const MAX_MESSAGE: usize = 32 << 20;

/// Wrapper around one gRPC service that routes and authorizes its calls.
pub(super) struct Dispatcher<S> {
    session: Arc<Session>,
    service: PhantomData<fn() -> S>,
}

impl<S> Dispatcher<S> {
    pub(super) fn new(session: &Arc<Session>) -> Self {
        Self { session: Arc::clone(session), service: PhantomData }
    }
}

impl<S> Clone for Dispatcher<S> {
    fn clone(&self) -> Self {
        Self::new(&self.session)
    }
}

impl<S> fmt::Debug for Dispatcher<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("session", &self.session).finish_non_exhaustive()
    }
}

impl<S: NamedService> NamedService for Dispatcher<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Incoming>> for Dispatcher<S> {
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

/// Answers a call like apid: finds the nodes that must answer, and calls them.
async fn route(session: &Arc<Session>, request: Request<Body>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    match forward::route(session, &path, request.headers()) {
        Ok(CallTarget::Here) => match call_node(Arc::clone(session), request).await {
            Some(response) => response,
            None => session.break_connection().await,
        },
        Ok(CallTarget::One(target)) => match forward::dial(session, &target) {
            // Here a fault broke the connection between the two nodes. The connection to the client stays open.
            Ok(target) => {
                call_node(Arc::new(target), request).await.unwrap_or_else(|| gone().into_http())
            }
            Err(status) => status.into_http(),
        },
        Ok(CallTarget::Many(targets)) => fan_out::call_all(session, &targets, request).await,
        Err(status) => status.into_http(),
    }
}

/// Applies the faults that match the call, and calls the node; `None` if a fault breaks the connection.
pub(super) async fn call_node(
    session: Arc<Session>,
    request: Request<Body>,
) -> Option<Response<Body>> {
    let (simulation, vmid) = (Arc::clone(&session.simulation), session.vmid);
    let path = request.uri().path().to_owned();
    let faults_after_call = match simulation.apply_faults(vmid, EventSource::Talos(&path), "").await
    {
        Ok(faults_after_call) => faults_after_call,
        Err(InterruptedCall::RejectedCall(status)) => return Some(status.into_http()),
        Err(InterruptedCall::Rejected { message, .. }) => {
            return Some(Status::unavailable(message).into_http());
        }
        Err(InterruptedCall::ConnectionBroken) => return None,
    };
    let response = answer(session, request).await;
    (!faults_after_call.apply(&simulation, vmid)).then_some(response)
}

/// Answers a call like machined: waits for the simulated duration, checks the roles, and calls the handler.
async fn answer(session: Arc<Session>, request: Request<Body>) -> Response<Body> {
    let path = request.uri().path();
    if let Err(status) = method::authorize_call(&session, path) {
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
                .max_decoding_message_size(MAX_MESSAGE)
                .max_encoding_message_size(MAX_MESSAGE)
                .call(request)
                .await
        }
        "cluster.ClusterService" => ClusterServiceServer::new(api).call(request).await,
        "storage.StorageService" => StorageServiceServer::new(api).call(request).await,
        "cosi.resource.State" => {
            StateServer::new(api).max_encoding_message_size(MAX_MESSAGE).call(request).await
        }
        "machine.LifecycleService" => LifecycleServiceServer::new(api).call(request).await,
        "machine.ImageService" => ImageServiceServer::new(api).call(request).await,
        _ => Ok(Status::unimplemented(format!("unknown service {name}")).into_http()),
    };
    answered.unwrap_or_else(|never| match never {})
}
