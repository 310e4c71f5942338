//! Log of the requests to the simulated API: one JSON line for each request, without secrets. The log can contain the responses
//! as well.

mod redact;

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value as Json, json};
use talmox_clock::{Clock, Moment};

use super::http::Params;

/// Writer of the request log.
#[derive(Debug)]
pub struct RequestLog {
    file: Mutex<File>,
    /// Whether the log contains complete responses, and not only their status.
    has_answers: bool,
}

/// Response as sent to the client, before compression.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoggedResponse<'a> {
    pub(crate) status: u16,
    pub(crate) reason: &'a str,
    pub(crate) body: &'a [u8],
}

/// Log entry of a request that is being answered.
#[derive(Debug)]
pub(crate) struct LogEntry {
    clock: Clock,
    started: Moment,
    time: f64,
    method: String,
    pub(crate) path: String,
    pub(crate) params: Params,
}

impl RequestLog {
    /// Opens the log file for appending. Only the owner of the file may read it.
    pub fn open(path: &Path, has_answers: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self { file: Mutex::new(options.open(path)?), has_answers })
    }

    /// Writes one line. `answered` is `None` if the connection was closed without an answer.
    pub(crate) fn write(&self, entry: LogEntry, answered: Option<LoggedResponse<'_>>) {
        let took = entry.clock.moment().since(entry.started);
        let mut line = json!({
            "time": entry.time,
            "method": entry.method,
            "path": redact::path(&entry.path),
            "params": redact::params(entry.params),
            "status": answered.map(|answered| answered.status),
            "ms": took.as_millis(),
        });
        if let Some(LoggedResponse { reason, body, .. }) = answered.filter(|_| self.has_answers) {
            line["reason"] = Json::from(redact::text(reason));
            line["answer"] = redact::body(body);
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // An error is ignored, because the lab must continue even if the disk is full.
        file.write_all(format!("{line}\n").as_bytes()).ok();
    }
}

impl LogEntry {
    pub(crate) fn begin(clock: &Clock, method: &str) -> Self {
        Self {
            clock: *clock,
            started: clock.moment(),
            time: clock.since_epoch().as_secs_f64(),
            method: method.to_owned(),
            path: String::new(),
            params: Params::new(),
        }
    }
}
