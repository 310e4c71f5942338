//! Lock that rejects `ApplyConfiguration` while another config is being applied to the same node.

use std::sync::Arc;

use talmox_talos_api::server::Status;

use super::Session;

/// Lock for applying a config to a node. The lock is released when this value is dropped.
#[derive(Debug)]
pub(super) struct ApplyLock(Arc<Session>);

impl ApplyLock {
    pub(super) fn acquire(session: &Arc<Session>) -> Result<Self, Status> {
        let is_other = session.change(|node| std::mem::replace(&mut node.is_applying, true))?;
        if is_other {
            let message = "another apply configuration is already in progress";
            return Err(Status::failed_precondition(message));
        }
        Ok(Self(Arc::clone(session)))
    }
}

impl Drop for ApplyLock {
    fn drop(&mut self) {
        // An error is ignored: if the node has rebooted in the meantime, the lock no longer exists.
        self.0.change(|node| node.is_applying = false).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_bench::Bench;

    #[tokio::test]
    async fn a_second_config_is_rejected_while_the_first_is_applied() {
        let bench = Bench::new();
        let boot = bench.start_worker(11);
        let session = || Arc::new(Session::new(Arc::clone(&bench.simulation), 11, boot));
        let (first_session, second_session) = (session(), session());
        let first = ApplyLock::acquire(&first_session).unwrap();
        let rejected = ApplyLock::acquire(&second_session).unwrap_err();
        assert_eq!(rejected.message(), "another apply configuration is already in progress");
        assert_eq!(rejected.code(), tonic::Code::FailedPrecondition);
        drop(first);
        drop(ApplyLock::acquire(&second_session).unwrap());
    }
}
