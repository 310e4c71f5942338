//! Bodies of answers: whole, or with an end that comes too early.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

/// The bytes that are sent, and whether the connection breaks behind them.
#[derive(Debug)]
pub(super) struct Outgoing {
    bytes: Bytes,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Good,
    /// The connection gets a moment to send what it has, and breaks then.
    BreaksSoon,
    BreaksNow,
}

impl Outgoing {
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self { bytes, end: End::Good }
    }

    pub(super) fn broken(bytes: Bytes) -> Self {
        Self { bytes, end: End::BreaksSoon }
    }
}

impl Body for Outgoing {
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
            End::Good => Poll::Ready(None),
            End::BreaksSoon => {
                this.end = End::BreaksNow;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            End::BreaksNow => Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty() && self.end == End::Good
    }

    fn size_hint(&self) -> SizeHint {
        match self.end {
            End::Good => SizeHint::with_exact(self.bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}
