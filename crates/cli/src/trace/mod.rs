//! Trace output: lines on stderr (`-v`, `-vv`, `TALMOX_LOG`), and API calls in the run log.
//!
//! The crates of talmox open a span for each API call, and report decisions as events. The subscriber handles only the
//! targets `talmox::…`. Traces of other libraries are ignored, because their headers and frames may contain secrets.

mod filter;
mod lab_time;
mod layer;
mod lines;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

use talmox_clock::{Clock, Moment};
use talmox_engine::run_log::{ApiCall, CallLog, RunLog};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::args::Global;
use crate::environment;
use crate::error::CommandError;
use crate::printer::Printer;
use filter::Filter;
use lab_time::LabClock;
pub(crate) use lab_time::show_lab_time;
use layer::TraceLayer;
pub(crate) use lines::HeldLines;
use lines::Lines;

/// State of the subscriber. A process has only one subscriber.
static TRACE: OnceLock<Trace> = OnceLock::new();

struct Trace {
    filter: Filter,
    lines: Lines,
    /// Clock that measures calls, and the clock of trace lines outside of a run in a lab. It is real time, even in a lab.
    clock: Clock,
    started: Moment,
    /// Clock of trace lines during a run in a lab.
    lab: RwLock<Option<LabClock>>,
    is_recording: AtomicBool,
    recording: RwLock<Option<Recorder>>,
    /// Calls that were made before the run. They belong into the run log, because the plan is based on their answers.
    earlier: Mutex<EarlierCalls>,
}

/// Maximum number of calls that are stored before a run starts.
const MAX_EARLIER: usize = 4096;

/// API calls that ended before a run log existed.
#[derive(Default)]
struct EarlierCalls {
    /// Calls with their start. The `time` of a call is not set yet, because the clock of the run is not known.
    calls: Vec<(Moment, ApiCall)>,
    /// Number of calls that were not stored because [`MAX_EARLIER`] was reached.
    lost: u64,
}

/// Destination of the API calls of the current run.
struct Recorder {
    calls: CallLog,
    /// Clock of the events of the run.
    clock: Clock,
}

/// Installs the subscriber.
pub(crate) fn start(global: &Global, printer: &Printer) -> Result<(), CommandError> {
    let directives = environment::variable("TALMOX_LOG").unwrap_or_default();
    let filter = if global.quiet {
        Filter::off()
    } else {
        Filter::verbose(global.verbose).with(&directives).map_err(|error| {
            let hint = format!(
                "for example TALMOX_LOG=info or TALMOX_LOG=pve=debug,kube=info; {}",
                filter::known()
            );
            CommandError::usage("cannot read TALMOX_LOG").because(error).hint(hint)
        })?
    };
    let clock = Clock::real();
    let trace = TRACE.get_or_init(|| Trace {
        filter,
        lines: Lines::new(printer.clone()),
        clock,
        started: clock.moment(),
        lab: RwLock::new(None),
        is_recording: AtomicBool::new(false),
        recording: RwLock::new(None),
        earlier: Mutex::default(),
    });
    // A second call of this function fails here, and the first subscriber stays installed.
    tracing::subscriber::set_global_default(Registry::default().with(TraceLayer(trace))).ok();
    Ok(())
}

/// Holds trace lines back. The live view calls this while it is active.
pub(crate) fn hold() -> Option<HeldLines> {
    TRACE.get().map(|trace| trace.lines.hold())
}

/// Guard for the recording of API calls in the run log. The recording ends when the guard is dropped, and the drop
/// flushes the log.
pub(crate) struct Recording(&'static Trace);

/// Starts to record API calls, including the calls that were made before. `None` if the run log cannot be opened a second
/// time. Then the run continues without recorded calls.
pub(crate) fn record(log: &RunLog, clock: Clock) -> Option<Recording> {
    let trace = TRACE.get()?;
    let calls = log.calls().ok()?;
    trace.write_earlier(&calls, clock);
    trace.set_recorder(Some(Recorder { calls, clock }));
    Some(Recording(trace))
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.0.set_recorder(None);
    }
}

impl Trace {
    fn set_recorder(&self, recorder: Option<Recorder>) {
        self.is_recording.store(recorder.is_some(), Ordering::Relaxed);
        let mut recording = self.recording.write().unwrap_or_else(PoisonError::into_inner);
        let earlier = std::mem::replace(&mut *recording, recorder);
        drop(recording);
        // The drop waits for the writer thread, so it must happen after the lock is released.
        drop(earlier);
    }

    fn is_recording(&self) -> bool {
        self.is_recording.load(Ordering::Relaxed)
    }

    /// Current time by the clock of the run, in seconds since 1970.
    fn run_time(&self) -> Option<f64> {
        if !self.is_recording() {
            return None;
        }
        let recording = self.recording.read().unwrap_or_else(PoisonError::into_inner);
        recording.as_ref().map(|recorder| recorder.clock.since_epoch().as_secs_f64())
    }

    /// Writes a call that started at `start` to the run log. Without a run, stores the call for a run that may follow.
    fn write(&self, start: Moment, call: ApiCall) {
        let recording = self.recording.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(recorder) = &*recording {
            recorder.calls.write(call);
            return;
        }
        drop(recording);
        let mut earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        if earlier.calls.len() < MAX_EARLIER {
            earlier.calls.push((start, call));
        } else {
            earlier.lost += 1;
        }
    }

    fn write_earlier(&self, log: &CallLog, clock: Clock) {
        let mut earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        let EarlierCalls { calls, lost } = std::mem::take(&mut *earlier);
        drop(earlier);
        for (start, call) in calls {
            log.write(ApiCall { time: self.time_on(clock, start), ..call });
        }
        log.count_lost(lost);
    }

    /// Time of a moment on the clock of a run, in seconds since 1970.
    fn time_on(&self, clock: Clock, moment: Moment) -> f64 {
        let ago = self.clock.moment().since(moment).as_secs_f64();
        clock.since_epoch().as_secs_f64() - ago
    }
}
