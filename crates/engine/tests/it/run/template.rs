//! Templates, clones, and mappings.

use std::time::Duration;

use talmox_engine::step::Moment;
use talmox_lab::pve::Action as FaultAction;
use talmox_plan::ownership::{Marker, Stage, TemplateMark};
use talmox_plan::plan::{Action, CloneVm, CreateMapping, FinishVm, MakeTemplate, OwnVm, Step};
use talmox_pve::api::mapping::{self, Mapped, MappedDevice};
use talmox_pve::api::qemu;
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::property::{Drive, Net, Smbios, Tags};

use super::rig::{ADMIN, DEADLINE, RELEASES, Rig, description, id, own, resize, start, step, vm};

fn clone(own: &OwnVm, full: bool) -> Action {
    Action::CloneVm(CloneVm {
        own: own.clone(),
        template: vm(900),
        clone: qemu::CloneVm {
            newid: own.vm.vmid,
            name: own.identity.node.clone(),
            description: description(own, Stage::Clone),
            pool: Some(id("talos")),
            full,
            storage: full.then(|| id("local-lvm")),
            target: None,
        },
        running: None,
        deadline: DEADLINE,
    })
}

/// Sets the options that give a clone the identity of its node.
fn settle(own: &OwnVm) -> Action {
    let set = VmOptions::new()
        .description(&description(own, Stage::Made))
        .smbios1(&Smbios::with_uuid(&own.identity.uuid.to_string()))
        .net(0, &Net::virtio(id("BC:24:11:00:00:07"), &id("vmbr0")))
        .cores(4)
        .drive(&id("ide2"), &Drive::cloudinit(&id("local-lvm")))
        .tags(&Tags::of(["talmox"]));
    let delete = vec!["protection".to_owned(), "ciuser".to_owned()];
    Action::FinishVm(FinishVm { own: own.clone(), set, delete, deadline: DEADLINE })
}

pub(super) fn from_template(own: &OwnVm, full: bool) -> Vec<Step> {
    vec![
        step("clone", clone(own, full), &[]),
        step("finish", settle(own), &["clone"]),
        step("resize", resize(own), &["finish"]),
        step("start", start(own), &["resize"]),
    ]
}

#[tokio::test]
async fn a_clone_gets_its_own_identity() {
    for release in RELEASES {
        for full in [true, false] {
            let rig = Rig::start(release);
            let own = own("cp-1", 300);
            rig.run(&from_template(&own, full)).await.assert_done();
            let config = rig.config(&own.vm).await;
            assert_eq!(config.smbios().uuid, Some(own.identity.uuid.to_string()));
            assert_eq!(Marker::find(config.description()).unwrap().stage, Stage::Made);
            assert!(!config.is_protected() && !config.tags().contains("golden"));
            assert!(config.cloudinit().is_some() && config.get("unused0").is_none());
            let again = rig.run(&from_template(&own, full)).await;
            let all = again.results();
            assert!(all.iter().all(|result| result.ends_with("already")), "{all:?}");
        }
    }
}

#[tokio::test]
async fn an_interrupted_clone_is_resumed() {
    for moment in [Moment::BeforeAct, Moment::AfterAct] {
        for at in ["clone", "finish"] {
            let rig = Rig::start("9.2");
            let own = own("cp-1", 300);
            rig.inject_task_fault("qmclone", FaultAction::Delay(Duration::from_secs(30)));
            let first = rig.run_until(&from_template(&own, true), at, moment).await;
            assert!(!first.outcome.is_done());
            rig.run(&from_template(&own, true)).await.assert_done();
            let config = rig.config(&own.vm).await;
            assert_eq!(config.smbios().uuid, Some(own.identity.uuid.to_string()), "{at}");
            let clones =
                rig.recorded_requests().iter().filter(|call| call.ends_with("900/clone")).count();
            assert!(clones <= 2, "{clones}");
        }
    }
}

fn mark() -> TemplateMark {
    TemplateMark { talos: "v1.12.0".to_owned(), schematic: "376567988ad37013".to_owned() }
}

/// The step that creates a template with this name and vmid.
fn make(number: u32, name: &str) -> [Step; 1] {
    let options = VmOptions::new()
        .name(name)
        .description(&mark().description())
        .cores(1)
        .memory_mib(1024)
        .scsihw("virtio-scsi-pci")
        .drive(&id("scsi0"), &Drive::import(&id("local-lvm"), &id("local:import/talos.qcow2")));
    let action = Action::MakeTemplate(MakeTemplate {
        vm: vm(number),
        name: name.to_owned(),
        pool: Some(id("talos")),
        options,
        deadline: DEADLINE,
    });
    [step("template", action, &[])]
}

const TEMPLATE: &str = "talos-v1.12.0-base";

#[tokio::test]
async fn a_created_template_is_found_by_the_next_run() {
    for release in RELEASES {
        let rig = Rig::start(release);
        let make_it = make(901, TEMPLATE);
        let cut = rig.run_until(&make_it, "template", Moment::AfterAct).await;
        assert!(!cut.outcome.is_done());
        assert_eq!(rig.run(&make_it).await.results(), ["template done"]);
        assert!(rig.config(&vm(901)).await.is_template());
        // Users may write text around the line with the template mark.
        let notes = VmOptions::new().description(&format!("Notes.\n\n{}\n\nKeep it.", mark()));
        let change = VmChange { set: notes, ..VmChange::default() };
        rig.client(ADMIN).send(&qemu::set_config(&vm(901), &change)).await.unwrap();
        assert_eq!(rig.run(&make_it).await.results(), ["template already"]);
        let (text, _) = rig.run(&make(901, "talos-v1.13.0-base")).await.failure();
        assert!(text.contains("is not the template"), "{text}");
    }
}

#[tokio::test]
async fn a_template_is_created_once() {
    // The list that plans depend on does not contain the template yet, so it is planned with another vmid.
    for delay in [Duration::ZERO, Duration::from_mins(1)] {
        let rig = Rig::start("9.2");
        rig.inject_task_fault("qmcreate", FaultAction::Delay(delay));
        let cut = rig.run_until(&make(901, TEMPLATE), "template", Moment::AfterAct).await;
        assert!(!cut.outcome.is_done());
        assert_eq!(rig.run(&make(902, TEMPLATE)).await.results(), ["template done"]);
        assert!(rig.config(&vm(901)).await.is_template());
        assert_eq!(rig.run(&make(903, TEMPLATE)).await.results(), ["template already"]);
        let creates =
            rig.recorded_requests().iter().filter(|call| *call == "POST /nodes/pve1/qemu").count();
        assert_eq!(creates, 1);
    }
}

#[tokio::test]
async fn a_mapping_gets_missing_entries_and_keeps_the_others() {
    let rig = Rig::start("9.2");
    let context = rig.context(ADMIN);
    let device = |node: &str, path: &str| MappedDevice {
        node: id(node),
        path: path.to_owned(),
        id: "10de:2204".to_owned(),
        iommu_group: Some(1),
        subsystem_id: None,
    };
    let map = |devices: Vec<MappedDevice>| {
        let mapped = Mapped { devices, ..Mapped::default() };
        let action =
            Action::CreateMapping(CreateMapping { id: id("gpu"), mapped, deadline: DEADLINE });
        [step("mapping", action, &[])]
    };
    let (one, two) = (device("pve2", "0000:01:00.0"), device("pve1", "0000:02:00.0"));
    assert_eq!(rig.run_with(&map(vec![one.clone()]), &context).await.results(), ["mapping done"]);
    assert_eq!(
        rig.run_with(&map(vec![one.clone()]), &context).await.results(),
        ["mapping already"]
    );
    assert_eq!(rig.run_with(&map(vec![two.clone()]), &context).await.results(), ["mapping done"]);
    let known = rig.client(ADMIN).send(&mapping::get(&id("gpu"))).await.unwrap();
    assert_eq!(known.devices, [one, two]);
    let ran = rig.run_with(&map(vec![device("pve2", "0000:09:00.0")]), &context).await;
    assert!(ran.failure().0.contains("already has another device on pve2"));
}
