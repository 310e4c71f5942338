//! Storages: there, working, for the right content, with room.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::id::{NodeName, StorageId};

use super::super::Builder;
use super::super::change::Finding;
use super::super::place::Placed;

const GIB: u64 = 1 << 30;

/// A storage on a host, for what, and how much of it in bytes.
#[derive(Debug, Default)]
struct Use {
    content: BTreeSet<&'static str>,
    room: u64,
}

pub(super) fn check(builder: &Builder<'_>, new: &[&Placed<'_>], findings: &mut Vec<Finding>) {
    let mut uses: BTreeMap<(&NodeName, &StorageId), Use> = BTreeMap::new();
    for placed in new {
        let host = &placed.own.vm.node;
        for (storage, room) in placed.node.vm.room() {
            let one = uses.entry((host, storage)).or_default();
            one.content.insert("images");
            one.room += room;
        }
        if placed.node.image.is_some() {
            let images = uses.entry((host, &builder.desired.image_storage)).or_default();
            images.content.insert("import");
        }
    }
    for ((host, storage), wanted) in uses {
        // What is wrong with the host is said elsewhere.
        if builder.world.pve.is_online(host) {
            judge(builder, host, storage, &wanted, findings);
        }
    }
}

fn judge(
    builder: &Builder<'_>,
    host: &NodeName,
    storage: &StorageId,
    wanted: &Use,
    findings: &mut Vec<Finding>,
) {
    let subject = format!("{host}/{storage}");
    let Some(seen) = builder.world.pve.storage(host, storage) else {
        // Proxmox lists storages for those who may look into them; who may only make disks there
        // has been told that it exists.
        let may = |right: &str| {
            builder.world.pve.permissions.allows(&format!("/storage/{storage}"), right)
        };
        if may("Datastore.AllocateSpace") && !may("Datastore.Audit") {
            return;
        }
        let message = "there is no such storage that we may see";
        let hint = format!(
            "correct `datastore:` or `image_datastore:`, or allow it:\n{}",
            super::right::line(builder, &format!("/storage/{storage}"), "PVEDatastoreUser")
        );
        findings.push(Finding::error(&subject, message).hint(hint));
        return;
    };
    if seen.status != "available" {
        let message = format!("the storage is {}", seen.status);
        findings.push(Finding::error(&subject, message).hint("pvesm status on the host says why"));
        return;
    }
    for content in &wanted.content {
        if seen.content.iter().any(|known| known == content) {
            continue;
        }
        let all: Vec<&str> = seen.content.iter().map(String::as_str).chain([*content]).collect();
        let message = format!("the storage does not take the content type {content}");
        let hint = format!("on a host: pvesm set {storage} --content {}", all.join(","));
        findings.push(Finding::error(&subject, message).hint(hint));
    }
    let (Some(total), Some(used)) = (seen.total, seen.used) else { return };
    let free = total.saturating_sub(used);
    if wanted.room > free {
        let message = format!(
            "new disks may grow to {} GiB, and {} GiB are free",
            wanted.room / GIB,
            free / GIB
        );
        let hint = "a thin storage takes them, and may run full later: choose smaller disks";
        findings.push(Finding::warning(&subject, message).hint(hint));
    }
}
