//! What can go wrong, told apart by what is to be done about it.

use kube::core::Status;

use super::connection::Unanswered;
use super::rejection_text::{misfit, words};

#[derive(Debug, thiserror::Error)]
pub enum KubeError {
    /// Nothing was sent.
    #[error("cannot {operation}: the Kubernetes API does not answer")]
    Unreachable { operation: String, source: Box<Unanswered> },
    /// It may or may not have been done: look before asking again.
    #[error("cannot {operation}: the connection to the Kubernetes API broke")]
    Lost { operation: String, source: Box<dyn std::error::Error + Send + Sync> },
    /// It may or may not have been done: look before asking again.
    #[error("cannot {operation}: the Kubernetes API did not answer in time")]
    Late { operation: String },
    /// The API says no.
    #[error("cannot {operation}: {} ({})", status.message, status.code)]
    Refused { operation: String, status: Box<Status> },
    /// The kind is there, and has no such field, or takes nothing of the kind in it.
    #[error("cannot {operation}: {why}")]
    Misfit { operation: String, why: String },
    /// The API does not have this kind of objects.
    #[error("cannot {operation}: the Kubernetes API knows no {kind}")]
    UnknownKind { operation: String, kind: String },
    /// The API does not have this kind of objects among those of its own, to which nobody adds any.
    #[error("cannot {operation}: Kubernetes has no {kind}")]
    NoSuchKind { operation: String, kind: String },
    #[error("cannot {operation}: the answer makes no sense")]
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
                Self::Refused { operation, status }
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

    /// Whether asking again can help without anybody doing anything.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } | Self::Late { .. } => true,
            // Too much to do, no leader, a webhook that is not up yet.
            Self::Refused { status, .. } => matches!(status.code, 429 | 500 | 502..=504),
            Self::Misfit { .. }
            | Self::UnknownKind { .. }
            | Self::NoSuchKind { .. }
            | Self::Unreadable { .. } => false,
        }
    }

    /// What the API lacks, if that is why it says no: somebody may still bring it.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::UnknownKind { .. } => Some(self.reason()),
            Self::Refused { status, .. } if status.code == 404 => {
                let details = status.details.as_ref().filter(|one| one.kind == "namespaces")?;
                Some(format!("there is no namespace {}", details.name))
            }
            _ => None,
        }
    }

    /// The status of the answer, if there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(status.code),
            _ => None,
        }
    }

    /// The reason while a cluster comes up: a closed port is an API server that is starting.
    pub fn progress(&self) -> String {
        match self {
            Self::Unreachable { source, .. } if source.is_closed() => {
                "the API server is starting".to_owned()
            }
            _ => self.reason(),
        }
    }

    /// Why waiting goes on, in few words.
    pub fn reason(&self) -> String {
        match self {
            Self::Unreachable { source, .. } => source.brief(),
            Self::Lost { .. } => "the connection broke".to_owned(),
            Self::Late { .. } => "no answer came in time".to_owned(),
            Self::Refused { status, .. } => status.message.clone(),
            Self::Misfit { why, .. } => why.clone(),
            Self::UnknownKind { kind, .. } => format!("the Kubernetes API knows no {kind}"),
            Self::NoSuchKind { kind, .. } => format!("Kubernetes has no {kind}"),
            Self::Unreadable { .. } => "the answer makes no sense".to_owned(),
        }
    }
}
