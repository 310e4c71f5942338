//! Step: apply an add-on.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use crate::desired::AddonSource;

/// Applies the manifests of an add-on, and waits until its workloads run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyAddon {
    pub name: String,
    pub source: AddonSource,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for ApplyAddon {
    const KIND: &'static str = "apply-addon";

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
