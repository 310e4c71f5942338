//! Small scripted HTTPS server on loopback.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use talmox_clock::Clock;
use talmox_pve::client::{
    ApiToken, Client, Credentials, Endpoint, Limits, Settings, Timeouts, Trust,
};
use talmox_pve::fingerprint::Fingerprint;
use talmox_talos_config::pki::{
    self, AltName, Certificate, KeyKind, LeafRequest, Name, PrivateKey, Usage,
};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::time::UnixTime;
use talmox_values::Address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Received request.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceivedRequest {
    /// Method and target.
    pub(crate) line: String,
    /// Headers, with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// Body. For an upload, only the first and the last kilobyte.
    pub(crate) body: Vec<u8>,
    /// Length of the body.
    pub(crate) length: u64,
    /// Number of the connection, starting at 0.
    pub(crate) connection: usize,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Reaction of the server to a request.
pub(crate) enum Reaction {
    /// Sends these bytes and keeps the connection.
    Answer(String),
    /// Closes the connection without an answer.
    Cut,
    /// Sends nothing and keeps the connection.
    Hang,
}

/// Response with a JSON body.
pub(crate) fn json(status: &str, body: &str) -> Reaction {
    Reaction::Answer(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}

/// Response with the body `{"data": …}`.
pub(crate) fn data(body: &str) -> Reaction {
    json("200 OK", &format!(r#"{{"data":{body}}}"#))
}

type Handler = dyn Fn(&ReceivedRequest, usize) -> Reaction + Send + Sync;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) pem: String,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

/// Self-signed certificate of a server, with its key.
pub(crate) fn self_signed(name: &str) -> (Certificate, PrivateKey) {
    let request = LeafRequest {
        subject: Name::organization(name),
        alt_names: vec![AltName::Dns(name.to_owned())],
        usage: Usage::Server,
        key_encipherment: false,
        not_before: UnixTime::from_seconds(0),
        lifetime: Duration::from_hours(200 * 365 * 24),
    };
    pki::self_signed(&request, KeyKind::EcdsaP256, &mut SystemRandomness::new()).unwrap()
}

impl Server {
    /// Starts a server. The handler receives each request and its number, starting at 0.
    pub(crate) async fn start(
        handler: impl Fn(&ReceivedRequest, usize) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        crate::trace::enable_callsites();
        let (certificate, key) = self_signed("pve.test");
        let chain = vec![CertificateDer::from(certificate.as_der().to_vec())];
        let key = PrivatePkcs8KeyDer::from(key.to_pkcs8().to_vec()).into();
        let config = talmox_net::tls::server()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(vec![]));
        let handler: Arc<Handler> = Arc::new(handler);
        let log = Arc::clone(&requests);
        tokio::spawn(async move {
            for connection in 0.. {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(
                    acceptor.clone(),
                    socket,
                    connection,
                    Arc::clone(&handler),
                    Arc::clone(&log),
                ));
            }
        });
        let fingerprint = Fingerprint::of(certificate.as_der());
        Self { address, fingerprint, pem: certificate.to_pem(), requests }
    }

    /// All requests received.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Request lines of all requests.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.line).collect()
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        let reach = Some(Address::new(self.address.ip().to_string(), self.address.port()));
        Endpoint { reach, ..Endpoint::new("pve.test", 8006) }
    }

    /// Settings of a client for this server. The client uses a token and a fast clock.
    pub(crate) fn settings(&self) -> Settings {
        let token: ApiToken = "talmox@pve!ci=01234567-secret".parse().unwrap();
        Settings {
            endpoints: vec![self.endpoint()],
            trust: Trust::Pinned([self.fingerprint].into()),
            credentials: Credentials::Token(token),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            clock: Clock::scaled(1000.0),
            seed: 7,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.settings()).unwrap()
    }
}

async fn serve(
    acceptor: TlsAcceptor,
    socket: TcpStream,
    connection: usize,
    handler: Arc<Handler>,
    log: Arc<Mutex<Vec<ReceivedRequest>>>,
) {
    // A client that does not trust the server closes the connection here.
    let Ok(mut stream) = acceptor.accept(socket).await else { return };
    while let Some(mut request) = read(&mut stream).await {
        request.connection = connection;
        let nth = {
            let mut log = log.lock().unwrap();
            log.push(request.clone());
            log.len() - 1
        };
        match handler(&request, nth) {
            Reaction::Answer(text) => stream.write_all(text.as_bytes()).await.unwrap(),
            Reaction::Cut => return,
            Reaction::Hang => std::future::pending().await,
        }
    }
}

/// Reads one request; `None` if the client closed the connection.
async fn read(stream: &mut TlsStream<TcpStream>) -> Option<ReceivedRequest> {
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let text = String::from_utf8(head).unwrap();
    let mut lines = text.lines();
    let line = lines.next()?.strip_suffix(" HTTP/1.1").unwrap().to_owned();
    let pair = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_lowercase(), value.to_owned()))
    };
    let mut request = ReceivedRequest {
        line,
        headers: lines.filter_map(pair).collect(),
        ..ReceivedRequest::default()
    };
    assert_eq!(request.header("transfer-encoding"), None, "Proxmox takes nothing in chunks");
    let length: u64 = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut buffer = vec![0; 64 * 1024];
    let (mut first, mut last) = (vec![], vec![]);
    while request.length < length {
        let most = usize::try_from(length - request.length).unwrap().min(buffer.len());
        let count = stream.read(&mut buffer[..most]).await.ok().filter(|count| *count > 0)?;
        request.length += count as u64;
        let mut bytes = &buffer[..count];
        if first.len() < 1024 {
            let (head, tail) = bytes.split_at(bytes.len().min(1024 - first.len()));
            first.extend_from_slice(head);
            bytes = tail;
        }
        last.extend_from_slice(bytes);
        last.drain(..last.len().saturating_sub(1024));
    }
    request.body = [first, last].concat();
    Some(request)
}
