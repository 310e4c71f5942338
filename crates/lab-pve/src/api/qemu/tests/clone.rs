use super::*;
use crate::vm::config;
use Method::{Get, Post};

/// Adds template 9000 with an EFI disk and a system disk.
fn with_template(bench: &QemuTestBench) {
    bench.vm(
        9000,
        &[
            ("name", "talos"),
            ("description", "the template"),
            ("template", "1"),
            ("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0"),
            ("smbios1", "serial=YWJj,uuid=0a0a0a0a-0000-4000-8000-000000000001,base64=1"),
            ("scsi0", "local-lvm:base-9000-disk-0,size=10G"),
            ("efidisk0", "local-lvm:base-9000-disk-1,efitype=4m,size=4M"),
            ("unused0", "local-lvm:vm-9000-disk-7"),
        ],
    );
    let mut pve_state = bench.site.pve_state();
    for (name, size) in [("base-9000-disk-0", 10 << 30), ("base-9000-disk-1", 4 << 20)] {
        let id = VolumeId::new("local-lvm", name);
        storage::put(&mut pve_state, "pve1", &id, fixture::volume("raw", size)).unwrap();
    }
    pve_state.pools.entry("talos".to_owned()).or_default();
}

fn volumes(bench: &QemuTestBench, vmid: u32) -> Vec<String> {
    let pve_state = bench.site.pve_state();
    storage::volumes_of(&pve_state, "pve1", vmid).iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn clone_gets_new_uuid_and_mac_address() {
    let bench = QemuTestBench::new();
    with_template(&bench);
    let sent = [("newid", "110"), ("full", "1"), ("name", "cp-1"), ("pool", "talos")];
    assert_eq!(bench.task("/9000/clone", &sent).await, "OK");
    assert_eq!(bench.option(110, "name").unwrap(), "cp-1");
    assert_eq!(bench.option(110, "description").unwrap(), "the template");
    assert_eq!(bench.option(110, "scsi0").unwrap(), "local-lvm:vm-110-disk-1,size=10G");
    assert_eq!(
        bench.option(110, "efidisk0").unwrap(),
        "local-lvm:vm-110-disk-0,efitype=4m,size=4M"
    );
    let smbios = bench.option(110, "smbios1").unwrap();
    assert!(smbios.starts_with("base64=1,serial=YWJj,uuid="), "{smbios}");
    assert!(!smbios.contains("0a0a0a0a-0000"), "{smbios}");
    assert!(!bench.option(110, "net0").unwrap().contains("BC:24:11:00:00:01"));
    for key in ["lock", "template", "unused0", "vmgenid"] {
        assert_eq!(bench.option(110, key), None, "{key}");
    }
    assert!(bench.site.pve_state().pools["talos"].vms.contains(&110));
    let log = bench.log("qmclone");
    assert_eq!(log[0], "creating a clone of VM 9000 with ID 110");
    assert!(log.contains(&"transferred 5.0 GiB of 10.0 GiB (50.00%)".to_owned()), "{log:#?}");
}

#[tokio::test]
async fn linked_clone_copies_no_data() {
    let bench = QemuTestBench::new();
    with_template(&bench);
    assert_eq!(bench.task("/9000/clone", &[("newid", "110")]).await, "OK");
    assert_eq!(bench.option(110, "name").unwrap(), "Copy-of-VM-talos");
    let log = bench.log("qmclone");
    let linked = "create linked clone of drive scsi0 (local-lvm:base-9000-disk-0)".to_owned();
    assert!(log.contains(&linked), "{log:#?}");
    let rejected =
        async |sent: &[(&str, &str)]| message(bench.call(Post, "/9000/clone", sent).await);
    assert_eq!(
        rejected(&[("newid", "111"), ("format", "raw")]).await,
        "500 parameter 'format' not allowed for linked clones"
    );
    assert_eq!(
        rejected(&[("newid", "110")]).await,
        "500 unable to create VM 110: config file already exists"
    );
    assert_eq!(
        rejected(&[("newid", "111"), ("target", "pve2")]).await,
        "500 can't clone VM to node 'pve2' (VM uses local storage)"
    );
    assert_eq!(
        rejected(&[("newid", "111"), ("target", "pve9")]).await,
        "500 no such cluster node 'pve9'"
    );
}

#[tokio::test]
async fn clone_has_placeholder_config_until_first_disk_exists() {
    let bench = QemuTestBench::with(Release::V9, Profile::Slow, 100.0);
    with_template(&bench);
    let sent = [("newid", "110"), ("full", "1"), ("description", "mine"), ("pool", "talos")];
    let upid = bench.call(Post, "/9000/clone", &sent).await.unwrap();
    bench.until(|bench| bench.site.pve_state().vms.contains_key(&110)).await;
    assert_eq!(
        config::file_text(&bench.site.pve_state().vms[&110]),
        "# qmclone temporary file\nlock: clone\n"
    );
    bench.until(|bench| bench.option(110, "efidisk0").is_some()).await;
    assert_eq!(bench.option(110, "description").unwrap(), "mine");
    assert_eq!(bench.option(110, "lock").unwrap(), "clone");
    assert_eq!(bench.option(110, "scsi0"), None);
    assert!(bench.site.pve_state().pools["talos"].vms.is_empty());
    // The lock of the source VM is shared, so another clone of it can start. The new VM itself is locked.
    assert_eq!(
        message(bench.call(Post, "/110/clone", &[("newid", "111")]).await),
        "500 VM is locked (clone)"
    );
    assert_eq!(bench.task("/9000/clone", &[("newid", "112")]).await, "OK");
    assert_eq!(bench.end_of(upid.as_str().unwrap()).await, "OK");
    assert_eq!(bench.option(110, "lock"), None);
    assert!(bench.site.pve_state().pools["talos"].vms.contains(&110));
}

#[tokio::test]
async fn failed_clone_removes_vm_and_volumes() {
    let bench = QemuTestBench::with(Release::V9, Profile::Slow, 100.0);
    with_template(&bench);
    let sent = [("newid", "110"), ("full", "1"), ("pool", "talos")];
    let upid = bench.call(Post, "/9000/clone", &sent).await.unwrap();
    bench.until(|bench| volumes(bench, 110).len() == 2).await;
    if let Some(task) = bench.site.pve_state().tasks.get_mut(upid.as_str().unwrap()) {
        task.state = TaskState::Running { interrupted: true };
    }
    let exit = bench.end_of(upid.as_str().unwrap()).await;
    assert_eq!(exit, "clone failed: interrupted by signal");
    assert!(!bench.site.pve_state().vms.contains_key(&110));
    assert_eq!(volumes(&bench, 110), Vec::<String>::new());
}

#[tokio::test]
async fn vmid_taken_on_another_host_fails_the_task() {
    let bench = QemuTestBench::new();
    with_template(&bench);
    bench.vm(110, &[]);
    bench.site.pve_state().vms.get_mut(&110).unwrap().node = "pve2".to_owned();
    let exit = bench.task("/9000/clone", &[("newid", "110")]).await;
    assert!(exit.ends_with("110.conf' failed: File exists"), "{exit}");
    assert_eq!(bench.site.pve_state().vms[&110].node, "pve2");
}

#[tokio::test]
async fn second_clone_of_running_vm_waits_for_its_lock() {
    let bench = QemuTestBench::with(Release::V9, Profile::Slow, 100.0);
    bench.running(100, &[]);
    let first = bench.call(Post, "/100/clone", &[("newid", "110")]).await.unwrap();
    bench.until(|bench| bench.site.pve_state().vms.contains_key(&110)).await;
    assert_eq!(
        bench.task("/100/clone", &[("newid", "111")]).await,
        "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout"
    );
    assert_eq!(bench.end_of(first.as_str().unwrap()).await, "OK");
    let log = bench.log("qmclone");
    assert!(log.contains(&"drive mirror is starting for drive-scsi0".to_owned()), "{log:#?}");
}

#[tokio::test]
async fn clone_and_snapshot_features_depend_on_disks() {
    let bench = QemuTestBench::new();
    with_template(&bench);
    bench.vm(100, &[]);
    let has = async |vmid: u32, feature: &str| {
        let path = format!("/{vmid}/feature");
        bench.call(Get, &path, &[("feature", feature)]).await.unwrap()["hasFeature"].clone()
    };
    assert_eq!(has(100, "snapshot").await, 1);
    assert_eq!(has(100, "clone").await, 0);
    assert_eq!(has(9000, "clone").await, 1);
    assert_eq!(has(9000, "copy").await, 1);
}

#[tokio::test]
async fn clone_on_shared_storage_can_target_another_host() {
    let bench = QemuTestBench::new();
    bench.vm(9000, &[("template", "1"), ("scsi0", "nas:9000/base-9000-disk-0.qcow2,size=4G")]);
    {
        let mut pve_state = bench.site.pve_state();
        pve_state.storages.insert("nas".to_owned(), fixture::storage(StorageKind::Nfs));
        let id = VolumeId::parse("nas:9000/base-9000-disk-0.qcow2").unwrap();
        storage::put(&mut pve_state, "pve1", &id, fixture::volume("qcow2", 4 << 30)).unwrap();
    }
    let sent = [("newid", "110"), ("target", "pve2")];
    assert_eq!(bench.task("/9000/clone", &sent).await, "OK");
    assert_eq!(bench.site.pve_state().vms[&110].node, "pve2");
    let disk = "nas:9000/base-9000-disk-0.qcow2/110/vm-110-disk-0.qcow2,size=4G";
    assert_eq!(bench.option(110, "scsi0").unwrap(), disk);
    assert_eq!(
        message(
            bench
                .call(
                    Post,
                    "/9000/clone",
                    &[
                        ("newid", "111"),
                        ("full", "1"),
                        ("target", "pve2"),
                        ("storage", "local-lvm"),
                    ]
                )
                .await
        ),
        "500 can't clone to non-shared storage 'local-lvm'"
    );
}
