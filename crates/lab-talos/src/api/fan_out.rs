//! Calls to several nodes. The replies are merged into one answer, and each reply contains the name of its node.
//!
//! The replies are not decoded. Every reply has its metadata in field 1, and protobuf merges fields that are encoded twice. So
//! the metadata is appended to the encoded reply.

use std::sync::Arc;

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response};
use prost::Message;
use talmox_talos_api::server::Status;
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::codegen::Bytes;

use super::{Session, dispatch, forward, frame, gone, method};

/// Metadata of a reply: the node that sent the reply, and the error if the call failed.
#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    hostname: String,
    #[prost(string, tag = "2")]
    error: String,
    #[prost(message, optional, tag = "3")]
    status: Option<RpcStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

pub(super) async fn call_all(
    session: &Arc<Session>,
    targets: &[String],
    request: Request<Body>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = match frame::collect(body).await {
        Ok(body) => body,
        Err(status) => return status.into_http(),
    };
    let is_streaming = method::is_streaming(parts.uri.path());
    let (sender, receiver) = mpsc::channel(16);
    let calls: Vec<_> = targets
        .iter()
        .map(|target| {
            let call = NodeCall { target: target.clone(), is_streaming };
            let request = copy(&parts, body.clone());
            let (session, sender) = (Arc::clone(session), sender.clone());
            tokio::spawn(async move { call.run(&session, request, &sender).await })
        })
        .collect();
    drop(sender);
    if !is_streaming {
        drop(receiver);
        let mut merged = vec![];
        for call in calls {
            merged.extend(call.await.unwrap_or_default());
        }
        return answer(&merged);
    }
    streamed_response(receiver)
}

/// HTTP response with a single gRPC message.
pub(super) fn answer(message: &[u8]) -> Response<Body> {
    let (sender, receiver) = mpsc::channel(1);
    // Sending cannot fail, because the channel has room for one message.
    drop(sender.try_send(frame::put_message(message)));
    streamed_response(receiver)
}

fn streamed_response(receiver: mpsc::Receiver<Bytes>) -> Response<Body> {
    let mut response = Response::new(frame::stream(receiver));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn copy(parts: &Parts, body: Bytes) -> Request<Body> {
    let mut request = Request::new(frame::full(body));
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.clone();
    *request.version_mut() = parts.version;
    *request.headers_mut() = parts.headers.clone();
    request
}

/// Call to one of the target nodes.
struct NodeCall {
    target: String,
    is_streaming: bool,
}

impl NodeCall {
    /// Makes the call and returns the encoded replies. Streamed replies are sent to `sender` instead.
    async fn run(
        &self,
        session: &Session,
        request: Request<Body>,
        sender: &mpsc::Sender<Bytes>,
    ) -> Vec<u8> {
        let target = match forward::dial(session, &self.target) {
            Ok(target) => Arc::new(target),
            Err(status) => return self.report_failure(&status, sender).await,
        };
        let Some(response) = dispatch::call_node(target, request).await else {
            return self.report_failure(&gone(), sender).await;
        };
        if let Some(status) = failure(response.headers()) {
            return self.report_failure(&status, sender).await;
        }
        let mut body = response.into_body();
        let (mut arrived, mut replies) = (vec![], vec![]);
        while let Some(piece) = frame::next(&mut body).await {
            let piece = match piece {
                Ok(piece) => piece,
                Err(status) => return self.report_failure(&status, sender).await,
            };
            if let Some(status) = piece.trailers_ref().and_then(failure) {
                return self.report_failure(&status, sender).await;
            }
            if let Ok(data) = piece.into_data() {
                arrived.extend_from_slice(&data);
            }
            while let Some(message) = frame::take_message(&mut arrived) {
                if self.is_streaming {
                    if sender.send(frame::put_message(&self.add_metadata(message))).await.is_err() {
                        return replies;
                    }
                } else {
                    for reply in frame::first_fields(&message) {
                        replies.extend(frame::first_field(&self.add_metadata(reply)));
                    }
                }
            }
        }
        replies
    }

    fn add_metadata(&self, mut reply: Vec<u8>) -> Vec<u8> {
        let metadata = Metadata { hostname: self.target.clone(), ..Metadata::default() };
        reply.extend(frame::first_field(&metadata.encode_to_vec()));
        reply
    }

    /// Reports the failure of one node as a reply, so that the replies of the other nodes are still delivered.
    async fn report_failure(&self, status: &Status, sender: &mpsc::Sender<Bytes>) -> Vec<u8> {
        let code = status.code();
        let metadata = Metadata {
            hostname: self.target.clone(),
            error: format!("rpc error: code = {} desc = {}", name(code), status.message()),
            status: Some(RpcStatus { code: code.into(), message: status.message().to_owned() }),
        };
        let reply = frame::first_field(&metadata.encode_to_vec());
        if self.is_streaming {
            // Sending fails if the client has disconnected.
            drop(sender.send(frame::put_message(&reply)).await);
            return vec![];
        }
        frame::first_field(&reply)
    }
}

fn failure(headers: &hyper::HeaderMap) -> Option<Status> {
    Status::from_header_map(headers).filter(|status| status.code() != tonic::Code::Ok)
}

/// Name of a gRPC status code in the spelling of Go.
fn name(code: tonic::Code) -> String {
    format!("{code:?}").replace("Cancelled", "Canceled")
}
