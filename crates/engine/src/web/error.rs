use std::io;

/// Error of a web request. Addresses are shown without their secret parts.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    #[error("`{url}` is not the address of a file on the web")]
    BadUrl { url: String },
    #[error("the certificate of an authority is not valid")]
    BadAuthority,
    #[error("TLS cannot be set up")]
    Setup { source: io::Error },
    #[error("cannot connect for {url}")]
    Connect { url: String, source: io::Error },
    #[error("no trusted TLS connection for {url}")]
    Tls { url: String, source: io::Error },
    #[error("the connection broke at {url}")]
    Broken { url: String, source: io::Error },
    #[error("no answer came in time for {url}")]
    Silent { url: String },
    #[error("{url} answered with status {status}: {text}")]
    Status { url: String, status: u16, text: String },
    #[error("{url} redirects too often")]
    TooManyRedirects { url: String },
    #[error("the answer of {url} is too long")]
    TooLong { url: String },
    #[error("the answer of {url} is not valid: {what}")]
    Unreadable { url: String, what: String },
}

impl WebError {
    /// Whether a retry may succeed.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Broken { .. } | Self::Silent { .. } => true,
            Self::Status { status, .. } => matches!(status, 429 | 502 | 503 | 504),
            _ => false,
        }
    }
}
