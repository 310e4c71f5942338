//! Minimal HTTP/1.1 client. It has one connection at a time, and keeps answers in memory.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::Value as Json;

type Stream = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// Timeout for reading the lab's answers.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) struct Client {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    open: Option<Stream>,
}

/// Credentials of a request.
#[derive(Clone, Debug)]
pub(crate) enum Identity {
    Token { id: String, secret: String },
    Ticket { ticket: String, csrf: String },
    Anonymous,
}

pub(crate) struct Request<'r> {
    pub(crate) method: &'r str,
    /// Percent-encoded path below `/api2/json`, with its query.
    pub(crate) target: &'r str,
    pub(crate) content_type: &'r str,
    pub(crate) length: u64,
    pub(crate) body: &'r mut dyn Read,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) body: Json,
}

impl Answer {
    /// Text of an error, from the body. If the body has no message, it is the reason phrase.
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or(&self.reason)
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr, tls: Arc<ClientConfig>) -> Self {
        Self { address, tls, open: None }
    }

    /// Sends a request. The method determines whether the parameters are in the query or in the body.
    pub(crate) fn call(
        &mut self,
        who: &Identity,
        method: &str,
        path: &str,
        params: &[(String, String)],
    ) -> io::Result<Answer> {
        let form = encode(params);
        let in_query = matches!(method, "GET" | "DELETE");
        let target =
            if in_query && !form.is_empty() { format!("{path}?{form}") } else { path.to_owned() };
        let body = if in_query { "" } else { form.as_str() };
        let request = |body| Request {
            method,
            target: &target,
            content_type: "application/x-www-form-urlencoded",
            length: u64::try_from(form.len()).unwrap_or_default() * u64::from(!in_query),
            body,
        };
        let kept = self.open.is_some();
        match self.send(who, &mut request(&mut body.as_bytes())) {
            // The server may have closed the connection while it was idle, so the request is sent again.
            Err(error) if kept && is_closed(&error) => {
                self.send(who, &mut request(&mut body.as_bytes()))
            }
            other => other,
        }
    }

    pub(crate) fn send(&mut self, who: &Identity, request: &mut Request<'_>) -> io::Result<Answer> {
        let mut stream = match self.open.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        let mut head = format!(
            "{} /api2/json{} HTTP/1.1\r\nHost: {}\r\n",
            request.method, request.target, self.address
        );
        match who {
            Identity::Token { id, secret } => {
                head.push_str(&format!("Authorization: PVEAPIToken={id}={secret}\r\n"));
            }
            Identity::Ticket { ticket, csrf } => {
                let cookie = escape(ticket);
                head.push_str(&format!("Cookie: PVEAuthCookie={cookie}\r\n"));
                head.push_str(&format!("CSRFPreventionToken: {csrf}\r\n"));
            }
            Identity::Anonymous => {}
        }
        if matches!(request.method, "POST" | "PUT") {
            head.push_str(&format!("Content-Type: {}\r\n", request.content_type));
            head.push_str(&format!("Content-Length: {}\r\n", request.length));
        }
        head.push_str("\r\n");
        stream.get_mut().write_all(head.as_bytes())?;
        io::copy(request.body, stream.get_mut())?;
        stream.get_mut().flush()?;
        let (answer, keep) = read_answer(&mut stream)?;
        if keep {
            self.open = Some(stream);
        }
        Ok(answer)
    }

    fn connect(&self) -> io::Result<Stream> {
        let socket = TcpStream::connect(self.address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(READ_TIMEOUT))?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let session =
            ClientConnection::new(Arc::clone(&self.tls), name).map_err(io::Error::other)?;
        Ok(BufReader::new(StreamOwned::new(session, socket)))
    }
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// Reads the answer. Also returns whether the connection stays open.
fn read_answer(stream: &mut Stream) -> io::Result<(Answer, bool)> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut words = line.trim_end().splitn(3, ' ');
    let (_, status) = (words.next(), words.next());
    let status = status.and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("not HTTP: {line:?}")))?;
    let reason = words.next().unwrap_or_default().to_owned();
    let (mut length, mut keep) = (None, true);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok(),
            "connection" => keep = !value.trim().eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    let mut body = vec![];
    if let Some(length) = length {
        body.resize(length, 0);
        stream.read_exact(&mut body)?;
    } else {
        keep = false;
        stream.read_to_end(&mut body)?;
    }
    let body = serde_json::from_slice(&body).unwrap_or(Json::Null);
    Ok((Answer { status, reason, body }, keep))
}

pub(crate) fn encode(params: &[(String, String)]) -> String {
    let pairs = params.iter().map(|(key, value)| format!("{}={}", escape(key), escape(value)));
    pairs.collect::<Vec<_>>().join("&")
}

pub(crate) fn escape(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
