//! Tags of existing VMs. Only tags that talmox set are removed; tags of users stay.

use talmox_pve_types::config::Drift;
use talmox_pve_types::property::Tags;

use super::placed::{ObservedVm, Placed};
use crate::ownership::Marker;
use crate::plan::{Finding, FindingCode};

/// The drift without tags that a user set. None if only such tags differ. The marker records the tags that talmox set. Of
/// these, the tags that the inventory no longer contains are removed.
pub(super) fn without_tags_of_users(drift: &Drift, marker: &Marker) -> Option<Drift> {
    let Some(found) = drift.found.as_deref().filter(|_| drift.key == "tags") else {
        return Some(drift.clone());
    };
    let (desired, found) = (Tags::parse(&drift.desired), Tags::parse(found));
    let stays = |tag: &&str| desired.contains(tag) || !marker.own_tags.contains(tag);
    let all = Tags::of(desired.iter().chain(found.iter().filter(stays)));
    (all != found).then(|| Drift { desired: all.to_string(), ..drift.clone() })
}

/// The tags that the marker records after a run has set the tags of the inventory: those that talmox set before, and those that
/// this run adds. A tag that the VM had before without a record may be a tag of a user.
pub(super) fn recorded(desired: &Tags, found: &Tags, marker: &Marker) -> Tags {
    let is_own = |tag: &&str| marker.own_tags.contains(tag) || !found.contains(tag);
    Tags::of(desired.iter().filter(is_own))
}

/// The warning about tags that the VM lacks and that no run sets: Proxmox rejected them, or the VM was adopted. As a change, these
/// tags would be in every plan.
pub(super) fn missing(placed: &Placed<'_>, found: &ObservedVm<'_>, drift: &Drift) -> Finding {
    let vm = &placed.own.vm;
    let (vmid, desired) = (vm.vmid, &drift.desired);
    let name = &placed.node.name;
    let by_hand = format!("as root on {}: qm set {vmid} --tags '{desired}'", vm.node);
    if Marker::is_adopted(found.config.description()) {
        let message = format!(
            "`talmox adopt` left the tags of VM {vmid} as they were, and the VM lacks tags of the inventory"
        );
        let hint = format!("everything works without them; to have them, {by_hand}");
        return Finding::warning(FindingCode::TagsKept, name, message).hint(hint);
    }
    let message = format!(
        "VM {vmid} lacks the tags {desired}: the tag policy of the datacenter (user-tag-access, registered-tags) does not let \
         the token set them"
    );
    let hint = format!(
        "everything works without them; to have them, {by_hand}
to let talmox set the tags of new VMs, allow them under Datacenter > Options > User Tag Access, and remove them from \
         Registered Tags"
    );
    Finding::warning(FindingCode::TagsRejected, name, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::{ClusterMark, Stage};

    fn marker(own_tags: &[&str]) -> Marker {
        Marker {
            cluster: ClusterMark::of("id"),
            node: "cp-1".to_owned(),
            stage: Stage::Made,
            data: None,
            are_tags_rejected: false,
            first_role: None,
            own_tags: Tags::of(own_tags),
            notes: None,
        }
    }

    fn drift(desired: &str, found: &str) -> Drift {
        let (desired, found) = (desired.to_owned(), Some(found.to_owned()));
        Drift { key: "tags".to_owned(), desired, found }
    }

    #[test]
    fn only_recorded_tags_are_removed() {
        let found = "blue;home;mine;talmox";
        let change = |own: &[&str]| {
            without_tags_of_users(&drift("home;talmox", found), &marker(own))
                .map(|drift| drift.desired)
        };
        assert_eq!(change(&["talmox", "home", "blue"]).as_deref(), Some("home;mine;talmox"));
        assert_eq!(change(&["talmox", "home"]), None, "a tag of a user");
        assert_eq!(change(&[]), None, "a VM of an earlier release");
        let added = without_tags_of_users(&drift("home;red;talmox", found), &marker(&["blue"]));
        assert_eq!(added.unwrap().desired, "home;mine;red;talmox");
    }

    #[test]
    fn tags_that_were_there_before_are_not_recorded() {
        let (desired, found) = (Tags::of(["a", "b", "c"]), Tags::of(["a", "b"]));
        assert_eq!(recorded(&desired, &found, &marker(&["b", "d"])), Tags::of(["b", "c"]));
    }
}
