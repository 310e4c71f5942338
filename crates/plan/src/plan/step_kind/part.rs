//! Parts of a cluster.

use serde::{Deserialize, Serialize};

/// Part of a cluster, as `--only` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    Images,
    Vms,
    Configs,
    Addons,
}
