//! Async runtime of commands that use the network.

use std::future::Future;
use std::time::Duration;

use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::interrupt::{self, StopSignals};

/// Timeout for background tasks after the end of a command.
const LAST_TASKS: Duration = Duration::from_secs(2);

/// Runs a command. An interrupt ends it with an error that says how to resume, unless the command handles interrupts itself.
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
    // The tasks of a lab own its temporary folder, which is removed when the last task is dropped. If the process exits earlier, the
    // folder remains. A blocking call, such as a DNS lookup, must not keep the process from exiting.
    runtime.shutdown_timeout(LAST_TASKS);
    match result {
        // The command may have ended with another error before the interrupt was seen.
        Err(_) if interrupt::is_unhandled() => Err(interrupt::stopped()),
        result => result,
    }
}
