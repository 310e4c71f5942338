//! Run of `talmox` that may be killed.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use talmox_clock::{Clock, Moment};

use super::run_durations::RunDurations;
use super::statistics::Statistics;

/// Maximum duration of a run. With the timeouts of the inventory no run takes this long, even if it waits for the end of
/// another run's lease first.
const MAX_DURATION: Duration = Duration::from_mins(3);
const SIGKILL: i32 = 9;

/// Command of `talmox` that is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunKind {
    Up,
    Destroy,
}

impl RunKind {
    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Destroy => "destroy",
        }
    }
}

/// Run of `talmox` that has not ended.
pub(super) struct Run {
    pub(super) folder: &'static str,
    kind: RunKind,
    process: Child,
    started: Moment,
    clock: Clock,
    /// Time from the start of the run until it is killed. `None` if the run is not killed.
    kill_after: Option<Duration>,
}

/// State of a run of `talmox`.
pub(super) enum RunState {
    Alive(Run),
    Ended,
}

impl Run {
    pub(super) fn start(
        folder: &'static str,
        kind: RunKind,
        mut command: Command,
        clock: Clock,
        kill_after: Option<Duration>,
    ) -> io::Result<Self> {
        let process = command.spawn()?;
        Ok(Self { folder, kind, process, started: clock.moment(), clock, kill_after })
    }

    /// Checks whether the run has ended. Kills the run if it is due, and records how it ended.
    pub(super) fn check(
        mut self,
        run_durations: &mut RunDurations,
        statistics: &mut Statistics,
    ) -> io::Result<RunState> {
        let age = self.clock.moment().since(self.started);
        if self.process.try_wait()?.is_some() {
            run_durations.ended(self.kind.command(), age);
            statistics.kills.too_late += u64::from(self.kill_after.is_some());
            return Ok(RunState::Ended);
        }
        if age < self.kill_after.unwrap_or(MAX_DURATION) {
            return Ok(RunState::Alive(self));
        }
        let is_landed = self.kill()?;
        if self.kill_after.is_some() {
            statistics.kills.landed += u64::from(is_landed);
            statistics.kills.too_late += u64::from(!is_landed);
        }
        Ok(RunState::Ended)
    }

    /// Pauses the run. Returns false if the run had already ended.
    pub(super) fn pause(&mut self) -> io::Result<bool> {
        self.signal("-STOP")
    }

    /// Continues a paused run.
    pub(super) fn resume(&mut self) -> io::Result<bool> {
        self.signal("-CONT")
    }

    pub(super) fn is_alive(&mut self) -> io::Result<bool> {
        Ok(self.process.try_wait()?.is_none())
    }

    /// Sends a signal, unless the run has ended. The process ID is not reused before this program has waited for the
    /// process.
    fn signal(&mut self, signal: &str) -> io::Result<bool> {
        if !self.is_alive()? {
            return Ok(false);
        }
        let id = self.process.id().to_string();
        Ok(Command::new("kill").args([signal, &id]).status()?.success())
    }

    /// Waits for the end of the run, and kills the run if it takes too long. Returns whether the run succeeded.
    pub(super) fn wait(mut self, pause: Duration) -> io::Result<bool> {
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status.success());
            }
            if self.clock.moment().since(self.started) >= MAX_DURATION {
                self.kill()?;
                return Ok(false);
            }
            thread::park_timeout(pause);
        }
    }

    /// Kills the run. Returns false if the run had already ended.
    pub(super) fn kill(&mut self) -> io::Result<bool> {
        self.process.kill()?;
        Ok(self.process.wait()?.signal() == Some(SIGKILL))
    }
}
