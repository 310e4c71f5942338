//! Blocking HTTP client for downloads by the simulated hosts.
//!
//! The client connects only to configured addresses. It looks up host names in the `reach` map, and connects directly to
//! loopback addresses. All other hosts are unreachable. Calls block, so each needs a thread of its own.

mod body;
mod tls;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustls::RootCertStore;
use talmox_net::Reach;
use talmox_values::url::without_user;
use talmox_values::{Address, HttpUrl};

pub use body::Body;

/// Read timeout of a socket, the same as the default of `wget`.
const READ_TIMEOUT: Duration = Duration::from_mins(15);
const MAX_REDIRECTS: usize = 20;
const MAX_HEAD: u64 = 64 << 10;

/// Servers outside the lab that simulated hosts can reach.
#[derive(Clone, Debug)]
pub struct Outside {
    /// Addresses of the reachable servers. No connection is made to a server that is missing here.
    reach: Reach,
    /// Certificate authorities that the client trusts.
    roots: RootCertStore,
}

impl Default for Outside {
    fn default() -> Self {
        Self::new(BTreeMap::new())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchMethod {
    Head,
    Get,
}

/// Response whose body is not read yet.
pub struct Response {
    pub status: u16,
    pub reason: String,
    headers: Vec<(String, String)>,
    pub body: Body,
}

#[derive(Debug)]
pub enum FetchError {
    NotAUrl,
    UnknownHost(String),
    Connect {
        host: String,
        port: u16,
        source: io::Error,
    },
    Certificate {
        host: String,
    },
    /// Error of the connection or of the received data.
    Broken(io::Error),
    TooManyRedirects,
}

impl FetchError {
    /// Message of `wget` for this error: the last line of its output, or its exit code if the output is empty.
    pub fn in_wgets_words(&self) -> String {
        match self {
            Self::NotAUrl => "exit code 1".to_owned(),
            Self::UnknownHost(host) => format!("wget: unable to resolve host address '{host}'"),
            Self::Connect { host, port, source } => {
                let why = match source.kind() {
                    io::ErrorKind::ConnectionRefused => "Connection refused",
                    _ => "Connection timed out",
                };
                format!("Connecting to {host}:{port}... failed: {why}.")
            }
            Self::Certificate { host } => {
                format!("To connect to {host} insecurely, use `--no-check-certificate'.")
            }
            Self::Broken(_) => "exit code 4".to_owned(),
            Self::TooManyRedirects => format!("{MAX_REDIRECTS} redirections exceeded."),
        }
    }

    /// Status line of the response that the HTTP client of Proxmox generates for this error.
    pub fn as_status_line(&self) -> String {
        let why = match self {
            Self::NotAUrl => return "400 URL must be absolute".to_owned(),
            Self::UnknownHost(host) => {
                format!("Can't connect to {host} (Name or service not known)")
            }
            Self::Connect { host, port, source } => match source.kind() {
                io::ErrorKind::ConnectionRefused => {
                    format!("Can't connect to {host}:{port} (Connection refused)")
                }
                _ => format!("Can't connect to {host}:{port} (Connection timed out)"),
            },
            Self::Certificate { host } => {
                format!("Can't connect to {host} (certificate verify failed)")
            }
            Self::Broken(error) => error.to_string(),
            Self::TooManyRedirects => "Too many redirects".to_owned(),
        };
        format!("500 {why}")
    }
}

impl From<io::Error> for FetchError {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

impl Outside {
    /// `servers` maps each reachable `host:port` to its address.
    pub fn new(servers: BTreeMap<String, SocketAddr>) -> Self {
        let servers = servers.into_iter().map(|(name, address)| (name, address.to_string()));
        Self { reach: Reach::closed(servers), roots: RootCertStore::empty() }
    }

    #[must_use]
    pub fn with_roots(self, roots: RootCertStore) -> Self {
        Self { roots, ..self }
    }

    /// Whether the `reach` map has this server.
    pub fn has_server(&self, host: &str, port: u16) -> bool {
        self.reach.has_entry(&Address::new(host, port))
    }

    /// Sends a request, follows redirects, and reads the head of the final response.
    pub fn fetch(
        &self,
        method: FetchMethod,
        url: &str,
        verify: bool,
    ) -> Result<Response, FetchError> {
        let mut url = parse(url)?;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(method, &url, verify)?;
            let location = response.header("location");
            match (response.status, location) {
                (301 | 302 | 303 | 307 | 308, Some(location)) => {
                    url = url.join(location).map_err(|_| FetchError::NotAUrl)?;
                }
                _ => return Ok(response),
            }
        }
        Err(FetchError::TooManyRedirects)
    }

    fn send(
        &self,
        method: FetchMethod,
        url: &HttpUrl,
        verify: bool,
    ) -> Result<Response, FetchError> {
        let mut stream = self.connect(url, verify)?;
        let verb = if method == FetchMethod::Head { "HEAD" } else { "GET" };
        let request = format!(
            "{verb} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: Wget/1.24.5\r\nAccept: */*\r\n\
             Accept-Encoding: identity\r\nConnection: close\r\n\r\n",
            url.target(),
            url.authority()
        );
        stream.write_all(request.as_bytes())?;
        stream.flush()?;
        read_head(BufReader::new(stream), method)
    }

    fn connect(&self, url: &HttpUrl, verify: bool) -> Result<Box<dyn Stream>, FetchError> {
        let address = Address { host: url.host.to_ascii_lowercase(), ..url.address() };
        let Address { host, port } = &address;
        let socket = self.look_up(&address).ok_or(FetchError::UnknownHost(host.clone()))?;
        let failed = |source| FetchError::Connect { host: host.clone(), port: *port, source };
        let socket = TcpStream::connect_timeout(&socket, READ_TIMEOUT).map_err(failed)?;
        socket.set_read_timeout(Some(READ_TIMEOUT))?;
        socket.set_write_timeout(Some(READ_TIMEOUT))?;
        if url.https {
            tls::connect(socket, host, &self.roots, verify)
        } else {
            Ok(Box::new(socket))
        }
    }

    fn look_up(&self, address: &Address) -> Option<SocketAddr> {
        let Address { host, port } = self.reach.route(address).ok()?;
        Some(SocketAddr::new(host.parse().ok()?, port))
    }
}

/// Parses a URL like `wget`: the scheme may be in upper case, and user and password are ignored.
fn parse(url: &str) -> Result<HttpUrl, FetchError> {
    let url = without_user(url);
    let (scheme, rest) = url.split_once("://").ok_or(FetchError::NotAUrl)?;
    let url = format!("{}://{rest}", scheme.to_ascii_lowercase());
    HttpUrl::parse(&url).map_err(|_| FetchError::NotAUrl)
}

/// Connection, with or without TLS.
pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

fn read_head(
    mut stream: BufReader<Box<dyn Stream>>,
    method: FetchMethod,
) -> Result<Response, FetchError> {
    let broken = |text: &str| FetchError::Broken(io::Error::new(io::ErrorKind::InvalidData, text));
    let mut head = stream.by_ref().take(MAX_HEAD);
    let mut line = String::new();
    head.read_line(&mut line)?;
    let mut words = line.trim_end().splitn(3, ' ');
    let (Some("HTTP/1.0" | "HTTP/1.1"), Some(Ok(status))) =
        (words.next(), words.next().map(str::parse))
    else {
        return Err(broken("no status line"));
    };
    let reason = words.next().unwrap_or_default().to_owned();
    let mut headers = vec![];
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            return Err(broken("the head of the response is too long or incomplete"));
        }
        match line.trim_end_matches(['\r', '\n']).split_once(':') {
            Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
            None if line.trim_end().is_empty() => break,
            None => return Err(broken("malformed header")),
        }
    }
    let value = |name: &str| {
        headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let chunked = value("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked"));
    let length = value("content-length").map(|value| value.parse());
    let body = match (method, chunked, length) {
        (FetchMethod::Head, ..) => Body::of_length(stream, 0),
        (_, true, _) => Body::chunked(stream),
        (_, false, Some(Ok(length))) => Body::of_length(stream, length),
        (_, false, Some(Err(_))) => return Err(broken("malformed content length")),
        (_, false, None) => Body::until_end(stream),
    };
    Ok(Response { status, reason, headers, body })
}

#[cfg(test)]
mod tests;
