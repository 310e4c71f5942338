//! Benchmark of the Proxmox client with the lab. It measures the number of requests for a list, and the upload speed. The
//! upload speed is compared with plain TLS on the same machine and in the same run. The lab runs in a process of its own, so
//! that the memory of client and lab can be measured separately. The benchmark prints a table. With `--check`, it fails if a
//! limit is exceeded.
#![expect(clippy::print_stdout, reason = "a bench prints its results")]
#![expect(clippy::unwrap_used, reason = "a panic fails the bench")]
#![expect(clippy::disallowed_methods, reason = "real sockets take real time")]

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use serde_json::Value as Json;
use talmox_clock::Clock;
use talmox_lab::pve::Profile;
use talmox_lab::{Lab, Scenario, Settings};
use talmox_pve::api::cluster;
use talmox_pve::api::storage::{Content, Upload};
use talmox_pve::client::{
    self, Client, Credentials, Endpoint, FileSource, Limits, Timeouts, Trust,
};
use talmox_talos_api::Address;
use talmox_talos_config::pki::{AltName, KeyKind, LeafRequest, Name, Usage, self_signed};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::time::UnixTime;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::{TlsAcceptor, TlsConnector};

const FILE: u64 = 1 << 30;
const PIECE: usize = 256 * 1024;
const ROUNDS: usize = 9;
/// Maximum CPU steal in a round, as a share of all processors. Rounds with more CPU steal are repeated.
const MAX_STEAL: f64 = 0.1;
const TICKS_PER_SECOND: f64 = 100.0;
const TIMEOUT: Duration = Duration::from_mins(5);
const TOKEN: &str = "root@pam!lab=00000000-1111-4222-8333-444444444444";

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--serve") {
        serve(Path::new(&args[at + 1]), &args[at + 2]);
        return;
    }
    let missed = measure();
    assert!(missed == 0 || !args.iter().any(|arg| arg == "--check"), "{missed} missed");
}

/// Server process: a lab, or a TLS server that discards its input. It prints its address, and ends when its standard input is
/// closed.
fn serve(folder: &Path, what: &str) {
    let runtime = Runtime::new().unwrap();
    let _lab = if what == "sink" {
        let address = runtime.block_on(sink(folder));
        println!("{address}");
        None
    } else {
        let settings = Settings {
            scenario: Scenario::parse("bench", &scenario(what.parse().unwrap())).unwrap(),
            profile: Profile::Instant,
            record: Some(folder.join("record")),
            ..Settings::default()
        };
        let lab = runtime.block_on(async { Lab::start(settings) }).unwrap();
        std::fs::copy(lab.ready().pve.ca, folder.join("ca.pem")).unwrap();
        println!("{}", lab.address());
        Some(lab)
    };
    std::io::stdin().lines().for_each(drop);
}

/// Scenario with ten hosts and this number of VMs.
fn scenario(vms: u32) -> String {
    let (id, secret) = TOKEN.split_once('=').unwrap();
    let mut text = format!(
        "nodes: [{}]\naccess: {{tokens: [{{tokenid: '{id}', secret: {secret}, privsep: 0}}]}}\nvms:\n",
        (1..=10).map(|host| format!("pve{host}")).collect::<Vec<_>>().join(", ")
    );
    for vm in 0..vms {
        let (number, host) = (100 + vm, 1 + vm % 10);
        writeln!(text, "  - {{vmid: {number}, node: pve{host}, config: {{name: vm-{number}}}}}")
            .unwrap();
    }
    text
}

/// Running server process.
struct ServerProcess {
    child: Child,
    folder: tempfile::TempDir,
    address: SocketAddr,
}

impl ServerProcess {
    fn start(what: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("--serve")
            .args([folder.path().as_os_str(), what.as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, folder, address: line.trim().parse().unwrap() }
    }

    fn client(&self) -> Client {
        let reach = Address::new(self.address.ip().to_string(), self.address.port());
        let endpoint = Endpoint { reach: Some(reach), ..Endpoint::new("localhost", 8006) };
        Client::new(client::Settings {
            endpoints: vec![endpoint],
            trust: Trust::Authorities(std::fs::read(self.folder.path().join("ca.pem")).unwrap()),
            credentials: Credentials::Token(TOKEN.parse().unwrap()),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            clock: Clock::real(),
            seed: 0,
        })
        .unwrap()
    }

    fn status(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/status", self.child.id()))
    }

    /// Number of requests that the lab recorded.
    fn requests(&self) -> usize {
        let text = std::fs::read_to_string(self.folder.path().join("record")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
        lines.filter(|line| line["status"] == 200).count()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The process ends because its standard input is closed. Its exit status does not matter.
        let _status = self.child.wait();
    }
}

/// Prints the table, and returns the number of exceeded limits.
fn measure() -> usize {
    let runtime = Runtime::new().unwrap();
    let mut missed = 0;
    let mut verdict = |is_met: bool| {
        missed += usize::from(!is_met);
        if is_met { "ok" } else { "MISSED" }
    };
    println!("{:<48} {:>12} {:>12} {:>7}  bar", "", "this", "against", "ratio");

    let (few, few_took) = list(&runtime, 10);
    let (many, many_took) = list(&runtime, 1000);
    let is_met = verdict(many == few);
    println!(
        "{:<48} {many:>12} {few:>12} {:>7.2}  equal: {is_met}",
        "requests to list 1,000 VMs, against 10 VMs",
        ratio(many, few)
    );
    println!(
        "{:<48} {many_took:>12.2} {few_took:>12.2} {:>7.2}",
        "milliseconds to list 1,000 VMs, against 10 VMs",
        many_took / few_took
    );

    let sink = ServerProcess::start("sink");
    let certificate =
        CertificateDer::from(std::fs::read(sink.folder.path().join("cert.der")).unwrap());
    let (mut up, mut bare, mut own, mut theirs) = (vec![], vec![], 0.0_f64, 0.0_f64);
    let (mut before, mut tried) = (None, 0);
    while up.len() < ROUNDS {
        let stolen = CpuSteal::since_now();
        // The TLS server and the lab are measured alternately, so that other load affects both.
        let bare_speed = runtime.block_on(send_to_sink(sink.address, certificate.clone()));
        // The previous file is deleted right before the next upload. A virtual machine is slow to get back memory that it has
        // returned to its host.
        drop(before.take());
        let (lab, round) = upload_once(&runtime);
        before = Some(lab);
        own = own.max(round.own);
        theirs = theirs.max(round.theirs);
        tried += 1;
        // CPU steal slows down three busy threads more than two. So rounds with much CPU steal are repeated, up to a limit.
        if stolen.share() < MAX_STEAL || tried > 3 * ROUNDS {
            up.push(round.speed);
            bare.push(bare_speed);
        }
    }
    let left_out = tried - ROUNDS;
    println!("{:<48} {left_out:>12}", "rounds left out because of CPU steal");
    // The ratio is computed for each pair of measurements, so that load that affects both does not change it.
    let ratio = median(up.iter().zip(&bare).map(|(up, bare)| up / bare).collect());
    let (up, bare) = (median(up), median(bare));
    let is_met = verdict(ratio >= 0.5);
    println!(
        "{:<48} {up:>12.0} {bare:>12.0} {ratio:>7.2}  at least 0.50: {is_met}",
        format!("1 GiB upload against TLS, MiB/s, medians of {ROUNDS}"),
    );
    for (what, grown) in
        [("memory growth in MiB, client", own), ("memory growth in MiB, lab", theirs)]
    {
        let is_met = verdict(grown < 32.0);
        println!("{what:<48} {grown:>12.1} {:>12} {:>7.2}  below 32: {is_met}", 32, grown / 32.0);
    }
    missed
}

/// CPU steal of a virtual machine; zero on other machines.
struct CpuSteal {
    started: Instant,
    ticks: u64,
}

impl CpuSteal {
    fn since_now() -> Self {
        Self { started: Instant::now(), ticks: Self::ticks() }
    }

    /// CPU steal since the start, as a share of the time of all processors together.
    fn share(&self) -> f64 {
        let ticks = u32::try_from(Self::ticks() - self.ticks).unwrap_or(u32::MAX);
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let all =
            self.started.elapsed().as_secs_f64() * f64::from(u32::try_from(processors).unwrap());
        f64::from(ticks) / TICKS_PER_SECOND / all
    }

    fn ticks() -> u64 {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let stolen = text.lines().next().and_then(|all| all.split_whitespace().nth(8));
        stolen.and_then(|ticks| ticks.parse().ok()).unwrap_or_default()
    }
}

/// Result of an upload: speed in MiB per second, and memory growth of the client (`own`) and of the lab (`theirs`) in MiB.
struct Round {
    speed: f64,
    own: f64,
    theirs: f64,
}

/// Uploads one file to a new lab, which the caller deletes afterwards. With earlier files in the page cache, the kernel would
/// make this upload wait for the disk.
fn upload_once(runtime: &Runtime) -> (ServerProcess, Round) {
    let lab = ServerProcess::start("0");
    let client = lab.client();
    // The first upload makes allocations that happen only once. They must not count as growth.
    runtime.block_on(upload(&client, 1 << 20));
    let (own, theirs) = (PeakMemory::of("/proc/self/status".into()), PeakMemory::of(lab.status()));
    let speed = runtime.block_on(upload(&client, FILE));
    let round = Round { speed, own: own.growth(), theirs: theirs.growth() };
    (lab, round)
}

/// Median of the measured values.
fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn ratio(this: usize, against: usize) -> f64 {
    let number = |count: usize| f64::from(u32::try_from(count).unwrap());
    number(this) / number(against)
}

/// Number of requests and milliseconds for a list of this number of VMs.
fn list(runtime: &Runtime, vms: u32) -> (usize, f64) {
    let lab = ServerProcess::start(&vms.to_string());
    let client = lab.client();
    let took = runtime.block_on(async {
        // The client connects first, so that the connection is not part of the measured time.
        client.send(&cluster::version()).await.unwrap();
        let started = Instant::now();
        let found = client.send(&cluster::resources()).await.unwrap();
        let took = started.elapsed();
        assert_eq!(found.guests.len(), usize::try_from(vms).unwrap());
        took
    });
    (lab.requests() - 1, took.as_secs_f64() * 1000.0)
}

/// Uploads a file of this length, and returns the speed in MiB per second.
async fn upload(client: &Client, bytes: u64) -> f64 {
    let upload = Upload {
        node: "pve1".parse().unwrap(),
        storage: "local".parse().unwrap(),
        content: Content::Iso,
        name: "a.iso".parse().unwrap(),
        checksum: None,
    };
    let started = Instant::now();
    let running = client
        .upload(&upload, FileSource::new(Bytes { piece: piece(), left: bytes }, bytes))
        .await
        .unwrap();
    let took = started.elapsed();
    client.finish(running, TIMEOUT).await.unwrap();
    mebibytes_per_second(bytes, took)
}

/// Block with bytes of every value, like the content of an image.
fn piece() -> Vec<u8> {
    (0..PIECE).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

/// Reader that repeats a block up to a length.
struct Bytes {
    piece: Vec<u8>,
    left: u64,
}

impl AsyncRead for Bytes {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let room = buffer.remaining().min(PIECE).min(usize::try_from(self.left).unwrap());
        buffer.put_slice(&self.piece[..room]);
        self.left -= u64::try_from(room).unwrap();
        Poll::Ready(Ok(()))
    }
}

fn mebibytes_per_second(bytes: u64, took: Duration) -> f64 {
    f64::from(u32::try_from(bytes >> 20).unwrap()) / took.as_secs_f64()
}

/// Sends as many bytes as a file has to a server that discards them. Returns the speed in MiB per second.
async fn send_to_sink(address: SocketAddr, certificate: CertificateDer<'static>) -> f64 {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let config = talmox_net::tls::client();
    let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    let socket = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
    let piece = piece();
    let started = Instant::now();
    for _ in 0..FILE / u64::try_from(PIECE).unwrap() {
        stream.write_all(&piece).await.unwrap();
    }
    stream.flush().await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'.');
    mebibytes_per_second(FILE, started.elapsed())
}

/// Starts a server that receives as many bytes as a file has, and then answers with one byte. Writes its certificate to the
/// folder.
async fn sink(folder: &Path) -> SocketAddr {
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
    std::fs::write(folder.join("cert.der"), certificate.as_der()).unwrap();
    let chain = vec![CertificateDer::from(certificate.as_der().to_vec())];
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.to_pkcs8().to_vec()));
    let config = talmox_net::tls::server();
    let config = config.unwrap().with_no_client_auth();
    let config = config.with_single_cert(chain, key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let mut stream = tls.accept(socket).await.unwrap();
            let mut buffer = vec![0; PIECE];
            let mut left = FILE;
            while left > 0 {
                left -= u64::try_from(stream.read(&mut buffer).await.unwrap()).unwrap();
            }
            stream.write_all(b".").await.unwrap();
            stream.flush().await.unwrap();
        }
    });
    address
}

/// Thread that records the maximum memory of a process.
struct PeakMemory {
    status: PathBuf,
    before: u64,
    most: Arc<std::sync::atomic::AtomicU64>,
}

impl PeakMemory {
    fn of(status: PathBuf) -> Self {
        let before = resident(&status).unwrap();
        let most = Arc::new(std::sync::atomic::AtomicU64::new(before));
        let (weak, path) = (Arc::downgrade(&most), status.clone());
        thread::spawn(move || {
            while let (Some(most), Some(now)) = (weak.upgrade(), resident(&path)) {
                most.fetch_max(now, std::sync::atomic::Ordering::Relaxed);
                drop(most);
                thread::park_timeout(Duration::from_millis(5));
            }
        });
        Self { status, before, most }
    }

    /// Growth of the memory of the process in MiB.
    fn growth(self) -> f64 {
        let now = resident(&self.status).unwrap_or_default();
        let most = self.most.fetch_max(now, std::sync::atomic::Ordering::Relaxed).max(now);
        f64::from(u32::try_from(most.saturating_sub(self.before)).unwrap()) / 1024.0
    }
}

/// Resident memory of a process in KiB; `None` if the process has ended.
fn resident(status: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
