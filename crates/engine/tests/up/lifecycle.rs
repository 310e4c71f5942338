//! A cluster is created, matches the inventory, grows, is destroyed, and is created again.

use std::time::Duration;

use talmox_plan::plan::show;

use super::inventory::{home, pair};
use super::rig::Rig;

const CONTROL_PLANES: [&str; 3] = ["cp-1", "cp-2", "cp-3"];

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_created_as_the_inventory_describes_it() {
    let rig = Rig::start();
    let text = home();
    let ran = rig.up(&text).await;
    ran.assert_done();
    let lab_state = rig.lab_state(&text).await;
    lab_state.assert_complete(&CONTROL_PLANES, &["wk-1", "wk-2"]);

    let desired = rig.desired(&text);
    for (node, vmid) in desired.nodes.iter().zip(300..) {
        let vm = &lab_state.vms[&vmid];
        let get = |key: &str| vm.config.get(key).map_or("", String::as_str);
        assert_eq!((vm.host.as_str(), vm.pool.as_deref()), ("pve1", Some("talos")));
        assert_eq!(get("name"), node.name);
        assert_eq!((get("machine"), get("bios"), get("ostype")), ("q35", "ovmf", "l26"));
        assert_eq!(get("scsihw"), "virtio-scsi-pci");
        assert_eq!(get("onboot"), "1");
        assert!(get("efidisk0").contains("efitype=4m"), "{}", get("efidisk0"));
        assert!(!get("efidisk0").contains("pre-enrolled-keys=1"), "{}", get("efidisk0"));
        assert!(get("scsi0").contains("size=40G"), "{}", get("scsi0"));
        let mac = node.identity.macs[0].to_string().to_uppercase();
        assert!(get("net0").contains(&format!("virtio={mac},bridge=vmbr0")), "{}", get("net0"));
        assert_eq!(get("smbios1"), format!("uuid={}", node.identity.uuid));
        let address = node.addresses[0];
        assert_eq!(get("ipconfig0"), format!("ip={address}/24,gw=10.0.0.1"));
        assert_eq!(get("tags").split(';').collect::<Vec<_>>(), ["home", "talmox"]);

        let own = &lab_state.nodes[&node.name];
        assert_eq!((own.version.as_str(), &own.hostname), ("v1.11.2", &node.name));
        let seen = lab_state.kubernetes.iter().find(|seen| seen.name == node.name).unwrap();
        assert_eq!(seen.internal_addresses, [address]);
        assert_eq!(Some(&seen.kubelet_version), desired.kubernetes_version.as_ref());
    }

    // The client files lead to the shared address and to every control plane, through the addresses of the lab.
    let files = rig.files.lock().unwrap().clone();
    assert_eq!(files.len(), 1);
    let reach = rig.lab.ready().reach;
    let kubeconfig = files[0].kubeconfig.expose();
    assert!(kubeconfig.contains(&format!("server: https://{}:6443", reach["10.0.0.20"])));
    assert!(kubeconfig.contains("tls-server-name: 10.0.0.20"));
    for node in ["10.0.0.11", "10.0.0.12", "10.0.0.13"] {
        assert!(files[0].talosconfig.expose().contains(&reach[node]), "{node}");
    }

    let again = rig.plan(&text).await;
    assert!(again.is_empty() && again.errors().next().is_none(), "{}", show::text(&again));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destroyed_cluster_is_created_again_unchanged() {
    let rig = Rig::start();
    let text = home();
    rig.up(&text).await.assert_done();
    let before = rig.lab_state(&text).await;
    rig.destroy(&text).await.assert_done();
    let left = rig.vms().await;
    assert_eq!(left.keys().copied().collect::<Vec<_>>(), [100], "only the foreign VM is left");
    assert_eq!(left[&100], before.vms[&100]);
    assert!(rig.destroy(&text).await.plan.steps.is_empty());

    rig.up(&text).await.assert_done();
    let after = rig.lab_state(&text).await;
    after.assert_complete(&CONTROL_PLANES, &["wk-1", "wk-2"]);
    assert_eq!(before, after);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_cluster_grows() {
    let rig = Rig::start();
    let text = home();
    rig.up(&text).await.assert_done();
    let before = rig.lab_state(&text).await;
    let grown = format!("{text}  - {{name: wk-3, ip: 10.0.0.23}}\n");
    let ran = rig.up(&grown).await;
    ran.assert_done();
    let steps = ran.plan.steps.iter().filter_map(|step| step.node.as_deref());
    assert!(steps.clone().count() > 3);
    assert!(steps.into_iter().all(|node| node == "wk-3"), "{}", show::text(&ran.plan));
    let mut after = rig.lab_state(&grown).await;
    after.assert_complete(&CONTROL_PLANES, &["wk-1", "wk-2", "wk-3"]);
    assert_eq!(after.vms[&305].config["name"], "wk-3");
    // No other node was changed.
    after.vms.remove(&305);
    after.nodes.remove("wk-3");
    after.kubernetes.retain(|node| node.name != "wk-3");
    after.volumes.retain(|name, _| !name.contains(":vm-305-"));
    assert_eq!(before, after);
    let again = rig.plan(&grown).await;
    assert!(again.is_empty(), "{}", show::text(&again));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_one_control_plane_grows_to_three() {
    let rig = Rig::start();
    let text = pair();
    rig.up(&text).await.assert_done();
    let before = rig.lab_state(&text).await;
    let more = "  - {name: cp-2, ip: 10.0.0.12}\n  - {name: cp-3, ip: 10.0.0.13}\nworkers:";
    let grown = text.replace("workers:", more);
    let ran = rig.up(&grown).await;
    ran.assert_done();
    for step in &ran.plan.steps {
        let is_new = step.node.as_deref().is_none_or(|node| ["cp-2", "cp-3"].contains(&node));
        assert!(is_new, "{}", show::text(&ran.plan));
        assert_ne!(step.id.as_str(), "etcd/bootstrap");
    }
    let after = rig.lab_state(&grown).await;
    after.assert_complete(&CONTROL_PLANES, &["wk-1"]);
    for vmid in [300, 303] {
        assert_eq!(after.vms[&vmid], before.vms[&vmid], "nobody else was touched");
    }
    assert_eq!(after.nodes["cp-1"].config, before.nodes["cp-1"].config);
    assert_eq!(after.nodes["wk-1"], before.nodes["wk-1"]);
    let again = rig.plan(&grown).await;
    assert!(again.is_empty(), "{}", show::text(&again));

    // The first control plane has the shared address. When it is stopped, one of the new ones takes the address over.
    let mut desired = rig.desired(&grown);
    desired.nodes.clear();
    let shared = rig.kube_of(&desired);
    shared.version().await.unwrap();
    rig.stop_vm_now(300).await;
    while shared.version().await.is_err() {
        rig.lab.clock().sleep(Duration::from_secs(1)).await;
    }
    let members = rig.talos("10.0.0.12".parse().unwrap()).etcd_members().await.unwrap();
    assert_eq!(members.len(), 3, "{members:?}");
}
