//! Commands that wait for others run in here.

use std::future::Future;

use crate::error::CommandError;

pub(crate) fn run<T>(
    command: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::failed("cannot start").because(error))?;
    let result = runtime.block_on(command);
    // What a lab or a broken connection still waits for is nobody's concern any more.
    runtime.shutdown_background();
    result
}
