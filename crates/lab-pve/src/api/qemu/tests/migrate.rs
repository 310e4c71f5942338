use super::*;
use crate::pve_state::{HaService, HaServiceState, Mapping};
use Method::{Get, Post};

fn on_target(bench: &QemuTestBench, volume: &str) -> bool {
    let id = VolumeId::parse(volume).unwrap();
    let pve_state = bench.site.pve_state();
    let there = |node| storage::find(&pve_state, node, &id).unwrap().is_some();
    assert_ne!(there("pve1"), there("pve2"), "{volume}");
    there("pve2")
}

#[tokio::test]
async fn offline_migration_moves_local_disks() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[("serial0", "socket")]);
    assert_eq!(bench.task("/100/migrate", &[("target", "pve2")]).await, "OK");
    assert_eq!(bench.site.pve_state().vms[&100].node, "pve2");
    assert_eq!(bench.option(100, "lock"), None);
    assert!(on_target(&bench, "local-lvm:vm-100-disk-0"));
    let log = bench.log("qmigrate");
    assert!(log.iter().any(|line| {
        line.ends_with(
            "volume 'local-lvm:vm-100-disk-0' is 'local-lvm:vm-100-disk-0' on the target",
        )
    }));
}

#[tokio::test]
async fn running_vm_needs_online_and_with_local_disks() {
    let bench = QemuTestBench::new();
    bench.running(100, &[]);
    let rejected = message(bench.call(Post, "/100/migrate", &[("target", "pve2")]).await);
    assert_eq!(rejected, "500 can't migrate running VM without --online");
    let online = [("target", "pve2"), ("online", "1")];
    assert_eq!(bench.task("/100/migrate", &online).await, "migration aborted");
    assert_eq!(bench.site.pve_state().vms[&100].node, "pve1");
    assert_eq!(bench.option(100, "lock"), None);
    let with_disks = [("target", "pve2"), ("online", "1"), ("with-local-disks", "1")];
    assert_eq!(bench.task("/100/migrate", &with_disks).await, "OK");
    assert!(bench.is_running(100) && on_target(&bench, "local-lvm:vm-100-disk-0"));
}

#[tokio::test]
async fn migration_can_map_storages() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[("unused0", "local-lvm:vm-100-disk-4")]);
    let id = VolumeId::parse("local-lvm:vm-100-disk-4").unwrap();
    storage::put(&mut bench.site.pve_state(), "pve1", &id, fixture::volume("raw", 4 << 20))
        .unwrap();
    let sent = [("target", "pve2"), ("targetstorage", "local-lvm:local")];
    assert_eq!(bench.task("/100/migrate", &sent).await, "OK");
    assert_eq!(bench.option(100, "scsi0").unwrap(), "local:100/vm-100-disk-0.raw,size=10G");
    assert_eq!(bench.option(100, "unused0").unwrap(), "local:100/vm-100-disk-1.raw");
    let rejected = message(bench.call(Post, "/100/migrate", &sent).await);
    assert_eq!(rejected, "500 Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist");
}

#[tokio::test]
async fn local_devices_prevent_migration() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[("hostpci0", "0000:28:00.0")]);
    bench.vm(101, &[("hostpci0", "mapping=gpu")]);
    bench.vm(102, &[("ide2", "local:iso/talos.iso,media=cdrom")]);
    let iso = VolumeId::parse("local:iso/talos.iso").unwrap();
    {
        let mut pve_state = bench.site.pve_state();
        storage::put(&mut pve_state, "pve1", &iso, fixture::volume("raw", 4 << 20)).unwrap();
        let entries = vec!["node=pve1,path=0000:28:00.0,id=10de:2204".to_owned()];
        pve_state.mappings.pci.insert("gpu".to_owned(), Mapping { entries, ..Mapping::default() });
    }
    let migrate = async |vmid: u32| {
        let exit = bench.task(&format!("/{vmid}/migrate"), &[("target", "pve2")]).await;
        assert_eq!(exit, "migration aborted");
        bench.log("qmigrate").join("\n")
    };
    assert!(migrate(100).await.contains("can't migrate VM which uses local devices: hostpci0"));
    assert!(
        migrate(101).await.contains("can't migrate to 'pve2': missing mapped devices hostpci0")
    );
    assert!(
        migrate(102)
            .await
            .contains("can't migrate local disk 'local:iso/talos.iso': local cdrom image")
    );
    let before = bench.call(Get, "/101/migrate", &[]).await.unwrap();
    assert_eq!(before["allowed_nodes"], json!([]));
    assert_eq!(
        before["not_allowed_nodes"],
        json!({"pve2": {"unavailable-resources": ["hostpci0"]}})
    );
    assert_eq!(before["mapped-resources"], json!(["hostpci0"]));
    assert_eq!(before["local_disks"][0]["volid"], "local-lvm:vm-101-disk-0");
}

#[tokio::test]
async fn migration_to_offline_or_unknown_host_fails() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[]);
    bench.site.pve_state().hosts.get_mut("pve2").unwrap().online = false;
    assert_eq!(bench.task("/100/migrate", &[("target", "pve2")]).await, "migration aborted");
    let log = bench.log("qmigrate").join("\n");
    assert!(log.contains("Can't connect to destination address using public key"), "{log}");
    let rejected =
        async |target: &str| message(bench.call(Post, "/100/migrate", &[("target", target)]).await);
    assert_eq!(rejected("pve9").await, "500 no such cluster node 'pve9'");
    assert_eq!(
        rejected("pve1").await,
        "400 Parameter verification failed. target: target is local node."
    );
}

#[tokio::test]
async fn ha_manager_migrates_managed_vm() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[]);
    bench.site.pve_state().ha.resources.insert("vm:100".to_owned(), BTreeMap::new());
    assert_eq!(bench.task("/100/migrate", &[("target", "pve2")]).await, "OK");
    assert_eq!(bench.log("hamigrate")[0], "Requesting HA migration for VM 100 to node pve2");
    assert_eq!(bench.site.pve_state().vms[&100].node, "pve1");
}

#[tokio::test]
async fn affinity_rules_are_reported_before_migration() {
    let bench = QemuTestBench::new();
    bench.vm(100, &[]);
    {
        let mut pve_state = bench.site.pve_state();
        for (sid, node) in [("vm:100", "pve1"), ("vm:101", "pve1"), ("vm:102", "pve2")] {
            let service =
                HaService { node: node.to_owned(), state: HaServiceState::Started, failures: 0 };
            pve_state.ha.services.insert(sid.to_owned(), service);
            pve_state.ha.resources.insert(sid.to_owned(), BTreeMap::new());
        }
        for (affinity, other) in [("positive", "vm:101"), ("negative", "vm:102")] {
            let rule = [
                ("type", "resource-affinity".to_owned()),
                ("affinity", affinity.to_owned()),
                ("resources", format!("vm:100,{other}")),
            ];
            let rule = rule.map(|(key, value)| (key.to_owned(), value));
            pve_state.ha.rules.insert(affinity.to_owned(), rule.into());
        }
    }
    let before = bench.call(Get, "/100/migrate", &[]).await.unwrap();
    assert_eq!(before["dependent-ha-resources"], json!(["vm:101"]));
    assert_eq!(
        before["not_allowed_nodes"]["pve2"]["blocking-ha-resources"],
        json!([{"sid": "vm:102", "cause": "resource-affinity"}])
    );
}
