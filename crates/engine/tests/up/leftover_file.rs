//! Files that remain on storages after a cluster was destroyed.

use talmox_engine::step::{Cut, Moment};
use talmox_plan::plan::{StepId, show};
use talmox_plan::planning::DestroyOptions;
use talmox_pve::api::storage::{self, Content};

use super::inventory::{HEAD, PAIR, pair};
use super::rig::{ADMIN, LabOptions, Rig, once};

const IMAGES: DestroyOptions = DestroyOptions { images: true, secrets: false };

/// Import files on both hosts, read with administrator rights.
async fn files(rig: &Rig) -> Vec<String> {
    let mut all = vec![];
    for host in ["pve1", "pve2"] {
        let host = host.parse().unwrap();
        let list = storage::content(&host, &"local".parse().unwrap(), Some(Content::Import), None);
        let found = rig.client(ADMIN).send(&list).await.unwrap();
        all.extend(found.into_iter().map(|volume| format!("{host} {}", volume.volid.file_name())));
    }
    all
}

/// A lab in which the token may delete images.
fn tidy() -> Rig {
    let role = "privs: [Datastore.Audit, Datastore.AllocateTemplate]}";
    let more = role.replace('[', "[Datastore.Allocate, ");
    Rig::of(LabOptions { with: vec![(role, more)], ..LabOptions::default() })
}

fn on_both_hosts() -> String {
    pair().replace("ip: 10.0.0.21", "host: pve2, ip: 10.0.0.21")
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_deleted_from_all_hosts_with_the_cluster() {
    let rig = tidy();
    let text = on_both_hosts();
    rig.up(&text).await.assert_done();
    assert_eq!(files(&rig).await.len(), 2);
    rig.destroy(&text).await.assert_done();
    assert_eq!(files(&rig).await.len(), 2, "only who asks for it loses images");
    // The VMs were destroyed before.
    let ran = rig.destroy_with(&text, IMAGES).await;
    ran.assert_done();
    assert_eq!(ran.plan.steps.len(), 2, "{}", show::text(&ran.plan));
    assert_eq!(files(&rig).await, Vec::<String>::new());
    assert!(rig.destroy_with(&text, IMAGES).await.plan.steps.is_empty());
    rig.up(&text).await.assert_done();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_foreign_or_cannot_be_deleted_are_kept_and_reported() {
    let rig = Rig::start();
    let text = on_both_hosts();
    rig.up(&text).await.assert_done();
    let ran = rig.destroy_with(&text, IMAGES).await;
    ran.assert_done();
    let shown = show::text(&ran.plan);
    assert!(
        shown.contains("is kept: the token lacks Datastore.Allocate on /storage/local"),
        "{shown}"
    );
    assert_eq!(files(&rig).await.len(), 2);
    // With another version of Talos, the images do not belong to this inventory.
    let other = text.replace("v1.11.2", "v1.12.4");
    let ran = rig.destroy_with(&other, IMAGES).await;
    let shown = show::text(&ran.plan);
    assert!(shown.contains("this inventory does not use it"), "{shown}");
    assert_eq!(files(&rig).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_with_configs_do_not_outlive_the_vms() {
    let rig = Rig::start();
    let text = format!("{HEAD}boot: cidata\n{PAIR}");
    // The run is killed before the upload is scrubbed.
    let scrub = StepId::new("vm/wk-1/scrub-config");
    let (hook, times) = once(&scrub, Moment::BeforeAct, Cut::Crash);
    rig.up_with(&text, Some(hook)).await;
    assert_eq!(*times.lock().unwrap(), 1);
    rig.destroy(&text).await.assert_done();
    let left = files(&rig).await;
    assert!(left.iter().any(|file| file.contains("-wk-1.raw")), "it may not be deleted: {left:?}");
    let list = storage::content(
        &"pve1".parse().unwrap(),
        &"local".parse().unwrap(),
        Some(Content::Import),
        None,
    );
    let found = rig.client(ADMIN).send(&list).await.unwrap();
    for volume in found.iter().filter(|volume| {
        volume.volid.file_name().rsplit_once('.').is_some_and(|(_, end)| end == "raw")
    }) {
        assert_eq!(volume.size, Some(4096), "only zeros are left in {}", volume.volid);
    }
    // A second run has nothing left to do.
    assert!(rig.destroy(&text).await.plan.steps.is_empty());
}
