//! A run of `talmox` that may be killed.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command};
use std::time::Duration;

use talmox_clock::{Clock, Moment};

use super::pace::Pace;
use super::tally::Tally;

/// A run that takes longer is killed: with the timeouts of the inventory nothing takes so long.
const LONGEST: Duration = Duration::from_mins(1);
const SIGKILL: i32 = 9;

/// What is run.
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

/// A run that lives.
pub(super) struct Run {
    pub(super) folder: &'static str,
    kind: RunKind,
    process: Child,
    started: Moment,
    clock: Clock,
    /// When it is killed, if it is.
    kill_after: Option<Duration>,
}

/// What became of a run at a look.
pub(super) enum Look {
    Lives(Run),
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

    /// Kills it if it is time, and notes how it ended.
    pub(super) fn look(mut self, pace: &mut Pace, tally: &mut Tally) -> io::Result<Look> {
        let age = self.clock.moment().since(self.started);
        if self.process.try_wait()?.is_some() {
            pace.ended(self.kind.command(), age);
            tally.kills.too_late += u64::from(self.kill_after.is_some());
            return Ok(Look::Ended);
        }
        if age < self.kill_after.unwrap_or(LONGEST) {
            return Ok(Look::Lives(self));
        }
        let is_landed = self.kill()?;
        if self.kill_after.is_some() {
            tally.kills.landed += u64::from(is_landed);
            tally.kills.too_late += u64::from(!is_landed);
        }
        Ok(Look::Ended)
    }

    /// Kills it now, if it lives. Whether it did.
    pub(super) fn kill(&mut self) -> io::Result<bool> {
        self.process.kill()?;
        Ok(self.process.wait()?.signal() == Some(SIGKILL))
    }
}
