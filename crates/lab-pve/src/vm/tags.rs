//! Tags: how they are written down, and who may set which.

use std::collections::{BTreeMap, BTreeSet};

use crate::permission::refused;
use crate::schema::split_list;
use crate::world::{Caller, World};
use crate::{Refusal, Release};

/// Sorted, each once, in lower case unless the datacenter says that case matters.
pub(crate) fn normal(world: &World, tags: &str) -> String {
    let style = |name: &str| setting(world, "tag-style", name);
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

/// Whether the caller may turn these tags into those.
pub(crate) fn check(
    world: &World,
    caller: &Caller,
    vmid: u32,
    old: &str,
    new: &str,
) -> Result<(), Refusal> {
    world.check(caller, &format!("/vms/{vmid}"), &["VM.Config.Options"])?;
    let changed = changed(old, new);
    check_each(world, caller, changed)
}

/// Whether the caller may give these tags to a new VM.
pub(crate) fn check_new(
    world: &World,
    caller: &Caller,
    vmid: u32,
    tags: &str,
) -> Result<(), Refusal> {
    if world.release == Release::V8 {
        return Ok(());
    }
    world.check(caller, &format!("/vms/{vmid}"), &["VM.Config.Options"])?;
    // Release 9 takes the VM that is not there yet for one that had a tag of its own, which is to
    // go: where people may not use tags freely, this alone is refused.
    let mut changed = changed("", tags);
    changed.insert("HASH(0x5581e2b0a3c8)".to_owned());
    check_each(world, caller, changed)
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

fn check_each(world: &World, caller: &Caller, tags: BTreeSet<String>) -> Result<(), Refusal> {
    if world.allowed(caller, "/", &["Sys.Modify"]) {
        return Ok(());
    }
    let registered: BTreeSet<&str> = world
        .datacenter
        .get("registered-tags")
        .map(|tags| split_list(tags).into_iter().collect())
        .unwrap_or_default();
    let access = setting(world, "user-tag-access", "user-allow").unwrap_or("free");
    let listed: BTreeSet<&str> = setting(world, "user-tag-access", "user-allow-list")
        .filter(|_| access != "none")
        .map(|list| split_list(list).into_iter().collect())
        .unwrap_or_default();
    let is_seen = |tag: &str| {
        world.vms.iter().any(|(vmid, vm)| {
            vm.config.get("tags").is_some_and(|tags| split_list(tags).contains(&tag))
                && world.allowed(caller, &format!("/vms/{vmid}"), &["VM.Audit"])
        })
    };
    for tag in tags {
        let known = listed.contains(tag.as_str()) || access == "existing" && is_seen(&tag);
        if registered.contains(tag.as_str()) || access != "free" && !known {
            return Err(refused(&format!("/, Sys.Modify for modifying tag '{tag}'")));
        }
    }
    Ok(())
}

/// A part of one of the datacenter's property strings.
fn setting<'a>(world: &'a World, option: &str, name: &str) -> Option<&'a str> {
    let value = world.datacenter.get(option)?;
    value.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}
