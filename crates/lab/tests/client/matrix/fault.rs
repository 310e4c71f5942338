//! Faults of the matrix. For each fault, the result that the client must report is defined.

use std::time::Duration;

use talmox_lab::pve::{Action, Fault, When};
use talmox_pve::PveError;

use super::operation::Operation;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    Rejected,
    Forbidden,
    Late,
    CutBefore,
    CutAfter,
    TimedOut,
    TaskFails,
    LockLost,
    LockLostInTask,
    StorageFull,
    HostDown,
    TokenRevoked,
}

/// Classes of results that callers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Done,
    NotSent,
    MaybeApplied,
    Rejected,
    TaskFailed,
}

impl Class {
    pub(super) fn of(result: &Result<(), PveError>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(PveError::NotSent { .. }) => Self::NotSent,
            Err(PveError::MaybeApplied { .. }) => Self::MaybeApplied,
            Err(PveError::Rejected(_)) => Self::Rejected,
            Err(PveError::TaskFailed(_)) => Self::TaskFailed,
        }
    }
}

pub(super) const BROKEN: &str = "the machine is on fire";

impl FaultKind {
    /// Fault rule for the next call with the method of the operation, or for the next task.
    pub(super) fn fault(self, operation: &Operation) -> Fault {
        let method = Some(operation.step.method().to_owned());
        let call = When { method, ..When::default() };
        let task = When { task: Some("*".to_owned()), ..When::default() };
        let reject = |status| Action::Reject { status, message: BROKEN.to_owned() };
        let (when, action) = match self {
            Self::Rejected => (call, reject(500)),
            Self::Forbidden => (call, reject(403)),
            Self::Late => (call, Action::Delay(Duration::from_secs(45))),
            Self::CutBefore => (call, Action::CutBefore),
            Self::CutAfter => (call, Action::CutAfter),
            Self::TimedOut => (call, Action::TimedOut),
            Self::TaskFails => (task, Action::Fail { percent: 50, message: BROKEN.to_owned() }),
            Self::LockLost => (call, Action::LostLock),
            Self::LockLostInTask => (task, Action::LostLock),
            Self::StorageFull => {
                let storage = operation.room.unwrap_or("local-lvm").to_owned();
                (call, Action::Full { storage })
            }
            Self::HostDown => {
                let lasts = Some(Duration::from_mins(1));
                (call, Action::Down { host: "pve2".to_owned(), lasts })
            }
            Self::TokenRevoked => (call, Action::Revoke { token: "root@pam!worker".to_owned() }),
        };
        Fault::new(when, action)
    }

    /// Class of the result that the client must report.
    pub(super) fn class(self, operation: &Operation) -> Class {
        let step = &operation.step;
        match self {
            Self::Rejected | Self::Forbidden | Self::LockLost | Self::TokenRevoked => {
                Class::Rejected
            }
            // The client retries requests that only read, so they succeed.
            Self::CutBefore | Self::CutAfter if step.is_read() => Class::Done,
            Self::Late | Self::CutBefore | Self::CutAfter | Self::TimedOut => Class::MaybeApplied,
            Self::StorageFull if operation.room.is_none() => Class::Done,
            Self::TaskFails | Self::LockLostInTask | Self::StorageFull if step.is_task() => {
                Class::TaskFailed
            }
            Self::StorageFull => Class::Rejected,
            Self::HostDown if step.is_proxied() => Class::NotSent,
            Self::TaskFails | Self::LockLostInTask | Self::HostDown => Class::Done,
        }
    }

    /// Checks the details of the error that the client reported.
    pub(super) fn check(self, error: &PveError) {
        let locked = matches!(self, Self::LockLost | Self::LockLostInTask);
        assert_eq!(error.is_locked(), locked, "{error:?}");
        let down = self == Self::HostDown;
        assert_eq!(error.is_retryable(), locked || down, "{error:?}");
        let is_proxy = matches!(self, Self::Late | Self::TimedOut);
        assert_eq!(error.is_node_scoped(), is_proxy || down, "{error:?}");
        assert_eq!(error.is_permission(), self == Self::Forbidden, "{error:?}");
        assert_eq!(error.is_auth(), self == Self::TokenRevoked, "{error:?}");
        if let PveError::TaskFailed(failure) = error {
            let last = failure.log_tail.last().unwrap();
            assert_eq!(*last, format!("TASK ERROR: {}", failure.exit));
        }
        let said = format!("{error} {error:?}");
        let is_reported = matches!(self, Self::Rejected | Self::Forbidden | Self::TaskFails);
        assert_eq!(said.contains(BROKEN), is_reported, "{said}");
    }
}
