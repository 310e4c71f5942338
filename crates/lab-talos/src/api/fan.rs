//! One call to several nodes: their answers are put together, each with the name of its node.
//!
//! Nothing here knows what the messages say. All replies have their metadata in field 1, and parts of
//! a message may be written one after the other, so that metadata is simply appended.

use std::sync::Arc;

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response};
use prost::Message;
use talmox_talos_api::server::Status;
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::codegen::Bytes;

use super::{Session, forward, frame, gate, gone, method};

/// What a reply says about the node that it is from.
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

pub(super) async fn out(
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
            let call = Call { target: target.clone(), is_streaming };
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
    answered(receiver)
}

/// An answer of one message.
pub(super) fn answer(message: &[u8]) -> Response<Body> {
    let (sender, receiver) = mpsc::channel(1);
    // There is room for one.
    drop(sender.try_send(frame::put_message(message)));
    answered(receiver)
}

fn answered(receiver: mpsc::Receiver<Bytes>) -> Response<Body> {
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

/// The part of the call that one node answers.
struct Call {
    target: String,
    is_streaming: bool,
}

impl Call {
    /// Gives the replies, where they are not streamed.
    async fn run(
        &self,
        session: &Session,
        request: Request<Body>,
        sender: &mpsc::Sender<Bytes>,
    ) -> Vec<u8> {
        let target = match forward::dial(session, &self.target) {
            Ok(target) => Arc::new(target),
            Err(status) => return self.fail(&status, sender).await,
        };
        let Some(response) = gate::reach(target, request).await else {
            return self.fail(&gone(), sender).await;
        };
        if let Some(status) = failure(response.headers()) {
            return self.fail(&status, sender).await;
        }
        let mut body = response.into_body();
        let (mut arrived, mut replies) = (vec![], vec![]);
        while let Some(piece) = frame::next(&mut body).await {
            let piece = match piece {
                Ok(piece) => piece,
                Err(status) => return self.fail(&status, sender).await,
            };
            if let Some(status) = piece.trailers_ref().and_then(failure) {
                return self.fail(&status, sender).await;
            }
            if let Ok(data) = piece.into_data() {
                arrived.extend_from_slice(&data);
            }
            while let Some(message) = frame::take_message(&mut arrived) {
                if self.is_streaming {
                    if sender.send(frame::put_message(&self.sign(message))).await.is_err() {
                        return replies;
                    }
                } else {
                    for reply in frame::first_fields(&message) {
                        replies.extend(frame::first_field(&self.sign(reply)));
                    }
                }
            }
        }
        replies
    }

    fn sign(&self, mut reply: Vec<u8>) -> Vec<u8> {
        let metadata = Metadata { hostname: self.target.clone(), ..Metadata::default() };
        reply.extend(frame::first_field(&metadata.encode_to_vec()));
        reply
    }

    /// A node that fails is a reply like the others.
    async fn fail(&self, status: &Status, sender: &mpsc::Sender<Bytes>) -> Vec<u8> {
        let code = status.code();
        let metadata = Metadata {
            hostname: self.target.clone(),
            error: format!("rpc error: code = {} desc = {}", name(code), status.message()),
            status: Some(RpcStatus { code: code.into(), message: status.message().to_owned() }),
        };
        let reply = frame::first_field(&metadata.encode_to_vec());
        if self.is_streaming {
            // Nobody may be listening any more.
            drop(sender.send(frame::put_message(&reply)).await);
            return vec![];
        }
        frame::first_field(&reply)
    }
}

fn failure(headers: &hyper::HeaderMap) -> Option<Status> {
    Status::from_header_map(headers).filter(|status| status.code() != tonic::Code::Ok)
}

/// As Go's gRPC spells codes.
fn name(code: tonic::Code) -> String {
    format!("{code:?}").replace("Cancelled", "Canceled")
}
