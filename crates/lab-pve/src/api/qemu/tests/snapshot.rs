use super::*;
use Method::{Delete, Get, Post, Put};

async fn deleted(bench: &QemuTestBench, name: &str) -> String {
    let upid = bench.call(Delete, &format!("/100/snapshot/{name}"), &[]).await.unwrap();
    bench.end_of(upid.as_str().unwrap()).await
}

async fn take(bench: &QemuTestBench, name: &str) -> String {
    bench.task("/100/snapshot", &[("snapname", name)]).await
}

fn parent(bench: &QemuTestBench, snapshot: &str) -> Option<String> {
    bench.site.pve_state().vms[&100].snapshots[snapshot].config.get("parent").cloned()
}

#[tokio::test]
async fn rollback_restores_config_and_disks() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[("cores", "2"), ("vmgenid", "x"), ("description", "now")]);
    assert_eq!(take(&bench, "before").await, "OK");
    {
        let mut pve_state = bench.site.pve_state();
        let vm = pve_state.vms.get_mut(&100).unwrap();
        vm.config.insert("cores".to_owned(), "8".to_owned());
        vm.config.insert("scsi1".to_owned(), "local-lvm:vm-100-disk-5,size=4M".to_owned());
        vm.config.insert("description".to_owned(), "later".to_owned());
        let id = VolumeId::parse("local-lvm:vm-100-disk-0").unwrap();
        storage::resize(&mut pve_state, "pve1", &id, 20 << 30).unwrap();
    }
    assert_eq!(bench.task("/100/snapshot/before/rollback", &[]).await, "OK");
    assert_eq!(bench.option(100, "cores").unwrap(), "2");
    assert_eq!(bench.option(100, "description").unwrap(), "later");
    assert_eq!(bench.option(100, "parent").unwrap(), "before");
    assert_eq!(bench.option(100, "unused0").unwrap(), "local-lvm:vm-100-disk-5");
    assert_ne!(bench.option(100, "vmgenid").unwrap(), "x");
    assert_eq!(bench.option(100, "lock"), None);
    let id = VolumeId::parse("local-lvm:vm-100-disk-0").unwrap();
    let pve_state = bench.site.pve_state();
    assert_eq!(storage::find(&pve_state, "pve1", &id).unwrap().unwrap().size, 10 << 30);
}

#[tokio::test]
async fn deleting_a_snapshot_relinks_parents() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[]);
    for name in ["one", "two", "three"] {
        assert_eq!(take(&bench, name).await, "OK");
    }
    assert_eq!(take(&bench, "two").await, "snapshot name 'two' already used");
    assert_eq!(parent(&bench, "three").as_deref(), Some("two"));
    assert_eq!(deleted(&bench, "two").await, "OK");
    assert_eq!(parent(&bench, "three").as_deref(), Some("one"));
    assert_eq!(deleted(&bench, "three").await, "OK");
    assert_eq!(bench.option(100, "parent").unwrap(), "one");
    assert_eq!(bench.option(100, "unused0"), None);
    assert_eq!(deleted(&bench, "three").await, "snapshot 'three' does not exist");
    let list = bench.call(Get, "/100/snapshot", &[]).await.unwrap();
    let names: Vec<&str> =
        list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["one", "current"]);
}

#[tokio::test]
async fn snapshot_with_memory_creates_state_volume() {
    let bench = QemuTestBench::new();
    bench.running(100, &[("memory", "1024")]);
    let sent = [("snapname", "live"), ("vmstate", "1")];
    assert_eq!(bench.task("/100/snapshot", &sent).await, "OK");
    let state = VolumeId::parse("local-lvm:vm-100-state-live").unwrap();
    let size = |bench: &QemuTestBench| {
        storage::find(&bench.site.pve_state(), "pve1", &state).unwrap().map(|volume| volume.size)
    };
    assert_eq!(size(&bench), Some((1024 * 2 + 500) << 20));
    assert_eq!(bench.task("/100/snapshot/live/rollback", &[]).await, "OK");
    bench.until(|bench| bench.is_running(100)).await;
    assert_eq!(deleted(&bench, "live").await, "OK");
    assert_eq!(size(&bench), None);
}

#[tokio::test]
async fn unsupported_snapshots_are_rejected() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[("scsi1", "local:100/vm-100-disk-1.raw,size=4M"), ("virtiofs0", "share")]);
    assert_eq!(take(&bench, "before").await, "snapshot feature is not available");
    let rejected =
        async |sent: &[(&str, &str)]| message(bench.call(Post, "/100/snapshot", sent).await);
    assert_eq!(
        rejected(&[("snapname", "current")]).await,
        "500 unable to use snapshot name 'current' (reserved name)"
    );
    assert_eq!(
        rejected(&[("snapname", "before"), ("vmstate", "1")]).await,
        "500 Cannot live-migrate, snapshot (with RAM), or hibernate a VM with: virtiofs"
    );
    assert_eq!(
        message(bench.call(Put, "/100/snapshot/no/config", &[("description", "x")]).await),
        "500 snapshot 'no' does not exist"
    );
}

#[tokio::test]
async fn failed_snapshot_is_removed() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[("scsi1", "local-lvm:vm-100-disk-1,size=4M")]);
    let exit = take(&bench, "before").await;
    assert_eq!(exit, "no such logical volume pve/vm-100-disk-1");
    assert!(bench.site.pve_state().vms[&100].snapshots.is_empty());
    assert_eq!(bench.option(100, "lock"), None);
    assert_eq!(bench.option(100, "parent"), None);
    let id = VolumeId::parse("local-lvm:vm-100-disk-0").unwrap();
    let pve_state = bench.site.pve_state();
    assert!(storage::find(&pve_state, "pve1", &id).unwrap().unwrap().snapshots.is_empty());
}
