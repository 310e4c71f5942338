use std::sync::Arc;

use tokio::sync::watch;

/// Cancels a run and every wait of it. Clones share one state.
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

    /// Returns once the run is cancelled.
    pub async fn cancelled(&self) {
        let mut state = self.0.subscribe();
        // The sender lives as long as this does.
        state.wait_for(|is_cancelled| *is_cancelled).await.ok();
    }
}
