//! Tests with clients that attack the server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use talmox_lab::Settings;
use talmox_lab::pve::Timeouts;

use crate::support::{TestLab, settings};

fn short_timeouts() -> Settings {
    let short = Duration::from_millis(600);
    let timeouts = Timeouts { idle: short, head: short, body: short };
    Settings { timeouts, ..settings() }
}

#[test]
fn a_thousand_idle_connections_do_not_block_others() {
    let lab = TestLab::new();
    let idle: Vec<TcpStream> = (0..1000).map(|_| lab.plain()).collect();
    for _ in 0..20 {
        assert_eq!(lab.get("/version").status, 200);
    }
    drop(idle);
    lab.stop();
}

#[test]
fn a_slow_request_is_disconnected() {
    let lab = TestLab::start(short_timeouts());
    let mut stream = lab.connect();
    let text = lab.text("GET", "/version", "", "");
    let mut sent = 0;
    for byte in text.bytes() {
        if stream.write_all(&[byte]).and_then(|()| stream.flush()).is_err() {
            break;
        }
        sent += 1;
        // Each byte arrives before the idle timeout, but the whole request does not arrive in time.
        std::thread::park_timeout(Duration::from_millis(50));
        assert_eq!(lab.get("/version").status, 200, "others are served meanwhile");
        if sent > 40 {
            break;
        }
    }
    let mut rest = vec![];
    stream.read_to_end(&mut rest).ok();
    assert_eq!(rest, b"", "after {sent} bytes");
}

#[test]
fn an_idle_client_is_disconnected() {
    let lab = TestLab::start(short_timeouts());
    let mut silent = lab.plain();
    assert!(matches!(silent.read(&mut [0]), Ok(0)));
    // The client sends only the first byte of a handshake.
    let mut socket = lab.plain();
    socket.write_all(&[22]).unwrap();
    assert!(matches!(socket.read(&mut [0]), Ok(0) | Err(_)));
    // The client announces a body, but never sends it.
    let mut stream = lab.connect();
    let text = lab.text("POST", "/nodes", "Content-Length: 100\r\n", "");
    stream.write_all(text.as_bytes()).unwrap();
    let mut rest = vec![];
    stream.read_to_end(&mut rest).ok();
    assert_eq!(rest, b"");
}

#[test]
fn malformed_input_does_not_stop_the_lab() {
    let lab = TestLab::start(short_timeouts());
    let nul = [0; 10_000];
    let high = [255; 10_000];
    let long = vec![b'a'; 600 * 1024];
    let texts: [&[u8]; 9] = [
        b"\r\n\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\n\xc0: \x80\r\n\r\n",
        b"GET /api2/json/%ff%00%zz/../../etc HTTP/1.1\r\n\r\n",
        b"POST /api2/json/x HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /api2/json/x HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"GET / HTTP/1.1\r\n : x\r\n\r\n",
        &nul,
        &high,
        &long,
    ];
    for text in texts {
        for tls in [true, false] {
            let mut rest = vec![];
            if tls {
                let mut stream = lab.connect();
                stream.write_all(text).ok();
                stream.conn.send_close_notify();
                stream.flush().ok();
                stream.read_to_end(&mut rest).ok();
            } else {
                let mut stream = lab.plain();
                stream.write_all(text).ok();
                stream.shutdown(std::net::Shutdown::Write).ok();
                stream.read_to_end(&mut rest).ok();
            }
        }
        assert_eq!(lab.get("/version").status, 200);
    }
    lab.stop();
}
