//! Tests of delayed updates, partially created VMs, moved VMs, and hosts that are down.

use std::time::Duration;

use talmox_lab::Settings;
use talmox_lab::pve::{Action, Fault, Profile, When};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::api::storage::{self, Content, Upload};
use talmox_pve::api::task::{self, TaskState};
use talmox_pve::api::{cluster, node, pool};
use talmox_pve::client::{Client, FileSource};
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::property::{Drive, Net};

use crate::rig::{RELEASES, Rig, TALMOX, TIMEOUT, id, of, test_scenario, vm, vmid};

async fn guest(client: &Client, number: u32) -> Option<cluster::Guest> {
    let all = client.send(&cluster::resources()).await.unwrap().guests;
    all.into_iter().find(|guest| guest.vmid == vmid(number))
}

#[tokio::test]
async fn cluster_resources_are_updated_with_a_delay() {
    let slowly = Settings { speed: 20.0, profile: Profile::Instant, ..test_scenario("9.2") };
    let rig = Rig::start(slowly);
    let client = rig.admin();
    // pvestatd has just made an update here, so the time until its next update is as long as possible.
    while guest(&client, 101).await.unwrap().name.is_none() {}
    let options = VmOptions::new().name("new").cores(2);
    client.run(&qemu::create(&vm(300), None, &options), TIMEOUT).await.unwrap();
    client.run(&qemu::start(&vm(101)), TIMEOUT).await.unwrap();
    let new = guest(&client, 300).await.unwrap();
    assert_eq!((new.name, new.status.as_str()), (None, "unknown"));
    assert_eq!(guest(&client, 101).await.unwrap().status, "stopped");
    assert!(client.send(&qemu::current(&vm(101))).await.unwrap().running, "its host knows better");
    rig.lab.clock().sleep(Duration::from_secs(15)).await;
    let new = guest(&client, 300).await.unwrap();
    assert_eq!((new.name.as_deref(), new.status.as_str()), (Some("new"), "stopped"));
    assert_eq!(guest(&client, 101).await.unwrap().status, "running");
}

/// Delays tasks of this type, so that they can be observed while they run.
fn delay_tasks(rig: &Rig, kind: &str) {
    let when = When { task: Some(kind.to_owned()), ..When::default() };
    rig.lab.faults().add(Fault::new(when, Action::Delay(Duration::from_mins(30))));
}

#[tokio::test]
async fn a_vm_that_is_being_created_is_in_no_pool() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let (admin, talmox) = (rig.admin(), rig.token(TALMOX));
        let new = vm(300);
        delay_tasks(&rig, "qmcreate");
        let disk = Drive::import(&id("local-lvm"), &id("local:import/talos.qcow2"));
        let options = VmOptions::new().name("cp-1").drive(&id("scsi0"), &disk);
        let create = qemu::create(&new, Some(&id("talos")), &options);
        let running = talmox.start(&create).await.unwrap();

        let config = admin.send(&qemu::config(&new)).await.unwrap();
        let keys: Vec<&str> = config.iter().map(|(key, _)| key).collect();
        assert_eq!((keys, config.lock()), (vec!["digest", "lock"], Some("create")));
        assert_eq!(admin.send(&pool::get(&id("talos"))).await.unwrap().guests, []);
        let forbidden = talmox.send(&qemu::config(&new)).await.unwrap_err();
        assert!(forbidden.is_permission(), "{forbidden:?}");
        assert_eq!(guest(&talmox, 300).await, None);
        // The task that creates the VM holds the lock file.
        let again = talmox.start(&create).await.unwrap_err();
        assert!(again.is_locked(), "{again:?}");
        assert!(talmox.send(&cluster::is_free(vmid(300))).await.unwrap_err().is_already_exists());
        // The task list already contains the VM.
        let filter = task::Filter { vmid: Some(vmid(300)), ..task::Filter::default() };
        let tasks = talmox.send(&task::list(&new.node, &filter)).await.unwrap();
        assert_eq!((tasks.len(), &tasks[0].upid), (1, &running.upid));
        assert_eq!(tasks[0].state, TaskState::Running);
        talmox.finish(running, TIMEOUT * 2).await.unwrap();
        assert_eq!(talmox.send(&qemu::config(&new)).await.unwrap().name(), Some("cp-1"));
        let again = talmox.start(&create).await.unwrap_err();
        assert!(again.is_already_exists(), "{again:?}");
    }
}

#[tokio::test]
async fn a_clone_starts_with_a_placeholder_config() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        delay_tasks(&rig, "qmclone");
        let clone = qemu::CloneVm {
            newid: vmid(300),
            name: "cp-1".to_owned(),
            description: "mine".to_owned(),
            pool: Some(id("talos")),
            full: true,
            storage: Some(id("tank")),
            target: None,
        };
        let running = client.start(&qemu::clone(&vm(100), &clone)).await.unwrap();
        let config = client.send(&qemu::config(&vm(300))).await.unwrap();
        assert_eq!(config.lock(), Some("clone"));
        assert_eq!(config.description().trim(), "qmclone temporary file");
        assert_eq!((config.name(), config.get("scsi0")), (None, None));
        assert_eq!(client.send(&pool::get(&id("talos"))).await.unwrap().guests, []);
        let locked = client.run(&qemu::delete(&vm(300), true), TIMEOUT).await.unwrap_err();
        assert!(locked.is_locked(), "{locked:?}");
        client.finish(running, TIMEOUT * 2).await.unwrap();
        let config = client.send(&qemu::config(&vm(300))).await.unwrap();
        assert_eq!((config.description(), config.lock()), ("mine", None));
        assert_eq!(client.send(&pool::get(&id("talos"))).await.unwrap().guests, [vmid(300)]);
    }
}

const HA_SCENARIO: &str = "
nodes: [pve1, pve2, pve3]
storages: [{storage: nas, type: nfs, server: 10.0.0.5, export: /x, content: images}]
volumes: [{volid: 'nas:104/vm-104-disk-0.raw', size: 8GiB}]
vms:
  - vmid: 104
    node: pve2
    status: running
    config: {name: shared, scsi0: 'nas:104/vm-104-disk-0.raw,size=8G'}
access: {tokens: [{tokenid: 'root@pam!lab', secret: 00000000-1111-4222-8333-444444444444, privsep: 0}]}
ha: {resources: {'vm:104': {state: started}}}
";

#[tokio::test]
async fn a_migrated_vm_is_found_on_its_new_host() {
    let rig = Rig::start(of(HA_SCENARIO));
    let client = rig.admin();
    assert!(client.send(&qemu::current(&vm(104))).await.unwrap().ha_managed);
    let down = Action::Down { host: "pve2".to_owned(), lasts: None };
    rig.lab.faults().add(Fault::new(When::default(), down));
    let found = loop {
        let found = guest(&client, 104).await.unwrap();
        if found.node.as_str() != "pve2" && found.status == "running" {
            break found;
        }
        rig.lab.clock().sleep(Duration::from_secs(10)).await;
    };
    let moved = Vm::new(&found.node, found.vmid);
    let config = client.send(&qemu::config(&moved)).await.unwrap();
    assert_eq!(config.name(), Some("shared"));
    let lost = client.send(&qemu::config(&vm(104))).await.unwrap_err();
    assert!(lost.is_node_scoped() && lost.is_retryable(), "{lost:?}");
}

#[tokio::test]
async fn a_host_that_is_down_does_not_affect_other_hosts() {
    for release in RELEASES {
        let rig = Rig::start(of(&format!(
            "release: '{release}'
nodes: [pve1, {{name: pve2, online: false}}, pve3]
vms: [{{vmid: 101, node: pve1, config: {{name: here}}}}, {{vmid: 102, node: pve2, config: {{name: there}}}}]
access: {{tokens: [{{tokenid: 'root@pam!lab', secret: 00000000-1111-4222-8333-444444444444, privsep: 0}}]}}"
        )));
        let client = rig.admin();
        let unreachable = client.send(&qemu::config(&vm(102))).await.unwrap_err();
        assert!(unreachable.is_node_scoped() && unreachable.is_retryable(), "{unreachable:?}");
        assert!(unreachable.to_string().contains("was not sent"), "{unreachable}");
        let resources = client.send(&cluster::resources()).await.unwrap();
        let at: Vec<_> = resources.guests.iter().map(|guest| guest.node.as_str()).collect();
        assert_eq!(at, ["pve1", "pve2"]);
        assert_eq!(resources.guests[1].status, "unknown");
        let nodes = client.send(&node::list()).await.unwrap();
        assert_eq!(nodes.iter().filter(|node| node.status == "offline").count(), 1);
        assert!(client.send(&cluster::status()).await.unwrap().quorate);
        client.send(&qemu::config(&Vm::new(&id("pve1"), vmid(101)))).await.unwrap();
    }
}

#[tokio::test]
async fn a_shutdown_locks_the_vm_until_it_ends() {
    let slowly = Settings { speed: 50.0, profile: Profile::Slow, ..test_scenario("9.2") };
    let rig = Rig::start(slowly);
    let client = rig.admin();
    let shutdown = qemu::shutdown(&vm(102), Duration::from_mins(5), false);
    let running = client.start(&shutdown).await.unwrap();
    let change = VmChange { set: VmOptions::new().description("x"), ..VmChange::default() };
    let set = qemu::set_config(&vm(102), &change);
    let locked = client.send(&set).await.unwrap_err();
    assert!(locked.is_locked() && locked.is_retryable(), "{locked:?}");
    assert!(locked.to_string().contains("lock-102.conf' - got timeout"), "{locked}");
    client.finish(running, TIMEOUT).await.unwrap();
    client.send(&set).await.unwrap();
    assert!(!client.send(&qemu::current(&vm(102))).await.unwrap().running);
}

#[tokio::test]
async fn a_file_of_nine_bytes_is_not_an_image() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        let here = Vm::new(&id("pve1"), vmid(300));
        for (name, is_image) in [("nine.raw", true), ("nine.qcow2", false)] {
            let upload = Upload {
                node: id("pve1"),
                storage: id("local"),
                content: Content::Import,
                name: id(name),
                checksum: None,
            };
            let file = FileSource::new(&b"9 bytes.."[..], 9);
            let running = client.upload(&upload, file).await.unwrap();
            let stored = client.finish(running, TIMEOUT).await;
            assert_eq!(stored.is_ok(), is_image, "{stored:?}");
            let disk = Drive::import(&id("local-lvm"), &upload.volume().unwrap());
            let options = VmOptions::new().drive(&id("scsi0"), &disk);
            let made = client.run(&qemu::create(&here, None, &options), TIMEOUT).await;
            assert_eq!(made.is_ok(), is_image, "{made:?}");
            if is_image {
                client.run(&qemu::delete(&here, true), TIMEOUT).await.unwrap();
            }
        }
        assert!(client.send(&qemu::config(&here)).await.unwrap_err().is_vm_missing());
    }
}

#[tokio::test]
async fn a_full_storage_rejects_new_volumes() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        let thick = id("thick");
        let with = |gib| VmOptions::new().drive(&id("scsi0"), &Drive::new(&thick, gib));
        client.run(&qemu::create(&vm(300), None, &with(400)), TIMEOUT).await.unwrap();
        let full = client.run(&qemu::create(&vm(301), None, &with(101)), TIMEOUT).await;
        let full = full.unwrap_err();
        assert!(!full.is_retryable() && full.to_string().contains("insufficient"), "{full}");
        assert!(client.send(&qemu::config(&vm(301))).await.unwrap_err().is_vm_missing());
        client.run(&qemu::create(&vm(301), None, &with(100)), TIMEOUT).await.unwrap();
        let status = client.send(&storage::status(&id("pve2"), &thick)).await.unwrap();
        assert_eq!(status.avail, Some(0));
        let elsewhere = client.send(&storage::status(&id("pve1"), &thick)).await.unwrap();
        assert_eq!(elsewhere.used, Some(0), "each host has its own");
    }
}

/// Random values of a lab: a MAC address, a UUID, and the duration of a start in seconds.
async fn drawn(seed: u64) -> (String, String, u64) {
    let slowly = Settings { seed, speed: 20.0, profile: Profile::Slow, ..test_scenario("9.2") };
    let rig = Rig::start(slowly);
    let client = rig.admin();
    let mut net = Net::virtio(id("BC:24:11:00:00:01"), &id("vmbr0"));
    net.mac = None;
    let options = VmOptions::new().net(0, &net);
    client.run(&qemu::create(&vm(300), None, &options), TIMEOUT).await.unwrap();
    let config = client.send(&qemu::config(&vm(300))).await.unwrap();
    let done = client.run(&qemu::start(&vm(300)), TIMEOUT).await.unwrap();
    let filter = task::Filter { kind: Some("qmstart".to_owned()), ..task::Filter::default() };
    let tasks = client.send(&task::list(&id("pve2"), &filter)).await.unwrap();
    let took = tasks[0].ended.unwrap() - done.upid.started();
    let mac = config.net(0).unwrap().mac.unwrap().to_string();
    (mac, config.smbios().uuid.unwrap(), took)
}

#[tokio::test]
async fn the_same_seed_gives_the_same_random_values() {
    let (first, again, other) = tokio::join!(drawn(7), drawn(7), drawn(8));
    assert_eq!((&first.0, &first.1), (&again.0, &again.1));
    assert!(first.2.abs_diff(again.2) <= 2, "{} and {} seconds", first.2, again.2);
    assert_ne!(first.0, other.0);
    assert_ne!(first.1, other.1);
}
