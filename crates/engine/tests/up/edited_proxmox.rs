//! VMs of a cluster whose notes and names were replaced in Proxmox. The inventory does not refer to them any more, and with
//! `boot: cidata` their configs contain no addresses.

use std::time::Duration;

use talmox_clock::Chance;
use talmox_plan::plan::{Finding, FindingCode};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::{VmChange, VmOptions};
use tokio::task::JoinSet;

use super::rig::{ADMIN, Rig};

/// Edits by a user of the VMs of the first run in Proxmox, in addition to new names and notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProxmoxEdit {
    /// Whether the tags stay. The UUIDs always stay.
    are_tags_kept: bool,
    are_stopped: bool,
}

impl ProxmoxEdit {
    pub(crate) fn draw(chance: &mut Chance) -> Self {
        Self { are_tags_kept: chance.below(2) == 0, are_stopped: chance.below(2) == 0 }
    }

    pub(crate) async fn apply(self, rig: &Rig) {
        for guest in rig.guests().await {
            let number = guest.vmid.get();
            if !(300..=302).contains(&number) {
                continue;
            }
            let name = format!("old-{number}");
            let set = VmOptions::new().name(&name).description("web server");
            let delete = if self.are_tags_kept { vec![] } else { vec!["tags".to_owned()] };
            let change = VmChange { set, delete, ..VmChange::default() };
            let vm = Vm::new(&guest.node, guest.vmid);
            rig.client(ADMIN).send(&qemu::set_config(&vm, &change)).await.unwrap();
            if self.are_stopped && guest.status == "running" {
                rig.stop_vm(number).await;
            }
        }
    }

    /// The text about the sign that such a VM may belong to the cluster.
    fn sign(self) -> &'static str {
        if self.are_tags_kept {
            "has the tags talmox and home, and no valid marker in its notes"
        } else {
            "has a UUID such as talmox derives, is in a pool of home"
        }
    }
}

const HEAD: &str = "
cluster_name: home
talos_version: v1.11.2
proxmox: {endpoint: 'https://pve1:8006', node: pve1, pool: talos, vmid_range: 300-399}
network: {subnet: 10.0.0.0/24, gateway: 10.0.0.1, nameservers: [1.1.1.1]}
timeouts: {task: 5m, image: 10m, boot: 3m, bootstrap: 5m, health: 4m}
boot: cidata
";
const NO_DISCOVERY: &str = "patches: {all: [{cluster: {discovery: {enabled: false}}}]}\n";
const OLD: &str = "
controlplane:
  - {name: cp-1, ip: 10.0.0.11}
  - {name: cp-2, ip: 10.0.0.12}
  - {name: cp-3, ip: 10.0.0.13}
";
const NEW: &str = "
controlplane:
  - {name: new-1, ip: 10.0.0.61, vmid: 350}
  - {name: new-2, ip: 10.0.0.62, vmid: 351}
  - {name: new-3, ip: 10.0.0.63, vmid: 352}
";

/// Edits the VMs of the first run. A plan that is made afterwards reports them, and the run of an earlier plan stops before
/// it bootstraps etcd.
async fn bootstrap_beside(edit: ProxmoxEdit) {
    let rig = Rig::start();
    // Without this patch, running nodes would find each other through the discovery service.
    let discovery = if edit.are_stopped { "" } else { NO_DISCOVERY };
    let (old, new) = (format!("{HEAD}{discovery}{OLD}"), format!("{HEAD}{discovery}{NEW}"));
    let early = rig.plan(&new).await;
    assert_eq!(early.errors().count(), 0, "{:?}", early.findings);
    rig.up(&old).await.assert_done();
    assert_eq!(rig.lab.etcd_clusters(), 1);
    edit.apply(&rig).await;
    // The list of all VMs shows the edits after the next round of the status daemon.
    rig.lab.clock().sleep(Duration::from_secs(20)).await;
    // Once in the folder of the first run, and once in a fresh clone.
    for is_clone in [false, true] {
        if is_clone {
            rig.files.lock().unwrap().clear();
        }
        let plan = rig.plan(&new).await;
        let found: Vec<&Finding> =
            plan.errors().filter(|one| one.code == FindingCode::VmUnidentified).collect();
        assert_eq!(found.len(), 3, "{edit:?}: {:?}", plan.findings);
        for (number, finding) in (300..).zip(found) {
            let words = format!("VM {number} (old-{number}) on pve1 {}", edit.sign());
            assert!(finding.message.contains(&words), "{edit:?}: {}", finding.message);
        }
    }
    let failures = rig.carry_out(early, &new, None).await.failures();
    assert!(failures.contains("etcd is not bootstrapped: VM 30"), "{edit:?}: {failures}");
    assert!(failures.contains(edit.sign()), "{edit:?}: {failures}");
    assert_eq!(rig.lab.etcd_clusters(), 1, "{edit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn vms_whose_notes_were_replaced_keep_etcd_from_being_bootstrapped() {
    let mut running = JoinSet::new();
    for are_tags_kept in [true, false] {
        for are_stopped in [true, false] {
            running.spawn(bootstrap_beside(ProxmoxEdit { are_tags_kept, are_stopped }));
        }
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
}
