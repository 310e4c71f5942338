//! Schematics and images.

use std::collections::BTreeMap;

use talmox_engine::event::{Event, StepEnd};
use talmox_engine::factory;
use talmox_engine::step::Moment;
use talmox_engine::web::{Web, WebError, WebSettings};
use talmox_lab::pve::Action as FaultAction;
use talmox_plan::plan::{Action, DeleteImage, FetchImage, FetchWay, PostSchematic, Step};
use talmox_pve::api::storage::{self, Checksum, Content, Upload, Volume};
use talmox_pve::client::FileSource;
use talmox_talos_api::Reach;
use talmox_talos_config::schematic::Schematic;

use super::rig::{ADMIN, CompletedRun, DEADLINE, RELEASES, Rig, TALMOX, id, step};
use super::website::{Website, qcow2};
use crate::common;

const URL: &str = "http://factory.example/image/x/nocloud-amd64.qcow2";
const PATH: &str = "/image/x/nocloud-amd64.qcow2";
const SUMS: &str = "http://factory.example/image/x/SHA256SUMS";
const VOLUME: &str = "local:import/talos-x.qcow2";
const SIZE: u64 = 1 << 30;

fn rig(release: &str) -> (Rig, Website) {
    let site = Website::default();
    site.put(PATH, qcow2(SIZE));
    let reach = BTreeMap::from([("factory.example:80".to_owned(), site.start())]);
    (Rig::reaching(release, reach), site)
}

fn fetch(ways: &[FetchWay], checksum: Option<Checksum>) -> [Step; 1] {
    let fetch = FetchImage {
        host: id("pve1"),
        volume: id(VOLUME),
        url: URL.to_owned(),
        checksum,
        sums: vec![SUMS.to_owned()],
        ways: ways.to_vec(),
        is_present: false,
        deadline: DEADLINE,
    };
    [step("image", Action::FetchImage(fetch), &[])]
}

const BOTH: &[FetchWay] = &[FetchWay::Download, FetchWay::Stream];

async fn found(rig: &Rig) -> Vec<Volume> {
    let list = storage::content(&id("pve1"), &id("local"), Some(Content::Import), None);
    let mut files = rig.client(ADMIN).send(&list).await.unwrap();
    files.retain(|file| file.volid == id(VOLUME));
    files
}

async fn assert_complete(rig: &Rig) {
    let files = found(rig).await;
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].size, Some(qcow2(SIZE).len() as u64));
    let info = storage::volume(&id("pve1"), &id(VOLUME));
    assert_eq!(rig.client(ADMIN).send(&info).await.unwrap().size, SIZE);
}

/// Uploads a file with the name of the image.
async fn put_there(rig: &Rig, bytes: &'static [u8]) {
    let upload = Upload {
        node: id("pve1"),
        storage: id("local"),
        content: Content::Import,
        name: id("talos-x.qcow2"),
        checksum: None,
    };
    let client = rig.client(ADMIN);
    let file = FileSource::new(bytes, bytes.len() as u64);
    let running = client.upload(&upload, file).await.unwrap();
    client.finish(running, DEADLINE).await.unwrap();
}

#[tokio::test]
async fn a_schematic_is_posted_once() {
    let (rig, site) = rig("9.2");
    let schematic = Schematic::default().with_extensions(["siderolabs/qemu-guest-agent"]);
    let post = |id: String| {
        let action = Action::PostSchematic(PostSchematic {
            factory: "http://factory.example".to_owned(),
            id,
            yaml: schematic.to_yaml(),
            deadline: DEADLINE,
        });
        [step("schematic", action, &[])]
    };
    site.reject(2);
    let ran = rig.run(&post(schematic.id())).await;
    assert_eq!((ran.results(), ran.retries()), (vec!["schematic done".to_owned()], 2));
    let again = rig.run(&post(schematic.id())).await;
    assert_eq!(again.results(), ["schematic already"]);
    assert_eq!(again.reported_end(), Some(StepEnd::Already));
    let posts = site.recorded_requests().iter().filter(|asked| asked.starts_with("POST")).count();
    assert_eq!(posts, 1);
    let (text, hint) = rig.run(&post("0".repeat(64))).await.failure();
    assert!(text.contains("not 000") && hint.contains("image.schematic"), "{text} {hint}");
}

#[tokio::test]
async fn extensions_are_listed() {
    let (rig, site) = rig("9.2");
    let list = br#"[{"name": "siderolabs/tailscale", "ref": "ghcr.io/x:1", "digest": "d"}]"#;
    site.put("/version/v1.11.2/extensions/official", list.to_vec());
    let web = rig.context(TALMOX).web;
    let found = factory::extensions(&web, "http://factory.example/", "v1.11.2").await.unwrap();
    assert_eq!(found[0].name, "siderolabs/tailscale");
    let error = factory::extensions(&web, "http://factory.example", "v9").await.unwrap_err();
    assert!(error.to_string().ends_with("answered with status 404: no such thing"), "{error}");
}

#[tokio::test]
async fn web_servers_need_a_trusted_certificate() {
    let (rig, site) = rig("9.2");
    let plain = rig.context(TALMOX).web;
    site.redirect("/moved", "/version/v1/extensions/official");
    site.put("/version/v1/extensions/official", b"[]".to_vec());
    assert_eq!(plain.get("http://factory.example/moved").await.unwrap(), b"[]");
    site.redirect("/round", "/round");
    let error = plain.get("http://factory.example/round").await.unwrap_err();
    assert!(error.to_string().contains("redirects too often"), "{error}");

    // The certificate of the lab's server is signed by an authority that is unknown without the settings.
    let address = rig.lab.address().to_string();
    let reach = Reach::new([("pve1:8006", address.as_str())]);
    let settings = |authorities| WebSettings { reach: reach.clone(), authorities };
    let url = "https://pve1:8006/api2/json/version?secret=hunter2";
    let untrusted = Web::new(settings(vec![])).unwrap().get(url).await.unwrap_err();
    assert!(matches!(untrusted, WebError::Tls { .. }) && !untrusted.may_pass(), "{untrusted:?}");
    let ca = std::fs::read(rig.lab.ready().pve.ca).unwrap();
    let known = Web::new(settings(ca)).unwrap().get(url).await.unwrap_err();
    assert!(matches!(known, WebError::Status { status: 401, .. }), "{known:?}");
    assert!(!format!("{known} {untrusted}").contains("hunter2"));
}

#[tokio::test]
async fn the_host_fetches_an_image_once() {
    for release in RELEASES {
        let (rig, _site) = rig(release);
        assert_eq!(rig.run(&fetch(BOTH, None)).await.results(), ["image done"]);
        assert_complete(&rig).await;
        let again = rig.run(&fetch(BOTH, None)).await;
        assert_eq!(again.results(), ["image already"]);
        assert_eq!(again.reported_end(), Some(StepEnd::Already), "asking is no waiting");
        assert!(!rig.record().contains("/upload"));
    }
}

#[tokio::test]
async fn an_image_is_uploaded_if_the_token_may_not_download() {
    let (rig, _site) = rig("9.2");
    let acl = "/nodes/pve1/storage/local/download-url";
    let reject = FaultAction::Reject { status: 403, message: "Permission check failed".to_owned() };
    rig.inject_fault("POST", acl, reject);
    let ran = rig.run(&fetch(BOTH, None)).await;
    assert_eq!(ran.results(), ["image done"]);
    assert!(ran.notes()[0].contains("Permission check failed"), "{:?}", ran.notes());
    assert_complete(&rig).await;
    assert_eq!(progress(&ran).last(), Some(&full_size()));
}

/// Progress events: transferred bytes and total bytes.
fn progress(ran: &CompletedRun) -> Vec<(u64, Option<u64>)> {
    let sizes = ran.events.iter().filter_map(|event| match event.what {
        Event::StepProgress { bytes, total, .. } => Some((bytes, total)),
        _ => None,
    });
    sizes.collect()
}

fn full_size() -> (u64, Option<u64>) {
    let length = qcow2(SIZE).len() as u64;
    (length, Some(length))
}

#[tokio::test]
async fn a_download_by_a_host_reports_its_progress() {
    let (rig, _site) = rig("9.2");
    let ran = rig.run(&fetch(&[FetchWay::Download], None)).await;
    assert_eq!(ran.results(), ["image done"]);
    assert_eq!(progress(&ran), [full_size()]);
}

#[tokio::test]
async fn a_download_whose_log_cannot_be_read_succeeds_without_progress() {
    let (rig, _site) = rig("9.2");
    let reject = FaultAction::Reject { status: 403, message: "Permission check failed".to_owned() };
    common::inject_fault(&rig.lab, "GET", "/nodes/pve1/tasks/*/log", 1000, reject);
    let ran = rig.run(&fetch(&[FetchWay::Download], None)).await;
    assert_eq!(ran.results(), ["image done"]);
    assert_eq!((progress(&ran), ran.notes()), (vec![], vec![]));
}

#[tokio::test]
async fn an_image_is_uploaded_if_the_host_has_no_internet() {
    let (rig, _site) = rig("9.2");
    let words = "download failed: wget: unable to resolve host address 'factory.example'";
    rig.inject_task_fault("download", FaultAction::Fail { percent: 0, message: words.to_owned() });
    let ran = rig.run(&fetch(BOTH, None)).await;
    assert_eq!(ran.results(), ["image done"]);
    assert!(rig.record().contains("/upload"));
    assert_complete(&rig).await;
}

#[tokio::test]
async fn a_short_or_wrong_file_is_fetched_again() {
    static SHORT: [u8; 512] = {
        let mut bytes = [0; 512];
        (bytes[0], bytes[1], bytes[2], bytes[3]) = (b'Q', b'F', b'I', 0xfb);
        (bytes[7], bytes[23], bytes[30]) = (3, 16, 1);
        bytes
    };
    for token in [ADMIN, TALMOX] {
        let (rig, _site) = rig("9.2");
        put_there(&rig, &SHORT).await;
        // If the token may delete the file, the host downloads it again. Otherwise talmox overwrites it.
        let ran = rig.run_with(&fetch(BOTH, None), &rig.context(token)).await;
        assert_eq!(ran.results(), ["image done"]);
        assert!(ran.notes()[0].contains("it has 512 bytes instead of"), "{:?}", ran.notes());
        assert_complete(&rig).await;
        let calls = rig.recorded_requests();
        let downloads = calls.iter().filter(|call| call.ends_with("download-url")).count();
        // If the file could not be deleted, this download failed.
        assert_eq!(downloads, 1);
    }
}

#[tokio::test]
async fn a_truncated_download_is_retried() {
    let (rig, site) = rig("9.2");
    site.cut(3);
    let ran = rig.run(&fetch(&[FetchWay::Stream], None)).await;
    assert_eq!(ran.results(), ["image done"]);
    assert_eq!(ran.retries(), 3);
    assert_complete(&rig).await;
}

#[tokio::test]
async fn a_pinned_checksum_is_verified() {
    let (rig, _site) = rig("9.2");
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &qcow2(SIZE));
    let value: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let sha256 = |value: String| Some(Checksum { algorithm: "sha256".to_owned(), value });
    for ways in [&[FetchWay::Download][..], &[FetchWay::Stream]] {
        let (text, _) = rig.run(&fetch(ways, sha256("0".repeat(64)))).await.failure();
        assert!(text.contains("checksum mismatch"), "{text}");
        assert_eq!(found(&rig).await, []);
    }
    let ran = rig.run(&fetch(BOTH, sha256(value))).await;
    assert_eq!(ran.results(), ["image done"]);
}

fn sha256(bytes: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Publishes this checksum for the image.
fn publish(site: &Website, value: &str) {
    let list = format!("{} *other.qcow2\n{value} *nocloud-amd64.qcow2\n", "0".repeat(64));
    site.put("/image/x/SHA256SUMS", list.into_bytes());
}

#[tokio::test]
async fn a_published_checksum_is_verified() {
    for ways in [&[FetchWay::Download][..], &[FetchWay::Stream]] {
        let (rig, site) = rig("9.2");
        publish(&site, &sha256(b"something else"));
        let (text, _) = rig.run(&fetch(ways, None)).await.failure();
        assert!(text.contains("checksum mismatch"), "{text}");
        assert_eq!(found(&rig).await, []);
        publish(&site, &sha256(&qcow2(SIZE)));
        assert_eq!(rig.run(&fetch(ways, None)).await.results(), ["image done"]);
        assert!(rig.record().contains(&sha256(&qcow2(SIZE))), "Proxmox compares it");
    }
}

/// The file has the length and the header of the image, but other content.
#[tokio::test]
async fn a_file_with_another_checksum_is_fetched_again() {
    for (token, way) in [(ADMIN, "download-url"), (TALMOX, "upload")] {
        let (rig, site) = rig("9.2");
        let mut other = qcow2(SIZE);
        *other.last_mut().unwrap() ^= 1;
        put_there(&rig, other.leak()).await;
        publish(&site, &sha256(&qcow2(SIZE)));
        let ran = rig.run_with(&fetch(BOTH, None), &rig.context(token)).await;
        assert_eq!(ran.results(), ["image done"]);
        assert!(ran.notes()[0].contains("checksum mismatch"), "{:?}", ran.notes());
        assert!(
            rig.recorded_requests().iter().any(|call| call.ends_with(way)),
            "{:?}",
            rig.recorded_requests()
        );
        // Now the file has the right content.
        let again = rig.run_with(&fetch(BOTH, None), &rig.context(token)).await;
        assert_eq!((again.results(), again.notes()), (vec!["image already".to_owned()], vec![]));
    }
}

/// A token that may not start downloads cannot let Proxmox compare checksums either.
#[tokio::test]
async fn a_file_without_a_checksum_is_compared_by_its_length() {
    let (rig, site) = rig("9.2");
    assert_eq!(rig.run(&fetch(BOTH, None)).await.results(), ["image done"]);
    publish(&site, &sha256(&qcow2(SIZE)));
    let reject = FaultAction::Reject { status: 403, message: "Permission check failed".to_owned() };
    rig.inject_fault("POST", "/nodes/pve1/storage/local/download-url", reject);
    let ran = rig.run(&fetch(BOTH, None)).await;
    assert_eq!(ran.results(), ["image already"]);
    assert!(ran.notes()[0].contains("was not compared with its checksum"), "{:?}", ran.notes());
}

#[tokio::test]
async fn a_file_that_is_not_an_image_is_reported_before_its_download() {
    let (rig, site) = rig("9.2");
    site.put(PATH, b"<html>a page that says so kindly</html>".to_vec());
    let (text, _) = rig.run(&fetch(BOTH, None)).await.failure();
    assert!(text.contains("is not a qcow2 image"), "{text}");
    assert_eq!(found(&rig).await, []);
}

#[tokio::test]
async fn a_download_task_of_an_earlier_run_is_waited_for() {
    let (rig, _site) = rig("9.2");
    let slow = FaultAction::Delay(std::time::Duration::from_mins(1));
    rig.inject_task_fault("download", slow);
    let first = rig.run_until(&fetch(BOTH, None), "image", Moment::AfterAct).await;
    assert!(!first.outcome.is_done());
    let second = rig.run(&fetch(BOTH, None)).await;
    assert_eq!(second.results(), ["image already"]);
    assert_eq!(second.reported_end(), Some(StepEnd::Done), "it came about while it was waited for");
    let downloads =
        rig.recorded_requests().iter().filter(|call| call.ends_with("download-url")).count();
    assert_eq!(downloads, 1);
}

#[tokio::test]
async fn an_image_is_deleted_only_with_the_right() {
    let (rig, _site) = rig("9.2");
    rig.run(&fetch(BOTH, None)).await.assert_done();
    let delete = DeleteImage { host: id("pve1"), volume: id(VOLUME), deadline: DEADLINE };
    let delete = [step("delete", Action::DeleteImage(delete), &[])];
    let (text, hint) = rig.run(&delete).await.failure();
    assert!(text.contains("Datastore.Allocate") && hint.contains("lacks a right"), "{text} {hint}");
    let context = rig.context(ADMIN);
    assert_eq!(rig.run_with(&delete, &context).await.results(), ["delete done"]);
    assert_eq!(rig.run_with(&delete, &context).await.results(), ["delete already"]);
}
