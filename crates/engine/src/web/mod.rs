//! Files and answers from the web: the Image Factory, cloud images, manifests.
//!
//! The client uses HTTP/1.1 over TLS, with a new connection for each request, because there are few requests. The reach map
//! determines the address of a host name. Certificates must be valid for the host name itself.

mod body;
mod error;
mod redirect;
mod trace;

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
use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use talmox_net::{Reach, authorities, tls};
use talmox_values::HttpUrl;
use talmox_values::url::shown_url;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub use body::WebFile;
pub use error::WebError;

const MOST_REDIRECTS: usize = 10;
/// Timeout for each step of connecting, in real time, also in a lab.
const CONNECT: Duration = Duration::from_secs(10);
/// Timeout for an answer. An image factory builds an image at the first request for it, which takes a minute or two.
const ANSWER: Duration = Duration::from_mins(5);
/// The largest answer that is read as a whole, in bytes.
const MOST: usize = 32 << 20;

/// Reach map, and the certificate authorities that the client trusts.
#[derive(Clone, Debug, Default)]
pub struct WebSettings {
    pub reach: Reach,
    /// Certificate authorities in PEM form that are trusted in addition to those of this machine.
    pub authorities: Vec<u8>,
}

/// HTTP client for manifests, images and image factories. Clones share their settings.
#[derive(Clone)]
pub struct Web(Arc<Inner>);

struct Inner {
    reach: Reach,
    connector: TlsConnector,
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Web")
    }
}

/// Method, headers and body of a request.
struct Ask {
    method: Method,
    headers: Vec<(hyper::header::HeaderName, String)>,
    body: String,
}

impl Web {
    pub fn new(settings: WebSettings) -> Result<Self, WebError> {
        // A machine without authorities of its own can still use those of the settings.
        let mut roots = authorities::system().unwrap_or_else(|_| RootCertStore::empty());
        authorities::add_pem(&mut roots, &settings.authorities)
            .map_err(|_| WebError::BadAuthority)?;
        let mut config = tls::client()
            .map_err(|source| WebError::Setup { source: io::Error::other(source) })?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        Ok(Self(Arc::new(Inner { reach: settings.reach, connector })))
    }

    /// The length of a file in bytes. None if the server does not report it.
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
        // A server that does not support ranges sends the whole file. Then the rest is not read, and the connection is
        // closed.
        body::read(url, response.into_body(), ANSWER, bytes).await
    }

    /// A file that is read piece by piece.
    pub async fn open(&self, url: &str) -> Result<WebFile, WebError> {
        let response = self.ask(url, Ask::plain(Method::GET)).await?;
        let length = header(&response, &CONTENT_LENGTH).and_then(|text| text.parse().ok());
        Ok(WebFile::new(length, response.into_body()))
    }

    /// Sends a GET request and returns the whole body of the answer.
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

    /// Sends a request. Redirects are followed only for GET and HEAD requests.
    async fn ask(&self, url: &str, ask: Ask) -> Result<Response<Incoming>, WebError> {
        let mut at = redirect::parse(url)?;
        for _ in 0..=MOST_REDIRECTS {
            let response = trace::traced(&ask.method, &at, self.exchange(&at, &ask)).await?;
            let status = response.status().as_u16();
            let target = header(&response, &LOCATION).filter(|_| (301..=308).contains(&status));
            match target {
                Some(target) if ask.method != Method::POST => at = redirect::follow(&at, &target)?,
                _ if (200..300).contains(&status) => return Ok(response),
                _ => {
                    let shown = at.shown();
                    let text = body::read(&shown, response.into_body(), ANSWER, 500).await;
                    // Servers may repeat the URL in their answer, and its query may be secret.
                    let query = at.query();
                    let mut text = one_line(&text.unwrap_or_default());
                    if !query.is_empty() {
                        text = text.replace(query, "…");
                    }
                    return Err(WebError::Status { url: shown, status, text });
                }
            }
        }
        Err(WebError::TooManyRedirects { url: at.shown() })
    }

    async fn exchange(&self, url: &HttpUrl, ask: &Ask) -> Result<Response<Incoming>, WebError> {
        let connecting = self.0.reach.connect(&url.address(), CONNECT).await;
        let unreachable = |error| WebError::Connect { url: url.shown(), source: error };
        let socket = connecting.map_err(io::Error::from).map_err(unreachable)?;
        if !url.https {
            return talk(socket, url, ask).await;
        }
        let untrusted = |source| WebError::Tls { url: url.shown(), source };
        let name = ServerName::try_from(url.host.clone())
            .map_err(|error| untrusted(io::Error::other(error)))?;
        let socket =
            within(CONNECT, self.0.connector.connect(name, socket)).await.map_err(untrusted)?;
        talk(socket, url, ask).await
    }
}

impl Ask {
    fn plain(method: Method) -> Self {
        Self { method, headers: vec![], body: String::new() }
    }

    fn http(&self, url: &HttpUrl) -> Result<hyper::Request<String>, WebError> {
        let bad = || WebError::BadUrl { url: url.shown() };
        let mut request = hyper::Request::new(self.body.clone());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = url.target().parse().map_err(|_| bad())?;
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
    url: &HttpUrl,
    ask: &Ask,
) -> Result<Response<Incoming>, WebError> {
    let request = ask.http(url)?;
    let broken = |error: hyper::Error| WebError::Broken {
        url: url.shown(),
        source: io::Error::other(error),
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(broken)?;
    // This task ends with the answer. Its errors are also reported by the answer.
    let _driver = tokio::spawn(connection);
    match timeout(ANSWER, sender.send_request(request)).await {
        Ok(response) => response.map_err(broken),
        Err(_) => Err(WebError::Silent { url: url.shown() }),
    }
}

/// Returns an error if `work` does not end within the limit.
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

/// Converts the text of a server into one line without control characters. The text must not act as a command on a terminal,
/// and must not look like a line of talmox.
fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split_whitespace().map(|word| word.replace(char::is_control, ""));
    words.collect::<Vec<_>>().join(" ")
}

fn header(response: &Response<Incoming>, name: &hyper::header::HeaderName) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}
