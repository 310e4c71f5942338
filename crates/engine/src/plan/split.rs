//! Two etcds in one cluster: a control plane was bootstrapped though there were others. Each has data of its own, and
//! nobody but people can say which of them is to stay.

use std::collections::BTreeSet;

use super::Builder;
use super::change::Finding;
use crate::observe::{EtcdSeen, TalosSeen};

/// What people can do about it.
pub(crate) const WAY_OUT: &str = "\
API servers of either show another Kubernetes: look at both, and choose which one stays
each node of the other joins it after: talosctl -n ADDRESS reset --system-labels-to-wipe EPHEMERAL --reboot --graceful=false";

pub(super) fn check(builder: &mut Builder<'_>) {
    let lists = builder.world.nodes.values().filter_map(|seen| match seen {
        TalosSeen::Ours(found) => match &found.etcd {
            EtcdSeen::Member { names } => Some(names.iter().map(String::as_str).collect()),
            _ => None,
        },
        _ => None,
    });
    if let Some(message) = two_clusters(lists) {
        builder.findings.push(Finding::error(&builder.desired.cluster, message).hint(WAY_OUT));
    }
}

/// Says so if there are two lists of members that have nobody in common. One that is only older than another
/// has most of its members.
pub(crate) fn two_clusters<'a>(
    lists: impl IntoIterator<Item = BTreeSet<&'a str>>,
) -> Option<String> {
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
        // The last one to join is told later than others.
        assert_eq!(said(&[&["cp-1"], &["cp-1", "cp-2"], &["cp-1", "cp-2", "cp-3"]]), None);
        assert_eq!(said(&[]), None);
    }
}
