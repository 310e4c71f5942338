//! Buffered byte stream of a connection.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Read size: the maximum length of a TLS record.
const READ: usize = 16 * 1024;

/// Connection with a buffer of received bytes.
#[derive(Debug)]
pub(super) struct BufferedStream<S> {
    stream: S,
    buffer: Vec<u8>,
    /// Number of bytes at the start of `buffer` that were consumed.
    used: usize,
}

/// Reason why a connection is closed without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionLost {
    /// The client disconnected, or the network failed.
    Disconnected,
    /// The client sent nothing before the timeout.
    TimedOut,
    /// The client sent more than the limit.
    LimitExceeded,
    /// A fault closes the connection here.
    Cut,
}

impl From<io::Error> for ConnectionLost {
    fn from(_: io::Error) -> Self {
        Self::Disconnected
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> BufferedStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new(), used: 0 }
    }

    /// Received bytes that were not consumed yet.
    pub(super) fn buffered(&self) -> &[u8] {
        &self.buffer[self.used..]
    }

    pub(super) fn consume(&mut self, length: usize) {
        self.used = (self.used + length).min(self.buffer.len());
        if self.used == self.buffer.len() {
            self.buffer.clear();
            self.used = 0;
        }
    }

    /// Waits until the client sends more bytes, and adds them to the buffer.
    pub(super) async fn more(&mut self, timeout: Duration) -> Result<(), ConnectionLost> {
        if self.used > 0 {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        self.buffer.reserve(READ);
        let read = self.stream.read_buf(&mut self.buffer);
        match tokio::time::timeout(timeout, read).await {
            Err(_) => Err(ConnectionLost::TimedOut),
            Ok(Ok(0) | Err(_)) => Err(ConnectionLost::Disconnected),
            Ok(Ok(_)) => Ok(()),
        }
    }

    /// Appends received bytes to `block`, up to the capacity of `block` and at most `most` bytes. Returns the number of bytes.
    pub(super) async fn read_into(
        &mut self,
        block: &mut Vec<u8>,
        most: u64,
        timeout: Duration,
    ) -> Result<usize, ConnectionLost> {
        let room = block.capacity() - block.len();
        let most = usize::try_from(most).unwrap_or(room).min(room);
        if !self.buffered().is_empty() {
            let taken = most.min(self.buffered().len());
            block.extend_from_slice(&self.buffered()[..taken]);
            self.consume(taken);
            return Ok(taken);
        }
        let limited = u64::try_from(most).unwrap_or(u64::MAX);
        let mut stream = (&mut self.stream).take(limited);
        match tokio::time::timeout(timeout, stream.read_buf(block)).await {
            Err(_) => Err(ConnectionLost::TimedOut),
            Ok(Ok(0) | Err(_)) => Err(ConnectionLost::Disconnected),
            Ok(Ok(read)) => Ok(read),
        }
    }

    /// Reads a line without its line break. Invalid UTF-8 becomes replacement characters.
    pub(super) async fn line(
        &mut self,
        limit: usize,
        timeout: Duration,
    ) -> Result<String, ConnectionLost> {
        let mut searched = 0;
        loop {
            let buffered = self.buffered();
            if let Some(end) = memchr::memchr(b'\n', &buffered[searched..]) {
                let line = &buffered[..searched + end];
                let text = line.strip_suffix(b"\r").unwrap_or(line);
                let (text, used) = (String::from_utf8_lossy(text).into_owned(), line.len() + 1);
                self.consume(used);
                return Ok(text);
            }
            searched = buffered.len();
            if searched > limit {
                return Err(ConnectionLost::LimitExceeded);
            }
            self.more(timeout).await?;
        }
    }

    pub(super) async fn exactly(
        &mut self,
        length: usize,
        timeout: Duration,
    ) -> Result<Vec<u8>, ConnectionLost> {
        while self.buffered().len() < length {
            self.more(timeout).await?;
        }
        let bytes = self.buffered()[..length].to_vec();
        self.consume(length);
        Ok(bytes)
    }

    pub(super) async fn send(
        &mut self,
        bytes: &[u8],
        timeout: Duration,
    ) -> Result<(), ConnectionLost> {
        let write = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        tokio::time::timeout(timeout, write)
            .await
            .map_err(|_| ConnectionLost::TimedOut)?
            .map_err(ConnectionLost::from)
    }

    /// Closes the connection. Before that, reads further input for a moment, because with unread input the kernel would discard
    /// a response that is still being sent.
    pub(super) async fn close(mut self) {
        let goodbye = async {
            self.stream.shutdown().await?;
            let mut rest = [0; 1024];
            while self.stream.read(&mut rest).await? > 0 {}
            io::Result::Ok(())
        };
        // If the client does not close the connection in time, the connection is dropped.
        tokio::time::timeout(Duration::from_millis(500), goodbye).await.ok();
    }
}
