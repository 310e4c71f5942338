//! HTTP server on a loopback address that serves one file. Simulated hosts download the file.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;

/// Starts a server that answers every request with these bytes, until the tests end.
pub(crate) fn files(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
            let first = lines.next().and_then(Result::ok).unwrap_or_default();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n",
                bytes.len()
            );
            let body = if first.starts_with("HEAD") { &[] } else { bytes };
            // An error is ignored, because the client may close the connection early.
            let _sent = socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(body));
        }
    });
    address
}
