//! Clusters whose VMs are created with different steps, each with its inventory.

use std::time::Duration;

use talmox_plan::planning;
use talmox_pve::id::VmId;

use super::inventory::{HEAD, home};
use super::rig::{LabOptions, Rig};

/// A cluster with its inventory and nodes, and the settings of its lab.
#[derive(Clone, Debug)]
pub(crate) struct TestCluster {
    pub(crate) text: String,
    pub(crate) control_planes: &'static [&'static str],
    pub(crate) workers: &'static [&'static str],
    /// Machines that are not part of the Kubernetes cluster.
    pub(crate) others: &'static [&'static str],
    is_cloned: bool,
}

/// Two control planes. Neither waits for the other, unlike workers, which wait for a control plane.
const TWO: &str = "
controlplane:
  - {name: cp-1, ip: 10.0.0.11}
  - {name: cp-2, ip: 10.0.0.12}
";

const UBUNTU: &str = "  - name: ub-1
    ip: 10.0.0.31
    os: ubuntu
    image: {url: https://cloud-images.ubuntu.com/releases/noble/release/ubuntu-24.04-server-cloudimg-amd64.img}
    cloud_init: {packages: [qemu-guest-agent]}
";

impl TestCluster {
    /// The usual cluster: three control planes and two workers, with the boot way `cloudinit`.
    pub(crate) fn usual() -> Self {
        Self {
            text: home(),
            control_planes: &["cp-1", "cp-2", "cp-3"],
            workers: &["wk-1", "wk-2"],
            others: &[],
            is_cloned: false,
        }
    }

    /// Two control planes that are cloned from a template.
    pub(crate) fn clones() -> Self {
        let nodes = TWO.replace("ip:", "template: talos-v1.11.2-base, ip:");
        Self::two(format!("{HEAD}boot: template\n{nodes}"), true)
    }

    /// Two control planes and an Ubuntu machine, with their configs on volumes.
    pub(crate) fn volumes() -> Self {
        let text = format!("{HEAD}boot: cidata\n{TWO}{UBUNTU}");
        Self { others: &["ub-1"], ..Self::two(text, false) }
    }

    /// The same with more Ubuntu machines than a plan queries.
    pub(crate) fn many_others() -> Self {
        let all: String = (1..=5)
            .map(|nth| {
                UBUNTU.replace("ub-1", &format!("ub-{nth}")).replace("0.31", &format!("0.3{nth}"))
            })
            .collect();
        let Self { text, .. } = Self::volumes();
        let others = &["ub-1", "ub-2", "ub-3", "ub-4", "ub-5"];
        Self { others, ..Self::two(text.replace(UBUNTU, &all), false) }
    }

    fn two(text: String, is_cloned: bool) -> Self {
        let control_planes = &["cp-1", "cp-2"];
        Self { text, control_planes, workers: &[], others: &[], is_cloned }
    }

    /// A lab in the state before the first `up`.
    pub(crate) async fn lab(&self) -> Rig {
        // Queries of guest agents need a right.
        let with = match self.others {
            [] => vec![],
            _ => vec![("Pool.Audit]", "Pool.Audit, VM.GuestAgent.Audit]".to_owned())],
        };
        let rig = Rig::of(LabOptions { with, ..LabOptions::default() });
        if self.is_cloned {
            rig.make_templates(&self.text).await;
        }
        rig
    }
}

impl Rig {
    /// Creates templates, as `talmox template create` does.
    pub(crate) async fn make_templates(&self, text: &str) {
        let desired = self.desired(text);
        let observed = self.observe(&desired).await.unwrap();
        let plan = planning::templates(&desired, &observed, &[VmId::new(200).unwrap()]);
        assert_eq!(plan.errors().count(), 0, "{:#?}", plan.findings);
        self.carry_out(plan, text, None).await.assert_done();
        // The list of all VMs shows the template after the next round of the status daemon.
        while !self.guests().await.iter().any(|guest| guest.template) {
            self.lab.clock().sleep(Duration::from_secs(1)).await;
        }
    }
}
