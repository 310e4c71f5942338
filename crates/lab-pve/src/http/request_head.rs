//! HTTP request head: request line and headers, with the limits of `pveproxy`.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use super::buffered_stream::{BufferedStream, ConnectionLost};
use super::response::HttpResponse;

/// Maximum number of header lines, including the final empty line.
const MAX_LINES: usize = 64;
const MAX_BYTES: usize = 8 * 1024;
/// Maximum length of the request line in bytes. The query in this line may contain parameters.
const MAX_REQUEST_LINE: usize = 512 * 1024;

/// Request line and headers of an HTTP request.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) method: String,
    /// Request target: path and query as the client sent them.
    pub(super) target: String,
    /// Minor HTTP version: 1 for HTTP/1.1.
    pub(super) minor: u8,
    headers: Vec<(String, String)>,
}

/// Reason why no request head could be read.
#[derive(Debug)]
pub(super) enum HeadError {
    /// Send this response to the client.
    Rejected(HttpResponse),
    ConnectionLost(ConnectionLost),
}

impl From<ConnectionLost> for HeadError {
    fn from(lost: ConnectionLost) -> Self {
        Self::ConnectionLost(lost)
    }
}

impl Head {
    pub(super) async fn read<S>(
        stream: &mut BufferedStream<S>,
        timeout: Duration,
    ) -> Result<Self, HeadError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut line = stream.line(MAX_REQUEST_LINE, timeout).await?;
        while line.is_empty() {
            line = stream.line(MAX_REQUEST_LINE, timeout).await?;
        }
        let mut head = Self::parse_request_line(&line).map_err(HeadError::Rejected)?;
        let (mut lines, mut bytes) = (0, 0);
        loop {
            let line = stream.line(MAX_BYTES, timeout).await?;
            lines += 1;
            bytes += line.len();
            if lines >= MAX_LINES || bytes >= MAX_BYTES {
                // As in `pveproxy`, the connection is closed without a response.
                return Err(HeadError::ConnectionLost(ConnectionLost::LimitExceeded));
            }
            if line.is_empty() {
                return Ok(head);
            }
            head.push(&line).map_err(HeadError::Rejected)?;
        }
    }

    fn parse_request_line(line: &str) -> Result<Self, HttpResponse> {
        let bad = || HttpResponse::error(400, "bad request");
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        let (Some(method), Some(target), Some(protocol), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(bad());
        };
        let version = protocol.strip_prefix("HTTP/").ok_or_else(bad)?;
        let (major, minor) = version.split_once('.').ok_or_else(bad)?;
        let (major, minor) = (major.parse::<u8>().ok(), minor.parse::<u8>().ok());
        let (Some(major), Some(minor)) = (major, minor) else { return Err(bad()) };
        if major != 1 {
            let text = format!("http protocol version {major}.{minor} not supported");
            return Err(HttpResponse::error(506, &text));
        }
        if target.split('/').next().is_some_and(|authority| authority.contains('@')) {
            return Err(HttpResponse::error(400, "invalid url"));
        }
        Ok(Self {
            method: method.to_owned(),
            target: target.to_owned(),
            minor,
            headers: Vec::with_capacity(8),
        })
    }

    fn push(&mut self, line: &str) -> Result<(), HttpResponse> {
        if line.starts_with([' ', '\t'])
            && let Some((_, value)) = self.headers.last_mut()
        {
            // Continuation line of a folded header.
            value.push(' ');
            value.push_str(line.trim_start());
            return Ok(());
        }
        match line.split_once(':') {
            Some((name, value))
                if !name.trim_end().is_empty() && !name.starts_with([' ', '\t']) =>
            {
                self.headers.push((name.trim_end().to_owned(), value.trim_start().to_owned()));
                Ok(())
            }
            _ => Err(HttpResponse::error(506, "unable to parse request header")),
        }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Length of the body in bytes; `None` if `Content-Length` is invalid or repeated.
    pub(super) fn body_length(&self) -> Option<u64> {
        let mut given =
            self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("Content-Length"));
        match (given.next(), given.next()) {
            (None, _) => Some(0),
            (Some((_, length)), None) => length.trim().parse().ok(),
            (Some(_), Some(_)) => None,
        }
    }

    /// Content type and, for multipart forms, the boundary.
    pub(super) fn content_type(&self) -> Option<(&str, Option<&str>)> {
        let mut parts = self.header("Content-Type")?.split([';', ',']).map(str::trim);
        let kind = parts.next()?;
        let boundary = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            (name.trim_end() == "boundary").then(|| value.trim())
        });
        Some((kind, boundary))
    }

    /// Whether the connection must be closed after the response: the client sent `Connection: close`, or uses HTTP/1.0 without
    /// the header `Connection`.
    pub(super) fn wants_close(&self) -> bool {
        match self.header("Connection") {
            Some(value) => value.to_ascii_lowercase().contains("close"),
            None => self.minor < 1,
        }
    }

    /// Path and query of the request target. If the target is an absolute URL, its host is ignored.
    pub(super) fn path_and_query(&self) -> (&str, &str) {
        let target = match self.target.split_once("://") {
            Some((scheme, rest)) if !scheme.contains('/') => {
                rest.find('/').map_or("/", |at| &rest[at..])
            }
            _ => &self.target,
        };
        let target = target.split('#').next().unwrap_or_default();
        target.split_once('?').unwrap_or((target, ""))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Head, HeadError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut stream = BufferedStream::new(Cursor::new(bytes.to_vec()));
        runtime.block_on(Head::read(&mut stream, Duration::from_secs(1)))
    }

    #[test]
    fn header_names_are_case_insensitive_and_lines_can_be_folded() {
        let head = read(b"\r\nPUT /a?b#c HTTP/1.0\nhost: x\nX-Long : a\n  b\n\n").unwrap();
        assert_eq!(head.header("Host"), Some("x"));
        assert_eq!(head.header("x-long"), Some("a b"));
        assert_eq!((head.path_and_query(), head.minor), (("/a", "b"), 0));
        assert!(head.wants_close());
    }

    #[test]
    fn boundary_is_found_among_content_type_parameters() {
        let text = "POST / HTTP/1.1\r\nContent-Type: a/b ; charset=x; boundary = xyz\r\n\r\n";
        assert_eq!(read(text.as_bytes()).unwrap().content_type(), Some(("a/b", Some("xyz"))));
    }

    #[test]
    fn invalid_content_length_is_rejected() {
        let length = |lines: &str| {
            read(format!("POST / HTTP/1.1\r\n{lines}\r\n").as_bytes()).unwrap().body_length()
        };
        assert_eq!(length(""), Some(0));
        assert_eq!(length("Content-Length: 12\r\n"), Some(12));
        for unclear in ["-1", "1, 1", "0x1", "", "99999999999999999999"] {
            assert_eq!(length(&format!("Content-Length: {unclear}\r\n")), None, "{unclear}");
        }
        assert_eq!(length("Content-Length: 1\r\ncontent-length: 1\r\n"), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            read(&bytes).ok();
        }

        #[test]
        fn http_like_text_does_not_panic(text in "(GET|PUT|[ :/?#@%]|HTTP/1.1|\r|\n|[a-z]){0,60}\n\n") {
            if let Ok(head) = read(text.as_bytes()) {
                let (path, query) = head.path_and_query();
                super::super::url_encoding::unescape(path);
                super::super::url_encoding::form(query);
                head.content_type();
                head.body_length();
            }
        }
    }
}
