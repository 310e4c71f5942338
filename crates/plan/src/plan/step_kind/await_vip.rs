//! Step: wait for the shared address.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Waits until the shared address answers. If no holder of the address is certain, a timeout is reported and is not an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitVip {
    pub address: IpAddr,
    pub port: u16,
    pub by: VipBringer,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for AwaitVip {
    const KIND: &'static str = "await-vip";
    const PART: Option<Part> = None;
    const PHASE: RunPhase = RunPhase::End;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        vec![]
    }

    fn burden(&self) -> Burden {
        Burden::default()
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}

/// Holder of the shared address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VipBringer {
    /// Talos. It holds the address as soon as etcd runs.
    Talos,
    /// The add-on of this name.
    Addon(String),
    /// Possibly a component that talmox cannot check.
    #[serde(rename = "unknown")]
    Perhaps,
    /// No holder is known.
    #[serde(rename = "none")]
    Nobody,
}
