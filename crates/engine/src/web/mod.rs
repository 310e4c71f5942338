//! Files and answers from the web: the Image Factory, cloud images, manifests.
//!
//! HTTP/1.1 over TLS, a connection for each request: these are few, and far between. Names lead
//! where the reach map says; certificates must bear the real ones.

mod body;
mod error;
mod trace;
mod url;

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONTENT_LENGTH, HOST, HeaderValue, LOCATION, RANGE, USER_AGENT};
use hyper::{Method, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use talmox_plan::url::shown_url;
use talmox_talos_api::Reach;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub use body::WebFile;
pub use error::WebError;
use url::Url;

const MOST_REDIRECTS: usize = 10;
/// For each step of connecting. Sockets do not scale.
const CONNECT: Duration = Duration::from_secs(10);
/// A factory builds an image when it is first asked for it, which takes a minute or two.
const ANSWER: Duration = Duration::from_mins(5);
/// An answer that is read as a whole is no bigger than this.
const MOST: usize = 32 << 20;

/// Where a client may find things, and whom it believes.
#[derive(Clone, Debug, Default)]
pub struct WebSettings {
    pub reach: Reach,
    /// Authorities in PEM form that are believed beside those of this machine.
    pub authorities: Vec<u8>,
}

/// A client of the web. Clones are the same one.
#[derive(Clone)]
pub struct Web(Arc<Inner>);

struct Inner {
    reach: Reach,
    tls: TlsConnector,
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Web")
    }
}

/// What is asked for.
struct Ask {
    method: Method,
    headers: Vec<(hyper::header::HeaderName, String)>,
    body: String,
}

impl Web {
    pub fn new(settings: WebSettings) -> Result<Self, WebError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        for certificate in CertificateDer::pem_slice_iter(&settings.authorities) {
            let certificate = certificate.map_err(|_| WebError::BadAuthority)?;
            roots.add(certificate).map_err(|_| WebError::BadAuthority)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|source| WebError::Setup { source: io::Error::other(source) })?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let tls = TlsConnector::from(Arc::new(config));
        Ok(Self(Arc::new(Inner { reach: settings.reach, tls })))
    }

    /// How long a file is, if the server says so.
    pub async fn length(&self, url: &str) -> Result<Option<u64>, WebError> {
        let response = self.ask(url, Ask::plain(Method::HEAD)).await?;
        Ok(header(&response, &CONTENT_LENGTH).and_then(|text| text.parse().ok()))
    }

    /// The first bytes of a file.
    pub async fn beginning(&self, url: &str, bytes: usize) -> Result<Vec<u8>, WebError> {
        let last = bytes.saturating_sub(1);
        let ask =
            Ask { headers: vec![(RANGE, format!("bytes=0-{last}"))], ..Ask::plain(Method::GET) };
        let response = self.ask(url, ask).await?;
        // A server that knows no ranges sends everything: then we hang up.
        body::read(url, response.into_body(), ANSWER, bytes).await
    }

    /// A file, to be read piece by piece.
    pub async fn open(&self, url: &str) -> Result<WebFile, WebError> {
        let response = self.ask(url, Ask::plain(Method::GET)).await?;
        let length = header(&response, &CONTENT_LENGTH).and_then(|text| text.parse().ok());
        Ok(WebFile::new(length, response.into_body()))
    }

    /// An answer that fits into memory.
    pub async fn get(&self, url: &str) -> Result<Vec<u8>, WebError> {
        let response = self.ask(url, Ask::plain(Method::GET)).await?;
        whole(url, response).await
    }

    pub async fn post(&self, url: &str, kind: &str, text: &str) -> Result<Vec<u8>, WebError> {
        let headers = vec![(hyper::header::CONTENT_TYPE, kind.to_owned())];
        let ask = Ask { method: Method::POST, headers, body: text.to_owned() };
        let response = self.ask(url, ask).await?;
        whole(url, response).await
    }

    /// Asks, and follows redirects of what only reads.
    async fn ask(&self, url: &str, ask: Ask) -> Result<Response<Incoming>, WebError> {
        let mut at = Url::parse(url)?;
        for _ in 0..=MOST_REDIRECTS {
            let response = trace::traced(&ask.method, &at, self.exchange(&at, &ask)).await?;
            let status = response.status().as_u16();
            let target = header(&response, &LOCATION).filter(|_| (301..=308).contains(&status));
            match target {
                Some(target) if ask.method != Method::POST => at = at.join(&target)?,
                _ if (200..300).contains(&status) => return Ok(response),
                _ => {
                    let shown = at.to_string();
                    let text = body::read(&shown, response.into_body(), ANSWER, 500).await;
                    // Servers like to repeat what they were asked for.
                    let query = at.target.split_once('?').map_or("", |(_, query)| query);
                    let mut text = one_line(&text.unwrap_or_default());
                    if !query.is_empty() {
                        text = text.replace(query, "…");
                    }
                    return Err(WebError::Status { url: shown, status, text });
                }
            }
        }
        Err(WebError::TooManyRedirects { url: at.to_string() })
    }

    async fn exchange(&self, url: &Url, ask: &Ask) -> Result<Response<Incoming>, WebError> {
        let connecting = self.0.reach.connect(&url.address, CONNECT).await;
        let unreachable = |error| WebError::Connect { url: url.to_string(), source: error };
        let socket = connecting.map_err(io::Error::from).map_err(unreachable)?;
        if !url.is_secure {
            return talk(socket, url, ask).await;
        }
        let untrusted = |source| WebError::Tls { url: url.to_string(), source };
        let name = ServerName::try_from(url.address.host.clone())
            .map_err(|error| untrusted(io::Error::other(error)))?;
        let socket = within(CONNECT, self.0.tls.connect(name, socket)).await.map_err(untrusted)?;
        talk(socket, url, ask).await
    }
}

impl Ask {
    fn plain(method: Method) -> Self {
        Self { method, headers: vec![], body: String::new() }
    }

    fn http(&self, url: &Url) -> Result<hyper::Request<String>, WebError> {
        let bad = || WebError::BadUrl { url: url.to_string() };
        let mut request = hyper::Request::new(self.body.clone());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = url.target.parse().map_err(|_| bad())?;
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::try_from(url.authority()).map_err(|_| bad())?);
        headers.insert(USER_AGENT, HeaderValue::from_static("talmox"));
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        for (name, value) in &self.headers {
            headers.insert(name, HeaderValue::try_from(value).map_err(|_| bad())?);
        }
        Ok(request)
    }
}

async fn talk(
    socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    url: &Url,
    ask: &Ask,
) -> Result<Response<Incoming>, WebError> {
    let request = ask.http(url)?;
    let broken = |error: hyper::Error| WebError::Broken {
        url: url.to_string(),
        source: io::Error::other(error),
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(broken)?;
    // Ends with the answer; what goes wrong the answer tells as well.
    let _driver = tokio::spawn(connection);
    match timeout(ANSWER, sender.send_request(request)).await {
        Ok(response) => response.map_err(broken),
        Err(_) => Err(WebError::Silent { url: url.to_string() }),
    }
}

/// A socket that says nothing is as good as an error.
async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(limit, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn whole(url: &str, response: Response<Incoming>) -> Result<Vec<u8>, WebError> {
    let bytes = body::read(url, response.into_body(), ANSWER, MOST + 1).await?;
    if bytes.len() > MOST {
        return Err(WebError::TooLong { url: shown_url(url) });
    }
    Ok(bytes)
}

/// What a stranger's server says: nothing of it may reach a terminal as a command or as a line of ours.
fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split_whitespace().map(|word| word.replace(char::is_control, ""));
    words.collect::<Vec<_>>().join(" ")
}

fn header(response: &Response<Incoming>, name: &hyper::header::HeaderName) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}
