//! One connection's bytes: lines, bodies, and however much just came.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// How much is asked for at a time: one TLS record holds no more.
const READ: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct Wire<S> {
    stream: S,
    buffer: Vec<u8>,
    /// What stands before this was used.
    used: usize,
}

/// The connection cannot go on, and nobody is there to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// The other side went away, or something between us broke.
    Gone,
    /// Nothing came for too long.
    Silent,
    /// More came than is ever read.
    TooMuch,
    /// A fault cuts the connection here.
    Cut,
}

impl From<io::Error> for Lost {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new(), used: 0 }
    }

    /// What came and was not used yet.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.buffer[self.used..]
    }

    pub(super) fn use_up(&mut self, length: usize) {
        self.used = (self.used + length).min(self.buffer.len());
        if self.used == self.buffer.len() {
            self.buffer.clear();
            self.used = 0;
        }
    }

    /// Waits until more bytes are here.
    pub(super) async fn more(&mut self, patience: Duration) -> Result<(), Lost> {
        if self.used > 0 {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        self.buffer.reserve(READ);
        let read = self.stream.read_buf(&mut self.buffer);
        match tokio::time::timeout(patience, read).await {
            Err(_) => Err(Lost::Silent),
            Ok(Ok(0) | Err(_)) => Err(Lost::Gone),
            Ok(Ok(_)) => Ok(()),
        }
    }

    /// Puts what came, or what comes next, behind what `block` has, as far as that has room; at most `most` bytes.
    /// How many that were.
    pub(super) async fn pour(
        &mut self,
        block: &mut Vec<u8>,
        most: u64,
        patience: Duration,
    ) -> Result<usize, Lost> {
        let room = block.capacity() - block.len();
        let most = usize::try_from(most).unwrap_or(room).min(room);
        if !self.waiting().is_empty() {
            let taken = most.min(self.waiting().len());
            block.extend_from_slice(&self.waiting()[..taken]);
            self.use_up(taken);
            return Ok(taken);
        }
        let limited = u64::try_from(most).unwrap_or(u64::MAX);
        let mut stream = (&mut self.stream).take(limited);
        match tokio::time::timeout(patience, stream.read_buf(block)).await {
            Err(_) => Err(Lost::Silent),
            Ok(Ok(0) | Err(_)) => Err(Lost::Gone),
            Ok(Ok(read)) => Ok(read),
        }
    }

    /// A line without its end. Bytes that are no text become replacement characters.
    pub(super) async fn line(&mut self, limit: usize, patience: Duration) -> Result<String, Lost> {
        let mut searched = 0;
        loop {
            let waiting = self.waiting();
            if let Some(end) = memchr::memchr(b'\n', &waiting[searched..]) {
                let line = &waiting[..searched + end];
                let text = line.strip_suffix(b"\r").unwrap_or(line);
                let (text, used) = (String::from_utf8_lossy(text).into_owned(), line.len() + 1);
                self.use_up(used);
                return Ok(text);
            }
            searched = waiting.len();
            if searched > limit {
                return Err(Lost::TooMuch);
            }
            self.more(patience).await?;
        }
    }

    pub(super) async fn exactly(
        &mut self,
        length: usize,
        patience: Duration,
    ) -> Result<Vec<u8>, Lost> {
        while self.waiting().len() < length {
            self.more(patience).await?;
        }
        let bytes = self.waiting()[..length].to_vec();
        self.use_up(length);
        Ok(bytes)
    }

    pub(super) async fn send(&mut self, bytes: &[u8], patience: Duration) -> Result<(), Lost> {
        let write = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        tokio::time::timeout(patience, write).await.map_err(|_| Lost::Silent)?.map_err(Lost::from)
    }

    /// Says goodbye. What the client still sends is read for a moment, lest the kernel throw away
    /// the answer that is on its way.
    pub(super) async fn close(mut self) {
        let goodbye = async {
            self.stream.shutdown().await?;
            let mut rest = [0; 1024];
            while self.stream.read(&mut rest).await? > 0 {}
            io::Result::Ok(())
        };
        // Whoever does not hang up in time is hung up on.
        tokio::time::timeout(Duration::from_millis(500), goodbye).await.ok();
    }
}
