//! HTTP answers of the Image Factory, before they are encoded.

use hyper::body::Bytes;
use serde::Serialize;

const TEXT: &str = "text/plain; charset=utf-8";

#[derive(Clone, Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Bytes,
}

impl HttpAnswer {
    pub(super) fn new(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let headers = vec![("Content-Type", content_type.to_owned())];
        Self { status, headers, body: body.into() }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Error answer: one line of plain text.
    pub(super) fn error(status: u16, text: &str) -> Self {
        Self::new(status, TEXT, format!("{text}\n")).with("X-Content-Type-Options", "nosniff")
    }

    /// Internal error. The Image Factory does not reveal its cause.
    pub(super) fn internal() -> Self {
        Self::error(500, "internal server error")
    }

    pub(super) fn not_found() -> Self {
        Self::error(404, "404 page not found")
    }

    pub(super) fn method_not_allowed() -> Self {
        Self::error(405, "Method Not Allowed")
    }

    pub(super) fn json(status: u16, content_type: &str, value: &impl Serialize) -> Self {
        match serde_json::to_string(value) {
            Ok(json) => Self::new(status, content_type, json + "\n"),
            Err(_) => Self::internal(),
        }
    }

    /// Answer with a list. The Image Factory sets no content type for lists, so they are plain text.
    pub(super) fn list(value: &impl Serialize) -> Self {
        Self::json(200, TEXT, value)
    }
}
