//! HTTP as pveproxy speaks it: its limits, its order of checks, its headers and its bad manners.
//!
//! The connections are read here and not by a library: pveproxy reads line by line, has limits and
//! answers of its own for what is malformed, and puts its messages into the status line. A library
//! that is good at HTTP answers all of these in its own way, before anybody is asked.

mod answer;
mod connection;
mod head;
mod multipart;
mod text;
mod upload;
mod wire;

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

use connection::Connection;
pub(crate) use text::{Params, unescape};
use wire::Wire;

use super::gate::Gate;

/// What is read from a socket at a time. The TLS library alone asks for 4 KiB, and a file is many of those.
const AHEAD: usize = 64 * 1024;
/// The first byte of a TLS connection.
const HANDSHAKE: u8 = 22;

const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>talmox lab</title></head><body>\
<h1>talmox lab</h1><p>This is a simulated Proxmox VE. It has no web interface; the API is at \
<code>/api2/json</code>.</p></body></html>\n";

/// How long a client is waited for, in real time.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the next request on an open connection.
    pub idle: Duration,
    /// For the whole head of a request, and for the TLS handshake.
    pub head: Duration,
    /// For the next bytes of a body, and until an answer is taken.
    pub body: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(5),
            head: Duration::from_secs(20),
            body: Duration::from_secs(30),
        }
    }
}

/// Serves a listening socket until told to stop.
pub struct Server {
    pub listener: TcpListener,
    pub tls: TlsAcceptor,
    pub gate: Arc<Gate>,
    pub patience: Patience,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Server {
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let mut told = stop.clone();
        let mut open = JoinSet::new();
        let crowded = Arc::new(Notify::new());
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    if let Ok((socket, _)) = accepted {
                        let idle = Idle { stop: stop.clone(), crowded: Arc::clone(&crowded) };
                        open.spawn(self.connection(socket, idle));
                    } else {
                        // Too many open files: whoever only sits there makes room for others.
                        crowded.notify_waiters();
                        Clock::real().sleep(Duration::from_millis(20)).await;
                    }
                }
                Some(_) = open.join_next() => {}
                () = stopped(&mut told) => break,
            }
        }
        // Answers that are under way are finished, within reason.
        let finished = async { while open.join_next().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(2), finished).await.ok();
    }

    fn connection(&self, socket: TcpStream, idle: Idle) -> impl Future<Output = ()> + Send + use<> {
        let (gate, tls, patience) = (Arc::clone(&self.gate), self.tls.clone(), self.patience);
        async move {
            // A client that says nothing, or nonsense, is nobody to tell anything to.
            serve(socket, gate, tls, patience, idle).await.ok();
        }
    }
}

async fn serve(
    socket: TcpStream,
    gate: Arc<Gate>,
    tls: TlsAcceptor,
    patience: Patience,
    mut idle: Idle,
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut first = [0];
    let peeked = tokio::select! {
        peeked = tokio::time::timeout(patience.idle, socket.peek(&mut first)) => peeked,
        () = idle.must_go() => return Ok(()),
    };
    if peeked?? == 0 {
        return Ok(());
    }
    if first == [HANDSHAKE] {
        let socket = BufReader::with_capacity(AHEAD, socket);
        let stream = tokio::time::timeout(patience.head, tls.accept(socket)).await??;
        let wire = Wire::new(stream);
        Connection { wire, gate, patience, is_tls: true }.serve(idle).await;
    } else {
        let wire = Wire::new(socket);
        Connection { wire, gate, patience, is_tls: false }.serve(idle).await;
    }
    Ok(())
}

/// Why a connection that has nothing to do may be closed.
struct Idle {
    stop: watch::Receiver<bool>,
    crowded: Arc<Notify>,
}

impl Idle {
    async fn must_go(&mut self) {
        tokio::select! {
            () = stopped(&mut self.stop) => {}
            () = self.crowded.notified() => {}
        }
    }
}
