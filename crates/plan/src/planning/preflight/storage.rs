//! Preflight check: storages exist, are available, allow the content type, and have enough space.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve_types::api::cluster::StorageResource;
use talmox_pve_types::id::{NodeName, StorageId};

use crate::plan::{Action, Finding, FindingCode};
use crate::planning::builder::Builder;
use crate::planning::missing_template::MissingTemplate;
use crate::planning::placed::Placed;
use crate::planning::replacement;
use crate::rights::PveRole;

const GIB: u64 = 1 << 30;

/// Estimated size of an image. The real size is not known before the download.
const IMAGE: u64 = GIB;

/// The storage type that allocates the full size of a disk at once.
const THICK: &str = "lvm";

/// Content types that the plan needs on a storage, and the bytes for disks and images.
#[derive(Clone, Debug, Default)]
struct Use {
    content: BTreeSet<&'static str>,
    disks: u64,
    images: u64,
}

type Uses<'a> = BTreeMap<(&'a NodeName, &'a StorageId), Use>;

pub(super) fn check(builder: &Builder<'_>, new: &[&Placed<'_>], findings: &mut Vec<Finding>) {
    let mut uses = Uses::new();
    for placed in new {
        let host = &placed.own.vm.node;
        let is_replaced = replacement::is_planned(builder, &placed.node.name);
        for (storage, room) in placed.node.vm.room() {
            // Storages that are missing in the list of resources are requested only for nodes without a VM.
            if is_replaced && builder.observed.pve.storage(host, storage).is_none() {
                continue;
            }
            let one = uses.entry((host, storage)).or_default();
            one.content.insert("images");
            // The disks of the replaced VM are deleted first.
            one.disks += if is_replaced { 0 } else { room };
        }
        if placed.node.image.is_some() {
            let images = uses.entry((host, &builder.desired.image_storage)).or_default();
            images.content.insert("import");
        }
    }
    check_uses(builder, uses, findings);
}

/// Checks the storages of missing templates and their images.
pub(super) fn check_templates(
    builder: &Builder<'_>,
    missing: &[MissingTemplate<'_>],
    findings: &mut Vec<Finding>,
) {
    let mut uses = Uses::new();
    for template in missing {
        let vm = &template.node.vm;
        for storage in [&vm.storage, &vm.disks[0].storage] {
            uses.entry((&template.host, storage)).or_default().content.insert("images");
        }
    }
    for step in builder.steps.iter() {
        if let Action::FetchImage(fetch) = &step.action {
            let images = uses.entry((&fetch.host, fetch.volume.storage())).or_default();
            images.content.insert("import");
        }
    }
    check_uses(builder, uses, findings);
}

fn check_uses<'a>(builder: &'a Builder<'_>, mut uses: Uses<'a>, findings: &mut Vec<Finding>) {
    for step in builder.steps.iter() {
        if let Action::FetchImage(fetch) = &step.action
            && !fetch.is_present
        {
            uses.entry((&fetch.host, fetch.volume.storage())).or_default().images += IMAGE;
        }
    }
    let mut shared: BTreeMap<&StorageId, (&StorageResource, Use)> = BTreeMap::new();
    for ((host, storage), desired) in uses {
        // Another check reports problems of the host.
        if !builder.observed.pve.is_online(host) {
            continue;
        }
        let Some(seen) = find(builder, host, storage, &desired, findings) else { continue };
        let subject = format!("{host}/{storage}");
        if seen.shared {
            let (_, all) = shared.entry(storage).or_insert((seen, Use::default()));
            all.disks += desired.disks;
            all.images += desired.images;
        } else {
            room(&subject, seen, &desired, findings);
        }
        content(&subject, seen, &desired, findings);
    }
    for (storage, (seen, desired)) in shared {
        room(storage.as_str(), seen, &desired, findings);
    }
}

/// The storage. If the storage does not exist or is not available, adds a finding and returns None.
fn find<'a>(
    builder: &'a Builder<'_>,
    host: &NodeName,
    storage: &StorageId,
    desired: &Use,
    findings: &mut Vec<Finding>,
) -> Option<&'a StorageResource> {
    let pve = &builder.observed.pve;
    let subject = format!("{host}/{storage}");
    if let Some(seen) = pve.storage(host, storage) {
        if seen.status == "available" {
            return Some(seen);
        }
        let message = format!("the storage is {}", seen.status);
        findings.push(
            Finding::error(FindingCode::StorageUnavailable, &subject, message)
                .hint("run pvesm status on the host to see why"),
        );
        return None;
    }
    if let Some(reason) = pve.unlisted.get(host) {
        let message = format!("the storages of {host} cannot be listed: {reason}");
        let hint = "check by hand that they exist and have enough space";
        findings.push(
            Finding::warning(FindingCode::StorageUnreadable, host.as_str(), message).hint(hint),
        );
        return None;
    }
    // A token without privileges on the storage cannot see it. The check of privileges reports that.
    let may = |role: PveRole| {
        let right = match role {
            PveRole::Image => "Datastore.Audit",
            _ => "Datastore.AllocateSpace",
        };
        pve.permissions.allows(&format!("/storage/{storage}"), right)
    };
    let mut roles = desired.content.iter().map(|content| match *content {
        "import" => PveRole::Image,
        _ => PveRole::Disk,
    });
    if roles.all(may) {
        let known = pve.resources.storages.iter().filter(|one| one.node == *host);
        let known: Vec<&str> = known.map(|one| one.storage.as_str()).collect();
        let message = match known.as_slice() {
            [] => "the host has no such storage".to_owned(),
            known => format!("the host has no such storage; it has: {}", known.join(", ")),
        };
        let hint = "correct `datastore:` or `image_datastore:`; pvesm status on the host lists all";
        findings.push(Finding::error(FindingCode::StorageMissing, &subject, message).hint(hint));
    }
    None
}

fn content(subject: &str, seen: &StorageResource, desired: &Use, findings: &mut Vec<Finding>) {
    let known = |content: &&'static str| seen.content.iter().any(|known| known == content);
    let missing: Vec<&str> =
        desired.content.iter().filter(|content| !known(content)).copied().collect();
    if missing.is_empty() {
        return;
    }
    let all: Vec<&str> = seen.content.iter().map(String::as_str).chain(missing.clone()).collect();
    let message = format!("the storage does not allow the content type {}", missing.join(", "));
    let hint = format!("on a host: pvesm set {} --content {}", seen.storage, all.join(","));
    findings.push(Finding::error(FindingCode::StorageContent, subject, message).hint(hint));
}

fn room(subject: &str, seen: &StorageResource, desired: &Use, findings: &mut Vec<Finding>) {
    let (Some(total), Some(used)) = (seen.total, seen.used) else { return };
    let free = total.saturating_sub(used);
    if desired.disks + desired.images <= free {
        return;
    }
    let (disks, images) = (desired.disks.div_ceil(GIB), desired.images.div_ceil(GIB));
    let what = match (disks, images) {
        (disks, 0) => format!("new disks may grow to {disks} GiB"),
        (0, images) => format!("new images take about {images} GiB"),
        (disks, images) => {
            format!("new disks may grow to {disks} GiB, new images take about {images} GiB")
        }
    };
    let message = format!("{what}, and {} GiB are free", free / GIB);
    findings.push(if seen.kind.as_deref() == Some(THICK) && desired.disks > free {
        let hint = "choose smaller disks: this storage type allocates the whole size at once";
        Finding::error(FindingCode::StorageFull, subject, message).hint(hint)
    } else if desired.images > free {
        Finding::warning(FindingCode::StorageFull, subject, message)
            .hint("delete images that are no longer used")
    } else {
        let hint = "choose smaller disks: a thin storage accepts them, and may run full later";
        Finding::warning(FindingCode::StorageFull, subject, message).hint(hint)
    });
}
