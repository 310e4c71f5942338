//! Lab time in the trace lines of a run. The lines of the steps show lab time too, so the times of both can be compared.

use std::sync::PoisonError;
use std::time::Duration;

use talmox_clock::{Clock, Moment};

use super::{TRACE, Trace};

/// Clock of a run in a lab, and the start of the run.
#[derive(Clone, Copy)]
pub(super) struct LabClock {
    clock: Clock,
    started: Moment,
}

/// Guard for trace lines with lab time. The lines show real time again when the guard is dropped.
pub(crate) struct LabTime(&'static Trace);

/// Makes trace lines show the lab time since now. Call this when a run in a lab starts.
pub(crate) fn show_lab_time(clock: Clock) -> Option<LabTime> {
    let trace = TRACE.get()?;
    trace.set_lab_clock(Some(LabClock { clock, started: clock.moment() }));
    Some(LabTime(trace))
}

impl Drop for LabTime {
    fn drop(&mut self) {
        self.0.set_lab_clock(None);
    }
}

impl Trace {
    /// Time of a trace line: the real time since the start of the program, or the lab time since the start of the run.
    pub(super) fn line_time(&self) -> Duration {
        match self.lab_clock() {
            Some(LabClock { clock, started }) => clock.moment().since(started),
            None => self.clock.moment().since(self.started),
        }
    }

    /// Time since the start of a call, on the clock of the trace lines.
    pub(super) fn line_duration(&self, start: Moment) -> Duration {
        let real = self.clock.moment().since(start);
        match self.lab_clock() {
            Some(lab) => real.mul_f64(lab.clock.speed()),
            None => real,
        }
    }

    fn lab_clock(&self) -> Option<LabClock> {
        *self.lab.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_lab_clock(&self, clock: Option<LabClock>) {
        *self.lab.write().unwrap_or_else(PoisonError::into_inner) = clock;
    }
}
