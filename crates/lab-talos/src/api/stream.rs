//! Answers that come one by one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use talmox_talos_api::proto::common::Data;
use talmox_talos_api::server::Status;
use tokio::sync::mpsc;
use tonic::codegen::{BoxStream, tokio_stream};

use super::{Session, gone};

/// Pieces of files and logs are as big as this at most.
const PIECE: usize = 64 << 10;
/// Answers that wait for a slow client.
const WAITING: usize = 64;

pub(super) type Sender<T> = mpsc::Sender<Result<T, Status>>;

/// Runs work that sends answers, until it is done, nobody listens, or the node is gone.
pub(super) fn run<T, W, F>(session: &Arc<Session>, work: W) -> BoxStream<T>
where
    T: Send + 'static,
    W: FnOnce(Sender<T>) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(WAITING);
    let work = work(sender.clone());
    let session = Arc::clone(session);
    tokio::spawn(async move {
        tokio::select! {
            () = work => {}
            () = sender.closed() => {}
            () = session.ended() => drop(sender.send(Err(gone())).await),
        }
    });
    Box::pin(FromChannel(receiver))
}

struct FromChannel<T>(mpsc::Receiver<T>);

impl<T> tokio_stream::Stream for FromChannel<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(context)
    }
}

/// Answers that are all there.
pub(super) fn all<T: Send + 'static>(answers: Vec<T>) -> BoxStream<T> {
    Box::pin(tokio_stream::iter(answers.into_iter().map(Ok)))
}

/// Bytes in pieces.
pub(super) fn bytes(bytes: &[u8]) -> BoxStream<Data> {
    all(bytes.chunks(PIECE).map(data).collect())
}

pub(super) fn data(bytes: &[u8]) -> Data {
    Data { metadata: None, bytes: bytes.to_vec() }
}
