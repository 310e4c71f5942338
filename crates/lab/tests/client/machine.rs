//! Tests of all client operations on VMs, on both releases.

use std::net::IpAddr;
use std::time::Duration;

use talmox_pve::Client;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::{PendingChange, VmChange, VmConfig, VmOptions, drift};
use talmox_pve::id::StorageId;
use talmox_pve::property::{BootOrder, Drive, GIB, IpConfig, Net, Smbios, Tags};

use crate::rig::{RELEASES, Rig, TIMEOUT, id, vm, vmid};

async fn config(client: &Client, vm: &Vm) -> VmConfig {
    client.send(&qemu::config(vm)).await.unwrap()
}

fn set(options: VmOptions) -> VmChange {
    VmChange { set: options, ..VmChange::default() }
}

#[tokio::test]
async fn a_vm_is_created_changed_and_deleted() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        let (new, lvm): (Vm, StorageId) = (vm(300), id("local-lvm"));
        let uuid = "01234567-89ab-4def-8123-456789abcdef";
        let wanted = VmOptions::new()
            .name("cp-1")
            .cores(4)
            .memory_mib(4096)
            .drive(&id("scsi0"), &Drive::import(&lvm, &id("local:import/talos.qcow2")))
            .drive(&id("ide2"), &Drive::cloudinit(&lvm))
            .net(0, &Net::virtio(id("BC:24:11:00:00:01"), &id("vmbr0")))
            .ipconfig(0, &IpConfig::parse("ip=10.0.0.30/24,gw=10.0.0.1"))
            .smbios1(&Smbios::with_uuid(uuid).with("serial", "cp 1"))
            .boot(&BootOrder::of(["scsi0"]))
            .description("made by hand")
            .onboot(true);
        let create = qemu::create(&new, None, &wanted);
        let done = client.run(&create, TIMEOUT).await.unwrap();
        assert_eq!((done.upid.kind(), done.upid.id()), ("qmcreate", "300"));
        let again = client.run(&create, TIMEOUT).await.unwrap_err();
        assert!(again.is_already_exists(), "{again:?}");

        let found = config(&client, &new).await;
        assert_eq!(drift(&wanted, &found), []);
        assert_eq!(found.smbios().uuid.as_deref(), Some(uuid));
        assert_eq!(found.drive(&id("scsi0")).unwrap().size(), Some(4 * GIB));
        assert_eq!(found.cloudinit().unwrap().0.as_str(), "ide2");

        let resize = qemu::resize(&new, &id("scsi0"), 40, found.digest().as_ref());
        client.run(&resize, TIMEOUT).await.unwrap();
        let stale = client.run(&resize, TIMEOUT).await.unwrap_err();
        assert!(stale.is_digest_mismatch(), "{stale:?}");
        let found = config(&client, &new).await;
        assert_eq!(found.drive(&id("scsi0")).unwrap().size(), Some(40 * GIB));

        let tags = Tags::of(["Talmox", "home"]);
        let change =
            VmChange { digest: found.digest(), ..set(VmOptions::new().tags(&tags).cores(6)) };
        client.send(&qemu::set_config(&new, &change)).await.unwrap();
        assert!(
            client.send(&qemu::set_config(&new, &change)).await.unwrap_err().is_digest_mismatch()
        );
        let described = set(VmOptions::new().description("twice"));
        client.run(&qemu::start_config(&new, &described), TIMEOUT).await.unwrap();
        client.send(&qemu::regenerate_cloudinit(&new)).await.unwrap();
        let found = config(&client, &new).await;
        assert_eq!((found.tags(), found.get("cores")), (tags.clone(), Some("6")));
        assert_eq!(found.description(), "twice");
        let listed = client.send(&qemu::list(&new.node)).await.unwrap();
        let entry = listed.iter().find(|entry| entry.vmid == new.vmid).unwrap();
        assert_eq!((entry.name.as_deref(), entry.running), (Some("cp-1"), false));
        assert_eq!(entry.tags, tags);

        client.run(&qemu::delete(&new, true), TIMEOUT).await.unwrap();
        let gone = client.send(&qemu::config(&new)).await.unwrap_err();
        assert!(gone.is_vm_missing() && gone.is_not_found(), "{gone:?}");
    }
}

#[tokio::test]
async fn changes_to_a_running_vm_are_pending() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        let running = vm(102);
        client.send(&qemu::set_config(&running, &set(VmOptions::new().cores(8)))).await.unwrap();
        let pending = async || {
            let all = client.send(&qemu::pending(&running)).await.unwrap();
            all.into_iter().find(|option| option.key == "cores").unwrap()
        };
        let cores = pending().await;
        assert_eq!(cores.value.as_deref(), Some("2"));
        assert_eq!(cores.pending, Some(PendingChange::Set("8".to_owned())));
        assert_eq!(config(&client, &running).await.get("cores"), Some("8"));
        let current = client.send(&qemu::current_config(&running)).await.unwrap();
        assert_eq!(current.get("cores"), Some("2"));
        let revert = VmChange { revert: vec!["cores".to_owned()], ..VmChange::default() };
        client.send(&qemu::set_config(&running, &revert)).await.unwrap();
        assert_eq!(pending().await.pending, None);
    }
}

#[tokio::test]
async fn vms_are_started_stopped_and_reset() {
    let minute = Duration::from_mins(1);
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        let web = vm(101);
        let status = async || client.send(&qemu::current(&web)).await.unwrap();
        assert!(!status().await.running);
        client.run(&qemu::start(&web), TIMEOUT).await.unwrap();
        let running = status().await;
        assert!(running.running && !running.template && !running.ha_managed);
        assert_eq!((running.name.as_deref(), running.max_memory), (Some("web"), Some(2 * GIB)));
        let again = client.run(&qemu::start(&web), TIMEOUT).await.unwrap_err();
        assert!(again.to_string().contains("already running"), "{again}");
        client.run(&qemu::suspend(&web, false), TIMEOUT).await.unwrap();
        assert_eq!(status().await.qmp_status.as_deref(), Some("paused"));
        client.run(&qemu::resume(&web), TIMEOUT).await.unwrap();
        assert_eq!(status().await.qmp_status.as_deref(), Some("running"));
        client.run(&qemu::reset(&web), TIMEOUT).await.unwrap();
        client.run(&qemu::reboot(&web, minute), TIMEOUT).await.unwrap();
        while !status().await.running {
            rig.lab.clock().sleep(Duration::from_secs(1)).await;
        }
        client.run(&qemu::shutdown(&web, minute, true), TIMEOUT).await.unwrap();
        assert!(!status().await.running);
        client.run(&qemu::stop(&web, true), TIMEOUT).await.unwrap();
    }
}

#[tokio::test]
async fn the_guest_agent_reports_addresses() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        client.send(&qemu::agent_ping(&vm(102))).await.unwrap();
        let found = client.send(&qemu::agent_interfaces(&vm(102))).await.unwrap().0;
        let eth0 = found.iter().find(|interface| interface.name == "eth0").unwrap();
        assert_eq!(eth0.mac, Some(id("BC:24:11:AA:00:66")));
        let address: IpAddr = id("10.0.0.102");
        assert!(eth0.addresses.iter().any(|a| (a.ip, a.prefix) == (address, Some(24))));
        let none = client.send(&qemu::agent_ping(&vm(101))).await.unwrap_err();
        assert!(none.to_string().contains("No QEMU guest agent configured"), "{none}");
    }
}

#[tokio::test]
async fn disks_are_added_moved_and_deleted() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        let (web, lvm, tank): (Vm, StorageId, StorageId) = (vm(101), id("local-lvm"), id("tank"));
        let moved = qemu::MoveDisk {
            slot: id("scsi0"),
            from: lvm.clone(),
            to: tank.clone(),
            delete: true,
            digest: config(&client, &web).await.digest(),
        };
        client.run(&qemu::move_disk(&web, &moved), TIMEOUT).await.unwrap();
        let found = config(&client, &web).await;
        assert_eq!(found.drive(&id("scsi0")).unwrap().storage(), Some(&tank));
        assert_eq!(found.get("unused0"), None);

        client.send(&qemu::unlink(&web, &[id("scsi1")], false)).await.unwrap();
        let found = config(&client, &web).await;
        assert_eq!(found.get("scsi1"), None);
        let unused = found.drive(&id("unused0")).unwrap();
        assert_eq!(unused.volume_id(), Some(&id("local-lvm:vm-101-disk-1")));
        client.send(&qemu::unlink(&web, &[id("unused0")], true)).await.unwrap();
        assert_eq!(config(&client, &web).await.get("unused0"), None);
    }
}

#[tokio::test]
async fn templates_are_cloned() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        let web = vm(101);
        client.run(&qemu::make_template(&web), TIMEOUT).await.unwrap();
        assert!(config(&client, &web).await.is_template());
        let again = client.run(&qemu::make_template(&web), TIMEOUT).await.unwrap_err();
        assert_eq!(again.status(), Some(500), "{again:?}");
        for (number, full) in [(301, true), (302, false)] {
            let clone = qemu::CloneVm {
                newid: vmid(number),
                name: format!("copy-{number}"),
                description: "stage=clone".to_owned(),
                pool: Some(id("talos")),
                full,
                storage: full.then(|| id("tank")),
                target: None,
            };
            client.run(&qemu::clone(&web, &clone), TIMEOUT).await.unwrap();
            let found = config(&client, &vm(number)).await;
            assert_eq!(found.name(), Some(clone.name.as_str()));
            assert_eq!(found.description(), "stage=clone");
            assert!(!found.is_template());
            let original = config(&client, &web).await;
            assert_ne!(found.net(0).unwrap().mac, original.net(0).unwrap().mac);
            assert_ne!(found.smbios().uuid, original.smbios().uuid);
            let storage = if full { "tank" } else { "local-lvm" };
            assert_eq!(found.drive(&id("scsi0")).unwrap().storage(), Some(&id(storage)));
        }
    }
}

#[tokio::test]
async fn snapshots_are_rolled_back() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        let web = vm(101);
        let name = id("clean");
        let take = qemu::create_snapshot(&web, &name, Some("as new"), false);
        client.run(&take, TIMEOUT).await.unwrap();
        assert!(client.run(&take, TIMEOUT).await.unwrap_err().is_already_exists());
        client.send(&qemu::set_config(&web, &set(VmOptions::new().cores(7)))).await.unwrap();
        let found = client.send(&qemu::snapshots(&web)).await.unwrap();
        let names: Vec<_> = found.iter().map(|snapshot| snapshot.name.as_str()).collect();
        assert_eq!(names, ["clean", "current"]);
        assert_eq!(found[0].description.as_deref(), Some("as new"));
        assert!(found[0].taken.is_some() && !found[0].with_memory);
        assert_eq!(found[1].parent.as_deref(), Some("clean"));
        client.run(&qemu::rollback(&web, &name, false), TIMEOUT).await.unwrap();
        assert_eq!(config(&client, &web).await.get("cores"), Some("2"));
        client.run(&qemu::delete_snapshot(&web, &name), TIMEOUT).await.unwrap();
        assert_eq!(client.send(&qemu::snapshots(&web)).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn vms_migrate_to_another_host() {
    for release in RELEASES {
        let rig = Rig::test_scenario(release);
        let client = rig.admin();
        let (target, tank) = (id("pve1"), id("tank"));
        let check = client.send(&qemu::check_migrate(&vm(101), Some(&target))).await.unwrap();
        assert!(!check.running && check.local_resources.is_empty());
        let disks: Vec<String> = check.local_disks.iter().map(|d| d.volume.to_string()).collect();
        assert!(disks.contains(&"local-lvm:vm-101-disk-0".to_owned()), "{disks:?}");
        let migrate =
            qemu::Migrate { target: id("pve1"), online: false, local_disks_to: Some(tank) };
        client.run(&qemu::migrate(&vm(101), &migrate), TIMEOUT).await.unwrap();
        assert!(client.send(&qemu::config(&vm(101))).await.unwrap_err().is_vm_missing());
        let there = Vm::new(&target, vmid(101));
        let found = config(&client, &there).await;
        assert_eq!(found.drive(&id("scsi0")).unwrap().storage(), Some(&id("tank")));

        client.run(&qemu::start(&vm(104)), TIMEOUT).await.unwrap();
        let offline = qemu::Migrate { target, online: false, local_disks_to: None };
        let rejected = client.run(&qemu::migrate(&vm(104), &offline), TIMEOUT).await.unwrap_err();
        assert!(rejected.to_string().contains("without --online"), "{rejected}");
        let online = qemu::Migrate { online: true, ..offline };
        client.run(&qemu::migrate(&vm(104), &online), TIMEOUT).await.unwrap();
        let there = Vm::new(&id("pve1"), vmid(104));
        assert!(client.send(&qemu::current(&there)).await.unwrap().running);
    }
}
