//! Tests of all client operations except those on VMs, on both releases.

use std::collections::BTreeMap;

use talmox_lab::Settings;
use talmox_pve::Client;
use talmox_pve::api::storage::{Checksum, Content, Download, Upload};
use talmox_pve::api::{access, cluster, ha, mapping, node, pool, storage, task};
use talmox_pve::client::FileSource;
use talmox_pve::id::StorageId;

use crate::rig::{RELEASES, Rig, TALMOX, TIMEOUT, id, test_scenario, vmid};
use crate::server;

const GIB: u64 = 1 << 30;

#[tokio::test]
async fn the_cluster_is_read() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        let version = client.send(&cluster::version()).await.unwrap();
        let (major, minor) = release.split_once('.').unwrap();
        assert_eq!(version.major(), major.parse().ok());
        assert_eq!(version.minor(), minor.parse().ok());

        let status = client.send(&cluster::status()).await.unwrap();
        assert_eq!(status.name.as_deref(), Some("home"));
        assert!(status.quorate);
        let members: Vec<_> = status.members.iter().map(|m| (m.node.as_str(), m.online)).collect();
        assert_eq!(members, [("pve1", true), ("pve2", true)]);
        assert!(status.members[0].local && status.members[0].ip.is_some());

        assert_eq!(client.send(&cluster::next_id()).await.unwrap(), vmid(105));
        assert_eq!(client.send(&cluster::is_free(vmid(400))).await.unwrap(), vmid(400));
        let taken = client.send(&cluster::is_free(vmid(101))).await.unwrap_err();
        assert!(taken.is_already_exists() && taken.status() == Some(400), "{taken:?}");
        assert_eq!(client.send(&cluster::options()).await.unwrap().http_proxy, None);

        let nodes = client.send(&node::list()).await.unwrap();
        assert_eq!(nodes.len(), 2);
        for node in &nodes {
            assert_eq!(node.status, "online");
            assert_eq!((node.max_cpu, node.max_memory), (Some(16), Some(64 * GIB)));
            assert_eq!(
                node.fingerprint.as_ref().unwrap().to_string(),
                rig.lab.ready().pve.fingerprint
            );
        }
        let bridges = client.send(&node::bridges(&id("pve1"))).await.unwrap();
        assert_eq!(bridges.len(), 1);
        assert_eq!(bridges[0].name.as_str(), "vmbr0");
        assert!(bridges[0].active && bridges[0].cidr.is_some());
        let devices = client.send(&node::pci_devices(&id("pve2"))).await.unwrap();
        assert_eq!(devices.len(), 1);
        let device = &devices[0];
        assert_eq!(device.address, "0000:01:00.0");
        assert_eq!((device.vendor.as_str(), device.device.as_str()), ("10de", "2204"));
        assert_eq!(device.iommu_group, Some(1));
    }
}

#[tokio::test]
async fn cluster_resources_are_listed_in_one_request() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        let found = loop {
            let found = client.send(&cluster::resources()).await.unwrap();
            if found.guests.iter().all(|guest| guest.name.is_some()) {
                break found;
            }
        };
        let names: Vec<_> = found.guests.iter().map(|guest| guest.name.as_deref()).collect();
        assert_eq!(names, ["golden", "web", "db", "kept", "shared"].map(Some));
        let guest = |number| found.guests.iter().find(|guest| guest.vmid == vmid(number)).unwrap();
        assert!(guest(100).template && guest(100).is_vm);
        assert_eq!(guest(101).pool, Some(id("spare")));
        assert_eq!(
            (guest(102).status.as_str(), guest(101).status.as_str()),
            ("running", "stopped")
        );
        assert_eq!((guest(102).max_cpu, guest(102).max_memory), (Some(2), Some(2 * GIB)));
        assert_eq!(found.hosts.len(), 2);
        // Both hosts report the shared storage.
        let nas: Vec<_> = found.storages.iter().filter(|s| s.storage.as_str() == "nas").collect();
        assert!(nas.len() == 2 && nas.iter().all(|storage| storage.shared));
    }
}

#[tokio::test]
async fn permissions_are_read() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let rights = rig.token(TALMOX).send(&access::permissions()).await.unwrap();
        assert!(rights.allows("/pool/talos", "VM.Allocate"));
        assert!(rights.allows("/storage/local", "Datastore.AllocateTemplate"));
        assert!(!rights.allows("/storage/local", "Datastore.Allocate"));
        assert!(!rights.allows("/", "Sys.Audit"));
        let rights = rig.admin().send(&access::permissions()).await.unwrap();
        assert!(rights.allows("/vms/300", "VM.Allocate"));
    }
}

#[tokio::test]
async fn storages_and_files() {
    for release in RELEASES {
        let files = server::files(b"0123456789abcdef");
        let reach = BTreeMap::from([("factory.example:80".to_owned(), files)]);
        let rig = Rig::start(Settings { reach, ..test_scenario(release) });
        let client = rig.admin();
        let node = id("pve2");
        let (local, thick): (StorageId, StorageId) = (id("local"), id("thick"));

        let storages = client.send(&storage::list()).await.unwrap();
        let kinds: Vec<_> =
            storages.iter().map(|s| (s.storage.as_str(), s.kind.as_str())).collect();
        assert!(kinds.contains(&("local-lvm", "lvmthin")) && kinds.contains(&("nas", "nfs")));
        let nas = storages.iter().find(|storage| storage.storage.as_str() == "nas").unwrap();
        assert!(nas.shared && !nas.disabled && nas.nodes.is_empty());
        assert_eq!(client.send(&storage::on_node(&node)).await.unwrap().len(), 5);
        let empty = client.send(&storage::status(&node, &thick)).await.unwrap();
        assert_eq!((empty.total, empty.used), (Some(500 * GIB), Some(0)));
        assert!(empty.active && empty.enabled && empty.content == ["images"]);

        let disk = storage::allocate(&node, &thick, vmid(309), &id("vm-309-disk-0"), 1 << 20);
        let disk = client.send(&disk).await.unwrap();
        assert_eq!(disk.to_string(), "thick:vm-309-disk-0");
        let status = client.send(&storage::status(&node, &thick)).await.unwrap();
        assert_eq!((status.used, status.avail), (Some(GIB), Some(499 * GIB)));
        let content = storage::content(&node, &thick, Some(Content::Images), Some(vmid(309)));
        let volumes = client.send(&content).await.unwrap();
        assert_eq!((volumes.len(), &volumes[0].volid), (1, &disk));
        assert_eq!((volumes[0].size, volumes[0].vmid), (Some(GIB), Some(vmid(309))));
        client.run(&storage::delete(&node, &disk), TIMEOUT).await.unwrap();
        let again = client.run(&storage::delete(&node, &disk), TIMEOUT).await.unwrap_err();
        assert!(again.to_string().contains("Failed to find logical volume"), "{again}");
        let file = id("local:import/old.raw");
        for _ in 0..2 {
            client.run(&storage::delete(&node, &file), TIMEOUT).await.unwrap();
        }
        assert_eq!(client.send(&content).await.unwrap(), []);

        let url = "http://factory.example/talos.raw";
        let seen = client.send(&storage::url_metadata(&node, url, true)).await.unwrap();
        assert_eq!((seen.filename.as_deref(), seen.size), (Some("talos.raw"), Some(16)));
        let value = "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f".to_owned();
        let download = Download {
            url: url.to_owned(),
            content: Content::Import,
            name: id("down.raw"),
            checksum: Some(Checksum { algorithm: "sha256".to_owned(), value }),
            compression: None,
            verify_certificates: true,
        };
        for _ in 0..2 {
            let done = client.run(&storage::download(&node, &local, &download), TIMEOUT).await;
            assert_eq!(done.unwrap().warnings, 0);
        }
        let without = Download { checksum: None, ..download };
        let again = client.run(&storage::download(&node, &local, &without), TIMEOUT).await;
        assert!(again.unwrap_err().is_already_exists());
        let imports = storage::content(&node, &local, Some(Content::Import), None);
        let volumes = client.send(&imports).await.unwrap();
        let down = volumes.iter().find(|volume| volume.volid.file_name() == "down.raw").unwrap();
        assert_eq!((down.size, down.format.as_deref()), (Some(16), Some("raw")));
        upload(&client).await;
    }
}

async fn upload(client: &Client) {
    let bytes: &'static [u8] = b"0123456789abcdef";
    let value = "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f".to_owned();
    let upload = |value: String| Upload {
        node: id("pve1"),
        storage: id("local"),
        content: Content::Import,
        name: id("up.raw"),
        checksum: Some(Checksum { algorithm: "sha256".to_owned(), value }),
    };
    let good = upload(value);
    let running = client.upload(&good, FileSource::new(bytes, 16)).await.unwrap();
    assert_eq!((running.upid.kind(), running.upid.node().as_str()), ("imgcopy", "pve1"));
    client.finish(running, TIMEOUT).await.unwrap();
    let imports = storage::content(&good.node, &good.storage, Some(Content::Import), None);
    let volumes = client.send(&imports).await.unwrap();
    let up = volumes.iter().find(|volume| volume.volid == good.volume().unwrap()).unwrap();
    assert_eq!(up.size, Some(16));
    let running = client.upload(&upload("0".repeat(64)), FileSource::new(bytes, 16)).await;
    let failed = match running {
        Ok(running) => client.finish(running, TIMEOUT).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(failed.to_string().contains("checksum"), "{failed}");
}

#[tokio::test]
async fn pools_and_mappings() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        let ids: Vec<String> =
            client.send(&pool::list()).await.unwrap().iter().map(|p| p.id.to_string()).collect();
        assert_eq!(ids, ["empty", "spare", "talos"]);
        let fresh = id("fresh");
        client.send(&pool::create(&fresh, Some("new"))).await.unwrap();
        let members = pool::Members { guests: vec![vmid(101)], storages: vec![id("tank")] };
        let rejected = client.send(&pool::add(&fresh, &members, false)).await.unwrap_err();
        assert_eq!(rejected.status(), Some(500), "it is in another pool: {rejected:?}");
        client.send(&pool::add(&fresh, &members, true)).await.unwrap();
        let found = client.send(&pool::get(&fresh)).await.unwrap();
        assert_eq!(found.comment.as_deref(), Some("new"));
        assert_eq!((found.guests, found.storages), (members.guests.clone(), vec![id("tank")]));
        client.send(&pool::delete(&fresh)).await.unwrap_err();
        client.send(&pool::remove(&fresh, &members)).await.unwrap();
        client.send(&pool::delete(&fresh)).await.unwrap();
        assert_eq!(client.send(&pool::list()).await.unwrap().len(), 3);

        let gpu = id("gpu");
        let all = client.send(&mapping::list(Some(&id("pve2")))).await.unwrap();
        assert_eq!((all.len(), &all[0].id), (1, &gpu));
        assert_eq!(all[0].mapped.problems, Vec::<String>::new());
        let mut mapped = client.send(&mapping::get(&gpu)).await.unwrap();
        assert_eq!(mapped.devices[0].node.as_str(), "pve2");
        assert_eq!(mapped.devices[0].iommu_group, Some(1));
        mapped.description = Some("for the models".to_owned());
        client.send(&mapping::update(&gpu, &mapped)).await.unwrap();
        let stale = client.send(&mapping::update(&gpu, &mapped)).await.unwrap_err();
        assert!(stale.is_digest_mismatch(), "{stale:?}");
        let copy = mapping::Mapped { digest: None, ..mapped };
        client.send(&mapping::create(&id("gpu2"), &copy)).await.unwrap();
        client.send(&mapping::delete(&gpu)).await.unwrap();
        let left = client.send(&mapping::list(None)).await.unwrap();
        assert_eq!((left.len(), left[0].id.as_str()), (1, "gpu2"));
        assert_eq!(left[0].mapped.description.as_deref(), Some("for the models"));
    }
}

#[tokio::test]
async fn high_availability() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        let care = |restarts| ha::HaSettings {
            state: Some("ignored".to_owned()),
            max_restart: Some(restarts),
            comment: Some("mine".to_owned()),
            ..ha::HaSettings::default()
        };
        client.send(&ha::add_resource(vmid(104), &care(2))).await.unwrap();
        client.send(&ha::update_resource(vmid(104), &care(3))).await.unwrap();
        let found = client.send(&ha::resources()).await.unwrap();
        let mine = found.iter().find(|resource| resource.vmid() == Some(vmid(104))).unwrap();
        assert_eq!((mine.state.as_str(), mine.max_restart), ("ignored", Some(3)));
        assert_eq!(mine.comment.as_deref(), Some("mine"));
        if release == "8.4" {
            groups(&client).await;
        } else {
            rules(&client).await;
        }
        client.send(&ha::delete_resource(vmid(104))).await.unwrap();
        assert_eq!(client.send(&ha::resources()).await.unwrap().len(), 1);
    }
}

async fn groups(client: &Client) {
    let group = ha::Group {
        group: id("here"),
        nodes: vec![(id("pve1"), Some(2)), (id("pve2"), None)],
        restricted: true,
        comment: None,
    };
    client.send(&ha::create_group(&group)).await.unwrap();
    let found = client.send(&ha::groups()).await.unwrap();
    assert_eq!((found.len(), found.first()), (1, Some(&group)));
    client.send(&ha::delete_group(&group.group)).await.unwrap();
    assert_eq!(client.send(&ha::groups()).await.unwrap(), []);
    assert_eq!(client.send(&ha::rules()).await.unwrap_err().status(), Some(501));
}

async fn rules(client: &Client) {
    let mut rule = ha::Rule {
        rule: id("spread"),
        kind: ha::RuleKind::Apart,
        resources: vec!["vm:103".to_owned(), "vm:104".to_owned()],
        disabled: false,
        comment: None,
        digest: None,
    };
    client.send(&ha::create_rule(&rule)).await.unwrap();
    rule.comment = Some("each for itself".to_owned());
    client.send(&ha::update_rule(&rule)).await.unwrap();
    let mut found = client.send(&ha::rules()).await.unwrap();
    assert!(found[0].digest.take().is_some());
    assert_eq!(found, [rule.clone()]);
    client.send(&ha::delete_rule(&rule.rule)).await.unwrap();
    assert_eq!(client.send(&ha::rules()).await.unwrap(), []);
}

#[tokio::test]
async fn tasks_are_found_read_and_stopped() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        let volume = id("local:import/old.raw");
        let done = client.run(&storage::delete(&id("pve2"), &volume), TIMEOUT).await.unwrap();
        let state = client.send(&task::status(&done.upid)).await.unwrap();
        assert_eq!(state, task::TaskState::Done { warnings: 0 });
        let log = client.send(&task::log(&done.upid, 0, 50)).await.unwrap();
        assert_eq!(log.lines.last().map(String::as_str), Some("TASK OK"));
        assert_eq!(log.total, Some(log.lines.len() as u64));
        client.send(&task::stop(&done.upid)).await.unwrap();
        let filter = task::Filter { kind: Some("imgdel".to_owned()), ..task::Filter::default() };
        let found = client.send(&task::list(&id("pve2"), &filter)).await.unwrap();
        assert_eq!((found.len(), &found[0].upid), (1, &done.upid));
        assert!(found[0].ended.is_some());
        assert_eq!(client.wait(&done.upid, TIMEOUT).await.unwrap(), done);
        let unknown = id("UPID:pve2:0001A2B3:1234ABCD:65F0C0DE:qmstart:300:root@pam:");
        let lost = client.wait(&unknown, TIMEOUT).await.unwrap_err();
        assert!(lost.to_string().contains("is not known"), "{lost:?}");
    }
}
