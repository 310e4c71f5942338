//! Classification of errors by status and text. The text is needed, because Proxmox answers nearly every error with
//! status 500.

use std::io;

use rustls::CertificateError;

use super::{Lost, NotSent, PveError};
use crate::fingerprint::Fingerprint;

/// Reason why the certificate of a server is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// The certificate is not the pinned certificate.
    Fingerprint,
    /// The CA that issued the certificate is unknown.
    Authority,
    /// The certificate has expired, or is not valid yet.
    Time,
    /// The certificate is for another name.
    Name,
    /// The server does not use TLS.
    NoTls,
}

impl PveError {
    /// Reason why the certificate of the server is not trusted; `None` if the error has another cause.
    pub fn distrust(&self) -> Option<Distrust> {
        let source = match self {
            Self::NotSent { source: NotSent::Login(error), .. } => return error.distrust(),
            Self::NotSent { source: NotSent::NotPinned { .. }, .. } => {
                return Some(Distrust::Fingerprint);
            }
            Self::NotSent { source: NotSent::Untrusted { .. }, .. } => {
                return Some(Distrust::Authority);
            }
            Self::NotSent { source: NotSent::Tls { source, .. }, .. } => source,
            _ => return None,
        };
        let inner = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let Some(rustls::Error::InvalidCertificate(error)) = inner else {
            return Some(Distrust::NoTls);
        };
        Some(match error {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Distrust::Time,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Distrust::Name
            }
            _ => Distrust::Authority,
        })
    }

    /// Fingerprint of the certificate that no trusted CA verifies.
    pub fn untrusted_fingerprint(&self) -> Option<Fingerprint> {
        match self {
            Self::NotSent { source: NotSent::Untrusted { shown, .. }, .. } => Some(*shown),
            Self::NotSent { source: NotSent::Login(error), .. } => error.untrusted_fingerprint(),
            _ => None,
        }
    }

    /// Port of the server to which the connection failed.
    pub fn port(&self) -> Option<u16> {
        let Self::NotSent { source, .. } = self else { return None };
        match source {
            NotSent::Connect { port, .. }
            | NotSent::Tls { port, .. }
            | NotSent::Untrusted { port, .. }
            | NotSent::NotPinned { port, .. }
            | NotSent::Silent { port, .. } => Some(*port),
            NotSent::Login(error) => error.port(),
            NotSent::Resolve { .. } | NotSent::Closed | NotSent::Node { .. } => None,
        }
    }

    /// Whether a lock rejected the request. The lock will be released, so a later retry may succeed.
    pub fn is_locked(&self) -> bool {
        self.is_lock_timeout() || self.says(&["VM is locked ("])
    }

    /// Whether another operation held a lock for longer than Proxmox waits. Unlike the `lock` setting of a VM, such a
    /// lock cannot remain after its operation ended.
    pub fn is_lock_timeout(&self) -> bool {
        self.says(&["can't lock file", "got lock request timeout"])
    }

    /// Whether one node is unreachable or slow. The other nodes of the cluster may still answer.
    pub fn is_node_scoped(&self) -> bool {
        match self {
            Self::NotSent { source: NotSent::Node { .. }, .. } => true,
            Self::MaybeApplied { source: Lost::Proxy { status, .. }, .. } => {
                (595..=599).contains(status)
            }
            Self::MaybeApplied { source: Lost::Unwatched { source, .. }, .. } => {
                source.is_node_scoped()
            }
            _ => false,
        }
    }

    /// Name of the node that is unreachable or slow, from the path of the request.
    pub fn silent_node(&self) -> Option<&str> {
        if !self.is_node_scoped() {
            return None;
        }
        match self {
            Self::MaybeApplied { source: Lost::Unwatched { upid, .. }, .. } => {
                Some(upid.node().as_str())
            }
            Self::NotSent { operation, .. } | Self::MaybeApplied { operation, .. } => {
                let (_, rest) = operation.split_once(" /nodes/")?;
                rest.split('/').next()
            }
            Self::Rejected(_) | Self::TaskFailed(_) => None,
        }
    }

    /// Whether no server answered, because the host is down or the network path to it is broken.
    pub fn is_unanswered(&self) -> bool {
        match self {
            Self::NotSent { source, .. } => match source {
                NotSent::Resolve { .. }
                | NotSent::Connect { .. }
                | NotSent::Silent { .. }
                | NotSent::Closed => true,
                NotSent::Login(error) => error.is_unanswered(),
                // A server with an untrusted certificate has answered.
                NotSent::Tls { source, .. } => source.kind() != io::ErrorKind::InvalidData,
                NotSent::Untrusted { .. } | NotSent::NotPinned { .. } | NotSent::Node { .. } => {
                    false
                }
            },
            Self::MaybeApplied { source, .. } => match source {
                Lost::Cut(_) | Lost::Silent => true,
                Lost::Unwatched { source, .. } => source.is_unanswered(),
                Lost::Proxy { .. } | Lost::Unreadable(_) | Lost::Unfinished { .. } => false,
            },
            Self::Rejected(_) | Self::TaskFailed(_) => false,
        }
    }

    /// Whether the VM does not exist, or does not exist on this node. For a caller with few privileges, Proxmox reports
    /// a missing permission instead.
    pub fn is_vm_missing(&self) -> bool {
        let is_file = self.says(&["Configuration file '"]) && self.says(&["' does not exist"]);
        is_file || self.says(&["unable to find configuration file for VM"])
    }

    /// Whether the requested object does not exist, or an object that it needs does not exist.
    pub fn is_not_found(&self) -> bool {
        !self.is_permission()
            && self.says(&["does not exist", "unable to find configuration file", "no such task"])
    }

    pub fn is_already_exists(&self) -> bool {
        self.says(&["already exists", "already used", "refusing to override existing file"])
    }

    /// Whether the caller is authenticated but lacks a privilege.
    pub fn is_permission(&self) -> bool {
        self.status() == Some(403)
            || self.says(&["Permission check failed", "only root can", "Only root "])
    }

    /// Whether the caller is not authenticated, or its ticket has expired.
    pub fn is_auth(&self) -> bool {
        match self {
            Self::NotSent { source: NotSent::Login(error), .. } => error.is_auth(),
            _ => self.status() == Some(401),
        }
    }

    /// Whether another client changed the config since it was read.
    pub fn is_digest_mismatch(&self) -> bool {
        self.says(&["file change by other user", "file changed by other user"])
    }

    /// Whether an operation on the host timed out, for example because a disk is busy or a start is slow.
    pub fn is_timeout(&self) -> bool {
        self.says(&["got timeout"])
    }

    /// Whether the host could not start the process of a task. No task runs, but a create has already reserved the vmid
    /// and left it locked. The caller must check this before a retry.
    pub fn is_task_unstarted(&self) -> bool {
        self.says(&["start worker failed"])
    }

    /// Whether the tag policy of the datacenter (`user-tag-access`, `registered-tags`) does not allow the caller to set
    /// these tags.
    pub fn is_tag_policy(&self) -> bool {
        self.is_permission() && self.says(&["for modifying tag"])
    }

    /// Whether the storage is full.
    pub fn is_full(&self) -> bool {
        self.says(&[
            "No space left on device",
            "no space left on device",
            "out of space",
            "insufficient free space",
            "free space in thin pool",
        ])
    }

    /// Whether the same request can be sent again, because it was not sent or because a lock rejected it.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::NotSent { .. }) || self.is_locked()
    }

    /// HTTP status of a rejected request.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Rejected(rejection) => Some(rejection.status),
            _ => None,
        }
    }

    /// Whether the error text of the server contains one of these texts.
    fn says(&self, words: &[&str]) -> bool {
        let contains = |text: &str| words.iter().any(|words| text.contains(words));
        match self {
            Self::Rejected(rejection) => {
                contains(&rejection.message) || rejection.errors.values().any(|text| contains(text))
            }
            Self::TaskFailed(failure) => failure.words().any(contains),
            Self::NotSent { .. } | Self::MaybeApplied { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use crate::error::{Lost, NotSent, PveError, TaskFailure};
    use crate::response::interpret;

    fn answer(status: u16, message: &str) -> PveError {
        interpret("PUT /x", status, message, b"").unwrap_err()
    }

    fn task(exit: &str) -> PveError {
        let upid = "UPID:pve1:1:2:3:qmcreate:300:talmox@pve:".parse().unwrap();
        let operation = "POST /nodes/pve1/qemu".to_owned();
        TaskFailure { operation, upid, exit: exit.to_owned(), log_tail: vec![] }.into()
    }

    #[test]
    fn locks_are_recognized_in_answers_and_tasks() {
        for text in [
            "can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout",
            "cfs-lock 'storage-ceph' error: got lock request timeout",
            "VM is locked (clone)",
        ] {
            assert!(answer(500, text).is_locked(), "{text}");
            assert!(task(&format!("clone failed: {text}")).is_retryable(), "{text}");
            let is_mark = text.starts_with("VM is locked");
            assert_eq!(answer(500, text).is_lock_timeout(), !is_mark, "{text}");
        }
        assert!(!answer(500, "VM 300 is running - destroy failed").is_retryable());
    }

    #[test]
    fn proxy_errors_are_distinguished_from_errors_of_the_node() {
        let unreachable = answer(595, "No route to host");
        assert!(matches!(unreachable, PveError::NotSent { .. }));
        assert!(unreachable.is_node_scoped() && unreachable.is_retryable());
        assert_eq!(unreachable.silent_node(), None, "the operation names no node");
        let of_node = interpret("GET /nodes/pve2/qemu/300/config", 595, "No route to host", b"");
        assert_eq!(of_node.unwrap_err().silent_node(), Some("pve2"));
        for status in [596, 597, 599] {
            let lost = answer(status, "Connection timed out");
            assert!(matches!(lost, PveError::MaybeApplied { .. }), "{lost:?}");
            assert!(lost.is_node_scoped() && !lost.is_retryable());
        }
        let gateway = answer(502, "Bad Gateway");
        assert!(matches!(gateway, PveError::MaybeApplied { .. }) && !gateway.is_node_scoped());
    }

    #[test]
    fn unanswered_is_distinguished_from_untrusted() {
        let tls = |kind: io::ErrorKind| {
            let source = io::Error::new(kind, "handshake");
            PveError::not_sent("GET /x", NotSent::Tls { host: "pve1".into(), port: 8006, source })
        };
        assert!(tls(io::ErrorKind::UnexpectedEof).is_unanswered());
        assert!(!tls(io::ErrorKind::InvalidData).is_unanswered());
        assert!(PveError::lost("GET /x", Lost::Silent).is_unanswered());
        assert!(!answer(595, "No route to host").is_unanswered(), "a proxy answered");
        assert!(!answer(500, "no").is_unanswered());
    }

    #[test]
    fn error_texts_are_classified() {
        let gone =
            answer(500, "Configuration file 'nodes/pve1/qemu-server/401.conf' does not exist");
        assert!(gone.is_not_found() && gone.is_vm_missing());
        assert!(
            task("unable to find configuration file for VM 100 on node 'pve2'").is_vm_missing()
        );
        let storage = answer(500, "storage 'ghost' does not exist");
        assert!(storage.is_not_found() && !storage.is_vm_missing());
        let pool = answer(403, "Permission check failed (pool 'nosuch' does not exist)");
        assert!(pool.is_permission() && !pool.is_not_found());
        assert!(
            answer(500, "unable to create VM 300 - VM 300 already exists on node 'pve1'")
                .is_already_exists()
        );
        assert!(task("snapshot name 's1' already used").is_already_exists());
        assert!(answer(500, "Only root can pass arbitrary filesystem paths.").is_permission());
        assert!(task("refusing to override existing file '/x'").is_already_exists());
        let late = task(
            "unable to create VM 300 - 403 Permission check failed (/vms/300, VM.Config.Options)",
        );
        assert!(late.is_permission());
        assert!(
            answer(500, "only root can set 'hostpci0' config for non-mapped devices")
                .is_permission()
        );
        assert!(answer(401, "No ticket").is_auth());
        let policy = "Permission check failed (/, Sys.Modify for modifying tag 'dev')";
        assert!(answer(403, policy).is_tag_policy() && !late.is_tag_policy());
        let unstarted = answer(500, "got no worker upid - start worker failed");
        assert!(
            unstarted.is_task_unstarted() && !unstarted.is_retryable(),
            "the caller must check first"
        );
        assert!(task("start failed: command '/usr/bin/kvm' failed: got timeout").is_timeout());
        assert!(task("unable to rename temporary file: No space left on device").is_full());
        assert!(answer(500, "checksum mismatch (file change by other user?)").is_digest_mismatch());
        let text = "update failed: detected modified configuration - file changed by other user? Try again.";
        assert!(answer(500, text).is_digest_mismatch());
        let taken = interpret(
            "GET /cluster/nextid",
            400,
            "Parameter verification failed.",
            br#"{"data":null,"errors":{"vmid":"VM 300 already exists"}}"#,
        );
        assert!(taken.unwrap_err().is_already_exists());
    }
}
