//! A web server on a loopback address, with files and the schematics of an Image Factory. Tests can make it fail.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use talmox_talos_config::schematic::Schematic;

#[derive(Clone, Default)]
pub(super) struct Website(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    redirects: BTreeMap<String, String>,
    schematics: BTreeSet<String>,
    /// Number of next downloads of a whole file that end early.
    cuts: u32,
    /// Number of next requests that are rejected with 503.
    rejections: u32,
    requests: Vec<String>,
}

impl Website {
    pub(super) fn start(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let site = self.clone();
        thread::spawn(move || {
            for socket in listener.incoming() {
                // A client that closes the connection early is not an error.
                let _served = site.serve(socket.unwrap());
            }
        });
        address
    }

    pub(super) fn put(&self, path: &str, bytes: Vec<u8>) {
        self.0.lock().unwrap().files.insert(path.to_owned(), bytes);
    }

    pub(super) fn redirect(&self, path: &str, to: &str) {
        self.0.lock().unwrap().redirects.insert(path.to_owned(), to.to_owned());
    }

    pub(super) fn cut(&self, times: u32) {
        self.0.lock().unwrap().cuts = times;
    }

    pub(super) fn reject(&self, times: u32) {
        self.0.lock().unwrap().rejections = times;
    }

    pub(super) fn recorded_requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }

    fn serve(&self, mut socket: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(socket.try_clone()?);
        let mut head = vec![];
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 || line == "\r\n" {
                break;
            }
            head.push(line.trim_end().to_owned());
        }
        let first = head.first().cloned().unwrap_or_default();
        let mut words = first.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let field = |name: &str| {
            let lines = head.iter().filter_map(|line| line.split_once(": "));
            let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
            found.next().map(|(_, value)| value.to_owned())
        };
        let length = field("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let mut state = self.0.lock().unwrap();
        state.requests.push(format!("{method} {path}"));
        if let Some(target) = state.redirects.get(path) {
            let head =
                format!("HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n");
            return socket.write_all(head.as_bytes());
        }
        let (status, mut bytes) = state.answer(method, path, &body);
        let mut announced = bytes.len();
        if method == "HEAD" {
            bytes.clear();
        } else if field("range").is_some() {
            bytes.truncate(32);
            announced = bytes.len();
        } else if state.cuts > 0 && status == "200 OK" {
            state.cuts -= 1;
            bytes.truncate(announced / 2);
        }
        drop(state);
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {announced}\r\nConnection: close\r\n\r\n"
        );
        socket.write_all(head.as_bytes())?;
        socket.write_all(&bytes)
    }
}

impl State {
    fn answer(&mut self, method: &str, path: &str, body: &[u8]) -> (&'static str, Vec<u8>) {
        if self.rejections > 0 {
            self.rejections -= 1;
            return ("503 Service Unavailable", b"come back later".to_vec());
        }
        if method == "POST" {
            let id = Schematic::read(std::str::from_utf8(body).unwrap()).unwrap().id();
            let answer = format!("{{\"id\": \"{id}\"}}").into_bytes();
            self.schematics.insert(id);
            return ("201 Created", answer);
        }
        match path.strip_prefix("/schematics/") {
            Some(id) if self.schematics.contains(id) => ("200 OK", vec![]),
            _ => match self.files.get(path) {
                Some(bytes) => ("200 OK", bytes.clone()),
                None => ("404 Not Found", b"no such thing".to_vec()),
            },
        }
    }
}

/// The header of an empty qcow2 image with a disk of this size, followed by zeros.
pub(super) fn qcow2(size: u64) -> Vec<u8> {
    let mut bytes = vec![0; 3 << 20];
    bytes[..4].copy_from_slice(b"QFI\xfb");
    bytes[7] = 3;
    bytes[23] = 16;
    bytes[24..32].copy_from_slice(&size.to_be_bytes());
    bytes[103] = 104;
    bytes
}
