//! Ctrl-C and SIGTERM. A command that only looks ends where it is; one that changes something ends what it has begun, and
//! nothing is begun after that.
//!
//! Signals are the process's, and so is what is known of them.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::task::Poll;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::command_code::CommandCode;
use crate::error::CommandError;

/// The exit code of a program that was told twice.
const INSISTED: i32 = 130;

/// Whether somebody wants to stop.
static WANTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Whether somebody is at work who sees to it.
static HEEDED: AtomicBool = AtomicBool::new(false);

/// From now on a first signal is noted down, and does not kill. A second one ends the program at once.
pub(crate) fn watch() -> Result<(), CommandError> {
    static WATCHING: OnceLock<()> = OnceLock::new();
    if WATCHING.get().is_some() {
        return Ok(());
    }
    for one in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag down.
        flag::register_conditional_shutdown(one, INSISTED, Arc::clone(&WANTED))
            .and_then(|_| flag::register(one, Arc::clone(&WANTED)))
            .map_err(unwatched)?;
    }
    WATCHING.set(()).ok();
    Ok(())
}

fn unwatched(error: std::io::Error) -> CommandError {
    CommandError::failed(CommandCode::SystemFailed, "cannot watch signals").because(error)
}

/// Whether somebody wants to stop.
pub(crate) fn is_wanted() -> bool {
    WANTED.load(Ordering::SeqCst)
}

/// Whether somebody wants to stop and nobody sees to it.
pub(crate) fn is_unheeded() -> bool {
    is_wanted() && !HEEDED.load(Ordering::SeqCst)
}

/// What is said of a command that stopped before it changed anything, or between two clusters.
pub(crate) fn stopped() -> CommandError {
    CommandError::failed(CommandCode::Interrupted, "stopped: nothing was begun that is not done")
        .hint("the same command goes on from here")
}

/// As long as this is there, whoever holds it sees to signals.
pub(crate) struct Heed(());

pub(crate) fn heed() -> Heed {
    HEEDED.store(true, Ordering::SeqCst);
    Heed(())
}

impl Drop for Heed {
    fn drop(&mut self) {
        // Who was told to stop while at work says so: nobody else has to.
        if !is_wanted() {
            HEEDED.store(false, Ordering::SeqCst);
        }
    }
}

/// The signals that ask to stop, for who waits for them.
pub(crate) struct Stops([Signal; 2]);

impl Stops {
    /// Must be called inside a runtime.
    pub(crate) fn new() -> Result<Self, CommandError> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        let [interrupt, terminate] = kinds.map(|kind| signal(kind).map_err(unwatched));
        Ok(Self([interrupt?, terminate?]))
    }

    /// Comes back once somebody wants to stop.
    pub(crate) async fn wanted(&mut self) {
        self.until(is_wanted).await;
    }

    /// Comes back once somebody wants to stop and nobody sees to it.
    pub(crate) async fn unheeded(&mut self) {
        self.until(is_unheeded).await;
    }

    async fn until(&mut self, is_so: fn() -> bool) {
        poll_fn(|context| {
            // A signal wakes whoever waits; the flag is what counts, and lasts.
            for one in &mut self.0 {
                while let Poll::Ready(Some(())) = one.poll_recv(context) {}
            }
            if is_so() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
