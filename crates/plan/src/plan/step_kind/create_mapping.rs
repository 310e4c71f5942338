//! Step: create a PCI mapping.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::api::mapping::Mapped;
use talmox_pve_types::id::ConfigId;

use super::StepKind;

/// Creates a PCI mapping of a device, because a token may pass through only mapped devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateMapping {
    pub id: ConfigId,
    pub mapped: Mapped,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for CreateMapping {
    const KIND: &'static str = "create-mapping";

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
