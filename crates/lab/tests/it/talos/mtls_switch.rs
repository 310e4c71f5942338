//! Tests of the change from maintenance mode to mutual TLS on port 50000.

use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::test_bed::TestBed;

/// State of the port for a client that connects and waits for the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    /// No process listens on the port.
    Unused,
    /// The connection is accepted, and closed without data.
    Closed,
    /// The server waits until the client sends data first, as TLS servers do.
    Open,
}

fn port_state(at: SocketAddr) -> Port {
    let Ok(mut socket) = TcpStream::connect(at) else { return Port::Unused };
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    match socket.read(&mut [0]) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Port::Open
        }
        _ => Port::Closed,
    }
}

/// States of the port from maintenance mode until the node is configured. Equal states in a row are listed once.
fn states_during_switch(version: &str) -> Vec<Port> {
    // The lab is slow enough that the test observes each state of the port, even on a busy machine.
    let bed = TestBed::at_speed(version, 0.5);
    bed.start(11);
    let at = bed.socket(11);
    let config = bed.config(11, true);
    let is_configured = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&is_configured);
    let looking = std::thread::spawn(move || {
        let mut seen = vec![];
        loop {
            let is_last = is_over.load(Ordering::SeqCst);
            let now = port_state(at);
            if seen.last() != Some(&now) {
                seen.push(now);
            }
            if is_last {
                return seen;
            }
        }
    });
    bed.lab.wait(async {
        bed.apply(11, &config).await;
        super::test_bed::until("the node to be configured", || async {
            bed.client(11).version().await.ok()
        })
        .await;
    });
    is_configured.store(true, Ordering::SeqCst);
    let seen = looking.join().unwrap();
    bed.lab.stop();
    seen
}

/// Observed on real nodes during the switch to mutual TLS: the port of 1.12 is closed for a moment. 1.13 accepts connections
/// for 1 to 2 s, but closes them without an answer.
#[test]
fn the_switch_to_mtls_refuses_connections_in_1_12_and_closes_them_in_1_13() {
    let old = states_during_switch("v1.12.7");
    assert_eq!(old, [Port::Unused, Port::Open, Port::Unused, Port::Open]);
    let new = states_during_switch("v1.13.6");
    assert!(new[2..].contains(&Port::Closed), "{new:?}");
}
