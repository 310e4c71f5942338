//! Tags: normalization and permissions.

use std::collections::{BTreeMap, BTreeSet};

use crate::permission::permission_denied;
use crate::pve_state::{Caller, PveState};
use crate::schema::split_list;
use crate::{ApiError, Release};

/// Normalized tags: sorted, without duplicates, and in lower case unless the datacenter config makes tags case-sensitive.
pub(crate) fn normalized(pve_state: &PveState, tags: &str) -> String {
    let style = |name: &str| setting(pve_state, "tag-style", name);
    let case_sensitive = style("case-sensitive").is_some_and(|value| value == "1");
    let mut seen = BTreeSet::new();
    let mut list: Vec<String> = split_list(tags)
        .into_iter()
        .map(|tag| if case_sensitive { tag.to_owned() } else { tag.to_lowercase() })
        .filter(|tag| seen.insert(tag.clone()))
        .collect();
    if style("ordering") != Some("config") {
        list.sort();
    }
    list.join(";")
}

/// Checks whether the caller may change `old` tags to `new` tags.
pub(crate) fn check(
    pve_state: &PveState,
    caller: &Caller,
    vmid: u32,
    old: &str,
    new: &str,
) -> Result<(), ApiError> {
    pve_state.check(caller, &format!("/vms/{vmid}"), &["VM.Config.Options"])?;
    let changed = changed(old, new);
    check_each(pve_state, caller, changed)
}

/// Checks whether the caller may set these tags on a new VM.
pub(crate) fn check_new(
    pve_state: &PveState,
    caller: &Caller,
    vmid: u32,
    tags: &str,
) -> Result<(), ApiError> {
    if pve_state.release == Release::V8 {
        return Ok(());
    }
    pve_state.check(caller, &format!("/vms/{vmid}"), &["VM.Config.Options"])?;
    // Proxmox VE 9 compares the new tags with a Perl hash reference instead of an empty list. So Proxmox also detects the
    // removal of a tag such as `HASH(0x…)`. If the datacenter config restricts tags, this tag alone causes a rejection.
    let mut changed = changed("", tags);
    changed.insert("HASH(0x5581e2b0a3c8)".to_owned());
    check_each(pve_state, caller, changed)
}

fn changed(old: &str, new: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for tag in split_list(old) {
        counts.entry(tag).or_default().0 += 1;
    }
    for tag in split_list(new) {
        counts.entry(tag).or_default().1 += 1;
    }
    counts.retain(|_, (old, new)| old != new);
    counts.into_keys().map(str::to_owned).collect()
}

fn check_each(
    pve_state: &PveState,
    caller: &Caller,
    tags: BTreeSet<String>,
) -> Result<(), ApiError> {
    if pve_state.allowed(caller, "/", &["Sys.Modify"]) {
        return Ok(());
    }
    let registered: BTreeSet<&str> = pve_state
        .datacenter
        .get("registered-tags")
        .map(|tags| split_list(tags).into_iter().collect())
        .unwrap_or_default();
    let access = setting(pve_state, "user-tag-access", "user-allow").unwrap_or("free");
    let listed: BTreeSet<&str> = setting(pve_state, "user-tag-access", "user-allow-list")
        .filter(|_| access != "none")
        .map(|list| split_list(list).into_iter().collect())
        .unwrap_or_default();
    let is_seen = |tag: &str| {
        pve_state.vms.iter().any(|(vmid, vm)| {
            vm.config.get("tags").is_some_and(|tags| split_list(tags).contains(&tag))
                && pve_state.allowed(caller, &format!("/vms/{vmid}"), &["VM.Audit"])
        })
    };
    for tag in tags {
        let known = listed.contains(tag.as_str()) || access == "existing" && is_seen(&tag);
        if registered.contains(tag.as_str()) || access != "free" && !known {
            return Err(permission_denied(&format!("/, Sys.Modify for modifying tag '{tag}'")));
        }
    }
    Ok(())
}

/// Field of a property string in the datacenter config.
fn setting<'a>(pve_state: &'a PveState, option: &str, name: &str) -> Option<&'a str> {
    let value = pve_state.datacenter.get(option)?;
    value.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}
