//! Answers that consist of several messages.

use std::fmt;
use std::time::Duration;

use talmox_clock::Clock;
use tonic::Streaming;

use crate::error::{Call, TalosError};

/// Stream of messages from a node.
pub struct Answers<T> {
    messages: Streaming<T>,
    call: Call,
    clock: Clock,
    limit: Duration,
}

impl<T> Answers<T> {
    pub(super) fn new(messages: Streaming<T>, call: Call, clock: Clock, limit: Duration) -> Self {
        Self { messages, call, clock, limit }
    }

    /// Next message, without a timeout; `None` after the last message.
    pub async fn next(&mut self) -> Result<Option<T>, TalosError> {
        let message = self.messages.message().await;
        message.map_err(|status| TalosError::new(self.call.clone(), status))
    }

    /// Next message, with the timeout of the client.
    pub async fn next_in_time(&mut self) -> Result<Option<T>, TalosError> {
        let (clock, limit) = (self.clock, self.limit);
        let next = clock.timeout(limit, self.next()).await;
        next.unwrap_or_else(|_| Err(TalosError::Late { call: self.call.clone() }))
    }

    pub fn call(&self) -> &Call {
        &self.call
    }
}

impl<T> fmt::Debug for Answers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answers({})", self.call)
    }
}
