//! Step: overwrite an uploaded config with zeros.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::id::{NodeName, VolumeId};

use super::StepKind;
use super::burden::Burden;

/// Size of an overwritten upload, in bytes. No volume with a config is as small.
pub const SCRUBBED: usize = 4096;

/// Overwrites an upload with zeros, by another upload of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubCidata {
    pub host: NodeName,
    pub volume: VolumeId,
    /// Whether the token may delete the volume.
    pub delete: bool,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for ScrubCidata {
    const KIND: &'static str = "scrub-cidata";

    fn burden(&self) -> Burden {
        Burden::on(&self.host, [self.volume.storage().clone()])
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
