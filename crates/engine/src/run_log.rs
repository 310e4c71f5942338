//! Run logs: one file for each run, one event on each line, readable while the run continues.
//!
//! Plans do not depend on run logs, because the observed state shows where a run stopped. Run logs are evidence that the
//! cluster was created. talmox checks this evidence before it generates a new secrets bundle and before it bootstraps etcd.

mod call;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::event::{Event, RunEnd, Stamped, StepEnd};

pub use call::{ApiCall, CallLog, Calls, read_calls};

/// Version of the format. It increases when an older release cannot read the lines.
const FORMAT: u32 = 1;
const EXTENSION: &str = "jsonl";
/// Id of the step that bootstraps etcd.
const BOOTSTRAP: &str = "etcd/bootstrap";

/// First line of a run log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub format: u32,
    /// The command without secrets: `up`, `destroy`…
    pub command: String,
    pub cluster: String,
    /// Start time of the run, in seconds since 1970.
    pub started: f64,
    /// Whether the run was in a lab, and so does not concern the real cluster. Logs of older releases do not contain
    /// this field.
    #[serde(default)]
    pub is_lab: bool,
}

/// A log that is being written.
#[derive(Debug)]
pub struct RunLog {
    file: File,
    path: PathBuf,
}

/// Summary of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSummary {
    /// Name of the file, without its extension.
    pub id: String,
    pub header: Header,
    /// How the run ended. None for a run that was killed or is still running.
    pub end: Option<RunEnd>,
    pub seconds: f64,
    pub done: usize,
    pub already: usize,
    pub failed: usize,
    /// Number of steps that were skipped, cancelled, or not started.
    pub left: usize,
}

impl RunLog {
    /// Creates a log in `folder`, which is created if necessary. Only the owner can read the log.
    pub fn begin(
        folder: &Path,
        command: &str,
        cluster: &str,
        now: f64,
        is_lab: bool,
    ) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let header = Header {
            format: FORMAT,
            command: command.to_owned(),
            cluster: cluster.to_owned(),
            started: now,
            is_lab,
        };
        // File names sort by time. Two runs in the same millisecond get different names.
        for nth in 0..1000_u32 {
            let id = format!("{now:015.3}-{command}").replace('.', "-");
            let suffix = if nth == 0 { String::new() } else { format!("-{nth}") };
            let path = folder.join(format!("{id}{suffix}.{EXTENSION}"));
            let mut options = OpenOptions::new();
            options.append(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            match options.open(&path) {
                Ok(file) => {
                    let mut log = Self { file, path };
                    log.line(&header)?;
                    return Ok(log);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many runs at once"))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write(&mut self, event: &Stamped) -> io::Result<()> {
        self.line(event)
    }

    /// A writer of API calls to the same file. Both writers append whole lines, so their lines do not mix.
    pub fn calls(&self) -> io::Result<CallLog> {
        CallLog::begin(self.file.try_clone()?)
    }

    /// Writes a whole line at once, so that a reader sees no partial lines.
    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value).map_err(io::Error::other)?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

/// Summaries of the finished and running runs with a run log in `folder`, newest first. Files that are not run logs are
/// ignored.
pub fn list(folder: &Path) -> io::Result<Vec<RunSummary>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(error),
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    // Only regular files are opened, because opening a pipe would block forever.
    let is_log = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == EXTENSION) && path.is_file()
    };
    paths.retain(is_log);
    paths.sort();
    Ok(paths.iter().rev().filter_map(|path| summary(path)).collect())
}

/// State of the cluster according to the run logs of a folder. Logs of runs in a lab are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// No log shows whether the cluster was ever up.
    Unknown,
    /// A run bootstrapped etcd, or an `up` succeeded, and no later run destroyed the cluster. So the cluster had data.
    WasUp,
    /// No run brought the cluster up after the last successful `destroy`.
    Destroyed,
}

/// Reads the run logs of a folder and returns the last known state of the cluster.
pub fn history(folder: &Path) -> History {
    let Ok(runs) = list(folder) else { return History::Unknown };
    for run in runs.into_iter().filter(|run| !run.header.is_lab) {
        match (run.header.command.as_str(), run.end) {
            ("destroy", Some(RunEnd::Done)) => return History::Destroyed,
            ("up", Some(RunEnd::Done)) => return History::WasUp,
            _ => {}
        }
        let Ok((_, events)) = read(&folder.join(format!("{}.{EXTENSION}", run.id))) else {
            continue;
        };
        let is_done = |event: &Stamped| {
            matches!(&event.what, Event::StepEnded { step, end: StepEnd::Done | StepEnd::Already, .. }
                if step == BOOTSTRAP)
        };
        if events.iter().any(is_done) {
            return History::WasUp;
        }
    }
    History::Unknown
}

/// The events of a run, as far as they can be read.
pub fn read(path: &Path) -> io::Result<(Header, Vec<Stamped>)> {
    let mut lines = BufReader::new(File::open(path)?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let header: Header = serde_json::from_str(&first).map_err(io::Error::other)?;
    if header.format > FORMAT {
        return Err(io::Error::other(format!("the log has the newer format {}", header.format)));
    }
    let mut events = vec![];
    for line in lines {
        let line = line?;
        // There may be thousands of API calls between two events.
        if call::is_call(&line) {
            continue;
        }
        // A killed run may have left a partial line, and another release may have written other events.
        if let Ok(event) = serde_json::from_str(&line) {
            events.push(event);
        }
    }
    Ok((header, events))
}

fn summary(path: &Path) -> Option<RunSummary> {
    let (header, events) = read(path).ok()?;
    let id = path.file_stem()?.to_str()?.to_owned();
    // The duration comes from the times of the events, because the clock of a lab is faster than the clock that named the
    // file.
    let time = |event: Option<&Stamped>| event.map_or(header.started, |event| event.time);
    let seconds = (time(events.last()) - time(events.first())).max(0.0);
    let mut summary =
        RunSummary { id, header, end: None, seconds, done: 0, already: 0, failed: 0, left: 0 };
    let mut steps = 0;
    for event in events {
        match event.what {
            Event::RunStarted { steps: all, .. } => steps = all.len(),
            Event::StepEnded { end: StepEnd::Done, .. } => summary.done += 1,
            Event::StepEnded { end: StepEnd::Already, .. } => summary.already += 1,
            Event::StepEnded { end: StepEnd::Failed { .. }, .. } => summary.failed += 1,
            Event::RunEnded { end, .. } => summary.end = Some(end),
            _ => {}
        }
    }
    summary.left = steps.saturating_sub(summary.done + summary.already + summary.failed);
    Some(summary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::StepInfo;

    fn stamped(time: f64, what: Event) -> Stamped {
        Stamped { time, what }
    }

    fn ended(step: &str, end: StepEnd) -> Event {
        Event::StepEnded { step: step.to_owned(), end, seconds: 1.0 }
    }

    #[test]
    fn a_log_is_readable_while_it_is_written_and_after_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        assert_eq!(list(&runs).unwrap(), []);
        let mut log = RunLog::begin(&runs, "up", "home", 1_700_000_000.25, false).unwrap();
        let info = |step: &str| StepInfo { step: step.to_owned(), node: None, after: vec![] };
        let steps = ["a", "b", "c"].map(info).to_vec();
        log.write(&stamped(
            1_700_000_000.25,
            Event::RunStarted { cluster: "home".to_owned(), steps },
        ))
        .unwrap();
        log.write(&stamped(1_700_000_003.0, ended("a", StepEnd::Done))).unwrap();
        log.file.write_all(b"{\"time\": 3").unwrap();
        let found = list(&runs).unwrap();
        assert_eq!((found.len(), found[0].done, found[0].left), (1, 1, 2));
        assert_eq!((found[0].end, found[0].header.command.as_str()), (None, "up"));
        assert!((found[0].seconds - 2.75).abs() < 0.01);
    }

    #[test]
    fn a_log_shows_whether_a_cluster_existed() {
        let folder = tempfile::tempdir().unwrap();
        let mut now = 1_700_000_000.0;
        let mut log = |command: &str, is_lab: bool, events: Vec<Event>| {
            now += 10.0;
            let mut log = RunLog::begin(folder.path(), command, "home", now, is_lab).unwrap();
            for event in events {
                log.write(&stamped(now, event)).unwrap();
            }
            history(folder.path())
        };
        let failed =
            || StepEnd::Failed { code: None, message: String::new(), causes: vec![], hint: None };
        let end = |end| Event::RunEnded { end, seconds: 1.0 };
        let in_a_lab = vec![ended(BOOTSTRAP, StepEnd::Done), end(RunEnd::Done)];
        assert_eq!(log("up", true, in_a_lab), History::Unknown);
        let failed_there = vec![ended(BOOTSTRAP, failed()), end(RunEnd::Failed)];
        assert_eq!(log("up", false, failed_there), History::Unknown);
        // This run was killed after the bootstrap.
        assert_eq!(log("up", false, vec![ended(BOOTSTRAP, StepEnd::Done)]), History::WasUp);
        assert_eq!(log("up", false, vec![end(RunEnd::Failed)]), History::WasUp);
        assert_eq!(log("destroy", false, vec![end(RunEnd::Failed)]), History::WasUp);
        assert_eq!(log("destroy", true, vec![end(RunEnd::Done)]), History::WasUp);
        assert_eq!(log("destroy", false, vec![end(RunEnd::Done)]), History::Destroyed);
        assert_eq!(log("up", false, vec![end(RunEnd::Failed)]), History::Destroyed);
        // This run found an existing cluster and bootstrapped nothing.
        assert_eq!(log("up", false, vec![end(RunEnd::Done)]), History::WasUp);
    }

    #[test]
    fn runs_are_listed_newest_first_with_their_outcome() {
        let folder = tempfile::tempdir().unwrap();
        for (nth, now) in
            [1_700_000_000.0, 1_700_000_000.0, 1_700_000_100.0].into_iter().enumerate()
        {
            let mut log = RunLog::begin(folder.path(), "up", "home", now, false).unwrap();
            let end = if nth == 2 { RunEnd::Done } else { RunEnd::Cancelled };
            log.write(&stamped(now, Event::RunEnded { end, seconds: 0.0 })).unwrap();
        }
        fs::write(folder.path().join("strange.jsonl"), "nonsense\n").unwrap();
        let ends: Vec<_> = list(folder.path()).unwrap().into_iter().map(|run| run.end).collect();
        assert_eq!(ends, [Some(RunEnd::Done), Some(RunEnd::Cancelled), Some(RunEnd::Cancelled)]);
    }
}
