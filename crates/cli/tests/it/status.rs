//! `talmox status` of a cluster in a lab.

use crate::node_life::CreatedCluster;

const INVENTORY: &str = "inventory/dev/cluster.yaml";

/// Stopped VMs and drift take one readable line each, and the loopback addresses of the lab are not shown.
#[test]
fn stopped_vms_have_one_reason_and_drift_has_values() {
    let created = CreatedCluster::up("", "  - {name: wk-2, ip: 10.0.0.22, ram: 4G}\n");
    let folder = &created.cluster.folder;
    let text = folder.read(INVENTORY);
    folder.write(INVENTORY, &text.replace("ram: 4G", "ram: 6G"));
    let status = created.fine("status").stdout;
    assert!(status.contains("\nwk-2: drift: vm memory 4 GiB → 6 GiB"), "{status}");
    folder.write(INVENTORY, &text);

    created.fine("node shutdown --all --yes");
    assert!(created.state.vms().values().all(|vm| !vm.is_running));
    let run = created.run("status");
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(run.stdout.contains("\ncp-1, wk-1, wk-2: VM: the VM is stopped\n"), "{}", run.stdout);
    for other in ["127.", "cannot connect", "does not answer", ": Talos", ": etcd"] {
        assert!(!run.stdout.contains(other), "{other}: {}", run.stdout);
    }
}
