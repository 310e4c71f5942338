use super::*;
use Method::{Post, Put};

fn has(bench: &QemuTestBench, volume: &str) -> bool {
    let id = VolumeId::parse(volume).unwrap();
    storage::find(&bench.site.pve_state(), "pve1", &id).unwrap().is_some()
}

async fn resized(bench: &QemuTestBench, sent: &[(&str, &str)]) -> String {
    let upid = bench.call(Put, "/100/resize", sent).await.unwrap();
    bench.end_of(upid.as_str().unwrap()).await
}

#[tokio::test]
async fn disks_grow_and_never_shrink() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[("ide2", "none,media=cdrom")]);
    let size = |text| [("disk", "scsi0"), ("size", text)];
    assert_eq!(resized(&bench, &size("+1M")).await, "OK");
    assert_eq!(bench.option(100, "scsi0").unwrap(), "local-lvm:vm-100-disk-0,size=10241M");
    // The storage rounds the size of the volume up to full extents. The next resize starts from the rounded size.
    assert_eq!(resized(&bench, &size("+4M")).await, "OK");
    assert_eq!(bench.option(100, "scsi0").unwrap(), "local-lvm:vm-100-disk-0,size=10248M");
    assert_eq!(resized(&bench, &size("10G")).await, "shrinking disks is not supported");
    let other = |disk| [("disk", disk), ("size", "1G")];
    assert_eq!(resized(&bench, &other("scsi9")).await, "disk 'scsi9' does not exist");
    assert_eq!(resized(&bench, &other("ide2")).await, "unable to parse volume ID 'none'");
}

#[tokio::test]
async fn disk_can_move_to_another_storage() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[]);
    let sent = [("disk", "scsi0"), ("storage", "local"), ("format", "qcow2")];
    assert_eq!(bench.task("/100/move_disk", &sent).await, "OK");
    assert_eq!(bench.option(100, "scsi0").unwrap(), "local:100/vm-100-disk-0.qcow2,size=10G");
    assert_eq!(bench.option(100, "unused0").unwrap(), "local-lvm:vm-100-disk-0");
    let sent = [("disk", "scsi0"), ("storage", "local-lvm"), ("delete", "1")];
    assert_eq!(bench.task("/100/move_disk", &sent).await, "OK");
    assert_eq!(bench.option(100, "scsi0").unwrap(), "local-lvm:vm-100-disk-1,size=10G");
    assert!(!has(&bench, "local:100/vm-100-disk-0.qcow2"));
    assert_eq!(
        message(bench.call(Post, "/100/move_disk", &sent).await),
        "500 you can't move to the same storage with same format"
    );
}

#[tokio::test]
async fn moving_a_disk_of_a_running_vm_updates_its_running_config() {
    let bench = QemuTestBench::new();
    bench.running(100, &[]);
    let sent = [("disk", "scsi0"), ("storage", "local"), ("delete", "1")];
    assert_eq!(bench.task("/100/move_disk", &sent).await, "OK");
    let now = "local:100/vm-100-disk-0.raw,size=10G";
    assert_eq!(bench.option(100, "scsi0").unwrap(), now);
    assert_eq!(bench.site.pve_state().vms[&100].run.as_ref().unwrap().config["scsi0"], now);
}

#[tokio::test]
async fn disk_can_move_to_another_vm() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[("boot", "order=scsi0;net0"), ("net0", "virtio=BC:24:11:00:00:01")]);
    bench.vm(101, &[]);
    let sent = [("disk", "scsi0"), ("target-vmid", "101"), ("target-disk", "scsi1")];
    let upid = bench.call(Post, "/100/move_disk", &sent).await.unwrap();
    let upid = upid.as_str().unwrap();
    assert!(upid.contains(":qmmove:100-scsi0>101-scsi1:"), "{upid}");
    assert_eq!(bench.end_of(upid).await, "OK");
    assert_eq!(bench.option(100, "scsi0"), None);
    assert_eq!(bench.option(100, "boot").unwrap(), "order=net0");
    assert_eq!(bench.option(101, "scsi1").unwrap(), "local-lvm:vm-101-disk-1,size=10G");
    assert!(has(&bench, "local-lvm:vm-101-disk-1") && !has(&bench, "local-lvm:vm-100-disk-0"));
    let rejected =
        async |sent: &[(&str, &str)]| message(bench.call(Post, "/100/move_disk", sent).await);
    assert_eq!(
        rejected(&[("disk", "scsi0"), ("target-vmid", "101")]).await,
        "500 Disk 'scsi0' for VM '100' does not exist"
    );
    assert_eq!(
        rejected(&[("disk", "scsi0"), ("target-vmid", "777")]).await,
        "500 could not find target VM 777"
    );
    assert_eq!(
        rejected(&[("disk", "scsi0"), ("target-vmid", "100")]).await,
        "400 Parameter verification failed. target-vmid: must be different than source VMID to \
         reassign disk"
    );
}

#[tokio::test]
async fn unlinking_keeps_the_volume_unless_forced() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[]);
    bench.call(Put, "/100/unlink", &[("idlist", "scsi0")]).await.unwrap();
    assert_eq!(bench.option(100, "unused0").unwrap(), "local-lvm:vm-100-disk-0");
    bench.call(Put, "/100/unlink", &[("idlist", "unused0"), ("force", "1")]).await.unwrap();
    assert!(!has(&bench, "local-lvm:vm-100-disk-0"));
}

#[tokio::test]
async fn template_cannot_be_converted_again() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[]);
    bench.running(101, &[]);
    assert_eq!(bench.task("/100/template", &[]).await, "OK");
    assert_eq!(bench.option(100, "template").unwrap(), "1");
    assert_eq!(bench.option(100, "scsi0").unwrap(), "local-lvm:base-100-disk-0,size=10G");
    let rejected = async |path: &str| message(bench.call(Post, path, &[]).await);
    assert_eq!(rejected("/100/template").await, "500 you can't convert a template to a template");
    assert_eq!(
        rejected("/101/template").await,
        "500 you can't convert a VM to template if VM is running"
    );
}
