//! Machines that do not boot correctly.

use talmox_engine::event::Event;
use talmox_lab::FaultScript as _;
use talmox_lab::pve::{Action as FaultAction, Fault};
use talmox_plan::plan::show;
use talmox_pve::api::cluster;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::api::task::{self, Filter};

use super::inventory::{HEAD, home, pair, short_timeouts, with_short_timeouts};
use super::rig::{ADMIN, CompletedRun, LabOptions, Rig};

/// The fault is gone, but the machine still hangs in the first boot that an earlier run started. talmox does not reset it:
/// the hint asks the user to do that. Then the same command resumes.
async fn resumes_after_a_reset_by_hand(rig: &Rig) {
    rig.lab.faults().clear();
    let before = resets(rig).await;
    let ran = rig.up(&short_timeouts()).await;
    let text = ran.failures();
    assert!(text.contains("reset its VM (on pve1: qm reset "), "{text}");
    assert_eq!(resets(rig).await, before, "no VM of an earlier run is reset");
    let found = rig.client(ADMIN).send(&cluster::resources()).await.unwrap();
    let guest = found.guests.iter().find(|guest| guest.name.as_deref() == Some("wk-1")).unwrap();
    let vm = Vm::new(&guest.node, guest.vmid);
    rig.client(ADMIN).send(&qemu::reset(&vm)).await.unwrap();
    resumes(rig).await;
}

/// The fault is gone, and the same command resumes.
async fn resumes(rig: &Rig) {
    rig.lab.faults().clear();
    rig.up(&short_timeouts()).await.assert_done();
    rig.lab_state(&pair()).await.assert_complete(&["cp-1"], &["wk-1"]);
}

async fn up(fault: &str) -> (Rig, CompletedRun) {
    let rig = Rig::start();
    let script = format!("faults:\n  - {{node: wk-1, {fault}}}\n");
    for fault in Fault::parse("faults.yaml", &script).unwrap() {
        rig.lab.faults().add(fault);
    }
    let ran = rig.up(&short_timeouts()).await;
    (rig, ran)
}

pub(crate) async fn resets(rig: &Rig) -> usize {
    let request = task::list(&"pve1".parse().unwrap(), &Filter::default());
    let tasks = rig.client(ADMIN).send(&request).await.unwrap();
    tasks.iter().filter(|task| task.upid.kind() == "qmreset").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_stalls_once_is_reset_and_comes_up() {
    let (rig, ran) = up("stall: true").await;
    ran.assert_done();
    assert_eq!(resets(&rig).await, 1);
    assert!(ran.notes().iter().any(|note| note.contains("wk-1") && note.contains("(1 of 2)")));
    rig.lab_state(&pair()).await.assert_complete(&["cp-1"], &["wk-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_always_stalls_is_reset_twice_and_then_fails() {
    let (rig, ran) = up("stall: true, times: always").await;
    let text = ran.failures();
    assert!(text.contains("wk-1 does not come up after 2 resets"), "{text}");
    assert_eq!(resets(&rig).await, 2);
    resumes_after_a_reset_by_hand(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_reboots_for_ever_fails() {
    let (rig, ran) = up("boot: true, crash: true, times: always").await;
    let text = ran.failures();
    assert!(text.contains("wk-1 does not come up"), "{text}");
    assert!(resets(&rig).await <= 2);
    resumes(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_without_output_fails() {
    let (rig, ran) = up("boot: true, freeze: true, times: always").await;
    let text = ran.failures();
    assert!(text.contains("wk-1 does not come up"), "{text}");
    assert!(resets(&rig).await <= 2);
    resumes_after_a_reset_by_hand(&rig).await;
}

/// If two of three control planes were reset at the same time, etcd would lose its majority.
#[tokio::test(flavor = "multi_thread")]
async fn control_planes_that_stall_are_reset_one_after_the_other() {
    let rig = Rig::start();
    let faults =
        ["cp-1", "cp-2", "cp-3"].map(|node| format!("  - {{node: {node}, stall: true}}\n"));
    for fault in Fault::parse("faults.yaml", &format!("faults:\n{}", faults.concat())).unwrap() {
        rig.lab.faults().add(fault);
    }
    let ran = rig.up(&with_short_timeouts(&home())).await;
    ran.assert_done();
    assert_eq!(resets(&rig).await, 3);
    // Step of the control plane that was reset and has not answered since.
    let mut booting: Option<&str> = None;
    for event in &ran.events {
        match &event.what {
            Event::StepNote { step, text } if text.contains("its VM was reset") => {
                assert_eq!(booting, None, "{step} is reset");
                booting = Some(step);
            }
            Event::StepWaits { step, reason } if !reason.starts_with("booting") => {
                booting = booting.filter(|booting| booting != step);
            }
            Event::StepEnded { step, .. } => booting = booting.filter(|booting| booting != step),
            _ => {}
        }
    }
}

/// The other machine appears after the plan was made, with a boot way in which talmox sends configs.
#[tokio::test(flavor = "multi_thread")]
async fn another_machine_that_waits_for_a_config_gets_none() {
    let rig = Rig::start();
    let script = "faults:\n  - {method: POST, path: '/nodes/*/qemu/303/status/start', \
                  impostor: {node: 10.0.0.21, as: maintenance}}\n";
    for fault in Fault::parse("faults.yaml", script).unwrap() {
        rig.lab.faults().add(fault);
    }
    let text = rig.up(&short_timeouts()).await.failures();
    let foreign_machine = "the machine at 10.0.0.21 is not the VM 303 of wk-1: its SMBIOS UUID is ";
    assert!(text.contains(foreign_machine) && text.contains("nothing was sent to it"), "{text}");
    assert!(!text.contains("cp-1"), "{text}");
}

const UBUNTU: &str = "
machine:
  os: ubuntu
  image: {url: https://cloud-images.ubuntu.com/releases/noble/release/ubuntu-24.04-server-cloudimg-amd64.img}
  cloud_init: {packages: [qemu-guest-agent]}
controlplane: [{name: ub-1, ip: 10.0.0.31}]
workers: [{name: ub-2, ip: 10.0.0.32}]
";

#[tokio::test(flavor = "multi_thread")]
async fn an_ubuntu_that_does_not_come_up_is_waited_for_again() {
    let with = vec![("Pool.Audit]", "Pool.Audit, VM.GuestAgent.Audit]".to_owned())];
    let rig = Rig::of(LabOptions { with, ..LabOptions::default() });
    let text = with_short_timeouts(&format!("{HEAD}{UBUNTU}"));
    let reject =
        FaultAction::Reject { status: 500, message: "QEMU guest agent is not running".into() };
    rig.inject_fault("POST", "/nodes/{node}/qemu/304/agent/ping", u64::MAX, reject);
    let ran = rig.up(&text).await;
    let failures = ran.failures();
    let words = "ubuntu/ub-2/up: VM 304 does not come up in time: its guest agent does not answer";
    assert!(failures.starts_with(words), "{failures}");
    assert_eq!(ran.outcome.failures().count(), 1, "{failures}");
    let again = rig.plan(&text).await;
    let ids: Vec<&str> = again.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["ubuntu/ub-2/up"]);
    rig.lab.faults().clear();
    rig.carry_out(again, &text, None).await.assert_done();
    let plan = rig.plan(&text).await;
    assert!(plan.is_empty(), "{}", show::text(&plan));
}
