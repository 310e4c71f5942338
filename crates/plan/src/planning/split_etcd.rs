//! Two etcd clusters in one cluster, because a control plane was bootstrapped although others existed. Each etcd cluster has
//! its own data, so only the user can decide which one stays.

use std::collections::BTreeSet;

use super::builder::Builder;
use crate::observed::{EtcdSeen, TalosSeen};
use crate::plan::{Finding, FindingCode};

/// Instructions for a user who has two etcd clusters.
pub const WAY_OUT: &str = "\
look at the Kubernetes of both through their API servers, and choose which one stays
back up the VMs of the control planes of the other one in Proxmox (vzdump VMID) and delete them, then run `talmox up`: it creates \
them again, and they join the one that stays";

pub(super) fn check(builder: &mut Builder<'_>) {
    let lists = builder.observed.nodes.values().filter_map(|seen| match seen {
        TalosSeen::OwnNode(found) => match &found.etcd {
            EtcdSeen::Member { names } => Some(names.iter().map(String::as_str).collect()),
            _ => None,
        },
        _ => None,
    });
    if let Some(message) = two_clusters(lists) {
        builder.findings.push(
            Finding::error(FindingCode::EtcdSplit, &builder.desired.cluster, message).hint(WAY_OUT),
        );
    }
}

/// The error text if two lists of members have no member in common. A list that is only outdated shares most members with the
/// others.
pub fn two_clusters<'a>(lists: impl IntoIterator<Item = BTreeSet<&'a str>>) -> Option<String> {
    let mut lists = lists.into_iter().filter(|list| !list.is_empty());
    let first = lists.next()?;
    let other = lists.find(|list| list.is_disjoint(&first))?;
    let named = |list: BTreeSet<&str>| list.into_iter().collect::<Vec<_>>().join(", ");
    Some(format!(
        "there are two etcd clusters, each with data of its own: one of {}, and one of {}",
        named(first),
        named(other)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_without_a_common_member_are_of_two_clusters() {
        let said = |lists: &[&[&'static str]]| {
            two_clusters(lists.iter().map(|list| list.iter().copied().collect()))
        };
        assert_eq!(
            said(&[&["cp-1", "cp-3"], &[], &["cp-2"], &["cp-1", "cp-3"]]).as_deref(),
            Some(
                "there are two etcd clusters, each with data of its own: one of cp-1, cp-3, and one of cp-2"
            )
        );
        // The members receive the name of a new member at different times.
        assert_eq!(said(&[&["cp-1"], &["cp-1", "cp-2"], &["cp-1", "cp-2", "cp-3"]]), None);
        assert_eq!(said(&[]), None);
    }
}
