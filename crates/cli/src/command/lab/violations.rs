//! File with the violated invariants of a served lab, for tests that change the lab from another process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use talmox_clock::Clock;
use talmox_lab::{Lab, Watched, Watcher};

/// Interval at which new violations are written, in real time.
const WRITE_EVERY: Duration = Duration::from_millis(200);

/// File with one line for each violated invariant.
pub(super) struct ViolationFile {
    watcher: Watcher,
    path: PathBuf,
    /// Number of violations in the file.
    written: usize,
}

impl ViolationFile {
    /// Starts the check of the invariants, and creates the file. Only changes with the token that the lab prints are
    /// checked. Other tokens belong to users.
    pub(super) fn create(lab: &Lab, path: &Path) -> io::Result<Self> {
        fs::write(path, "")?;
        let tokens = [lab.ready().pve.token_id].into();
        let watcher = lab.watch_invariants(Watched { tokens, ..Watched::default() });
        Ok(Self { watcher, path: path.to_owned(), written: 0 })
    }

    /// Writes all violations to the file if there are new violations.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let violations = self.watcher.violations();
        if violations.len() > self.written {
            let lines: String = violations.iter().map(|one| format!("{one}\n")).collect();
            fs::write(&self.path, lines)?;
            self.written = violations.len();
        }
        Ok(())
    }

    /// Writes new violations periodically. Returns the error if the file cannot be written.
    async fn keep_writing(&mut self) -> io::Error {
        loop {
            Clock::real().sleep(WRITE_EVERY).await;
            if let Err(error) = self.write() {
                return error;
            }
        }
    }
}

/// Writes new violations periodically if a file is given. Returns only if the file cannot be written.
pub(super) async fn keep_writing(file: Option<&mut ViolationFile>) -> io::Error {
    match file {
        Some(file) => file.keep_writing().await,
        None => std::future::pending().await,
    }
}
