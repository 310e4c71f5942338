//! Errors of calls, grouped by how the caller must react.
//!
//! `NotYet`: retry later. `No`: final, a retry does not help. `Unreachable`: the request was not sent. `Lost` and
//! `Late`: the request may have been executed. `Unreadable`: the answer has unexpected content.

use std::sync::Arc;

use talmox_values::Address;
use tonic::{Code, Status};

use crate::channel::Unanswered;
use crate::dial::DialError;
use crate::node_service::plain;

#[derive(Clone, Debug, thiserror::Error)]
pub enum TalosError {
    /// No connection could be opened, so the request was not sent.
    #[error("{} was not sent", call)]
    Unreachable { call: Call, source: Arc<DialError> },
    /// The node cannot execute the request now, and reports the reason. A later retry can succeed.
    #[error("{call} is not possible yet: {}", plain(reason))]
    NotYet { call: Call, code: Code, reason: String },
    /// The node rejected the request. A retry does not help.
    #[error("{call} was rejected: {message} ({})", code_name(*code))]
    No { call: Call, code: Code, message: String },
    /// The connection was lost before the answer was complete. The caller must check the state of the node before a
    /// retry. `status` is for debugging only, because its text comes from libraries.
    #[error("{call} {}: the connection was lost", lost(call))]
    Lost { call: Call, status: Arc<Status> },
    /// The answer did not arrive in time. The caller must check the state of the node before a retry.
    #[error("{call} was not answered in time{}", late(call))]
    Late { call: Call },
    /// The answer has unexpected content.
    #[error("{call} returned an unexpected answer: {what}")]
    Unreadable { call: Call, what: String },
}

/// Operation and node. Displays as `Bootstrap on 10.0.0.11:50000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub operation: &'static str,
    pub node: Address,
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.operation, self.node)
    }
}

/// Operation of a dry run. It has its own name, because a dry run changes nothing, and a trace must not show a change.
pub(crate) const DRY_RUN: &str = "ApplyConfiguration (dry run)";

/// Operations that only read, so that a retry is safe even if the answer was lost.
const READS: [&str; 21] = [
    DRY_RUN,
    "Connect",
    "Copy",
    "Disks",
    "Dmesg",
    "EtcdAlarmList",
    "EtcdMemberList",
    "EtcdSnapshot",
    "EtcdStatus",
    "Events",
    "Get",
    "HealthCheck",
    "Hostname",
    "Kubeconfig",
    "List",
    "Logs",
    "Memory",
    "Read",
    "ServiceList",
    "Version",
    "Watch",
];

impl Call {
    /// Whether the operation changes nothing on the node.
    pub fn is_read(&self) -> bool {
        READS.contains(&self.operation)
    }
}

fn lost(call: &Call) -> &'static str {
    if call.is_read() { "was interrupted" } else { "may have been executed" }
}

fn late(call: &Call) -> &'static str {
    if call.is_read() { "" } else { ", and may have been executed" }
}

impl TalosError {
    pub(crate) fn new(call: Call, status: Status) -> Self {
        // The status has a source only if the connection failed. A status from the node has none.
        let Some(source) = std::error::Error::source(&status) else {
            return Self::answered(call, &status);
        };
        match source.downcast_ref::<Unanswered>() {
            Some(Unanswered::Dial(error)) => Self::Unreachable { call, source: Arc::clone(error) },
            _ => Self::Lost { call, status: Arc::new(status) },
        }
    }

    fn answered(call: Call, status: &Status) -> Self {
        let (code, message) = (status.code(), status.message().to_owned());
        match code {
            // During the request, apid was stopped, or lost its connection to the service that executes the request.
            Code::Cancelled => Self::Lost { call, status: Arc::new(status.clone()) },
            Code::Unavailable if CUT.iter().any(|word| message.contains(word)) => {
                Self::Lost { call, status: Arc::new(status.clone()) }
            }
            Code::Unavailable | Code::Aborted => Self::NotYet { call, code, reason: message },
            Code::FailedPrecondition | Code::Unknown if is_waiting(code, &message) => {
                Self::NotYet { call, code, reason: message }
            }
            Code::DeadlineExceeded => Self::Late { call },
            _ => Self::No { call, code, message },
        }
    }

    pub fn call(&self) -> &Call {
        match self {
            Self::Unreachable { call, .. }
            | Self::NotYet { call, .. }
            | Self::No { call, .. }
            | Self::Lost { call, .. }
            | Self::Late { call }
            | Self::Unreadable { call, .. } => call,
        }
    }

    /// gRPC code of the answer, if the node answered.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::NotYet { code, .. } | Self::No { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the node does not implement this call, or does not implement it in its current state.
    pub fn is_unimplemented(&self) -> bool {
        self.code() == Some(Code::Unimplemented)
    }

    /// Whether a retry can succeed without a change by the user.
    pub fn may_pass(&self) -> bool {
        !matches!(self, Self::No { .. } | Self::Unreadable { .. })
    }

    /// Whether the node certainly did not execute the request.
    pub fn is_untouched(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::NotYet { .. } | Self::No { .. })
    }

    /// Short reason, for the display of a wait.
    pub fn reason(&self) -> String {
        match self {
            Self::Unreachable { source, .. } => source.to_string(),
            Self::NotYet { reason, .. } => plain(reason),
            Self::No { message, .. } => message.clone(),
            Self::Lost { .. } => "the connection was lost".to_owned(),
            Self::Late { .. } => "the node did not answer in time".to_owned(),
            Self::Unreadable { what, .. } => what.clone(),
        }
    }
}

/// Texts with which apid reports that the connection to the service behind it was lost after the request was sent.
const CUT: [&str; 3] = ["reading from server", "EOF", "transport is closing"];

/// Texts with which Talos reports a condition that passes with time. Each text matches at the start of a word. Other
/// unmet conditions (no disk to install on, no snapshot, wrong type of machine) need a change by the user.
const WAITS: [&str; 4] = [" yet", " already in progress", " node is rebooting", " locked"];

/// Texts with which etcd reports a condition that passes with time: members start, elect a leader, and learners catch
/// up. machined forwards these texts, mostly without the gRPC code of etcd.
const ETCD_WAITS: [&str; 11] = [
    " etcdserver: no leader",
    " etcdserver: leader changed",
    " etcdserver: request timed out",
    " etcdserver: server stopped",
    " etcdserver: too many requests",
    " etcdserver: unhealthy cluster",
    " re-configuration failed due to not enough started members",
    " can only promote a learner member which is in sync with leader",
    " too many learner members in cluster",
    " rpc not supported for learner",
    " mutex: locked by another session",
];

fn is_waiting(code: Code, message: &str) -> bool {
    let said = format!(" {}", message.to_ascii_lowercase());
    let is_said = |words: &&str| said.contains(words);
    ETCD_WAITS.iter().any(is_said) || code == Code::FailedPrecondition && WAITS.iter().any(is_said)
}

/// Name of the gRPC code.
fn code_name(code: Code) -> String {
    format!("{code:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::node_address;

    fn call() -> Call {
        Call { operation: "Bootstrap", node: node_address("10.0.0.11") }
    }

    #[test]
    fn not_yet_is_distinguished_from_no() {
        let not_yet =
            TalosError::new(call(), Status::failed_precondition("time is not in sync yet"));
        assert_eq!(
            not_yet.to_string(),
            "Bootstrap on 10.0.0.11:50000 is not possible yet: time is not in sync yet"
        );
        assert!(not_yet.may_pass() && not_yet.is_untouched());
        let no =
            TalosError::new(call(), Status::already_exists("etcd data directory is not empty"));
        assert_eq!(
            no.to_string(),
            "Bootstrap on 10.0.0.11:50000 was rejected: etcd data directory is not empty (AlreadyExists)"
        );
        assert!(!no.may_pass());
        assert_eq!(no.code(), Some(Code::AlreadyExists));
    }

    #[test]
    fn only_conditions_that_pass_with_time_are_not_yet() {
        use Code::{AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Unknown};
        for (code, message, is_waiting) in [
            (FailedPrecondition, "bootstrap is not available yet", true),
            (FailedPrecondition, "time is not in sync yet", true),
            (FailedPrecondition, "etcd service is not ready for recovery yet", true),
            (FailedPrecondition, "another apply configuration is already in progress", true),
            (FailedPrecondition, "configuration already applied and node is rebooting", true),
            (FailedPrecondition, "another installation/upgrade is already in progress", true),
            (FailedPrecondition, "locked", true),
            (
                FailedPrecondition,
                "etcdserver: re-configuration failed due to not enough started members",
                true,
            ),
            (
                Unknown,
                "failed to remove member: etcdserver: re-configuration failed due to not enough \
                 started members",
                true,
            ),
            (
                FailedPrecondition,
                "etcdserver: can only promote a learner member which is in sync with leader",
                true,
            ),
            (FailedPrecondition, "etcdserver: can only promote a learner member", false),
            (FailedPrecondition, "etcdserver: too many learner members in cluster", true),
            (Unknown, "etcdserver: rpc not supported for learner", true),
            (Unknown, "etcdserver: no leader", true),
            (Unknown, "failed to list etcd alarms: etcdserver: request timed out", true),
            (
                Unknown,
                "failed to leave cluster: 1 error(s) occurred:\n\tfailed to remove member 7: \
                 etcdserver: unhealthy cluster",
                true,
            ),
            (
                Unknown,
                "failed to forfeit leadership: cannot forfeit leadership, only one member",
                false,
            ),
            (Unknown, "service \"etcd\" doesn't support restart operation via API", false),
            (
                Unknown,
                "failed to acquire upgrade mutex: error trying to lock etcd upgrade mutex: mutex: \
                 Locked by another session",
                true,
            ),
            (FailedPrecondition, "machine is not installed", false),
            (FailedPrecondition, "Talos is not installed", false),
            (FailedPrecondition, "system disk not found", false),
            (FailedPrecondition, "k8s API server CA config is not set", false),
            (FailedPrecondition, "method is not supported in container mode", false),
            (FailedPrecondition, "bootstrap can only be performed on a control plane node", false),
            (FailedPrecondition, "the device is blocked", false),
            (
                FailedPrecondition,
                "error recovering etcd: stat /var/lib/etcd.snapshot: no such file or directory",
                false,
            ),
            (AlreadyExists, "etcd data directory is not empty", false),
            (AlreadyExists, "machine is already installed", false),
            // This text quotes the config that was sent, so the words in it do not count.
            (Unknown, "unknown keys found during decoding: machine: {locked: not yet}", false),
            (InvalidArgument, "configuration validation failed: not yet", false),
            (NotFound, "failed to remove member 7: etcdserver: member not found", false),
        ] {
            let error = TalosError::new(call(), Status::new(code, message));
            let found = matches!(error, TalosError::NotYet { .. });
            assert_eq!(found, is_waiting, "{code:?} {message}: {error:?}");
            assert_eq!(error.may_pass(), is_waiting, "{message}");
            assert_eq!((error.code(), error.reason()), (Some(code), message.to_owned()));
        }
        for code in [Code::Unavailable, Code::Aborted] {
            let error = TalosError::new(call(), Status::new(code, "etcdserver: request timed out"));
            assert!(matches!(error, TalosError::NotYet { .. }), "{error:?}");
        }
    }

    #[test]
    fn a_service_that_is_not_up_yet_is_named_without_library_texts() {
        let words = "connection error: desc = \"transport: Error while dialing: dial tcp 127.0.0.1:2379: \
                     connect: connection refused\"";
        let error = TalosError::new(call(), Status::unavailable(words));
        assert!(matches!(error, TalosError::NotYet { .. }), "{error:?}");
        assert_eq!(error.reason(), "etcd on the node does not accept connections");
        assert_eq!(
            error.to_string(),
            "Bootstrap on 10.0.0.11:50000 is not possible yet: etcd on the node does not accept \
             connections"
        );
    }

    #[test]
    fn lost_and_late_answers_are_separate_errors() {
        let status = Status::from_error("broken pipe".into());
        let lost = TalosError::new(call(), status);
        assert!(matches!(lost, TalosError::Lost { .. }));
        assert!(lost.may_pass() && !lost.is_untouched());
        assert_eq!(
            lost.to_string(),
            "Bootstrap on 10.0.0.11:50000 may have been executed: the connection was lost"
        );
        let reading = Call { operation: "Dmesg", ..call() };
        let lost = TalosError::new(reading, Status::from_error("broken pipe".into()));
        assert_eq!(
            lost.to_string(),
            "Dmesg on 10.0.0.11:50000 was interrupted: the connection was lost"
        );
        let late = TalosError::new(call(), Status::deadline_exceeded("context deadline exceeded"));
        assert_eq!(
            late.to_string(),
            "Bootstrap on 10.0.0.11:50000 was not answered in time, and may have been executed"
        );
        let late = TalosError::Late { call: Call { operation: "Dmesg", ..call() } };
        assert_eq!(late.to_string(), "Dmesg on 10.0.0.11:50000 was not answered in time");
        // The source is hidden, because the text of the libraries does not help the user.
        assert!(std::error::Error::source(&lost).is_none());
        for cut in [
            Status::unavailable("error reading from server: EOF"),
            Status::cancelled("context canceled"),
        ] {
            let lost = TalosError::new(call(), cut);
            assert!(matches!(lost, TalosError::Lost { .. }), "{lost:?}");
        }
        let down = Status::unavailable("connection error: desc = \"connect: connection refused\"");
        assert!(TalosError::new(call(), down).is_untouched());
        let dial = DialError::Silent { target: node_address("10.0.0.11") };
        let status = Status::from_error(Box::new(Unanswered::Dial(Arc::new(dial))));
        let unreachable = TalosError::new(call(), status);
        assert!(matches!(unreachable, TalosError::Unreachable { .. }), "{unreachable:?}");
        assert_eq!(unreachable.reason(), "10.0.0.11:50000 did not answer in time");
    }
}
