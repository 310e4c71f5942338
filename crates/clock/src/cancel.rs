use std::sync::Arc;

use tokio::sync::watch;

/// Cancels a run and all waits of the run. Clones share one state.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<watch::Sender<bool>>);

impl Default for Cancel {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Cancel {
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when the run is cancelled.
    pub async fn cancelled(&self) {
        let mut state = self.0.subscribe();
        // `wait_for` fails only if the sender is dropped, and `self` holds the sender.
        state.wait_for(|is_cancelled| *is_cancelled).await.ok();
    }
}
