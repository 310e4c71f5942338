//! Commands that wait for others run in here.

use std::future::Future;

use crate::error::CommandError;
use crate::interrupt::{self, Stops};

/// Runs a command. A signal stops it cleanly, and it is said how to go on; what changes something heeds signals by itself.
pub(crate) fn run<T>(
    command: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::failed("cannot start").because(error))?;
    let result = runtime.block_on(async {
        interrupt::watch()?;
        let mut stops = Stops::new()?;
        tokio::select! {
            biased;
            () = stops.unheeded() => Err(interrupt::stopped()),
            result = command => result,
        }
    });
    // What a lab or a broken connection still waits for is nobody's concern any more.
    runtime.shutdown_background();
    match result {
        // It may have come to its end before it could be broken off.
        Err(_) if interrupt::is_unheeded() => Err(interrupt::stopped()),
        result => result,
    }
}
