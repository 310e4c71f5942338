//! Step: fetch an image to a storage.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::api::storage::Checksum;
use talmox_pve_types::id::{NodeName, VolumeId};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Fetches an image to a storage, with the content type `import`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchImage {
    /// The host of the storage. For a shared storage, any host that has the storage.
    pub host: NodeName,
    pub volume: VolumeId,
    pub url: String,
    /// The checksum in the inventory.
    pub checksum: Option<Checksum>,
    /// URLs of files in which the source may publish a checksum. Empty if the inventory has a checksum. The public Image
    /// Factory publishes no checksums. Without a checksum, only length, magic bytes and virtual size are checked.
    #[serde(rename = "checksum_urls")]
    pub sums: Vec<String>,
    /// The ways to try, in this order. There may be several, because a host may have no access to the Internet.
    pub ways: Vec<FetchWay>,
    /// Whether the file existed when the plan was made. The step then checks that the file is complete. Usually the file is
    /// complete, so the preflight check does not require the privilege to write the file.
    pub is_present: bool,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for FetchImage {
    const KIND: &'static str = "fetch-image";
    const PART: Option<Part> = Some(Part::Images);
    const PHASE: RunPhase = RunPhase::Preparation;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        if self.is_present {
            return vec![];
        }
        vec![Privilege::WriteImages(self.volume.storage())]
    }

    fn burden(&self) -> Burden {
        Burden::on(&self.host, [self.volume.storage().clone()])
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}

/// How an image is written to its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FetchWay {
    /// The host downloads the image.
    Download,
    /// talmox downloads the image and uploads it to the storage.
    Stream,
}
