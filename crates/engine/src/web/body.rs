//! Reading of the body of an answer, as a whole or in parts.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body as _, Bytes, Incoming};
use talmox_values::url::shown_url;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::timeout;

use super::WebError;

/// A file that is downloaded while it is read.
pub struct WebFile {
    /// Length of the file in bytes. None if the server does not report it.
    pub length: Option<u64>,
    body: Incoming,
    piece: Bytes,
}

impl WebFile {
    pub(super) fn new(length: Option<u64>, body: Incoming) -> Self {
        Self { length, body, piece: Bytes::new() }
    }
}

impl fmt::Debug for WebFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebFile").field("length", &self.length).finish_non_exhaustive()
    }
}

impl AsyncRead for WebFile {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.piece.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                None => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                Some(Ok(frame)) => this.piece = frame.into_data().unwrap_or_default(),
            }
        }
        let taken = this.piece.split_to(this.piece.len().min(buffer.remaining()));
        buffer.put_slice(&taken);
        Poll::Ready(Ok(()))
    }
}

/// Reads at most `most` bytes, without waiting for the rest.
pub(super) async fn read(
    url: &str,
    mut body: Incoming,
    limit: Duration,
    most: usize,
) -> Result<Vec<u8>, WebError> {
    let url = shown_url(url);
    let mut all = vec![];
    while all.len() < most {
        let next = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        match timeout(limit, next).await {
            Err(_) => return Err(WebError::Silent { url }),
            Ok(None) => break,
            Ok(Some(Err(error))) => {
                return Err(WebError::Broken { url, source: io::Error::other(error) });
            }
            Ok(Some(Ok(frame))) => {
                all.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
            }
        }
    }
    all.truncate(most);
    Ok(all)
}
