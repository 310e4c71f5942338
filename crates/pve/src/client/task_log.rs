//! The log of a task, read while it grows.

use std::convert::Infallible;
use std::time::Duration;

use talmox_pve_types::api::task;
use talmox_pve_types::id::Upid;

use super::Client;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(3);
/// More lines than this are left to the next look.
const PAGE: u64 = 500;

/// A log, and how much of it was read.
///
/// It is for who likes to know how far a task is. How the task ends is told elsewhere, and so is that its host does not
/// answer: here that is nothing to read.
#[derive(Debug)]
pub struct TaskLog {
    client: Client,
    upid: Upid,
    read: u64,
}

impl Client {
    /// The log of a task, from its first line on.
    pub fn log(&self, upid: &Upid) -> TaskLog {
        TaskLog { client: self.clone(), upid: upid.clone(), read: 0 }
    }
}

impl TaskLog {
    /// Tells all lines as they come, until it is dropped.
    pub async fn follow(&mut self, hear: &mut (dyn FnMut(&str) + Send)) -> Infallible {
        loop {
            self.client.0.clock.sleep(PAUSE).await;
            self.look(hear).await;
        }
    }

    /// Tells the lines that came since the last look. The one before them comes once more: it may have grown.
    pub async fn look(&mut self, hear: &mut (dyn FnMut(&str) + Send)) {
        let start = self.read.saturating_sub(1);
        let request = task::log(&self.upid, start, PAGE);
        let Ok(part) = Box::pin(self.client.send(&request)).await else { return };
        for line in &part.lines {
            hear(line);
        }
        self.read = start + u64::try_from(part.lines.len()).unwrap_or_default();
    }
}
