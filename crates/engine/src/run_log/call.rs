//! API calls in the log of a run, between its events: `{"time": …, "what": {"event": "api_call", …}}`.
//!
//! A separate thread writes the calls, so that a slow disk delays no step and no renewal of a lock. Calls that do not fit
//! into the queue of the thread are counted, and the count is written. Closing the log waits until all calls are in the file.
//! A run that is killed loses only its last calls.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};

/// Length of the queue. A run makes at most some hundred calls in a second.
const QUEUE: usize = 4096;

/// One API call, without parameters, headers and body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApiCall {
    /// Start time in seconds since 1970, on the clock of the events.
    #[serde(skip)]
    pub time: f64,
    /// API of the call: `pve`, `talos`, `kube` or `web`.
    pub api: String,
    /// Method and path, or operation and node.
    pub object: String,
    pub seconds: f64,
    /// The status of the answer, or the reason why there was no answer.
    pub outcome: String,
    pub retries: u64,
    /// The step that made the call. None for a call outside of a step.
    pub step: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct CallLine {
    time: f64,
    what: CallEvent,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum CallEvent {
    ApiCall(ApiCall),
    /// Calls that were made and are not in the log.
    ApiCallsLost {
        count: u64,
    },
}

/// Text that all lines with API calls contain.
const MARK: &str = "\"what\":{\"event\":\"api_call";

pub(super) fn is_call(line: &str) -> bool {
    line.contains(MARK)
}

/// Writer of the API calls of a run. Dropping the writer waits until all calls are in the file.
#[derive(Debug)]
pub struct CallLog {
    queue: Option<SyncSender<ApiCall>>,
    lost: Arc<AtomicU64>,
    writer: Option<JoinHandle<()>>,
}

impl CallLog {
    pub(super) fn begin(file: File) -> io::Result<Self> {
        Self::with_queue(file, QUEUE)
    }

    fn with_queue(file: File, length: usize) -> io::Result<Self> {
        let (queue, calls) = sync_channel(length);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        let named = thread::Builder::new().name("call-log".to_owned());
        let writer = named.spawn(move || write_all(file, &calls, &counted))?;
        Ok(Self { queue: Some(queue), lost, writer: Some(writer) })
    }

    /// Puts a call into the queue, without waiting. If the queue is full, the call is only counted.
    pub fn write(&self, call: ApiCall) {
        let Some(queue) = &self.queue else { return };
        // The writer thread ends early only if it cannot write to the file. Writing the events has reported that problem.
        if let Err(TrySendError::Full(_)) = queue.try_send(call) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts calls that were made and are not in the log.
    pub fn count_lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }
}

impl Drop for CallLog {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take() {
            // A writer thread that panicked cannot write any more.
            writer.join().ok();
        }
    }
}

/// Writes calls until the queue is closed, or until a write fails, for example because the disk is full.
fn write_all(mut file: File, calls: &Receiver<ApiCall>, lost: &AtomicU64) {
    let mut time = 0.0;
    for call in calls {
        time = call.time;
        let line = CallLine { time, what: CallEvent::ApiCall(call) };
        if write_lost(&mut file, time, lost).and_then(|()| write_line(&mut file, &line)).is_err() {
            return;
        }
    }
    write_lost(&mut file, time, lost).ok();
}

fn write_lost(file: &mut File, time: f64, lost: &AtomicU64) -> io::Result<()> {
    match lost.swap(0, Ordering::Relaxed) {
        0 => Ok(()),
        count => write_line(file, &CallLine { time, what: CallEvent::ApiCallsLost { count } }),
    }
}

/// Writes the line in one write, as for the events, so that lines do not mix.
fn write_line(file: &mut File, line: &CallLine) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line).map_err(io::Error::other)?;
    bytes.push(b'\n');
    file.write_all(&bytes)
}

/// The calls of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calls {
    /// The recorded calls, in the order in which they started.
    pub all: Vec<ApiCall>,
    /// Number of calls that were not recorded.
    pub lost: u64,
}

/// Reads the calls of a log, as far as they can be read. Logs of older releases have none.
pub fn read_calls(path: &Path) -> io::Result<Calls> {
    let mut calls = Calls::default();
    for line in BufReader::new(File::open(path)?).lines() {
        let line = line?;
        if !is_call(&line) {
            continue;
        }
        // A run that was killed may have left a partial line.
        match serde_json::from_str(&line) {
            Ok(CallLine { time, what: CallEvent::ApiCall(call) }) => {
                calls.all.push(ApiCall { time, ..call });
            }
            Ok(CallLine { what: CallEvent::ApiCallsLost { count }, .. }) => calls.lost += count,
            Err(_) => {}
        }
    }
    calls.all.sort_by(|a, b| a.time.total_cmp(&b.time));
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use super::super::{RunLog, list, read};
    use super::*;
    use crate::event::{Event, RunEnd, Stamped};

    fn call(time: f64, object: &str) -> ApiCall {
        ApiCall {
            time,
            api: "pve".to_owned(),
            object: object.to_owned(),
            seconds: 0.25,
            outcome: "200".to_owned(),
            retries: 1,
            step: Some("vm/a/create".to_owned()),
        }
    }

    #[test]
    fn calls_are_in_the_log_once_it_ends_and_events_are_as_before() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = RunLog::begin(folder.path(), "up", "home", 1_700_000_000.0, false).unwrap();
        let path = log.path().to_owned();
        let calls = log.calls().unwrap();
        for nth in 0..1000_u32 {
            calls.write(call(f64::from(1000 - nth), &format!("GET /{nth}")));
        }
        let ended = Event::RunEnded { end: RunEnd::Done, seconds: 1.0 };
        let ended = Stamped { time: 1_700_000_001.0, what: ended };
        log.write(&ended).unwrap();
        drop(calls);
        let found = read_calls(&path).unwrap();
        assert_eq!((found.all.len(), found.lost), (1000, 0));
        assert_eq!(found.all[0], call(1.0, "GET /999"), "in the order in which they began");
        assert_eq!(read(&path).unwrap().1, [ended]);
        assert_eq!(list(folder.path()).unwrap()[0].end, Some(RunEnd::Done));
    }

    #[test]
    fn half_a_line_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let log = RunLog::begin(folder.path(), "up", "home", 1_700_000_000.0, false).unwrap();
        let calls = log.calls().unwrap();
        calls.write(call(1.0, "GET /version"));
        drop(calls);
        let line = CallLine { time: 2.0, what: CallEvent::ApiCall(call(2.0, "x")) };
        let line = serde_json::to_string(&line).unwrap();
        let half = &line[..60];
        let mut file = log.file.try_clone().unwrap();
        file.write_all(half.as_bytes()).unwrap();
        assert!(is_call(half));
        assert_eq!(read_calls(log.path()).unwrap().all.len(), 1);
        assert_eq!(read(log.path()).unwrap().1, []);
    }

    #[test]
    fn lines_that_do_not_fit_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls");
        // A pipe that is not read yet blocks the writer, as a disk that hangs does.
        let (mut reading, writing) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writing));
        let log = CallLog::with_queue(file, 4).unwrap();
        // More calls than fit into a pipe.
        for nth in 0..5000_u32 {
            log.write(call(f64::from(nth), "GET /version"));
        }
        let reader = thread::spawn(move || {
            let mut file = File::create(&path).unwrap();
            io::copy(&mut reading, &mut file).unwrap();
            read_calls(&path).unwrap()
        });
        drop(log);
        let found = reader.join().unwrap();
        assert!(found.lost > 0, "{} calls were written", found.all.len());
        assert_eq!(found.all.len() as u64 + found.lost, 5000);
    }
}
