//! Handling of Ctrl-C and SIGTERM. A command that only reads ends at once. A command that makes changes finishes the running
//! steps and starts no further step.
//!
//! Signals are delivered to the process, so the state is in static variables.

use std::future::poll_fn;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::task::Poll;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::command_code::CommandCode;
use crate::error::CommandError;

/// Exit code after a second signal.
const SECOND_SIGNAL: i32 = 130;

/// Whether a signal was received.
static REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Whether a second signal was received, so that the process is about to exit.
static EXITING: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Whether an [`InterruptGuard`] exists, so that the running operation handles an interrupt.
static HANDLED: AtomicBool = AtomicBool::new(false);

/// Installs the signal handlers. The first signal sets a flag. A second signal removes the temporary folders of this process
/// and ends it at once. A third signal ends it even if a folder cannot be removed.
pub(crate) fn watch() -> Result<(), CommandError> {
    static WATCHING: OnceLock<()> = OnceLock::new();
    if WATCHING.get().is_some() {
        return Ok(());
    }
    let (received, signals) = UnixStream::pair().map_err(unwatched)?;
    for one in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(one, SECOND_SIGNAL, Arc::clone(&EXITING))
            .and_then(|_| flag::register(one, Arc::clone(&REQUESTED)))
            .and_then(|_| low_level::pipe::register(one, signals.try_clone()?))
            .map_err(unwatched)?;
    }
    // A signal handler must not remove files, and the async runtime may be busy, so a thread waits for the second signal.
    let wait = move || exit_at_second_signal(received);
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(unwatched)?;
    WATCHING.set(()).ok();
    Ok(())
}

/// Waits for the second signal and ends the process. Each signal writes a byte to `received`.
fn exit_at_second_signal(mut received: UnixStream) {
    if received.read_exact(&mut [0; 2]).is_ok() {
        EXITING.store(true, Ordering::SeqCst);
        talmox_lab::remove_temporary_folders();
        low_level::exit(SECOND_SIGNAL);
    }
}

fn unwatched(error: std::io::Error) -> CommandError {
    CommandError::failed(CommandCode::SystemFailed, "cannot install signal handlers").because(error)
}

/// Whether an interrupt was requested.
pub(crate) fn is_requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// Whether an interrupt was requested and no [`InterruptGuard`] exists.
pub(crate) fn is_unhandled() -> bool {
    is_requested() && !HANDLED.load(Ordering::SeqCst)
}

/// Error of a command that was interrupted before it made a change, or between two clusters.
pub(crate) fn stopped() -> CommandError {
    CommandError::failed(CommandCode::Interrupted, "interrupted: no step was left unfinished")
        .hint("run the same command to resume")
}

/// Guard of an operation that handles interrupts itself. Until the guard is dropped, an interrupt does not end the
/// command at once.
pub(crate) struct InterruptGuard(());

/// Creates an [`InterruptGuard`].
pub(crate) fn guard() -> InterruptGuard {
    HANDLED.store(true, Ordering::SeqCst);
    InterruptGuard(())
}

impl Drop for InterruptGuard {
    fn drop(&mut self) {
        // After an interrupt, `HANDLED` stays set. The operation has already reported the interrupt, so it must not be
        // reported again.
        if !is_requested() {
            HANDLED.store(false, Ordering::SeqCst);
        }
    }
}

/// Stream of the signals that request an interrupt.
pub(crate) struct StopSignals([Signal; 2]);

impl StopSignals {
    /// Subscribes to the signals. Must be called inside a Tokio runtime.
    pub(crate) fn new() -> Result<Self, CommandError> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        let [interrupt, terminate] = kinds.map(|kind| signal(kind).map_err(unwatched));
        Ok(Self([interrupt?, terminate?]))
    }

    /// Waits until an interrupt is requested.
    pub(crate) async fn requested(&mut self) {
        self.until(is_requested).await;
    }

    /// Waits until an interrupt is requested while no [`InterruptGuard`] exists.
    pub(crate) async fn unhandled(&mut self) {
        self.until(is_unhandled).await;
    }

    async fn until(&mut self, condition: fn() -> bool) {
        poll_fn(|context| {
            // A signal only wakes this task. The condition is read from the flags, which stay set after a signal.
            for one in &mut self.0 {
                while let Poll::Ready(Some(())) = one.poll_recv(context) {}
            }
            if condition() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
