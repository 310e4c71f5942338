//! The record of requests, and where wanted of answers: one JSON line each, without secrets.

mod redact;

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value as Json, json};
use talmox_clock::{Clock, Moment};

use super::http::Params;

/// Writes down requests and answers.
#[derive(Debug)]
pub struct Recorder {
    file: Mutex<File>,
    /// Whether answers are written down whole, not their status alone.
    has_answers: bool,
}

/// An answer as the client got it, before it was compressed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered<'a> {
    pub(crate) status: u16,
    pub(crate) reason: &'a str,
    pub(crate) body: &'a [u8],
}

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
    pub fn open(path: &Path, has_answers: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self { file: Mutex::new(options.open(path)?), has_answers })
    }

    /// The answer is missing when the connection was cut.
    pub(crate) fn write(&self, entry: Entry, answered: Option<Answered<'_>>) {
        let took = entry.clock.moment().since(entry.begun);
        let mut line = json!({
            "time": entry.time,
            "method": entry.method,
            "path": redact::path(&entry.path),
            "params": redact::params(entry.params),
            "status": answered.map(|answered| answered.status),
            "ms": took.as_millis(),
        });
        if let Some(Answered { reason, body, .. }) = answered.filter(|_| self.has_answers) {
            line["reason"] = Json::from(redact::text(reason));
            line["answer"] = redact::body(body);
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
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
