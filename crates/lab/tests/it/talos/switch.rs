//! The change from maintenance to mutual TLS, as port 50000 shows it.

use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::world::World;

/// State of the port, as a client sees it that connects and waits for the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Refused,
    /// The connection is made, and closed before anything was said.
    Closed,
    /// The server waits for the client to speak, as TLS servers do.
    Open,
}

fn look(at: SocketAddr) -> Port {
    let Ok(mut socket) = TcpStream::connect(at) else { return Port::Refused };
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    match socket.read(&mut [0]) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Port::Open
        }
        _ => Port::Closed,
    }
}

/// How the port is, one after the other without repetitions, from maintenance until the node is configured.
fn seen_in_the_change(version: &str) -> Vec<Port> {
    // Slow enough that a busy machine does not miss the change between two looks.
    let world = World::at_speed(version, 0.5);
    world.start(11);
    let at = world.socket(11);
    let config = world.config(11, true);
    let is_configured = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&is_configured);
    let looking = std::thread::spawn(move || {
        let mut seen = vec![];
        loop {
            let is_last = is_over.load(Ordering::SeqCst);
            let now = look(at);
            if seen.last() != Some(&now) {
                seen.push(now);
            }
            if is_last {
                return seen;
            }
        }
    });
    world.lab.wait(async {
        world.apply(11, &config).await;
        super::world::until("a configured node", || async {
            world.client(11).version().await.ok()
        })
        .await;
    });
    is_configured.store(true, Ordering::SeqCst);
    let seen = looking.join().unwrap();
    world.lab.stop();
    seen
}

/// "1.12 refuses the port briefly"; of 1.13: "In its switch to mTLS (1 to 2 s) a connection is closed before it answers."
#[test]
fn connections_are_refused_by_1_12_and_closed_by_1_13() {
    let old = seen_in_the_change("v1.12.7");
    assert_eq!(old, [Port::Refused, Port::Open, Port::Refused, Port::Open]);
    let new = seen_in_the_change("v1.13.6");
    assert!(new[2..].contains(&Port::Closed), "{new:?}");
}
