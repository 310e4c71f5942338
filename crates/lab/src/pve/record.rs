//! What was asked and answered, one JSON line each. Secrets never get this far.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value as Json, json};
use talmox_clock::{Clock, Moment};

use super::http::Params;

/// Parameters whose values are secret, wherever they occur. Those of the Authorization header and of
/// cookies are not parameters and never come here.
const SECRET: [&str; 11] = [
    "PVEAuthCookie",
    "password",
    "cipassword",
    "confirmation-password",
    "otp",
    "tfa-challenge",
    "vncticket",
    "ticket",
    "token",
    "secret",
    "value",
];

/// Writes down requests and answers.
#[derive(Debug)]
pub(crate) struct Recorder(Mutex<File>);

/// One request while it is being answered.
#[derive(Debug)]
pub(crate) struct Entry {
    clock: Clock,
    begun: Moment,
    time: f64,
    method: String,
    pub(crate) path: String,
    pub(crate) params: Params,
}

impl Recorder {
    /// Adds to the file, which only its owner may read.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self(Mutex::new(options.open(path)?)))
    }

    /// `status` is missing when the connection was cut.
    pub(crate) fn write(&self, entry: Entry, status: Option<u16>) {
        let took = entry.clock.moment().since(entry.begun);
        let line = json!({
            "time": entry.time,
            "method": entry.method,
            "path": redact_path(&entry.path),
            "params": redact(entry.params),
            "status": status,
            "ms": took.as_millis(),
        });
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not stop the lab.
        file.write_all(format!("{line}\n").as_bytes()).ok();
    }
}

impl Entry {
    pub(crate) fn begin(clock: &Clock, method: &str) -> Self {
        Self {
            clock: *clock,
            begun: clock.moment(),
            time: clock.since_epoch().as_secs_f64(),
            method: method.to_owned(),
            path: String::new(),
            params: Params::new(),
        }
    }
}

fn redact(params: Params) -> Json {
    let redacted = params.into_iter().map(|(name, value)| {
        let is_secret = SECRET.iter().any(|secret| name.eq_ignore_ascii_case(secret));
        let value = match value {
            Json::Null => Json::Null,
            _ if is_secret => Json::from("<redacted>"),
            Json::String(text) if name == "url" => Json::from(redact_url(&text)),
            value => value,
        };
        (name, value)
    });
    Json::Object(redacted.collect())
}

/// Addresses may carry passwords and signatures: before the host, and behind the question mark.
fn redact_url(url: &str) -> String {
    let (url, query) = url.split_once('?').map_or((url, ""), |(url, _)| (url, "?<redacted>"));
    let Some((scheme, rest)) = url.split_once("://") else { return format!("{url}{query}") };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority
        .rsplit_once('@')
        .map_or(authority.to_owned(), |(_, host)| format!("<redacted>@{host}"));
    format!("{scheme}://{host}{path}{query}")
}

/// Somebody may put a ticket or a token's secret into a path by mistake.
fn redact_path(path: &str) -> String {
    match ["PVE:", "PVEAPIToken"].iter().filter_map(|mark| path.find(mark)).min() {
        Some(at) => format!("{}<redacted>", &path[..at]),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_their_passwords_and_signatures() {
        let cases = [
            ("http://me:pass@host:80/a/b?token=x", "http://<redacted>@host:80/a/b?<redacted>"),
            ("https://host/a@b", "https://host/a@b"),
            ("https://host", "https://host"),
            ("nonsense?x", "nonsense?<redacted>"),
        ];
        for (url, shown) in cases {
            assert_eq!(redact_url(url), shown);
        }
    }

    #[test]
    fn secret_parameters_are_not_shown_however_they_are_spelled() {
        let params = [("pveauthcookie", "PVE:x"), ("cipassword", "x"), ("name", "x")];
        let params = params.map(|(name, value)| (name.to_owned(), Json::from(value)));
        let shown = redact(params.into_iter().collect());
        assert_eq!(shown["pveauthcookie"], "<redacted>");
        assert_eq!(shown["cipassword"], "<redacted>");
        assert_eq!(shown["name"], "x");
    }
}
