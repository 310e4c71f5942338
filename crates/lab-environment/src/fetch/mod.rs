//! What the simulated hosts can reach of the outside: a small HTTP client for downloads.
//!
//! The lab talks to nobody it was not told of. Names are looked up in the `reach` map, loopback
//! addresses can be reached as they are, and every other host is as good as not there. Calls block:
//! they belong on a thread of their own.

mod body;
mod tls;
mod url;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustls::RootCertStore;

pub use body::Body;
use url::Url;

/// Sockets give up on a peer that says nothing for this long, as `wget` does.
const PATIENCE: Duration = Duration::from_mins(15);
const MOST_REDIRECTS: usize = 20;
const LONGEST_HEAD: u64 = 64 << 10;

/// The world outside the simulation, as far as it can be reached.
#[derive(Clone, Debug)]
pub struct Outside {
    /// `host:port`, and the loopback address that stands for it.
    pub reach: BTreeMap<String, SocketAddr>,
    /// Whom certificates are believed.
    pub roots: RootCertStore,
}

impl Default for Outside {
    fn default() -> Self {
        Self { reach: BTreeMap::new(), roots: RootCertStore::empty() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Head,
    Get,
}

/// An answer whose body was not read yet.
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
    /// The connection, or what came over it.
    Broken(io::Error),
    TooManyRedirects,
}

impl FetchError {
    /// What is left of it when `wget` met it: its last line, or its exit code if that is empty.
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
            Self::TooManyRedirects => format!("{MOST_REDIRECTS} redirections exceeded."),
        }
    }

    /// As the status line of an answer that the client made up itself.
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
    /// Sends a request and reads the head of the answer, wherever redirects lead.
    pub fn fetch(&self, method: Method, url: &str, verify: bool) -> Result<Response, FetchError> {
        let mut url = Url::parse(url).ok_or(FetchError::NotAUrl)?;
        for _ in 0..=MOST_REDIRECTS {
            let response = self.send(method, &url, verify)?;
            let location = response.header("location");
            match (response.status, location) {
                (301 | 302 | 303 | 307 | 308, Some(location)) => {
                    url = url.join(location).ok_or(FetchError::NotAUrl)?;
                }
                _ => return Ok(response),
            }
        }
        Err(FetchError::TooManyRedirects)
    }

    fn send(&self, method: Method, url: &Url, verify: bool) -> Result<Response, FetchError> {
        let mut stream = self.connect(url, verify)?;
        let verb = if method == Method::Head { "HEAD" } else { "GET" };
        let request = format!(
            "{verb} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: Wget/1.24.5\r\nAccept: */*\r\n\
             Accept-Encoding: identity\r\nConnection: close\r\n\r\n",
            url.path,
            url.authority()
        );
        stream.write_all(request.as_bytes())?;
        stream.flush()?;
        read_head(BufReader::new(stream), method)
    }

    fn connect(&self, url: &Url, verify: bool) -> Result<Box<dyn Stream>, FetchError> {
        let Url { host, port, .. } = url;
        let address = self.look_up(host, *port).ok_or(FetchError::UnknownHost(host.clone()))?;
        let failed = |source| FetchError::Connect { host: host.clone(), port: *port, source };
        let socket = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        if url.tls { tls::connect(socket, host, &self.roots, verify) } else { Ok(Box::new(socket)) }
    }

    fn look_up(&self, host: &str, port: u16) -> Option<SocketAddr> {
        if let Some(address) = self.reach.get(&format!("{host}:{port}")) {
            return Some(*address);
        }
        if host == "localhost" {
            return Some(SocketAddr::from(([127, 0, 0, 1], port)));
        }
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().ok()?;
        address.is_loopback().then(|| SocketAddr::new(address, port))
    }
}

/// A connection, with or without TLS.
pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

fn read_head(
    mut stream: BufReader<Box<dyn Stream>>,
    method: Method,
) -> Result<Response, FetchError> {
    let broken = |text: &str| FetchError::Broken(io::Error::new(io::ErrorKind::InvalidData, text));
    let mut head = stream.by_ref().take(LONGEST_HEAD);
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
            return Err(broken("the head does not end"));
        }
        match line.trim_end_matches(['\r', '\n']).split_once(':') {
            Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
            None if line.trim_end().is_empty() => break,
            None => return Err(broken("not a header")),
        }
    }
    let value = |name: &str| {
        headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let chunked = value("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked"));
    let length = value("content-length").map(|value| value.parse());
    let body = match (method, chunked, length) {
        (Method::Head, ..) => Body::of_length(stream, 0),
        (_, true, _) => Body::chunked(stream),
        (_, false, Some(Ok(length))) => Body::of_length(stream, length),
        (_, false, Some(Err(_))) => return Err(broken("not a length")),
        (_, false, None) => Body::until_end(stream),
    };
    Ok(Response { status, reason, headers, body })
}

#[cfg(test)]
mod tests;
