//! The end of a lab, as its servers wait for it.

use tokio::sync::watch;

/// Waits until the lab stops.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A lab that is gone has stopped too.
    stop.wait_for(|stop| *stop).await.ok();
}
