//! Errors that occur when the desired state is derived from an inventory.

use talmox_model::{Node, Span};
use talmox_pve_types::id::BadId;
use talmox_talos_config::generate::GenerateError;
use talmox_talos_config::patch::PatchError;

/// Why the desired state cannot be derived.
#[derive(Debug, thiserror::Error)]
pub enum DeriveError {
    #[error("{what} is not known")]
    Missing { what: &'static str, hint: &'static str },
    #[error("the secret was not looked up")]
    Unresolved { span: Span },
    #[error("generate the config")]
    Generate(#[source] GenerateError),
    #[error("apply talmox's own settings")]
    Own(#[source] PatchError),
    #[error("apply a patch")]
    Patch { span: Span, source: PatchError },
    #[error("the overlay is not one mapping")]
    Overlay { span: Span },
    #[error("Talos rejects the config: {}", together(.0))]
    Invalid(Vec<Problem>),
    /// A name that the inventory allows, but Proxmox does not.
    #[error(transparent)]
    Name(#[from] BadId),
    /// An error about one node.
    #[error("cannot render `{node}`")]
    Node { node: String, source: Box<Self> },
}

/// A problem for which Talos rejects a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub message: String,
    /// Position in the inventory of the patch that causes the problem. None if no patch causes the problem.
    pub patch: Option<Span>,
}

fn together(problems: &[Problem]) -> String {
    let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    messages.join("; ")
}

impl DeriveError {
    /// This error, as an error about a node.
    #[must_use]
    pub fn of(self, node: &Node) -> Self {
        Self::Node { node: node.name.value.to_string(), source: Box::new(self) }
    }
}
