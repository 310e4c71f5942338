//! Tests of the Image Factory.

mod fault;
mod image;
mod schematic;
mod ubuntu;

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::support::{Answer, TestLab, Tls};

pub(crate) const FACTORY: &str = "factory.talos.dev";
/// Ids of two schematics: one without extensions, and one with only the guest agent.
const EMPTY: &str = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";
const AGENT: &str = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";
const AGENT_YAML: &str = "customization:\n    systemExtensions:\n        officialExtensions:\n            \
                          - siderolabs/qemu-guest-agent\n";

/// Opens a connection to the server with this host name.
fn connect(lab: &TestLab, host: &'static str) -> Tls {
    let address: SocketAddr = lab.lab().ready().reach[&format!("{host}:443")].parse().unwrap();
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let config = lab.tls(rustls::ALL_VERSIONS);
    let name = ServerName::try_from(host).unwrap();
    StreamOwned::new(ClientConnection::new(config, name).unwrap(), socket)
}

fn send(lab: &TestLab, host: &'static str, head: &str, body: &str) -> std::io::Result<Answer> {
    let mut stream = connect(lab, host);
    let length = body.len();
    let (first, more) = head.split_once("\r\n").unwrap_or((head, ""));
    let more = if more.is_empty() { String::new() } else { format!("{more}\r\n") };
    let text = format!(
        "{first} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes())?;
    if first.starts_with("HEAD") {
        return Answer::read_head(&mut stream);
    }
    Answer::read(&mut stream)
}

fn get(lab: &TestLab, path: &str) -> Answer {
    send(lab, FACTORY, &format!("GET {path}"), "").unwrap()
}

pub(crate) fn post(lab: &TestLab, body: &str) -> Answer {
    send(lab, FACTORY, "POST /schematics", body).unwrap()
}

/// Status code and text of a response.
fn status_and_text(answer: &Answer) -> (u16, String) {
    (answer.status, answer.text().trim_end().to_owned())
}
