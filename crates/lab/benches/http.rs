//! Benchmark of the HTTP server of the lab. It measures requests per second and upload speed, compared with a minimal TLS
//! server on the same machine and in the same run. The benchmark prints a table, and fails if a limit is exceeded.
#![expect(clippy::print_stdout, reason = "a bench prints its results")]
#![expect(clippy::unwrap_used, reason = "a panic fails the bench")]
#![expect(clippy::disallowed_methods, reason = "real sockets take real time")]

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::{Bytes, Frame, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use talmox_lab::pve::Profile;
use talmox_lab::{Lab, PveReady, Settings};
use talmox_talos_config::pki::{AltName, KeyKind, LeafRequest, Name, Usage, self_signed};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::time::UnixTime;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

const CONNECTIONS: usize = 4;
const TIME: Duration = Duration::from_secs(3);
const ROUNDS: usize = 3;
const FILE: u64 = 1 << 30;
const PIECE: usize = 256 * 1024;

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Server with its address and TLS settings.
struct Target {
    address: SocketAddr,
    config: Arc<ClientConfig>,
    /// Request headers. Each ends with a line break.
    headers: String,
}

fn main() {
    let runtime = Runtime::new().unwrap();
    let settings = Settings { profile: Profile::Instant, ..Settings::default() };
    let lab = runtime.block_on(async { Lab::start(settings) }).unwrap();
    let pve = lab.ready().pve;
    let token = format!("Authorization: PVEAPIToken={}={}\r\n", pve.token_id, pve.token_secret);
    let lab_target = Target { address: lab.address(), config: trusting(&pve), headers: token };
    let (server, client) = own_certificate();
    let bare = |address| Target { address, config: Arc::clone(&client), headers: String::new() };
    let hello = bare(runtime.block_on(hello_server(Arc::clone(&server))));
    let sink = bare(runtime.block_on(sink_server(server)));

    let what = format!("medians of {ROUNDS} rounds");
    println!("{what:<46} {:>14} {:>14} {:>7}", "lab", "bare TLS", "ratio");
    let mut missed = vec![];
    for path in ["/version", "/nodes", "/cluster/resources"] {
        let path = format!("/api2/json{path}");
        let round =
            |_| (requests_per_second(&lab_target, &path), requests_per_second(&hello, &path));
        let (of_lab, of_hello) = medians((0..ROUNDS).map(round));
        row(&format!("GET {path}, requests/s"), of_lab, of_hello);
        if of_lab < of_hello / 3.0 {
            missed.push(format!("GET {path} is slower than a third of a minimal server"));
        }
    }

    let before = resident();
    let highest = Arc::new(AtomicU64::new(before));
    let done = Arc::new(AtomicBool::new(false));
    let watch = watch_memory(Arc::clone(&highest), Arc::clone(&done));
    let round = |_| (upload(&lab_target, &pve.node), send_to_sink(&sink));
    let (of_lab, of_sink) = medians((0..ROUNDS).map(round));
    done.store(true, Ordering::Relaxed);
    watch.join().unwrap();
    row("1 GiB in, MiB/s", of_lab, of_sink);
    if of_lab < of_sink / 2.0 {
        missed.push("an upload is slower than half of bare TLS".to_owned());
    }
    let more = highest.load(Ordering::Relaxed).saturating_sub(before);
    println!("{:<46} {:>10} KiB", "memory growth while uploading", more / 1024);
    if more > 32 << 20 {
        missed.push("an upload takes more than 32 MiB of memory".to_owned());
    }
    runtime.block_on(lab.stop()).unwrap();
    assert!(missed.is_empty(), "{missed:?}");
}

/// Medians of several rounds for two servers. The servers are measured alternately, so that other load affects both.
fn medians(rounds: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let (mut one, mut other): (Vec<f64>, Vec<f64>) = rounds.unzip();
    let middle = |all: &mut Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    (middle(&mut one), middle(&mut other))
}

fn row(what: &str, of_lab: f64, bare: f64) {
    println!("{what:<46} {of_lab:>14.0} {bare:>14.0} {:>7.2}", of_lab / bare);
}

/// Requests per second of several clients. Each client keeps its connection as long as the server keeps it open.
fn requests_per_second(target: &Target, path: &str) -> f64 {
    let count = AtomicU64::new(0);
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut stream = None;
                while started.elapsed() < TIME {
                    let open = stream.take().unwrap_or_else(|| target.connect());
                    stream = get(open, path, &target.headers);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let count = u32::try_from(count.into_inner()).unwrap();
    f64::from(count) / started.elapsed().as_secs_f64()
}

/// Sends one request, and returns the connection if the server keeps it open.
fn get(mut stream: Tls, path: &str, headers: &str) -> Option<Tls> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").unwrap();
    let mut buffer = [0; 16 * 1024];
    let mut filled = 0;
    loop {
        filled += stream.read(&mut buffer[filled..]).unwrap();
        let text = String::from_utf8_lossy(&buffer[..filled]);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        assert!(head.starts_with("HTTP/1.1 200"), "{text}");
        let head = head.to_ascii_lowercase();
        let length = head.split_once("content-length: ").unwrap().1;
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        if body.len() == length {
            return (!head.contains("connection: close")).then_some(stream);
        }
    }
}

/// Uploads a file, and returns the speed in MiB per second.
fn upload(target: &Target, node: &str) -> f64 {
    let head = "--frontier\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\niso\r\n\
                --frontier\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"a.iso\"\r\n\r\n";
    let tail = "\r\n--frontier--\r\n";
    let length = FILE + u64::try_from(head.len() + tail.len()).unwrap();
    let mut stream = target.connect();
    let started = Instant::now();
    write!(
        stream,
        "POST /api2/json/nodes/{node}/storage/local/upload HTTP/1.1\r\nHost: localhost\r\n{}\
         Content-Type: multipart/form-data; boundary=frontier\r\nContent-Length: {length}\r\n\r\n{head}",
        target.headers
    )
    .unwrap();
    send_file(&mut stream);
    stream.write_all(tail.as_bytes()).unwrap();
    let mut answer = vec![];
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    mebibytes_per_second(started)
}

/// Sends as many bytes as a file has to a server that discards them. Returns the speed in MiB per second.
fn send_to_sink(target: &Target) -> f64 {
    let mut stream = target.connect();
    let started = Instant::now();
    send_file(&mut stream);
    assert_eq!(stream.read(&mut [0]).unwrap(), 1);
    mebibytes_per_second(started)
}

fn send_file(stream: &mut Tls) {
    // The bytes have many different values, as in images.
    let piece: Vec<u8> = (0..PIECE).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect();
    let pieces = FILE / u64::try_from(PIECE).unwrap();
    for _ in 0..pieces {
        stream.write_all(&piece).unwrap();
    }
    stream.flush().unwrap();
}

fn mebibytes_per_second(started: Instant) -> f64 {
    f64::from(u32::try_from(FILE >> 20).unwrap()) / started.elapsed().as_secs_f64()
}

impl Target {
    fn connect(&self) -> Tls {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_nodelay(true).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(Arc::clone(&self.config), name).unwrap(), socket)
    }
}

fn trusting(pve: &PveReady) -> Arc<ClientConfig> {
    let pem = std::fs::read_to_string(&pve.ca).unwrap();
    let base64: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    client_config(STANDARD.decode(base64).unwrap().into())
}

fn client_config(root: CertificateDer<'static>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let config = talmox_net::tls::client();
    Arc::new(config.unwrap().with_root_certificates(roots).with_no_client_auth())
}

fn own_certificate() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let request = LeafRequest {
        subject: Name::organization("localhost"),
        alt_names: vec![AltName::Dns("localhost".to_owned())],
        usage: Usage::Server,
        key_encipherment: false,
        not_before: UnixTime::from_seconds(0),
        lifetime: Duration::from_hours(200 * 365 * 24),
    };
    let (certificate, key) =
        self_signed(&request, KeyKind::EcdsaP256, &mut SystemRandomness::new()).unwrap();
    let certificate = CertificateDer::from(certificate.as_der().to_vec());
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.to_pkcs8().to_vec()));
    let config = talmox_net::tls::server();
    let config = config.unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate.clone()], key).unwrap();
    (Arc::new(config), client_config(certificate))
}

/// Response body with a fixed text.
struct Hello(Option<Bytes>);

impl hyper::body::Body for Hello {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| u64::try_from(bytes.len()).unwrap()))
    }
}

async fn hello_server(config: Arc<ServerConfig>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = TlsAcceptor::from(config);
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            socket.set_nodelay(true).unwrap();
            let tls = tls.clone();
            tokio::spawn(async move {
                let stream = TokioIo::new(tls.accept(socket).await.unwrap());
                let answer = service_fn(async |_| {
                    let text = Bytes::from_static(br#"{"data":{"hello":"there"}}"#);
                    Ok::<_, Infallible>(hyper::Response::new(Hello(Some(text))))
                });
                // An error is ignored, because clients disconnect at the end of the measured time.
                http1::Builder::new().serve_connection(stream, answer).await.ok();
            });
        }
    });
    address
}

/// Starts a server that receives as many bytes as a file has, and then answers with one byte.
async fn sink_server(config: Arc<ServerConfig>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = TlsAcceptor::from(config);
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let mut stream = tls.accept(socket).await.unwrap();
            let mut buffer = vec![0; PIECE];
            let mut left = FILE;
            while left > 0 {
                let read = stream.read(&mut buffer).await.unwrap();
                left -= u64::try_from(read).unwrap();
            }
            tokio::io::AsyncWriteExt::write_all(&mut stream, b".").await.unwrap();
        }
    });
    address
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn watch_memory(highest: Arc<AtomicU64>, done: Arc<AtomicBool>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        while !done.load(Ordering::Relaxed) {
            highest.fetch_max(resident(), Ordering::Relaxed);
            thread::park_timeout(Duration::from_millis(5));
        }
    })
}
