//! HTTP server that behaves like `pveproxy`: the same limits, order of checks and headers, and the same deviations from the
//! HTTP standard.
//!
//! The server does not use an HTTP library. `pveproxy` reads line by line, has its own limits and responses for malformed
//! requests, and puts messages into the status line. A library would handle all of this differently.

mod buffered_stream;
mod connection;
mod multipart;
mod request_head;
mod response;
mod upload;
mod url_encoding;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_lab_environment::stopped;
use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use buffered_stream::BufferedStream;
use connection::HttpConnection;
pub(crate) use url_encoding::{Params, unescape};

use super::gate::Gate;

/// Size of the read buffer of a socket. The TLS library alone reads only 4 KiB at a time, which makes uploads slow.
const READ_BUFFER: usize = 64 * 1024;
/// First byte of a TLS connection: content type `handshake`.
const HANDSHAKE: u8 = 22;

const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>talmox lab</title></head><body>\
<h1>talmox lab</h1><p>This is a simulated Proxmox VE. It has no web interface; the API is at \
<code>/api2/json</code>.</p></body></html>\n";

/// Client timeouts, in real time.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Maximum wait for the next request on an open connection.
    pub idle: Duration,
    /// Maximum wait for the complete request head, and for the TLS handshake.
    pub head: Duration,
    /// Maximum wait for the next bytes of a body, and for the client to accept a response.
    pub body: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(5),
            head: Duration::from_secs(20),
            body: Duration::from_secs(30),
        }
    }
}

/// Serves a listening socket until `stop` is set.
pub struct PveServer {
    pub listener: TcpListener,
    pub tls: TlsAcceptor,
    pub gate: Arc<Gate>,
    pub timeouts: Timeouts,
}

impl fmt::Debug for PveServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PveServer").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl PveServer {
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let mut stop_signal = stop.clone();
        let mut open = JoinSet::new();
        let crowded = Arc::new(Notify::new());
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    if let Ok((socket, _)) = accepted {
                        let idle = IdleSignals { stop: stop.clone(), crowded: Arc::clone(&crowded) };
                        open.spawn(self.connection(socket, idle));
                    } else {
                        // Accepting fails if too many files are open, so idle connections are closed.
                        crowded.notify_waiters();
                        Clock::real().sleep(Duration::from_millis(20)).await;
                    }
                }
                Some(_) = open.join_next() => {}
                () = stopped(&mut stop_signal) => break,
            }
        }
        // Responses in progress get a limited time to finish.
        let finished = async { while open.join_next().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(2), finished).await.ok();
    }

    fn connection(
        &self,
        socket: TcpStream,
        idle: IdleSignals,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (gate, tls, timeouts) = (Arc::clone(&self.gate), self.tls.clone(), self.timeouts);
        async move {
            // A client that sends nothing, or something else than a TLS handshake, gets no response.
            serve(socket, gate, tls, timeouts, idle).await.ok();
        }
    }
}

async fn serve(
    socket: TcpStream,
    gate: Arc<Gate>,
    tls: TlsAcceptor,
    timeouts: Timeouts,
    mut idle: IdleSignals,
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut first = [0];
    let peeked = tokio::select! {
        peeked = tokio::time::timeout(timeouts.idle, socket.peek(&mut first)) => peeked,
        () = idle.wait_for_close() => return Ok(()),
    };
    if peeked?? == 0 {
        return Ok(());
    }
    if first == [HANDSHAKE] {
        let socket = BufReader::with_capacity(READ_BUFFER, socket);
        let stream = tokio::time::timeout(timeouts.head, tls.accept(socket)).await??;
        let stream = BufferedStream::new(stream);
        HttpConnection { stream, gate, timeouts, is_tls: true }.serve(idle).await;
    } else {
        let stream = BufferedStream::new(socket);
        HttpConnection { stream, gate, timeouts, is_tls: false }.serve(idle).await;
    }
    Ok(())
}

/// Signals that close an idle connection.
struct IdleSignals {
    stop: watch::Receiver<bool>,
    crowded: Arc<Notify>,
}

impl IdleSignals {
    async fn wait_for_close(&mut self) {
        tokio::select! {
            () = stopped(&mut self.stop) => {}
            () = self.crowded.notified() => {}
        }
    }
}
