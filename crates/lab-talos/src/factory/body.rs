//! Bodies of HTTP answers: complete, or truncated by a fault.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

/// Bytes of a body, and whether the connection breaks after them.
#[derive(Debug)]
pub(super) struct ResponseBody {
    bytes: Bytes,
    end: BodyEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyEnd {
    Good,
    /// The connection breaks at the second poll after the bytes. Before that, the bytes are sent.
    BreaksSoon,
    BreaksNow,
}

impl ResponseBody {
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self { bytes, end: BodyEnd::Good }
    }

    pub(super) fn broken(bytes: Bytes) -> Self {
        Self { bytes, end: BodyEnd::BreaksSoon }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        if !this.bytes.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.bytes)))));
        }
        match this.end {
            BodyEnd::Good => Poll::Ready(None),
            BodyEnd::BreaksSoon => {
                this.end = BodyEnd::BreaksNow;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            BodyEnd::BreaksNow => Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty() && self.end == BodyEnd::Good
    }

    fn size_hint(&self) -> SizeHint {
        match self.end {
            BodyEnd::Good => SizeHint::with_exact(self.bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}
