//! An answer, and how it looks on the wire.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use serde_json::{Map, Value as Json, json};

use super::text;
use crate::Refusal;
use crate::call::{Outcome, Reply};
use crate::record::Answered;

const JSON: &str = "application/json;charset=UTF-8";
/// Longer bodies are compressed for those who take it.
const COMPRESS_ABOVE: usize = 1024;

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The text behind the status; empty for the usual one.
    pub(super) reason: String,
    content_type: Option<&'static str>,
    location: Option<String>,
    body: Vec<u8>,
}

/// How the client wants its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    /// For the web interface: always 200, success or not is said in the body.
    Extjs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Plain,
    Gzip,
    Deflate,
}

/// What of the connection an answer must tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) minor: u8,
    pub(super) keep: bool,
    pub(super) encoding: Encoding,
    pub(super) now: u64,
}

impl Format {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "extjs" => Some(Self::Extjs),
            _ => None,
        }
    }
}

impl Answer {
    /// What the server itself says, before the API is asked: the text is the body too.
    ///
    /// A text whose first line ends with a carriage return cannot be a reason: pveproxy answers 400 then, and says
    /// nothing.
    pub(super) fn error(status: u16, text: &str) -> Self {
        if text.split('\n').next().is_some_and(|line| line.contains('\r')) {
            return Self::bare(400, "");
        }
        Self { body: text.as_bytes().to_vec(), ..Self::bare(status, text) }
    }

    /// Nothing but a status line: who is not let in, and what another host did not answer.
    pub(super) fn bare(status: u16, reason: &str) -> Self {
        let reason = reason.to_owned();
        Self { status, reason, content_type: None, location: None, body: Vec::new() }
    }

    pub(super) fn redirect(status: u16, reason: &str, location: String) -> Self {
        Self { location: Some(location), ..Self::error(status, reason) }
    }

    pub(super) fn page(html: &str) -> Self {
        let body = html.as_bytes().to_vec();
        Self { content_type: Some("text/html"), body, ..Self::bare(200, "") }
    }

    pub(super) fn of(outcome: Outcome, format: Format) -> Self {
        let (data, total, refusal) = match outcome {
            Ok(Reply::Data(data)) => (data, None, None),
            Ok(Reply::Page { data, total }) => (data, Some(total), None),
            // The answer of a host that cannot be reached has no body.
            Err(refusal) if refusal.status >= 590 => {
                return Self::bare(refusal.status, &refusal.message);
            }
            Err(refusal) => (Json::Null, None, Some(refusal)),
        };
        let mut body = Map::new();
        body.insert("data".to_owned(), data);
        if let Some(total) = total.filter(|total| *total > 0) {
            body.insert("total".to_owned(), json!(total));
        }
        let success = refusal.is_none();
        let (mut status, mut reason) = (200, String::new());
        if let Some(Refusal { status: refused, message, errors }) = refusal {
            // 501 is said by the server, all else by code that ends its lines.
            let end = if refused == 501 { "" } else { "\n" };
            body.insert("message".to_owned(), json!(format!("{message}{end}")));
            if !errors.is_empty() {
                body.insert("errors".to_owned(), json!(errors));
            }
            match format {
                Format::Json => (status, reason) = (refused, message),
                Format::Extjs => {
                    body.insert("status".to_owned(), json!(refused));
                }
            }
        }
        if format == Format::Extjs {
            body.insert("success".to_owned(), json!(u8::from(success)));
        }
        let body = Json::Object(body).to_string().into_bytes();
        Self { content_type: Some(JSON), body, ..Self::bare(status, &reason) }
    }

    /// What a record keeps of it.
    pub(super) fn as_recorded(&self) -> Answered<'_> {
        let reason = match self.reason.lines().next().unwrap_or_default() {
            "" => usual_reason(self.status),
            first => first,
        };
        Answered { status: self.status, reason, body: &self.body }
    }

    pub(super) fn is_refusal(&self) -> bool {
        self.status >= 400
    }

    pub(super) fn bytes(&self, manner: Manner) -> Vec<u8> {
        let (encoding, body) = self.encoded(manner.encoding);
        let date = text::date(manner.now);
        let mut bytes = Vec::with_capacity(body.len() + 320);
        let mut line = |text: std::fmt::Arguments<'_>| {
            // Writing to memory does not fail.
            write!(bytes, "{text}\r\n").ok();
        };
        line(format_args!("HTTP/1.{} {} {}", manner.minor, self.status, self.reason_line()));
        line(format_args!("Cache-Control: max-age=0"));
        line(format_args!("Connection: {}", if manner.keep { "Keep-Alive" } else { "close" }));
        line(format_args!("Date: {date}"));
        line(format_args!("Pragma: no-cache"));
        if let Some(location) = &self.location {
            line(format_args!("Location: {location}"));
        }
        line(format_args!("Server: pve-api-daemon/3.0"));
        match encoding {
            Encoding::Plain => {}
            Encoding::Gzip => line(format_args!("Content-Encoding: gzip")),
            Encoding::Deflate => line(format_args!("Content-Encoding: deflate")),
        }
        if !body.is_empty() {
            line(format_args!("Content-Length: {}", body.len()));
        }
        if let Some(content_type) = self.content_type {
            line(format_args!("Content-Type: {content_type}"));
        }
        line(format_args!("Expires: {date}"));
        line(format_args!(""));
        bytes.extend_from_slice(&body);
        bytes
    }

    /// The first line of the text; nothing that would end the status line early.
    fn reason_line(&self) -> String {
        let first = self.reason.lines().next().unwrap_or_default();
        if first.is_empty() {
            return usual_reason(self.status).to_owned();
        }
        first.replace(|letter: char| letter.is_control(), " ")
    }

    fn encoded(&self, wanted: Encoding) -> (Encoding, std::borrow::Cow<'_, [u8]>) {
        let compressed = match wanted {
            _ if self.body.len() <= COMPRESS_ABOVE => None,
            Encoding::Plain => None,
            Encoding::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(&self.body).and_then(|()| encoder.finish()).ok()
            }
            Encoding::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(&self.body).and_then(|()| encoder.finish()).ok()
            }
        };
        match compressed {
            Some(body) => (wanted, body.into()),
            None => (Encoding::Plain, (&*self.body).into()),
        }
    }
}

fn usual_reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        _ => "Error",
    }
}
