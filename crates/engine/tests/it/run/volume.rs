//! Cidata volumes: upload, scrub and detach.

use std::net::IpAddr;

use talmox_engine::step::{Cut, Moment};
use talmox_plan::plan::{Action, CreateVm, DetachCidata, OwnVm, ScrubCidata, Step, UploadCidata};
use talmox_pve::api::storage::{self, Content};
use talmox_pve::id::VolumeId;
use talmox_pve::property::Drive;
use talmox_talos_config::network::FirstNetwork;
use talmox_talos_config::secret::SecretText;

use super::rig::{
    ADMIN, DEADLINE, RELEASES, Rig, TALMOX, finish, id, machine, once, own, start, step,
};

const UPLOAD: &str = "local:import/cp-1.raw";
const SECRET: &str = "version: v1alpha1 # with a key that nobody may see";

fn upload() -> Action {
    Action::UploadCidata(UploadCidata {
        host: id("pve1"),
        volume: id(UPLOAD),
        user_data: SecretText::new(SECRET).into(),
        instance_id: "i-1".to_owned(),
        network: network(),
        deadline: DEADLINE,
    })
}

fn network() -> FirstNetwork {
    let nameservers: Vec<IpAddr> = vec!["10.0.0.1".parse().unwrap()];
    FirstNetwork { hostname: "cp-1".to_owned(), nameservers, ..FirstNetwork::default() }
}

fn scrub(delete: bool) -> Action {
    let (host, volume) = (id("pve1"), id(UPLOAD));
    Action::ScrubCidata(ScrubCidata { host, volume, delete, deadline: DEADLINE })
}

pub(super) fn with_cidata(own: &OwnVm) -> Vec<Step> {
    let volume: VolumeId = id(UPLOAD);
    let options = machine(own, "local:import/talos.qcow2")
        .drive(&id("scsi1"), &Drive::import(&id("local-lvm"), &volume));
    let create = CreateVm {
        own: own.clone(),
        pool: Some(id("talos")),
        options,
        running: None,
        deadline: DEADLINE,
    };
    let detach =
        DetachCidata { own: own.clone(), slot: id("scsi1"), protect: false, deadline: DEADLINE };
    vec![
        step("upload", upload(), &[]),
        step("create", Action::CreateVm(create), &["upload"]),
        step("scrub", scrub(false), &["create"]),
        step("finish", finish(own, talmox_pve::config::VmOptions::new()), &["create"]),
        step("start", start(own), &["finish"]),
        step("detach", Action::DetachCidata(detach), &["start"]),
    ]
}

/// Size of the uploaded file. None if it does not exist.
pub(super) async fn size(rig: &Rig) -> Option<u64> {
    let list = storage::content(&id("pve1"), &id("local"), Some(Content::Import), None);
    let files = rig.client(ADMIN).send(&list).await.unwrap();
    files.into_iter().find(|file| file.volid == id(UPLOAD)).map(|file| file.size.unwrap())
}

#[tokio::test]
async fn a_config_on_a_volume_is_deleted_after_its_use() {
    for release in RELEASES {
        let rig = Rig::start(release);
        let own = own("cp-1", 300);
        let ran = rig.run(&with_cidata(&own)).await;
        ran.assert_done();
        // These roles lack the right to delete the file, so it stays and contains only zeros.
        assert_eq!(size(&rig).await, Some(4096));
        let config = rig.config(&own.vm).await;
        assert!(config.get("scsi1").is_none() && config.get("unused0").is_none());
        let volumes = storage::content(&id("pve1"), &id("local-lvm"), None, Some(own.vm.vmid));
        let left = rig.client(ADMIN).send(&volumes).await.unwrap();
        assert_eq!(left.len(), 3, "{left:?}");
        let shown = format!("{:?} {:?}", ran.events, ran.outcome);
        assert!(!shown.contains("nobody may see") && !rig.record().contains("nobody may see"));
        let steps = [
            step("scrub", scrub(false), &[]),
            step("detach", with_cidata(&own)[5].action.clone(), &[]),
        ];
        assert_eq!(rig.run(&steps).await.results(), ["scrub already", "detach already"]);
    }
}

#[tokio::test]
async fn an_upload_is_deleted_if_the_token_has_the_right() {
    let rig = Rig::start("9.2");
    let steps = [step("upload", upload(), &[]), step("scrub", scrub(true), &["upload"])];
    rig.run_with(&steps, &rig.context(ADMIN)).await.assert_done();
    assert_eq!(size(&rig).await, None);
    // A token that lacks the right to delete the file overwrites it with zeros and reports that.
    let ran = rig.run(&steps).await;
    ran.assert_done();
    assert_eq!(size(&rig).await, Some(4096));
    assert!(
        ran.notes()[0].contains("was overwritten with zeros and not deleted"),
        "{:?}",
        ran.notes()
    );
}

#[tokio::test]
async fn an_interrupted_upload_is_repeated() {
    for moment in [Moment::BeforeAct, Moment::AfterAct] {
        let rig = Rig::start("9.2");
        let own = own("cp-1", 300);
        let mut context = rig.context(TALMOX);
        context.cut = Some(once("upload", moment, Cut::Crash));
        assert!(!rig.run_with(&with_cidata(&own), &context).await.outcome.is_done());
        rig.run(&with_cidata(&own)).await.assert_done();
        assert_eq!(size(&rig).await, Some(4096));
    }
}

#[tokio::test]
async fn a_volume_in_use_by_a_guest_is_kept_until_it_stops() {
    let rig = Rig::start("9.2");
    let own = own("cp-1", 300);
    let busy = talmox_lab::pve::Action::Reject {
        status: 400,
        message: "Parameter verification failed.".to_owned(),
    };
    let steps = with_cidata(&own);
    rig.run(&steps[..5]).await.assert_done();
    rig.inject_fault("PUT", "/nodes/pve1/qemu/300/config", busy);
    // The change is rejected and not pending, so the guest is not the cause.
    let (text, _) = rig.run(&steps[5..]).await.failure();
    assert!(text.contains("detach scsi1 from VM 300"), "{text}");
    assert_eq!(rig.run(&steps[5..]).await.results(), ["detach done"]);
}
