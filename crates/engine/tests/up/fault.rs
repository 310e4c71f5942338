//! Faults of Proxmox and of the Image Factory while a cluster is created. Either the cluster is created in spite of the
//! fault, or the run fails with an error that names the cause. After the cause is gone, the run is resumed.

use std::time::Duration;

use talmox_engine::event::{Event, Stamped};
use talmox_engine::step::StepCode;
use talmox_lab::pve::{Action as FaultAction, Fault, PathPattern, When};
use talmox_plan::plan::show;
use talmox_plan::planning::{PlanOptions, plan};
use talmox_pve::api::cluster;
use talmox_talos_api::client::Member;

use super::inventory::{another_bundle, home, pair, short_timeouts};
use super::rig::{ADMIN, CompletedRun, LabOptions, Rig};

const QEMU: &str = "/nodes/{node}/qemu";

fn reject(message: &str) -> FaultAction {
    FaultAction::Reject { status: 500, message: message.to_owned() }
}

/// Checks that the state of the lab matches the inventory, and that the plan is empty.
async fn assert_complete(rig: &Rig, text: &str) {
    rig.lab_state(text).await.assert_complete(&["cp-1"], &["wk-1"]);
    let plan = rig.plan(text).await;
    assert!(plan.is_empty() && plan.errors().count() == 0, "{}", show::text(&plan));
}

/// Runs the same command again, and checks that the cluster is complete.
async fn resumes(rig: &Rig, text: &str) {
    rig.up(text).await.assert_done();
    assert_complete(rig, text).await;
}

/// Checks that the cluster is created in spite of the fault.
async fn survives(inject_fault: impl Fn(&Rig)) -> CompletedRun {
    let rig = Rig::start();
    inject_fault(&rig);
    let ran = rig.up(&pair()).await;
    ran.assert_done();
    assert_complete(&rig, &pair()).await;
    ran
}

/// Checks that the run fails with these words, and is resumed after the fault is gone.
async fn stops_with(words: &[&str], inject_fault: impl Fn(&Rig)) {
    let rig = Rig::start();
    inject_fault(&rig);
    // Timeouts are long here, so no step may wait for a condition that cannot be met any more.
    let ran = rig.up(&pair()).await;
    let text = ran.failures();
    for words in words {
        assert!(text.contains(words), "`{words}` is not in\n{text}");
    }
    assert_eq!(ran.outcome.failures().count(), 1, "one cause: {text}");
    rig.lab.faults().clear();
    resumes(&rig, &pair()).await;
}

/// Switches a host on, and waits until Proxmox lists it as online.
async fn comes_back(rig: &Rig, host: &str) {
    rig.lab.switch_on(host);
    for _ in 0..600 {
        let resources = rig.client(ADMIN).send(&cluster::resources()).await;
        if resources.is_ok_and(|all| {
            let mut hosts = all.hosts.iter();
            hosts.any(|one| one.node.as_str() == host && one.status == "online")
        }) {
            return;
        }
        rig.lab.clock().sleep(Duration::from_secs(10)).await;
    }
    panic!("{host} does not come back");
}

/// A host that cannot start the process of a task has not started the work, so the step reads the state and retries.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_a_host_could_not_start_are_retried() {
    for release in ["9.2", "8.4"] {
        let rig = Rig::of(LabOptions { release, ..LabOptions::default() });
        for task in ["download", "resize", "qmstart"] {
            rig.inject_task_fault(task, FaultAction::Unstarted);
        }
        // The error of a release that does not reserve the vmid first.
        rig.inject_fault("POST", QEMU, 1, reject("got no worker upid - start worker failed"));
        let ran = rig.up(&pair()).await;
        ran.assert_done();
        assert_complete(&rig, &pair()).await;
        for task in ["qmstop", "qmdestroy"] {
            rig.inject_task_fault(task, FaultAction::Unstarted);
        }
        rig.destroy(&pair()).await.assert_done();
        assert_eq!(rig.vms().await.into_keys().collect::<Vec<_>>(), [100]);
    }
}

/// Proxmox reserves the vmid of a new VM before it starts the task, and no token can release the vmid.
#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_a_host_could_not_start_leaves_a_locked_vmid_and_is_reported() {
    for release in ["9.2", "8.4"] {
        let rig = Rig::of(LabOptions { release, ..LabOptions::default() });
        rig.inject_task_fault("qmcreate", FaultAction::Unstarted);
        let ran = rig.up(&pair()).await;
        let text = ran.failures();
        assert!(text.contains("qm unlock 30") && text.contains("start worker failed"), "{text}");
        assert_eq!(ran.outcome.failures().count(), 1, "{text}");
        let locked = rig.vms().await.into_values().filter(|vm| vm.config.contains_key("lock"));
        assert_eq!(locked.map(|vm| vm.config["lock"].clone()).collect::<Vec<_>>(), ["create"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_error_is_reported_with_its_reason() {
    stops_with(&["create VM", "the moon is full"], |rig| {
        rig.inject_fault("POST", QEMU, 1, reject("the moon is full"));
    })
    .await;
    stops_with(&["start VM", "the moon is full"], |rig| {
        rig.inject_fault("POST", &format!("{QEMU}/*/status/start"), 1, reject("the moon is full"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_answer_was_lost_is_not_repeated_if_it_was_done() {
    for (method, path) in [
        ("POST", QEMU.to_owned()),
        ("PUT", format!("{QEMU}/*/config")),
        ("POST", format!("{QEMU}/*/status/start")),
        ("POST", "/nodes/{node}/storage/{storage}/download-url".to_owned()),
    ] {
        for lost in [FaultAction::TimedOut, FaultAction::CutAfter] {
            survives(|rig| rig.inject_fault(method, &path, 2, lost.clone())).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_wait_for_locks() {
    survives(|rig| {
        rig.inject_fault("PUT", &format!("{QEMU}/*/config"), 2, FaultAction::LostLock);
        rig.inject_fault("POST", &format!("{QEMU}/*/status/start"), 2, FaultAction::LostLock);
    })
    .await;
}

/// A request that fails because of a lock is retried more often than other requests, until the deadline of the step.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_held_for_long_is_waited_for_and_named() {
    const TIMES: u64 = 14;
    let ran = survives(|rig| {
        let when = When {
            method: Some("PUT".to_owned()),
            path: Some(PathPattern::parse(&format!("{QEMU}/*/config")).unwrap()),
            vmid: Some(300),
            ..When::default()
        };
        let lost = Fault::new(when, FaultAction::LostLock);
        rig.lab.faults().add(Fault { times: Some(TIMES), ..lost });
    })
    .await;
    let is_named = |event: &&Stamped| match &event.what {
        Event::StepRetries { reason, .. } => reason.contains("lock-300.conf' - got timeout"),
        _ => false,
    };
    assert_eq!(ran.events.iter().filter(is_named).count() as u64, TIMES);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_never_answered_is_named() {
    let rig = Rig::start();
    rig.inject_fault("POST", &format!("{QEMU}/*/status/start"), 1, FaultAction::Hang);
    let text = pair().replace("task: 30m", "task: 5m");
    let ran = rig.up(&text).await;
    let failures = ran.failures();
    let named = "it has not ended after 5 min: Proxmox does not answer POST /nodes/pve1/qemu/30";
    assert!(failures.contains(named), "{failures}");
    rig.lab.faults().clear();
    resumes(&rig, &pair()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_task_is_reported_with_the_end_of_its_log() {
    for task in ["qmcreate", "qmstart"] {
        let fail = FaultAction::Fail { percent: 40, message: "the disk is on fire".to_owned() };
        stops_with(&["the disk is on fire"], |rig| rig.inject_task_fault(task, fail.clone())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_image_is_fetched_again() {
    survives(|rig| {
        let when = When {
            method: Some("GET".to_owned()),
            factory: Some(PathPattern::parse("/image/**").unwrap()),
            ..When::default()
        };
        rig.lab.faults().add(Fault::new(when, FaultAction::Truncate { percent: 40 }));
    })
    .await;
}

/// The inventory with all VMs on this host: pve1, whose API talmox uses, or pve2.
fn on(host: &str, text: &str) -> String {
    text.replace("node: pve1", &format!("node: {host}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_goes_down_is_named_and_the_run_is_resumed_later() {
    for (host, words, hint) in [
        ("pve2", "the host pve2 is down or unreachable", "hint: bring the host up"),
        ("pve1", "Proxmox does not answer", "hint: the host at `proxmox.endpoint` is down"),
    ] {
        let rig = Rig::start();
        // The host stays down for the whole run, because a host that is back could start the VM.
        let down = FaultAction::Down { host: host.to_owned(), lasts: None };
        let start = When {
            method: Some("POST".to_owned()),
            path: Some(PathPattern::parse(&format!("{QEMU}/*/status/start")).unwrap()),
            ..When::default()
        };
        // The host fails at the second start, when both VMs are created, because a VM that a failed host left incomplete
        // needs manual work.
        rig.lab.faults().add(Fault { nth: 2, ..Fault::new(start, down) });
        let ran = rig.up(&on(host, &short_timeouts())).await;
        let text = ran.failures();
        assert!(text.contains(words) && text.contains(hint), "{text}");
        comes_back(&rig, host).await;
        resumes(&rig, &on(host, &pair())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_reported_with_the_host_that_goes_down() {
    let rig = Rig::start();
    let short_timeouts = on("pve2", &short_timeouts());
    // The first node has its config by then, and stops with its host.
    let goes_down = async {
        let node = rig.talos("10.0.0.11".parse().unwrap());
        while node.version().await.is_err() {
            rig.lab.clock().sleep(Duration::from_secs(1)).await;
        }
        let down = FaultAction::Down { host: "pve2".to_owned(), lasts: None };
        rig.inject_fault("GET", "/version", 1, down);
        rig.client(ADMIN).send(&cluster::version()).await.unwrap();
    };
    let (ran, ()) = tokio::join!(rig.up(&short_timeouts), goes_down);
    let text = ran.failures();
    assert!(!ran.outcome.is_done() && text.contains("pve2"), "{text}");
    let waits = ran.waits();
    let is_shown = waits.iter().any(|reason| reason.contains("(the host pve2 of"));
    assert!(is_shown, "the reason is shown while it is waited for: {waits:#?}");
    assert!(!ran.notes().iter().any(|note| note.contains("is reset")), "{:?}", ran.notes());
    comes_back(&rig, "pve2").await;
    resumes(&rig, &on("pve2", &pair())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partly_created_vm_is_named_and_not_changed() {
    let rig = Rig::start();
    let lasts = Some(Duration::from_mins(2));
    rig.inject_task_fault("qmcreate", FaultAction::Down { host: "pve1".to_owned(), lasts });
    let ran = rig.up(&short_timeouts()).await;
    let text = ran.failures();
    assert!(
        text.contains("is incomplete: its making was interrupted, and left it locked"),
        "{text}"
    );
    assert!(text.contains("look at it on pve1: qm config 30"), "{text}");
    assert!(text.contains("is empty, and can be removed: qm unlock 30"), "{text}");
    // The plan reports the same, and uses other vmids if the inventory sets another range.
    let shown = show::text(&rig.plan(&pair()).await);
    assert!(
        shown.contains("an interrupted task left VM 30") && shown.contains("qm unlock 30"),
        "{shown}"
    );
    let elsewhere = pair().replace("vmid_range: 300-399", "vmid_range: 310-399");
    rig.up(&elsewhere).await.assert_done();
    let mut lab_state = rig.lab_state(&elsewhere).await;
    let all = lab_state.vms.len();
    lab_state.vms.retain(|_, vm| vm.config.get("lock").is_none_or(|lock| lock != "create"));
    assert!(lab_state.vms.len() < all, "what was left behind is still there");
    lab_state.assert_complete(&["cp-1"], &["wk-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_token_is_named() {
    let mut rig = Rig::start();
    let revoke = FaultAction::Revoke { token: "talmox@pve!ci".to_owned() };
    rig.inject_fault("POST", &format!("{QEMU}/*/status/start"), 1, revoke);
    let ran = rig.up(&short_timeouts()).await;
    let text = ran.failures();
    assert!(text.contains("check the API token"), "{text}");
    assert!(ran.outcome.failures().any(|(_, error)| error.code == StepCode::TokenRejected));
    let error = rig.observe(&rig.desired(&pair())).await.unwrap_err();
    assert!(error.is_auth(), "{error}");
    // With another token the run is resumed.
    rig.token = ADMIN;
    resumes(&rig, &pair()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_storage_is_named() {
    let rig = Rig::start();
    rig.inject_task_fault("qmcreate", FaultAction::Full { storage: "local-lvm".to_owned() });
    let ran = rig.up(&pair()).await;
    let text = ran.failures();
    assert!(text.contains("free space on the storage"), "{text}");
    assert!(ran.outcome.failures().any(|(_, error)| error.code == StepCode::StorageExhausted));
    assert_eq!(rig.vms().await.len(), 1, "nothing half made is left");
    let elsewhere = pair().replace("pool: talos,", "pool: talos, datastore: tank,");
    rig.up(&elsewhere).await.assert_done();
    let lab_state = rig.lab_state(&elsewhere).await;
    lab_state.assert_complete(&["cp-1"], &["wk-1"]);
    assert!(lab_state.vms[&300].config["scsi0"].starts_with("tank:"), "{:?}", lab_state.vms[&300]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_gateway_is_reported_as_missing_time_sync() {
    let rig = Rig::start();
    let lost = short_timeouts().replace("gateway: 10.0.0.1,", "gateway: 10.0.0.254,");
    let ran = rig.up(&lost).await;
    let text = ran.failures();
    assert!(text.contains("etcd does not come up on cp-1 in time: time is not in sync"), "{text}");
    assert!(text.contains("`network.gateway`"), "{text}");
    rig.destroy(&lost).await.assert_done();
    resumes(&rig, &pair()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_to_an_impostor() {
    // A foreign cluster has the addresses, and the plan reports that.
    let mut rig = Rig::start();
    let (own, other) = (rig.bundle.clone(), another_bundle());
    let fresh = rig.plan(&pair()).await;
    rig.bundle = other.clone();
    let theirs = pair().replace("cluster_name: home", "cluster_name: other");
    rig.up(&theirs).await.assert_done();
    let before = rig.lab_state(&theirs).await;
    rig.bundle = own.clone();
    let desired = rig.desired(&pair());
    let observed = rig.observe(&desired).await.unwrap();
    let plan = plan(
        &desired,
        &observed,
        PlanOptions { has_client_files: false, was_up: false, was_bootstrapped: false },
    );
    let text = show::text(&plan);
    assert_eq!(plan.errors().count(), 3, "{text}");
    assert!(text.contains("10.0.0.11 is in use: a node of another cluster"), "{text}");

    // The foreign cluster appeared after the plan was made. VMs with the vmids or addresses are not changed.
    let ran = rig.carry_out(fresh, &pair(), None).await;
    assert!(!ran.outcome.is_done());
    let text = ran.failures();
    assert!(text.contains("VM 300") && text.contains("not"), "{text}");
    rig.bundle = other;
    assert_eq!(rig.lab_state(&theirs).await, before);

    // After the foreign cluster was destroyed, this cluster can use the addresses.
    rig.destroy(&theirs).await.assert_done();
    rig.bundle = own;
    resumes(&rig, &pair()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_control_plane_never_causes_a_second_bootstrap() {
    let rig = Rig::start();
    let text = home();
    rig.up(&text).await.assert_done();
    rig.delete_vm(300).await;

    // etcd still lists the member of cp-1. The dead member is removed before the VM is created again.
    let talos = rig.talos("10.0.0.12".parse().unwrap());
    let id_of = |members: &[Member]| {
        members.iter().find(|member| member.hostname == "cp-1").map(|member| member.id)
    };
    let old = id_of(&talos.etcd_members().await.unwrap());
    assert!(old.is_some());
    let ran = rig.up(&text).await;
    ran.assert_done();
    assert!(ran.plan.steps.iter().any(|step| step.id.as_str() == "etcd/cp-1/leave"));
    let new = id_of(&talos.etcd_members().await.unwrap());
    assert!(new.is_some() && new != old, "{new:?}");
    assert!(ran.plan.steps.iter().all(|step| step.id.as_str() != "etcd/bootstrap"));
    rig.lab_state(&text).await.assert_complete(&["cp-1", "cp-2", "cp-3"], &["wk-1", "wk-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_control_planes_are_queried_before_a_bootstrap() {
    let rig = Rig::start();
    let text = home();
    rig.up(&text).await.assert_done();
    rig.delete_vm(300).await;
    rig.stop_vm(301).await;
    rig.stop_vm(302).await;
    let ran = rig.up(&text).await;
    let failures = ran.failures();
    assert!(failures.contains("etcd is not bootstrapped"), "{failures}");
    let talos = rig.talos("10.0.0.12".parse().unwrap());
    let members = talos.etcd_members().await.unwrap();
    assert_eq!(members.len(), 3, "the one cluster there was");

    // The new machine joins after the dead member was removed from etcd.
    let gone = members.iter().find(|member| member.hostname == "cp-1").unwrap();
    talos.etcd_remove_member(gone.id).await.unwrap();
    rig.up(&text).await.assert_done();
    rig.lab_state(&text).await.assert_complete(&["cp-1", "cp-2", "cp-3"], &["wk-1", "wk-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_lost_its_control_plane_is_created_again_only_on_request() {
    let rig = Rig::start();
    rig.up(&pair()).await.assert_done();
    rig.delete_vm(300).await;
    let before = rig.vms().await;
    let plan = rig.plan(&pair()).await;
    let shown = show::text(&plan);
    assert_eq!(plan.errors().count(), 1, "{shown}");
    assert!(shown.contains("all control planes are gone"), "{shown}");
    assert_eq!(rig.vms().await, before);

    // The client files were removed. Then the worker joins an empty cluster, after the second run has restarted its kubelet.
    rig.files.lock().unwrap().clear();
    let ran = rig.up(&short_timeouts()).await;
    let shown = show::text(&ran.plan);
    assert!(shown.contains("new ones start an empty cluster"), "{shown}");
    let failures = ran.failures();
    assert!(failures.contains("wk-1 is not registered in Kubernetes"), "{failures}");
    assert!(failures.contains("it restarts the kubelet of a running node"), "{failures}");
    resumes(&rig, &pair()).await;
}
