//! Errors of requests to Kubernetes, one variant for each reaction of the caller.

use kube::core::Status;

use super::connection::Unanswered;
use super::rejection_text::{misfit, words};

#[derive(Debug, thiserror::Error)]
pub enum KubeError {
    /// The request was not sent.
    #[error("cannot {operation}: the Kubernetes API does not answer")]
    Unreachable { operation: String, source: Box<Unanswered> },
    /// The request may have been carried out. Read the state before a retry.
    #[error("cannot {operation}: the connection to the Kubernetes API broke")]
    Lost { operation: String, source: Box<dyn std::error::Error + Send + Sync> },
    /// The request may have been carried out. Read the state before a retry.
    #[error("cannot {operation}: the Kubernetes API did not answer in time")]
    Late { operation: String },
    /// The API rejected the request.
    #[error("cannot {operation}: {} ({})", status.message, status.code)]
    Rejected { operation: String, status: Box<Status> },
    /// The kind exists, but a field of the manifest is unknown or has another type.
    #[error("cannot {operation}: {why}")]
    Misfit { operation: String, why: String },
    /// The API does not have this kind yet. A CustomResourceDefinition may add it.
    #[error("cannot {operation}: the Kubernetes API has no {kind}")]
    UnknownKind { operation: String, kind: String },
    /// The group belongs to Kubernetes itself and does not contain this kind. No CustomResourceDefinition can add a
    /// kind to such a group.
    #[error("cannot {operation}: Kubernetes has no {kind}")]
    NoSuchKind { operation: String, kind: String },
    #[error("cannot {operation}: the answer is not valid")]
    Unreadable { operation: String, source: Box<dyn std::error::Error + Send + Sync> },
}

impl KubeError {
    pub(super) fn new(operation: String, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(mut status) => {
                if let Some(why) = misfit(&status) {
                    return Self::Misfit { operation, why };
                }
                status.message = words(&status);
                Self::Rejected { operation, status }
            }
            kube::Error::Service(source) => match source.downcast::<Unanswered>() {
                Ok(source) if matches!(*source, Unanswered::Dial { .. }) => {
                    Self::Unreachable { operation, source }
                }
                Ok(source) => Self::Lost { operation, source },
                Err(source) => Self::Lost { operation, source },
            },
            error @ kube::Error::HyperError(_) => Self::Lost { operation, source: error.into() },
            error => Self::Unreadable { operation, source: error.into() },
        }
    }

    /// Whether a retry may succeed without a change of the manifest or the cluster.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } | Self::Late { .. } => true,
            // For example overload, an etcd cluster without a leader, or a webhook that does not run yet.
            Self::Rejected { status, .. } => matches!(status.code, 429 | 500 | 502..=504),
            Self::Misfit { .. }
            | Self::UnknownKind { .. }
            | Self::NoSuchKind { .. }
            | Self::Unreadable { .. } => false,
        }
    }

    /// The namespace or kind whose absence caused the error. Another manifest or add-on may create it later.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::UnknownKind { .. } => Some(self.reason()),
            Self::Rejected { status, .. } if status.code == 404 => {
                let details = status.details.as_ref().filter(|one| one.kind == "namespaces")?;
                Some(format!("the namespace {} does not exist", details.name))
            }
            _ => None,
        }
    }

    /// The HTTP status with which the API rejected the request. None for other errors.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Rejected { status, .. } => Some(status.code),
            _ => None,
        }
    }

    /// The reason that is shown while a cluster starts. A closed port means that the API server is starting.
    pub fn progress(&self) -> String {
        match self {
            Self::Unreachable { source, .. } if source.is_closed() => {
                "the API server is starting".to_owned()
            }
            _ => self.reason(),
        }
    }

    /// Reason of a wait, in few words.
    pub fn reason(&self) -> String {
        match self {
            Self::Unreachable { source, .. } => source.brief(),
            Self::Lost { .. } => "the connection broke".to_owned(),
            Self::Late { .. } => "no answer came in time".to_owned(),
            Self::Rejected { status, .. } => status.message.clone(),
            Self::Misfit { why, .. } => why.clone(),
            Self::UnknownKind { kind, .. } => format!("the Kubernetes API has no {kind}"),
            Self::NoSuchKind { kind, .. } => format!("Kubernetes has no {kind}"),
            Self::Unreadable { .. } => "the answer is not valid".to_owned(),
        }
    }
}
