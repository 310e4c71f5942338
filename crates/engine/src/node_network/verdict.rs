//! Whether a node has the network that its config describes, and why not.

/// State of the network of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeNetwork {
    /// The network is as the config of the node describes it.
    Configured,
    /// The network is as the config of the node describes it, but an additional network card has no address.
    CardWithoutAddress(String),
    NotYet(WaitReason),
}

/// Reason why a wait has not ended, and what to do if the reason persists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitReason {
    pub(crate) text: String,
    /// Instruction for the user. None if the user can only wait longer.
    pub(crate) advice: Option<&'static str>,
}

impl From<String> for WaitReason {
    fn from(text: String) -> Self {
        Self { text, advice: None }
    }
}

impl From<&str> for WaitReason {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

pub(super) fn not_yet(text: String) -> NodeNetwork {
    NodeNetwork::NotYet(text.into())
}
