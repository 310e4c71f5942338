//! Stop signal of a lab for its servers.

use tokio::sync::watch;

/// Waits until the lab stops.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender was dropped, so the lab has stopped as well.
    stop.wait_for(|stop| *stop).await.ok();
}
