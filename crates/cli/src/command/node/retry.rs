//! Calls that are repeated for a few seconds while the API of a node restarts.
//!
//! Between maintenance mode and its config a node closes connections, or refuses its port, for a second or two. A
//! person who runs a command in that second sees the answer, and not what broke.

use std::time::Duration;

use talmox_talos_api::TalosError;

use super::access::Target;
use crate::error::CommandError;

/// Longer than the restart of an API takes, and short enough where nothing answers at all.
const LIMIT: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(400);

impl Target {
    /// The answer to a call, or why there is none.
    pub(super) async fn ask<T>(
        &self,
        call: impl AsyncFn() -> Result<T, TalosError>,
    ) -> Result<T, CommandError> {
        match self.ask_again(call).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.explain(error).await),
        }
    }

    /// The same, for callers that have their own explanation of some errors.
    pub(super) async fn ask_again<T>(
        &self,
        call: impl AsyncFn() -> Result<T, TalosError>,
    ) -> Result<T, TalosError> {
        let clock = self.settings.clock;
        let deadline = clock.deadline(LIMIT);
        loop {
            match call().await {
                Err(error) if is_restart(&error) && !deadline.has_passed() => {
                    clock.sleep(PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }
}

/// Whether the API restarts or starts, and the call may be repeated without doing anything twice.
fn is_restart(error: &TalosError) -> bool {
    match error {
        TalosError::Unreachable { source, .. } => source.is_restart(),
        TalosError::NotYet { .. } => true,
        TalosError::Lost { call, .. } => call.is_read(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use talmox_talos_api::{Call, Code, node_address};

    use super::*;

    #[test]
    fn only_what_did_nothing_is_repeated() {
        let call = |operation| Call { operation, node: node_address("10.0.0.11") };
        let not_yet = |operation| TalosError::NotYet {
            call: call(operation),
            code: Code::Unavailable,
            reason: String::new(),
        };
        assert!(is_restart(&not_yet("Get")) && is_restart(&not_yet("ApplyConfiguration")));
        let late = TalosError::Late { call: call("Get") };
        assert!(!is_restart(&late), "another minute would pass");
    }
}
