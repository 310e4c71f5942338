//! Test lab with a raw HTTP client.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use serde_json::Value as Json;
use talmox_lab::pve::Profile;
use talmox_lab::{Lab, PveReady, Scenario, Settings};
use tokio::runtime::{Builder, Runtime};

pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

pub(crate) struct TestLab {
    runtime: Runtime,
    lab: Option<Lab>,
    pub(crate) pve: PveReady,
    tls: Arc<ClientConfig>,
}

/// Parsed HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) version: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Settings with lab time a thousand times faster than real time, and with operations that take no time.
pub(crate) fn settings() -> Settings {
    Settings { speed: 1000.0, profile: Profile::Instant, ..Settings::default() }
}

pub(crate) fn scenario(yaml: &str) -> Settings {
    Settings { scenario: Scenario::parse("test", yaml).unwrap(), ..settings() }
}

impl TestLab {
    pub(crate) fn new() -> Self {
        Self::start(settings())
    }

    pub(crate) fn start(settings: Settings) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let lab = runtime.block_on(async { Lab::start(settings) }).unwrap();
        let pve = lab.ready().pve;
        let pem = std::fs::read_to_string(&pve.ca).unwrap();
        let tls = client_config(&pem, rustls::ALL_VERSIONS);
        Self { runtime, lab: Some(lab), pve, tls }
    }

    /// Runs a future to its end in the runtime of the lab.
    pub(crate) fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(what)
    }

    pub(crate) fn lab(&self) -> &Lab {
        self.lab.as_ref().unwrap()
    }

    pub(crate) fn stop(mut self) {
        self.runtime.block_on(self.lab.take().unwrap().stop()).unwrap();
    }

    /// Stops the lab as a kill would: no state is saved, and connections break.
    pub(crate) fn kill(mut self) {
        drop(self.lab.take());
        self.runtime.shutdown_timeout(Duration::from_secs(5));
    }

    pub(crate) fn plain(&self) -> TcpStream {
        let socket = TcpStream::connect(self.lab().address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    }

    pub(crate) fn connect(&self) -> Tls {
        self.connect_with(Arc::clone(&self.tls))
    }

    pub(crate) fn connect_with(&self, config: Arc<ClientConfig>) -> Tls {
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(config, name).unwrap(), self.plain())
    }

    /// TLS client settings that allow only these versions.
    pub(crate) fn tls(&self, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        client_config(&std::fs::read_to_string(&self.pve.ca).unwrap(), versions)
    }

    /// Sends bytes on a new connection, and reads one response.
    pub(crate) fn raw(&self, bytes: impl AsRef<[u8]>) -> Answer {
        let mut stream = self.connect();
        stream.write_all(bytes.as_ref()).unwrap();
        Answer::read(&mut stream).unwrap()
    }

    pub(crate) fn token_header(&self) -> String {
        format!("Authorization: PVEAPIToken={}={}\r\n", self.pve.token_id, self.pve.token_secret)
    }

    /// Sends a request with the token of the lab. Each line in `headers` must end with a line break.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        self.raw(self.text(method, path, headers, body))
    }

    /// Text of an HTTP request with the token of the lab.
    pub(crate) fn text(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let token = self.token_header();
        let length = match body.len() {
            0 => String::new(),
            length => format!("Content-Length: {length}\r\n"),
        };
        format!(
            "{method} /api2/json{path} HTTP/1.1\r\nHost: localhost\r\n{token}{length}{headers}\r\n{body}"
        )
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path, "", "")
    }
}

fn client_config(pem: &str, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
    let base64: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(STANDARD.decode(base64).unwrap())).unwrap();
    let provider = talmox_net::tls::provider();
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

impl Answer {
    /// Reads a response without its body, such as the response to a HEAD request.
    pub(crate) fn read_head(stream: &mut impl Read) -> io::Result<Self> {
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let (first, rest) = head.split_once("\r\n").unwrap();
        let mut words = first.splitn(3, ' ');
        let version = words.next().unwrap().to_owned();
        let status = words.next().unwrap().parse().unwrap();
        let reason = words.next().unwrap().to_owned();
        let headers = rest.lines().filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok(Self { status, reason, version, headers, body: vec![] })
    }

    pub(crate) fn read(stream: &mut impl Read) -> io::Result<Self> {
        let mut answer = Self::read_head(stream)?;
        match answer.header("Content-Length").map(|length| length.parse().unwrap()) {
            Some(length) => {
                answer.body = vec![0; length];
                stream.read_exact(&mut answer.body)?;
            }
            None if answer.status != 100 => {
                stream.read_to_end(&mut answer.body)?;
            }
            None => {}
        }
        Ok(answer)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// Status and reason phrase of the status line.
    pub(crate) fn line(&self) -> (u16, &str) {
        (self.status, &self.reason)
    }
}

/// Whether the other side closed the connection without further data.
pub(crate) fn is_closed(stream: &mut impl Read) -> bool {
    matches!(stream.read(&mut [0]), Ok(0))
}
