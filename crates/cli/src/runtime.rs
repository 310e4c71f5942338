//! Async runtime of commands that use the network.

use std::future::Future;
use std::time::Duration;

use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::interrupt::{self, StopSignals};

/// Timeout for background tasks after the end of a command.
const LAST_TASKS: Duration = Duration::from_secs(2);

/// Runs a command. After an interrupt, the command ends with an error that says how to resume, unless the command handles
/// interrupts itself.
pub(crate) fn run<T>(
    command: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
            CommandError::failed(CommandCode::SystemFailed, "cannot start").because(error)
        })?;
    let result = runtime.block_on(async {
        interrupt::watch()?;
        let mut signals = StopSignals::new()?;
        tokio::select! {
            biased;
            () = signals.unhandled() => Err(interrupt::stopped()),
            result = command => result,
        }
    });
    // The tasks of a lab own the temporary folder of the lab. The folder is removed when the last task is dropped, and
    // remains if the process exits earlier. A blocking call, such as a DNS lookup, must not keep the process from
    // exiting.
    runtime.shutdown_timeout(LAST_TASKS);
    match result {
        // The command may have returned another error before the interrupt was noticed.
        Err(_) if interrupt::is_unhandled() => Err(interrupt::stopped()),
        result => result,
    }
}
