//! Log of a task, read while it grows.

use std::convert::Infallible;
use std::time::Duration;

use talmox_pve_types::api::task;
use talmox_pve_types::id::Upid;

use super::Client;

/// Interval between two reads.
const PAUSE: Duration = Duration::from_secs(3);
/// Maximum number of lines per read.
const PAGE: u64 = 500;

/// Log of a task, with the number of lines that were read.
///
/// The log is used to display progress. A failed read returns no lines: the wait for the task reports its result, and
/// also a host that does not answer.
#[derive(Debug)]
pub struct TaskLog {
    client: Client,
    upid: Upid,
    read: u64,
}

impl Client {
    /// Log of a task. Reading starts at the first line.
    pub fn log(&self, upid: &Upid) -> TaskLog {
        TaskLog { client: self.clone(), upid: upid.clone(), read: 0 }
    }
}

impl TaskLog {
    /// Passes all lines to `hear` as they arrive, until this future is dropped.
    pub async fn follow(&mut self, hear: &mut (dyn FnMut(&str) + Send)) -> Infallible {
        loop {
            self.client.0.clock.sleep(PAUSE).await;
            self.look(hear).await;
        }
    }

    /// Passes the new lines since the last read to `hear`. It starts with the last line of the previous read, because
    /// that line may have grown.
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
