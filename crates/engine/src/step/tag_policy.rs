//! Known part of the tag policy of the datacenter.
//!
//! A token with few privileges cannot read the policy (`user-tag-access`, `registered-tags`). The run derives the policy from
//! the answers to its changes.

use std::collections::BTreeSet;

use talmox_pve::property::Tags;

#[derive(Debug, Default)]
pub(super) struct TagPolicy {
    allowed: BTreeSet<String>,
    /// Sets of tags that were rejected as a whole, with the text of Proxmox.
    rejected: Vec<(BTreeSet<String>, String)>,
}

/// Whether tags can be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TagVerdict {
    Allowed,
    Rejected { reason: String },
    Unknown,
}

impl TagPolicy {
    /// Whether the policy allows a change of tags, as far as known. Proxmox checks every tag that is added or removed.
    pub(super) fn judge(&self, old: &Tags, new: &Tags) -> TagVerdict {
        let changed = changed(old, new);
        if changed.is_subset(&self.allowed) {
            return TagVerdict::Allowed;
        }
        let known = self.rejected.iter().find(|(rejected, _)| rejected.is_subset(&changed));
        known.map_or(TagVerdict::Unknown, |(_, reason)| TagVerdict::Rejected {
            reason: reason.clone(),
        })
    }

    pub(super) fn allow(&mut self, old: &Tags, new: &Tags) {
        self.allowed.extend(changed(old, new));
    }

    pub(super) fn reject(&mut self, old: &Tags, new: &Tags, reason: String) {
        let changed = changed(old, new);
        self.allowed.retain(|tag| !changed.contains(tag));
        self.rejected.push((changed, reason));
    }
}

fn changed(old: &Tags, new: &Tags) -> BTreeSet<String> {
    let added = new.iter().filter(|tag| !old.contains(tag));
    let removed = old.iter().filter(|tag| !new.contains(tag));
    added.chain(removed).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answered_question_is_not_repeated() {
        let tags = |list: &[&str]| Tags::of(list);
        let (none, own) = (tags(&[]), tags(&["home", "talmox"]));
        let mut policy = TagPolicy::default();
        assert_eq!(policy.judge(&none, &own), TagVerdict::Unknown);
        assert_eq!(policy.judge(&own, &own), TagVerdict::Allowed, "nothing changes");
        policy.allow(&none, &own);
        assert_eq!(policy.judge(&none, &tags(&["home"])), TagVerdict::Allowed);
        assert_eq!(policy.judge(&none, &tags(&["home", "gpu"])), TagVerdict::Unknown);
        assert_eq!(policy.judge(&tags(&["golden"]), &own), TagVerdict::Unknown, "golden goes");
        policy.reject(&none, &own, "no".to_owned());
        let rejected = TagVerdict::Rejected { reason: "no".to_owned() };
        assert_eq!(policy.judge(&none, &tags(&["gpu", "home", "talmox"])), rejected);
        assert_eq!(policy.judge(&none, &tags(&["home"])), TagVerdict::Unknown);
    }
}
