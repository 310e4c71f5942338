//! State of a lab from the view of an administrator. Values that differ between runs are omitted.

use talmox_pve::Client;
use talmox_pve::api::{cluster, ha, mapping, node, pool, qemu, storage};

/// One line for every object, in a fixed order.
pub(super) async fn state_lines(client: &Client) -> Vec<String> {
    let mut lines = vec![];
    let major = client.send(&cluster::version()).await.unwrap().major();
    for host in client.send(&node::list()).await.unwrap() {
        for entry in client.send(&qemu::list(&host.node)).await.unwrap() {
            let vm = qemu::Vm::new(&host.node, entry.vmid);
            vm_lines(client, &vm, &mut lines).await;
        }
        for seen in client.send(&storage::on_node(&host.node)).await.unwrap() {
            let storage = seen.storage.unwrap();
            let content = storage::content(&host.node, &storage, None, None);
            for volume in client.send(&content).await.unwrap() {
                let storage::Volume { volid, format, size, vmid, .. } = volume;
                lines.push(format!("volume {} {volid} {format:?} {size:?} {vmid:?}", host.node));
            }
        }
    }
    for entry in client.send(&pool::list()).await.unwrap() {
        let pool = client.send(&pool::get(&entry.id)).await.unwrap();
        lines.push(format!("pool {} {pool:?}", entry.id));
    }
    for mut mapping in client.send(&mapping::list(None)).await.unwrap() {
        mapping.mapped.digest = None;
        lines.push(format!("mapping {mapping:?}"));
    }
    for resource in client.send(&ha::resources()).await.unwrap() {
        lines.push(format!("ha {resource:?}"));
    }
    if major == Some(8) {
        for group in client.send(&ha::groups()).await.unwrap() {
            lines.push(format!("group {group:?}"));
        }
    } else {
        for mut rule in client.send(&ha::rules()).await.unwrap() {
            rule.digest = None;
            lines.push(format!("rule {rule:?}"));
        }
    }
    lines.sort();
    lines
}

async fn vm_lines(client: &Client, vm: &qemu::Vm, lines: &mut Vec<String>) {
    let qemu::Vm { node, vmid } = vm;
    let status = client.send(&qemu::current(vm)).await.unwrap();
    let qmp = status.qmp_status.unwrap_or_default();
    lines.push(format!("vm {vmid} on {node} is {qmp}, lock {:?}", status.lock));
    for option in client.send(&qemu::pending(vm)).await.unwrap() {
        if ["digest", "meta", "vmgenid"].contains(&option.key.as_str()) {
            continue;
        }
        let value = option.value.map(|value| without_chance(&value));
        lines.push(format!("vm {vmid} {} {value:?} then {:?}", option.key, option.pending));
    }
    for snapshot in client.send(&qemu::snapshots(vm)).await.unwrap() {
        let qemu::Snapshot { name, parent, with_memory, .. } = snapshot;
        lines.push(format!("vm {vmid} snapshot {name} of {parent:?}, memory {with_memory}"));
    }
}

/// Replaces random MAC addresses and UUIDs. The values of the scenario have a known prefix and stay unchanged.
fn without_chance(value: &str) -> String {
    let part = |part: &str| match part.split_once('=') {
        Some(("uuid", uuid)) if !uuid.starts_with("aaaaaaaa") => "uuid=<new>".to_owned(),
        Some(("virtio", mac)) if !mac.starts_with("BC:24:11:AA") => "virtio=<new>".to_owned(),
        _ => part.to_owned(),
    };
    value.split(',').map(part).collect::<Vec<_>>().join(",")
}
