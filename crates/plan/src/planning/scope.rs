//! Scope of a run: the nodes and parts that the run is limited to, and the consent of the user to lose data.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

pub use crate::plan::Part;

/// Limits of a run, and consent of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// The nodes that the run may change. None for all nodes.
    pub nodes: Option<BTreeSet<String>>,
    /// The only part of the cluster that the run may change. None for all parts.
    pub only: Option<Part>,
    /// The nodes whose disks may be lost.
    pub removal: RemovalConsent,
    /// Nodes to replace even if they do not differ from the inventory.
    pub replace: BTreeSet<String>,
    /// Maximum number of workers that may be down at the same time.
    pub max_unavailable: NonZeroUsize,
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            nodes: None,
            only: None,
            removal: RemovalConsent::None,
            replace: BTreeSet::new(),
            max_unavailable: NonZeroUsize::MIN,
        }
    }
}

impl Scope {
    /// Whether the run may change this part of a node.
    pub fn allows(&self, node: &str, part: Part) -> bool {
        let is_node = self.nodes.as_ref().is_none_or(|nodes| nodes.contains(node));
        is_node && self.only.is_none_or(|only| only == part)
    }

    /// Whether the run has only default settings: no limits and no consent to lose data.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Adds consent to lose the disks of these nodes.
    pub fn allow_removal(&mut self, nodes: impl IntoIterator<Item = String>) {
        match &mut self.removal {
            RemovalConsent::All => {}
            RemovalConsent::Nodes(known) => known.extend(nodes),
            RemovalConsent::None => {
                self.removal = RemovalConsent::Nodes(nodes.into_iter().collect());
            }
        }
    }

    /// Whether the run may change this part of the whole cluster.
    pub fn allows_cluster(&self, part: Part) -> bool {
        self.nodes.is_none() && self.only.is_none_or(|only| only == part)
    }
}

/// The nodes that the user consented to remove or replace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemovalConsent {
    #[default]
    None,
    All,
    Nodes(BTreeSet<String>),
}

impl RemovalConsent {
    pub fn covers(&self, node: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Nodes(nodes) => nodes.contains(node),
        }
    }
}
