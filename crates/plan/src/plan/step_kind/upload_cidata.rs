//! Step: upload the cidata volume of a node.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::id::{NodeName, VolumeId};
use talmox_talos_config::network::FirstNetwork;

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;
use crate::plan::planned_secret::PlannedSecret;

/// Uploads the cidata volume of a node: a volume with the config of the node, and with a unique name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadCidata {
    pub host: NodeName,
    /// The name of the uploaded volume.
    pub volume: VolumeId,
    pub user_data: PlannedSecret,
    pub instance_id: String,
    pub network: FirstNetwork,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for UploadCidata {
    const KIND: &'static str = "upload-cidata";
    const PART: Option<Part> = Some(Part::Vms);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        vec![Privilege::WriteImages(self.volume.storage())]
    }

    fn burden(&self) -> Burden {
        Burden::on(&self.host, [self.volume.storage().clone()])
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
