//! Tests of the creation and deletion of VMs with only the documented privileges.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_lab::Settings;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::api::storage::{self, Content, Download, Upload};
use talmox_pve::api::{cluster, pool};
use talmox_pve::client::{Client, FileSource};
use talmox_pve::config::{PendingChange, VmChange, VmOptions, drift};
use talmox_pve::id::{DiskSlot, StorageId};
use talmox_pve::property::{
    Agent, BootOrder, Drive, GIB, HostPci, IpConfig, Net, PciSource, Smbios, Tags,
};

use crate::rig::{RELEASES, Rig, TALMOX, TIMEOUT, id, test_scenario, vm, vmid};
use crate::server;

const UUID: &str = "01234567-89ab-4def-8123-456789abcdef";
const IMAGE: &[u8] = &[7; 1 << 20];

fn rig(release: &str) -> Rig {
    let files = server::files(IMAGE);
    let reach = BTreeMap::from([("factory.example:80".to_owned(), files)]);
    Rig::start(Settings { reach, ..test_scenario(release) })
}

fn scsi0() -> DiskSlot {
    id("scsi0")
}

fn lvm() -> StorageId {
    id("local-lvm")
}

/// VM options that talmox uses for the creation of a VM. It sets the tags later.
fn machine(image: &str) -> VmOptions {
    VmOptions::new()
        .name("cp-1")
        .description("talmox: cluster=home node=cp-1 v=1")
        .machine("q35")
        .bios("ovmf")
        .cpu("host")
        .cores(2)
        .memory_mib(2048)
        .balloon_mib(0)
        .numa(false)
        .scsihw("virtio-scsi-single")
        .set("efidisk0", "local-lvm:1,efitype=4m,pre-enrolled-keys=0")
        .drive(&scsi0(), &Drive::import(&lvm(), &id(image)).with("discard", "on"))
        .net(0, &Net::virtio(id("BC:24:11:00:00:01"), &id("vmbr0")))
        .serial_socket(0)
        .agent(Agent { enabled: true })
        .smbios1(&Smbios::with_uuid(UUID))
        .boot(&BootOrder::of(["scsi0"]))
}

fn with_cloudinit(options: VmOptions) -> VmOptions {
    options
        .drive(&id("ide2"), &Drive::cloudinit(&lvm()))
        .ipconfig(0, &IpConfig::parse("ip=10.0.0.30/24,gw=10.0.0.1"))
        .nameserver("10.0.0.1")
}

async fn create(client: &Client, vm: &Vm, options: &VmOptions) {
    let request = qemu::create(vm, Some(&id("talos")), options);
    client.run(&request, TIMEOUT).await.unwrap();
    let found = client.send(&qemu::config(vm)).await.unwrap();
    assert_eq!(drift(options, &found), []);
}

/// Resizes the disk, sets the tags, and starts the VM.
async fn bring_up(client: &Client, vm: &Vm) {
    client.run(&qemu::resize(vm, &scsi0(), 40, None), TIMEOUT).await.unwrap();
    let digest = client.send(&qemu::config(vm)).await.unwrap().digest();
    let tags = VmOptions::new().tags(&Tags::of(["talmox", "home"]));
    let change = VmChange { set: tags, digest, ..VmChange::default() };
    client.send(&qemu::set_config(vm, &change)).await.unwrap();
    client.run(&qemu::start(vm), TIMEOUT).await.unwrap();
    assert!(client.send(&qemu::current(vm)).await.unwrap().running);
    let found = client.send(&qemu::config(vm)).await.unwrap();
    assert_eq!(found.drive(&scsi0()).unwrap().size(), Some(40 * GIB));
    let members = client.send(&pool::get(&id("talos"))).await.unwrap().guests;
    assert!(members.contains(&vm.vmid));
}

async fn download(client: &Client) {
    let wanted = Download {
        url: "http://factory.example/talos.raw".to_owned(),
        content: Content::Import,
        name: id("talos-1.raw"),
        checksum: None,
        compression: None,
        verify_certificates: true,
    };
    let request = storage::download(&id("pve2"), &id("local"), &wanted);
    client.run(&request, TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_cloudinit_vm_is_created_changed_and_deleted() {
    for release in RELEASES {
        let rig = rig(release);
        let client = rig.token(TALMOX);
        download(&client).await;
        let new = vm(300);
        create(&client, &new, &with_cloudinit(machine("local:import/talos-1.raw"))).await;
        bring_up(&client, &new).await;
        change_in_place(&client, &new).await;
        destroy(&rig, &client, &new).await;
    }
}

/// Changes options of a running VM. Some changes take effect at once, others are pending. A pending change is cancelled by
/// setting the old value again.
async fn change_in_place(client: &Client, vm: &Vm) {
    let mut net = Net::virtio(id("BC:24:11:00:00:01"), &id("vmbr0"));
    net.firewall = true;
    let set = VmOptions::new()
        .cores(4)
        .description("talmox: cluster=home node=cp-1 v=2")
        .net(0, &net)
        .ipconfig(0, &IpConfig::parse("ip=10.0.0.31/24,gw=10.0.0.1"));
    let wanted = VmChange { set, ..VmChange::default() };
    client.send(&qemu::set_config(vm, &wanted)).await.unwrap();
    let pending = client.send(&qemu::pending(vm)).await.unwrap();
    let waits: Vec<_> = pending.iter().filter(|option| option.pending.is_some()).collect();
    assert_eq!((waits.len(), waits[0].key.as_str()), (1, "cores"), "{waits:?}");
    assert_eq!(waits[0].pending, Some(PendingChange::Set("4".to_owned())));
    let now = client.send(&qemu::current_config(vm)).await.unwrap();
    assert_eq!(now.get("cores"), Some("2"));
    assert!(now.description().ends_with("v=2") && now.net(0).unwrap().firewall);
    client.run(&qemu::reboot(vm, Duration::from_mins(1)), TIMEOUT).await.unwrap();
    while client.send(&qemu::current_config(vm)).await.unwrap().get("cores") != Some("4") {}
    while !client.send(&qemu::current(vm)).await.unwrap().running {}
}

/// Deletes the VM, and checks that nothing of it is left. The VM must be stopped and not protected.
async fn destroy(rig: &Rig, client: &Client, vm: &Vm) {
    let rejected = client.run(&qemu::delete(vm, true), TIMEOUT).await.unwrap_err();
    assert!(rejected.to_string().contains("is running - destroy failed"), "{rejected}");
    let protect = |on| VmChange { set: VmOptions::new().protection(on), ..VmChange::default() };
    client.send(&qemu::set_config(vm, &protect(true))).await.unwrap();
    client.run(&qemu::stop(vm, true), TIMEOUT).await.unwrap();
    let rejected = client.run(&qemu::delete(vm, true), TIMEOUT).await.unwrap_err();
    assert!(rejected.to_string().contains("protection mode enabled"), "{rejected}");
    client.send(&qemu::set_config(vm, &protect(false))).await.unwrap();
    client.run(&qemu::delete(vm, true), TIMEOUT).await.unwrap();
    // With these privileges, a deleted VM and a forbidden VM have the same answer. Only the vmid, which is free now, shows that
    // the VM was deleted.
    let gone = client.send(&qemu::config(vm)).await.unwrap_err();
    assert!(gone.is_permission(), "{gone:?}");
    assert_eq!(client.send(&cluster::is_free(vm.vmid)).await.unwrap(), vm.vmid);
    let left = storage::content(&vm.node, &lvm(), Some(Content::Images), Some(vm.vmid));
    assert_eq!(rig.admin().send(&left).await.unwrap(), []);
}

#[tokio::test]
async fn a_vm_is_created_with_an_uploaded_cidata_volume() {
    for release in RELEASES {
        let rig = rig(release);
        let client = rig.token(TALMOX);
        // An upload is stored on the host that the client is connected to.
        let new = Vm::new(&id("pve1"), vmid(300));
        let upload = Upload {
            node: id("pve1"),
            storage: id("local"),
            content: Content::Import,
            name: id("cp-1.raw"),
            checksum: None,
        };
        let send = async |bytes: &'static [u8]| {
            let file = FileSource::new(bytes, bytes.len() as u64);
            let running = client.upload(&upload, file).await.unwrap();
            client.finish(running, TIMEOUT).await.unwrap();
        };
        send(IMAGE).await;
        let cidata = Drive::import(&lvm(), &upload.volume().unwrap());
        let options = machine("local:import/talos.qcow2").drive(&id("scsi1"), &cidata);
        create(&client, &new, &options).await;
        let found = client.send(&qemu::config(&new)).await.unwrap();
        assert_eq!(found.drive(&id("scsi1")).unwrap().size(), Some(4 << 20), "whole extents");

        // The secret data is overwritten, because the deletion of the volume would need more privileges.
        let rejected = storage::delete(&upload.node, &upload.volume().unwrap());
        assert!(client.run(&rejected, TIMEOUT).await.unwrap_err().is_permission());
        send(&[0; 512]).await;
        let imports = storage::content(&upload.node, &upload.storage, Some(Content::Import), None);
        let files = client.send(&imports).await.unwrap();
        let file = files.iter().find(|file| file.volid == upload.volume().unwrap()).unwrap();
        assert_eq!(file.size, Some(512));

        bring_up(&client, &new).await;
        let detach = VmChange { delete: vec!["scsi1".to_owned()], ..VmChange::default() };
        client.send(&qemu::set_config(&new, &detach)).await.unwrap();
        let found = client.send(&qemu::config(&new)).await.unwrap();
        assert!(found.get("scsi1").is_none() && found.get("unused0").is_some());
        let drop = VmChange { delete: vec!["unused0".to_owned()], ..VmChange::default() };
        client.send(&qemu::set_config(&new, &drop)).await.unwrap();
        assert_eq!(client.send(&qemu::config(&new)).await.unwrap().get("unused0"), None);
        destroy(&rig, &client, &new).await;
    }
}

#[tokio::test]
async fn a_template_is_created_and_cloned() {
    for release in RELEASES {
        let rig = rig(release);
        let client = rig.token(TALMOX);
        let golden = vm(900);
        create(&client, &golden, &with_cloudinit(machine("local:import/talos.qcow2"))).await;
        client.run(&qemu::make_template(&golden), TIMEOUT).await.unwrap();
        for (number, full) in [(300, true), (301, false)] {
            let new = vm(number);
            let clone = qemu::CloneVm {
                newid: new.vmid,
                name: format!("cp-{number}"),
                description: "talmox: cluster=home stage=clone".to_owned(),
                pool: Some(id("talos")),
                full,
                storage: full.then(lvm),
                target: None,
            };
            client.run(&qemu::clone(&golden, &clone), TIMEOUT).await.unwrap();
            let again = client.run(&qemu::clone(&golden, &clone), TIMEOUT).await.unwrap_err();
            assert!(again.is_already_exists(), "{again:?}");
            let found = client.send(&qemu::config(&new)).await.unwrap();
            assert_eq!(found.description(), clone.description);
            assert_ne!(found.smbios().uuid.as_deref(), Some(UUID));
            assert!(found.cloudinit().is_some());
            let set = VmOptions::new()
                .smbios1(&Smbios::with_uuid(UUID))
                .net(0, &Net::virtio(id("BC:24:11:00:00:02"), &id("vmbr0")))
                .cores(4)
                .memory_mib(4096)
                .balloon_mib(0)
                .ipconfig(0, &IpConfig::parse("ip=10.0.0.40/24,gw=10.0.0.1"))
                .description("talmox: cluster=home node=cp-1 v=1")
                .onboot(true);
            let digest = found.digest();
            let change = VmChange { set: set.clone(), digest, ..VmChange::default() };
            client.send(&qemu::set_config(&new, &change)).await.unwrap();
            let found = client.send(&qemu::config(&new)).await.unwrap();
            assert_eq!(drift(&set, &found), []);
            bring_up(&client, &new).await;
            destroy(&rig, &client, &new).await;
        }
    }
}

#[tokio::test]
async fn a_gpu_is_attached_by_its_mapping() {
    for release in RELEASES {
        let rig = rig(release);
        let client = rig.token(TALMOX);
        let new = vm(300);
        let mapped = HostPci { pcie: true, ..HostPci::new(PciSource::Mapping(id("gpu"))) };
        let options = with_cloudinit(machine("local:import/talos.qcow2")).hostpci(0, &mapped);
        let raw = HostPci::new(PciSource::Host("0000:01:00.0".to_owned()));
        let by_address = qemu::create(&new, Some(&id("talos")), &options.clone().hostpci(0, &raw));
        let rejected = client.run(&by_address, TIMEOUT).await.unwrap_err();
        assert!(rejected.is_permission(), "only root passes devices by address: {rejected:?}");
        create(&client, &new, &options).await;
        bring_up(&client, &new).await;
        let remove = VmChange { delete: vec!["hostpci0".to_owned()], ..VmChange::default() };
        client.send(&qemu::set_config(&new, &remove)).await.unwrap();
        let pending = client.send(&qemu::pending(&new)).await.unwrap();
        let device = pending.iter().find(|option| option.key == "hostpci0").unwrap();
        assert_eq!(device.pending, Some(PendingChange::Delete));
        destroy(&rig, &client, &new).await;
    }
}

#[tokio::test]
async fn operations_outside_the_pool_are_forbidden() {
    for release in RELEASES {
        let rig = rig(release);
        let client = rig.token(TALMOX);
        let request = qemu::create(&vm(300), None, &VmOptions::new().name("x"));
        let rejected = client.run(&request, TIMEOUT).await.unwrap_err();
        assert!(rejected.is_permission() && rejected.status() == Some(403), "{rejected:?}");
        let foreign = client.send(&qemu::config(&vm(101))).await.unwrap_err();
        assert!(foreign.is_permission());
        let guests = client.send(&cluster::resources()).await.unwrap().guests;
        assert_eq!(guests, []);
    }
}
