use super::*;
use crate::pve_state::AclEntry;
use Method::Delete;

async fn destroyed(bench: &QemuTestBench, vmid: u32, sent: &[(&str, &str)]) -> String {
    let upid = bench.call(Delete, &format!("/{vmid}"), sent).await.unwrap();
    bench.end_of(upid.as_str().unwrap()).await
}

fn put(bench: &QemuTestBench, volume: &str) {
    let id = VolumeId::parse(volume).unwrap();
    let mut pve_state = bench.site.pve_state();
    storage::put(&mut pve_state, "pve1", &id, fixture::volume("raw", 4 << 20)).unwrap();
}

fn has(bench: &QemuTestBench, volume: &str) -> bool {
    let id = VolumeId::parse(volume).unwrap();
    storage::find(&bench.site.pve_state(), "pve1", &id).unwrap().is_some()
}

#[tokio::test]
async fn destroy_removes_volumes_pool_membership_and_acl_entries() {
    let bench = QemuTestBench::new();
    bench.vm(
        100,
        &[
            ("unused0", "local-lvm:vm-100-disk-3"),
            ("ide2", "local-lvm:vm-100-cloudinit,media=cdrom"),
            ("scsi1", "local-lvm:vm-200-disk-0"),
        ],
    );
    for volume in ["vm-100-disk-3", "vm-100-cloudinit", "vm-200-disk-0", "vm-100-disk-9"] {
        put(&bench, &format!("local-lvm:{volume}"));
    }
    {
        let mut pve_state = bench.site.pve_state();
        pve_state.pools.entry("lab".to_owned()).or_default().vms.insert(100);
        for path in ["/vms/100", "/vms"] {
            let (path, who) = (path.to_owned(), "a@pve".to_owned());
            let role = "PVEVMAdmin".to_owned();
            pve_state.access.acl.push(AclEntry { path, who, role, propagate: true });
        }
    }
    assert_eq!(destroyed(&bench, 100, &[]).await, "OK");
    let pve_state = bench.site.pve_state();
    assert!(!pve_state.vms.contains_key(&100) && pve_state.pools["lab"].vms.is_empty());
    assert_eq!(pve_state.access.acl.len(), 1);
    drop(pve_state);
    assert!(!has(&bench, "local-lvm:vm-100-disk-0") && !has(&bench, "local-lvm:vm-100-disk-3"));
    assert!(!has(&bench, "local-lvm:vm-100-cloudinit"));
    assert!(has(&bench, "local-lvm:vm-200-disk-0") && has(&bench, "local-lvm:vm-100-disk-9"));
}

#[tokio::test]
async fn missing_storage_is_a_warning_since_9() {
    for (release, exit) in
        [(Release::V9, "WARNINGS: 1"), (Release::V8, "storage 'gone' does not exist")]
    {
        let bench = QemuTestBench::with(release, Profile::Instant, 1000.0);
        bench.vm(100, &[("scsi1", "gone:vm-100-disk-1,size=4M")]);
        assert_eq!(destroyed(&bench, 100, &[]).await, exit);
        assert_eq!(bench.site.pve_state().vms.contains_key(&100), release == Release::V8);
        assert!(!has(&bench, "local-lvm:vm-100-disk-0"));
    }
}

#[tokio::test]
async fn running_vm_rejects_the_call_and_lock_fails_the_task() {
    let bench = QemuTestBench::new();
    bench.running(100, &[]);
    bench.vm(101, &[("lock", "backup")]);
    bench.vm(102, &[("lock", "suspended")]);
    let early = async |vmid: &str| message(bench.call(Delete, vmid, &[]).await);
    assert_eq!(early("/100").await, "500 VM 100 is running - destroy failed");
    assert_eq!(
        early("/777").await,
        "500 Configuration file 'nodes/pve1/qemu-server/777.conf' does not exist"
    );
    assert_eq!(destroyed(&bench, 101, &[]).await, "VM is locked (backup)");
    assert_eq!(destroyed(&bench, 101, &[("skiplock", "1")]).await, "OK");
    assert_eq!(destroyed(&bench, 102, &[]).await, "OK");
}

#[tokio::test]
async fn ha_managed_vm_requires_purge() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[]);
    {
        let mut pve_state = bench.site.pve_state();
        pve_state.ha.resources.insert("vm:100".to_owned(), BTreeMap::new());
        let rule = [("resources".to_owned(), "vm:100,vm:101".to_owned())];
        pve_state.ha.rules.insert("apart".to_owned(), rule.into());
    }
    assert_eq!(
        message(bench.call(Delete, "/100", &[]).await),
        "500 unable to remove VM 100 - used in HA resources and purge parameter not set."
    );
    assert_eq!(destroyed(&bench, 100, &[("purge", "1")]).await, "OK");
    let pve_state = bench.site.pve_state();
    assert!(pve_state.ha.resources.is_empty());
    assert_eq!(pve_state.ha.rules["apart"]["resources"], "vm:101");
}

#[tokio::test]
async fn template_with_linked_clone_is_not_destroyed() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[("template", "1"), ("scsi0", "local:100/base-100-disk-0.raw,size=4M")]);
    put(&bench, "local:100/base-100-disk-0.raw");
    assert_eq!(bench.task("/100/clone", &[("newid", "110")]).await, "OK");
    assert_eq!(
        destroyed(&bench, 100, &[]).await,
        "base volume 'local:100/base-100-disk-0.raw' is still in use by linked cloned"
    );
    assert_eq!(destroyed(&bench, 110, &[]).await, "OK");
    assert_eq!(destroyed(&bench, 100, &[]).await, "OK");
}
