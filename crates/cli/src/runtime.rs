//! Commands that wait for others run in here.

use std::future::Future;
use std::time::Duration;

use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::interrupt::{self, Stops};

/// Timeout for the tasks that are left when a command has ended.
const LAST_TASKS: Duration = Duration::from_secs(2);

/// Runs a command. A signal stops it cleanly, and it is said how to go on; what changes something heeds signals by itself.
pub(crate) fn run<T>(
    command: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
            CommandError::failed(CommandCode::SystemFailed, "cannot start").because(error)
        })?;
    let result = runtime.block_on(async {
        interrupt::watch()?;
        let mut stops = Stops::new()?;
        tokio::select! {
            biased;
            () = stops.unheeded() => Err(interrupt::stopped()),
            result = command => result,
        }
    });
    // Tasks of a lab own its temporary folder, which is removed when the last of them is dropped. A process that exits before
    // leaves the folder behind. A blocking call, such as a lookup of a name, must not keep the process from exiting.
    runtime.shutdown_timeout(LAST_TASKS);
    match result {
        // It may have come to its end before it could be broken off.
        Err(_) if interrupt::is_unheeded() => Err(interrupt::stopped()),
        result => result,
    }
}
