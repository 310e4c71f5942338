use std::net::SocketAddr;
use std::time::Duration;

use talmox_engine::execute::StepResult;
use talmox_engine::status::{NodeRole, ObservedCluster, StatusSources, Subject, gather};
use talmox_lab::pve::{Action as FaultAction, Profile};
use talmox_lab::{Lab, Scenario, Settings};
use talmox_plan::desired::Contact;
use talmox_plan::ownership::{Marker, Stage};
use talmox_plan::plan::{Action, ApplyConfig, AwaitUbuntu};
use talmox_pve::api::qemu;
use talmox_pve::api::task::{self, Filter};
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::property::Tags;
use tokio::net::TcpListener;

use super::node::Node;
use super::rig::{Rig, apply_config, facts, name, own_vm, shape};
use crate::common::{self, ADMIN};
use crate::support::bundle;

const ADDRESS: &str = "10.0.0.11";

/// A lab with one host and one running VM, the VM of this node.
fn lab(node: &str) -> Lab {
    let own = own_vm(node);
    let identity = own.identity;
    let marker = Marker {
        cluster: identity.cluster,
        node: node.to_owned(),
        stage: Stage::Made,
        data: None,
        are_tags_rejected: false,
        first_role: None,
        own_tags: Tags::default(),
        notes: None,
    };
    let scenario = format!(
        "release: \"9.2\"\n\
         nodes: [{{name: pve1}}]\n\
         vms:\n\
         - vmid: 300\n  \
           node: pve1\n  \
           status: running\n  \
           config:\n    \
             name: {node}\n    \
             agent: 1\n    \
             memory: 2048\n    \
             ide2: \"local:300/vm-300-cloudinit.qcow2,media=cdrom\"\n    \
             ipconfig0: ip={ADDRESS}/24\n    \
             net0: \"virtio=02:00:00:00:00:11,bridge=vmbr0\"\n    \
             description: \"{marker}\"\n    \
             smbios1: uuid={uuid}\n  \
           guest:\n    \
             interfaces: [{{name: eth0, mac: \"02:00:00:00:00:11\", addresses: [{ADDRESS}/24]}}]\n\
         access:\n  \
           users: [{{userid: root@pam}}]\n  \
           tokens:\n  \
           - {{tokenid: \"root@pam!lab\", secret: 00000000-1111-4222-8333-444444444444, privsep: 0}}\n",
        uuid = identity.uuid,
    );
    let scenario = Scenario::parse("test", &scenario).unwrap();
    let (speed, profile) = (50.0, Profile::Fast);
    Lab::start(Settings { scenario, speed, profile, ..Settings::default() }).unwrap()
}

fn rig(lab: &Lab) -> Rig {
    let mut rig = Rig::at(lab.clock());
    rig.pve = common::client(lab, ADMIN);
    rig
}

async fn resets(rig: &Rig) -> usize {
    let tasks = rig.pve.send(&task::list(&"pve1".parse().unwrap(), &Filter::default())).await;
    tasks.unwrap().iter().filter(|task| task.upid.kind() == "qmreset").count()
}

/// A local port on which no server listens yet.
async fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn a_machine_that_stalls_is_reset_at_most_twice() {
    let lab = lab(&name(ADDRESS));
    let mut rig = rig(&lab);
    rig.lead(ADDRESS, 50000, closed().await);
    let report = rig.run(Action::ApplyConfig(apply_config(ADDRESS))).await;
    let failure = report.failure();
    let start = "cp-11 does not come up after 2 resets: nothing answers: ";
    assert!(failure.starts_with(start), "{failure}");
    let first = "cp-11 did not answer within 150 s of its first boot: its VM was reset (1 of 2)";
    assert_eq!((report.notes.len(), report.notes[0].as_str()), (2, first));
    assert_eq!(resets(&rig).await, 2);
}

const RESET: &str = "/nodes/{node}/qemu/*/status/reset";

#[tokio::test]
async fn a_reset_without_an_answer_is_counted() {
    let lab = lab(&name(ADDRESS));
    let mut rig = rig(&lab);
    rig.lead(ADDRESS, 50000, closed().await);
    common::inject_fault(&lab, "POST", RESET, 1, FaultAction::TimedOut);
    let report = rig.run(Action::ApplyConfig(apply_config(ADDRESS))).await;
    let failure = report.failure();
    assert!(failure.starts_with("cp-11 does not come up after 2 resets: "), "{failure}");
    assert_eq!((report.notes.len(), resets(&rig).await), (2, 2));
}

#[tokio::test]
async fn a_rejected_reset_is_retried_and_not_counted() {
    let lab = lab(&name(ADDRESS));
    let mut rig = rig(&lab);
    rig.lead(ADDRESS, 50000, closed().await);
    common::inject_fault(&lab, "POST", RESET, 1, FaultAction::LostLock);
    let report = rig.run(Action::ApplyConfig(apply_config(ADDRESS))).await;
    let done = resets(&rig).await;
    assert!(done > 0 && report.notes.len() == done, "{done} resets: {:?}", report.notes);
    let why = "(its VM cannot be reset now: reset VM 300 on pve1: ";
    assert!(report.waits.iter().any(|reason| reason.contains(why)), "{:?}", report.waits);

    // If the reset stays impossible, that is part of the final error.
    let before = resets(&rig).await;
    common::inject_fault(&lab, "POST", RESET, u64::MAX, FaultAction::LostLock);
    let step = ApplyConfig { boot: Duration::from_mins(1), ..apply_config(ADDRESS) };
    let report = rig.run(Action::ApplyConfig(step)).await;
    let failure = report.failure();
    assert!(failure.starts_with("cp-11 does not come up: nothing answers: "), "{failure}");
    assert!(failure.contains(why), "{failure}");
    assert_eq!((report.notes.len(), resets(&rig).await), (0, before));
}

#[tokio::test]
async fn a_reset_ends_a_stall() {
    let lab = lab(&name(ADDRESS));
    let mut rig = rig(&lab);
    let at = closed().await;
    rig.lead(ADDRESS, 50000, at);
    let clock = lab.clock();
    tokio::spawn(async move {
        clock.sleep(Duration::from_mins(4)).await;
        let listener = TcpListener::bind(at).await.unwrap();
        Node::serve(listener, ADDRESS, bundle(), facts(ADDRESS));
    });
    let report = rig.run(Action::ApplyConfig(apply_config(ADDRESS))).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(resets(&rig).await, 1);
}

#[tokio::test]
async fn a_foreign_vm_is_not_reset() {
    let lab = lab("somebody-else");
    let mut rig = rig(&lab);
    rig.lead(ADDRESS, 50000, closed().await);
    let report = rig.run(Action::ApplyConfig(apply_config(ADDRESS))).await;
    let failure = report.failure();
    let why = "VM 300 is not the VM of cp-11: it is the VM of the node somebody-else";
    assert_eq!(failure, why);
    assert_eq!(resets(&rig).await, 0);
}

#[tokio::test]
async fn a_machine_booted_without_the_drive_of_its_vm_gets_no_config() {
    let lab = lab(&name(ADDRESS));
    let mut rig = rig(&lab);
    let vm = own_vm(&name(ADDRESS)).vm;
    let step = ApplyConfig { has_drive: true, ..apply_config(ADDRESS) };
    let node = rig.node(ADDRESS, |_| {}).await;
    let qemu::InstanceId(id) = rig.pve.send(&qemu::instance_id(&vm)).await.unwrap();
    let report = rig.run(Action::ApplyConfig(step.clone())).await;
    let failure = report.failure();
    assert!(failure.ends_with(&format!("its instance id is abc, not {id}")), "{failure}");
    assert!(report.hint().contains("on pve1, qm stop 300 && qm start 300"), "{}", report.hint());
    assert!(node.facts().applied.is_empty());

    node.facts().instance_id = id;
    let report = rig.run(Action::ApplyConfig(step.clone())).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(node.facts().applied.len(), 1);

    // The instance id does not identify a VM whose drive has custom files.
    let set = VmOptions::new().set("cicustom", "meta=local:snippets/own.yaml");
    let change = VmChange { set, ..VmChange::default() };
    rig.pve.send(&qemu::set_config(&vm, &change)).await.unwrap();
    let own = rig.node(ADDRESS, |facts| facts.instance_id = "own".to_owned()).await;
    let report = rig.run(Action::ApplyConfig(step)).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(own.facts().applied.len(), 1);
}

#[tokio::test]
async fn a_guest_agent_reports_the_address_of_a_node() {
    let lab = lab(&name(ADDRESS));
    let mut rig = rig(&lab);
    let node = rig.node(ADDRESS, |_| {}).await;
    let mut step = apply_config(ADDRESS);
    step.node.contact = Contact::AskAgent;
    let report =
        rig.run(Action::ApplyConfig(ApplyConfig { shape: shape(ADDRESS, None), ..step })).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(node.facts().applied.len(), 1);
    let ubuntu = AwaitUbuntu {
        own: own_vm(&name(ADDRESS)),
        contact: Contact::AskAgent,
        has_agent: true,
        deadline: Duration::from_mins(1),
    };
    let report = rig.run(Action::AwaitUbuntu(ubuntu)).await;
    assert!(matches!(report.result, StepResult::Already), "{:?}", report.result);
}

#[tokio::test]
async fn the_status_of_a_vm_comes_from_proxmox() {
    let lab = lab(&name(ADDRESS));
    let rig = rig(&lab);
    let subject = Subject {
        name: name(ADDRESS),
        role: NodeRole::Worker,
        is_talos: false,
        own: Some(own_vm(&name(ADDRESS))),
        foreign_vm: None,
        contact: Contact::AskAgent,
    };
    let limit = Duration::from_secs(5);
    let sources = StatusSources { pve: rig.pve.clone(), cluster: rig.access(), limit };
    let observed = async {
        Ok(ObservedCluster { subjects: vec![subject.clone()], ..ObservedCluster::default() })
    };
    let (status, _) = gather("home", std::slice::from_ref(&subject), &sources, observed).await;
    let node = &status.nodes[0];
    assert_eq!(node.address.get(), Some(&ADDRESS.parse().unwrap()));
    let vm = node.vm.get().unwrap();
    assert_eq!((vm.host.as_str(), vm.running, vm.max_memory), ("pve1", true, Some(2 << 30)));
}
