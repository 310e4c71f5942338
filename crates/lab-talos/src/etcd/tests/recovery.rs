use aws_lc_rs::digest::{SHA256, digest};
use serde_json::json;
use tonic::Code;

use super::member::three;
use crate::etcd::{self, RecoverOptions};

fn map(name: &str) -> serde_json::Value {
    json!({"metadata": {"name": name, "namespace": "default"}, "data": {"a": "b"}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_cluster_is_recovered_from_a_snapshot() {
    let bench = three().await;
    let store = bench.store_of(11);
    store.create("configmaps", map("before")).unwrap();
    let bytes = bench.simulation.look(|talos| etcd::snapshot(talos, 12)).unwrap();
    assert_eq!(bytes.len() % 512, 32);
    let (data, sum) = bytes.split_at(bytes.len() - 32);
    assert_eq!(digest(&SHA256, data).as_ref(), sum);
    store.create("configmaps", map("after")).unwrap();
    for vmid in [11, 12, 13] {
        bench.kill(vmid);
        bench.wipe(vmid);
        bench.start_control_plane(vmid);
    }
    let boot = bench.simulation.look(|talos| talos.nodes[&12].boot);
    let strict = Some(RecoverOptions { skip_hash_check: false });
    let missing = etcd::bootstrap(&bench.simulation, 12, boot, strict).unwrap_err();
    assert_eq!(missing.code(), Code::FailedPrecondition);
    let mut broken = bytes.clone();
    broken[5000] ^= 1;
    etcd::recover(&bench.simulation, 12, boot, broken).unwrap();
    assert!(etcd::bootstrap(&bench.simulation, 12, boot, strict).is_err());
    etcd::recover(&bench.simulation, 12, boot, data.to_vec()).unwrap();
    let bare = etcd::bootstrap(&bench.simulation, 12, boot, strict).unwrap_err();
    assert!(bare.message().contains("missing hash"), "{bare}");
    etcd::recover(&bench.simulation, 12, boot, bytes).unwrap();
    etcd::bootstrap(&bench.simulation, 12, boot, strict).unwrap();
    for vmid in [11, 12, 13] {
        bench.until_healthy(vmid, "etcd").await;
    }
    let store = bench.store_of(13);
    assert!(store.get("configmaps", "default", "before").is_some());
    assert!(store.get("configmaps", "default", "after").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_are_saved_and_restored() {
    let bench = three().await;
    bench.store_of(11).create("configmaps", map("kept")).unwrap();
    bench.simulation.change(|talos| talos.raise_alarm(talos.nodes[&13].etcd.unwrap()));
    for vmid in [11, 12, 13] {
        bench.kill(vmid);
    }
    let saved = serde_json::to_vec(&bench.simulation.save_etcds()).unwrap();
    bench.simulation.change(|talos| talos.etcds.clear());
    bench.simulation.restore_etcds(serde_json::from_slice(&saved).unwrap());
    for vmid in [11, 12, 13] {
        bench.start_control_plane(vmid);
    }
    bench.until_healthy(12, "etcd").await;
    assert!(bench.store_of(12).get("configmaps", "default", "kept").is_some());
    assert_eq!(bench.simulation.look(|talos| etcd::alarms(talos, 12)).unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn alarms_are_raised_and_disarmed_and_files_defragmented() {
    let bench = three().await;
    assert!(bench.simulation.look(|talos| etcd::alarms(talos, 11)).unwrap().is_empty());
    let full = bench.simulation.change(|talos| {
        let membership = talos.nodes[&13].etcd.unwrap();
        talos.raise_alarm(membership);
        membership.member
    });
    let raised: Vec<u64> = bench.simulation.look(|talos| {
        let alarms = etcd::alarms(talos, 11).unwrap();
        alarms.into_iter().map(|alarm| alarm.member_id).collect()
    });
    assert_eq!(raised, [full]);
    // Every member reports this alarm, and no other alarm.
    for vmid in [11, 13] {
        let status = bench.simulation.look(|talos| etcd::status(talos, vmid)).unwrap();
        assert_eq!(status.errors, [format!("memberID:{full} alarm:NOSPACE ")]);
    }
    assert_eq!(etcd::disarm(&bench.simulation, 12).unwrap().len(), 1);
    assert!(bench.simulation.look(|talos| etcd::alarms(talos, 13)).unwrap().is_empty());
    for number in 0..50 {
        bench.store_of(11).create("configmaps", map(&format!("filler-{number}"))).unwrap();
    }
    // The used size changes all the time, and the unused size grows until defragmentation. So the defragmented member always
    // has less unused space than the other members.
    let waste = |vmid| {
        let status = bench.simulation.look(|talos| etcd::status(talos, vmid)).unwrap();
        status.db_size - status.db_size_in_use
    };
    etcd::defragment(&bench.simulation, 11).unwrap();
    let (tidied, other) = (waste(11), waste(12));
    assert!(tidied < other, "{tidied} {other}");
}
