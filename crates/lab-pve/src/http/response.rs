//! HTTP responses and their serialization.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use serde_json::{Map, Value as Json, json};

use super::url_encoding;
use crate::ApiError;
use crate::call::{Outcome, Reply};
use crate::request_log::LoggedResponse;

const JSON: &str = "application/json;charset=UTF-8";
/// Body length in bytes above which the body is compressed, if the client accepts compression.
const COMPRESS_ABOVE: usize = 1024;

/// HTTP response before serialization.
#[derive(Clone, Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    /// Reason phrase of the status line; empty for the standard phrase of the status.
    pub(super) reason: String,
    content_type: Option<&'static str>,
    location: Option<String>,
    body: Vec<u8>,
}

/// Output format in the request path (`/api2/json`, `/api2/extjs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    Json,
    /// Format of the web interface: the status is always 200, and the body contains `success`.
    Extjs,
}

/// Content encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Plain,
    Gzip,
    Deflate,
}

/// Properties of the connection that determine the response headers.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseOptions {
    pub(super) minor: u8,
    pub(super) keep: bool,
    pub(super) encoding: Encoding,
    pub(super) now: u64,
}

impl OutputFormat {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "extjs" => Some(Self::Extjs),
            _ => None,
        }
    }
}

impl HttpResponse {
    /// Error of the HTTP server itself. The text is both the reason phrase and the body.
    ///
    /// A reason phrase cannot contain a carriage return. If the first line of the text contains one, `pveproxy` answers 400
    /// without a text.
    pub(super) fn error(status: u16, text: &str) -> Self {
        if text.split('\n').next().is_some_and(|line| line.contains('\r')) {
            return Self::without_body(400, "");
        }
        Self { body: text.as_bytes().to_vec(), ..Self::without_body(status, text) }
    }

    /// Response without a body, for failed authentication and for a host that does not answer.
    pub(super) fn without_body(status: u16, reason: &str) -> Self {
        let reason = reason.to_owned();
        Self { status, reason, content_type: None, location: None, body: Vec::new() }
    }

    pub(super) fn redirect(status: u16, reason: &str, location: String) -> Self {
        Self { location: Some(location), ..Self::error(status, reason) }
    }

    pub(super) fn page(html: &str) -> Self {
        let body = html.as_bytes().to_vec();
        Self { content_type: Some("text/html"), body, ..Self::without_body(200, "") }
    }

    pub(super) fn of(outcome: Outcome, format: OutputFormat) -> Self {
        let (data, total, error) = match outcome {
            Ok(Reply::Data(data)) => (data, None, None),
            Ok(Reply::Page { data, total }) => (data, Some(total), None),
            // The response about an unreachable host has no body.
            Err(error) if error.status >= 590 => {
                return Self::without_body(error.status, &error.message);
            }
            Err(error) => (Json::Null, None, Some(error)),
        };
        let mut body = Map::new();
        body.insert("data".to_owned(), data);
        if let Some(total) = total.filter(|total| *total > 0) {
            body.insert("total".to_owned(), json!(total));
        }
        let success = error.is_none();
        let (mut status, mut reason) = (200, String::new());
        if let Some(ApiError { status: rejected, message, errors }) = error {
            // Proxmox ends each message with a newline. The message of status 501 has none, because the HTTP server generates
            // it.
            let end = if rejected == 501 { "" } else { "\n" };
            body.insert("message".to_owned(), json!(format!("{message}{end}")));
            if !errors.is_empty() {
                body.insert("errors".to_owned(), json!(errors));
            }
            match format {
                OutputFormat::Json => (status, reason) = (rejected, message),
                OutputFormat::Extjs => {
                    body.insert("status".to_owned(), json!(rejected));
                }
            }
        }
        if format == OutputFormat::Extjs {
            body.insert("success".to_owned(), json!(u8::from(success)));
        }
        let body = Json::Object(body).to_string().into_bytes();
        Self { content_type: Some(JSON), body, ..Self::without_body(status, &reason) }
    }

    /// Part of the response that the request log contains.
    pub(super) fn for_log(&self) -> LoggedResponse<'_> {
        let reason = match self.reason.lines().next().unwrap_or_default() {
            "" => standard_reason(self.status),
            first => first,
        };
        LoggedResponse { status: self.status, reason, body: &self.body }
    }

    pub(super) fn is_error(&self) -> bool {
        self.status >= 400
    }

    pub(super) fn bytes(&self, options: ResponseOptions) -> Vec<u8> {
        let (encoding, body) = self.encoded(options.encoding);
        let date = url_encoding::date(options.now);
        let mut bytes = Vec::with_capacity(body.len() + 320);
        let mut line = |text: std::fmt::Arguments<'_>| {
            // Writing to a `Vec` cannot fail.
            write!(bytes, "{text}\r\n").ok();
        };
        line(format_args!("HTTP/1.{} {} {}", options.minor, self.status, self.reason_line()));
        line(format_args!("Cache-Control: max-age=0"));
        line(format_args!("Connection: {}", if options.keep { "Keep-Alive" } else { "close" }));
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

    /// First line of the reason phrase. More lines would end the status line early.
    fn reason_line(&self) -> String {
        let first = self.reason.lines().next().unwrap_or_default();
        if first.is_empty() {
            return standard_reason(self.status).to_owned();
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

fn standard_reason(status: u16) -> &'static str {
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
