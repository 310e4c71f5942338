//! One config at a time: who comes while another one's is being applied is sent away.

use std::sync::Arc;

use talmox_talos_api::server::Status;

use super::Session;

/// Somebody applies a config, until this is dropped.
#[derive(Debug)]
pub(super) struct Applying(Arc<Session>);

impl Applying {
    pub(super) fn begin(session: &Arc<Session>) -> Result<Self, Status> {
        let is_other = session.change(|node| std::mem::replace(&mut node.is_applying, true))?;
        if is_other {
            let message = "another apply configuration is already in progress";
            return Err(Status::failed_precondition(message));
        }
        Ok(Self(Arc::clone(session)))
    }
}

impl Drop for Applying {
    fn drop(&mut self) {
        // A node that has booted anew knows nothing of it.
        self.0.change(|node| node.is_applying = false).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Bench;

    #[tokio::test]
    async fn a_second_config_waits_for_the_first() {
        let bench = Bench::new();
        let boot = bench.start_worker(11);
        let session = || Arc::new(Session::new(Arc::clone(&bench.simulation), 11, boot));
        let (mine, yours) = (session(), session());
        let first = Applying::begin(&mine).unwrap();
        let refused = Applying::begin(&yours).unwrap_err();
        assert_eq!(refused.message(), "another apply configuration is already in progress");
        assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
        drop(first);
        drop(Applying::begin(&yours).unwrap());
    }
}
