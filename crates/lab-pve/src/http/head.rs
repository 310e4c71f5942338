//! What stands before the body: the request line and the header lines, with the limits of pveproxy.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use super::answer::Answer;
use super::wire::{Lost, Wire};

/// Header lines, the empty one at their end among them.
const MAX_LINES: usize = 64;
const MAX_BYTES: usize = 8 * 1024;
/// The longest request line: parameters may stand in its query.
const MAX_REQUEST_LINE: usize = 512 * 1024;

#[derive(Debug)]
pub(super) struct Head {
    pub(super) method: String,
    /// As it was sent: path and query.
    pub(super) target: String,
    /// The 1 of HTTP/1.1.
    pub(super) minor: u8,
    headers: Vec<(String, String)>,
}

/// Why there is no head.
#[derive(Debug)]
pub(super) enum NoHead {
    /// The client is told.
    Refused(Answer),
    Lost(Lost),
}

impl From<Lost> for NoHead {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

impl Head {
    pub(super) async fn read<S>(wire: &mut Wire<S>, patience: Duration) -> Result<Self, NoHead>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut line = wire.line(MAX_REQUEST_LINE, patience).await?;
        while line.is_empty() {
            line = wire.line(MAX_REQUEST_LINE, patience).await?;
        }
        let mut head = Self::of_request_line(&line).map_err(NoHead::Refused)?;
        let (mut lines, mut bytes) = (0, 0);
        loop {
            let line = wire.line(MAX_BYTES, patience).await?;
            lines += 1;
            bytes += line.len();
            if lines >= MAX_LINES || bytes >= MAX_BYTES {
                // pveproxy gives no answer to these, it hangs up.
                return Err(NoHead::Lost(Lost::TooMuch));
            }
            if line.is_empty() {
                return Ok(head);
            }
            head.push(&line).map_err(NoHead::Refused)?;
        }
    }

    fn of_request_line(line: &str) -> Result<Self, Answer> {
        let bad = || Answer::error(400, "bad request");
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
            return Err(Answer::error(506, &text));
        }
        if target.split('/').next().is_some_and(|authority| authority.contains('@')) {
            return Err(Answer::error(400, "invalid url"));
        }
        Ok(Self {
            method: method.to_owned(),
            target: target.to_owned(),
            minor,
            headers: Vec::with_capacity(8),
        })
    }

    fn push(&mut self, line: &str) -> Result<(), Answer> {
        if line.starts_with([' ', '\t'])
            && let Some((_, value)) = self.headers.last_mut()
        {
            // A long line, folded.
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
            _ => Err(Answer::error(506, "unable to parse request header")),
        }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// How many bytes follow; `None` when the client is not clear about it.
    pub(super) fn body_length(&self) -> Option<u64> {
        let mut given =
            self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("Content-Length"));
        match (given.next(), given.next()) {
            (None, _) => Some(0),
            (Some((_, length)), None) => length.trim().parse().ok(),
            (Some(_), Some(_)) => None,
        }
    }

    /// Content type and, for forms with files, the boundary.
    pub(super) fn content_type(&self) -> Option<(&str, Option<&str>)> {
        let mut parts = self.header("Content-Type")?.split([';', ',']).map(str::trim);
        let kind = parts.next()?;
        let boundary = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            (name.trim_end() == "boundary").then(|| value.trim())
        });
        Some((kind, boundary))
    }

    /// The client asked that the connection be closed after the answer, or is too old to keep it.
    pub(super) fn wants_close(&self) -> bool {
        match self.header("Connection") {
            Some(value) => value.to_ascii_lowercase().contains("close"),
            None => self.minor < 1,
        }
    }

    /// Path and query, apart. Proxies send whole addresses: the host in them is left out.
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

    fn read(bytes: &[u8]) -> Result<Head, NoHead> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut wire = Wire::new(Cursor::new(bytes.to_vec()));
        runtime.block_on(Head::read(&mut wire, Duration::from_secs(1)))
    }

    #[test]
    fn names_have_no_case_and_long_lines_are_folded() {
        let head = read(b"\r\nPUT /a?b#c HTTP/1.0\nhost: x\nX-Long : a\n  b\n\n").unwrap();
        assert_eq!(head.header("Host"), Some("x"));
        assert_eq!(head.header("x-long"), Some("a b"));
        assert_eq!((head.path_and_query(), head.minor), (("/a", "b"), 0));
        assert!(head.wants_close());
    }

    #[test]
    fn content_types_have_boundaries_somewhere() {
        let text = "POST / HTTP/1.1\r\nContent-Type: a/b ; charset=x; boundary = xyz\r\n\r\n";
        assert_eq!(read(text.as_bytes()).unwrap().content_type(), Some(("a/b", Some("xyz"))));
    }

    #[test]
    fn lengths_must_be_clear() {
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
        fn nonsense_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            read(&bytes).ok();
        }

        #[test]
        fn what_looks_like_http_never_panics(text in "(GET|PUT|[ :/?#@%]|HTTP/1.1|\r|\n|[a-z]){0,60}\n\n") {
            if let Ok(head) = read(text.as_bytes()) {
                let (path, query) = head.path_and_query();
                super::super::text::unescape(path);
                super::super::text::form(query);
                head.content_type();
                head.body_length();
            }
        }
    }
}
