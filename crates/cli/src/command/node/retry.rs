//! Retries of calls while the API of a node restarts.
//!
//! A node that leaves maintenance mode closes its connections and its port for one or two seconds. Calls that fail in
//! this time are retried.

use std::time::Duration;

use talmox_talos_api::TalosError;

use super::access::Target;
use crate::error::CommandError;

/// Time limit for the retries. It is longer than the restart of an API, but short for a node that does not answer.
const LIMIT: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(400);

impl Target {
    /// Makes a call with retries. An error is converted by [`Target::explain`].
    pub(super) async fn ask<T>(
        &self,
        call: impl AsyncFn() -> Result<T, TalosError>,
    ) -> Result<T, CommandError> {
        match self.call_with_retries(call).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.explain(error).await),
        }
    }

    /// Makes a call with retries, and returns the original error.
    pub(super) async fn call_with_retries<T>(
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

/// Whether the error is caused by a restart of the API and the call had no effect.
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
    fn only_calls_without_effect_are_retried() {
        let call = |operation| Call { operation, node: node_address("10.0.0.11") };
        let not_yet = |operation| TalosError::NotYet {
            call: call(operation),
            code: Code::Unavailable,
            reason: String::new(),
        };
        assert!(is_restart(&not_yet("Get")) && is_restart(&not_yet("ApplyConfiguration")));
        let late = TalosError::Late { call: call("Get") };
        assert!(!is_restart(&late), "a retry would take another minute");
    }
}
