//! Streamed answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use talmox_talos_api::proto::common::Data;
use talmox_talos_api::server::Status;
use tokio::sync::mpsc;
use tonic::codegen::{BoxStream, tokio_stream};

use super::{Session, gone};

/// Maximum size in bytes of one message of a file or log.
const MAX_MESSAGE: usize = 64 << 10;
/// Number of answers buffered for a slow client.
const BUFFERED_ANSWERS: usize = 64;

pub(super) type Sender<T> = mpsc::Sender<Result<T, Status>>;

/// Runs work that sends answers. The stream ends when the work completes, the client disconnects, or the node goes down.
pub(super) fn run<T, W, F>(session: &Arc<Session>, work: W) -> BoxStream<T>
where
    T: Send + 'static,
    W: FnOnce(Sender<T>) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(BUFFERED_ANSWERS);
    let work = work(sender.clone());
    let session = Arc::clone(session);
    tokio::spawn(async move {
        tokio::select! {
            () = work => {}
            () = sender.closed() => {}
            () = session.until_boot_end() => drop(sender.send(Err(gone())).await),
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

/// Stream of answers that are all available.
pub(super) fn all<T: Send + 'static>(answers: Vec<T>) -> BoxStream<T> {
    Box::pin(tokio_stream::iter(answers.into_iter().map(Ok)))
}

/// Stream of bytes, split into messages.
pub(super) fn bytes(bytes: &[u8]) -> BoxStream<Data> {
    all(bytes.chunks(MAX_MESSAGE).map(data).collect())
}

pub(super) fn data(bytes: &[u8]) -> Data {
    Data { metadata: None, bytes: bytes.to_vec() }
}
