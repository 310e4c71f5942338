//! Choice of the host for an HA resource.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::pve_state::{PveState, Section};
use crate::schema::split_list;

/// Host for an HA resource. Only hosts that are online and permitted by the rules are considered. Of these, the host with the
/// highest priority is chosen, then the one with the fewest resources. The host `but` is excluded.
pub(super) fn choose_host(pve_state: &PveState, sid: &str, but: Option<&str>) -> Option<String> {
    let priorities = priorities(pve_state, sid);
    let online = pve_state.hosts.iter().filter(|(_, host)| host.online).map(|(name, _)| name);
    let possible: Vec<&String> = online
        .filter(|node| but != Some(node.as_str()))
        .filter(|node| {
            priorities.is_empty() || !is_strict(pve_state, sid) || priorities.contains_key(*node)
        })
        .filter(|node| !is_kept_apart(pve_state, sid, node))
        .collect();
    let together: Vec<&String> =
        possible.iter().copied().filter(|node| is_kept_together(pve_state, sid, node)).collect();
    let choice = if together.is_empty() { possible } else { together };
    let load = |node: &str| {
        pve_state
            .ha
            .services
            .iter()
            .filter(|(id, service)| *id != sid && service.node == node)
            .count()
    };
    let best = choice.into_iter().min_by_key(|node| {
        (Reverse(priorities.get(*node).map_or(-1, |priority| *priority)), load(node))
    });
    best.cloned()
}

/// Priority of each host that a group or a rule lists for a resource.
fn priorities(pve_state: &PveState, sid: &str) -> BTreeMap<String, i64> {
    let lists = group(pve_state, sid).into_iter().chain(node_rules(pve_state, sid));
    let nodes = lists.flat_map(|section| split_list(text(section, "nodes")));
    let parsed = nodes.map(|node| {
        let (name, priority) = node.split_once(':').unwrap_or((node, "0"));
        (name.to_owned(), priority.parse().unwrap_or_default())
    });
    parsed.collect()
}

fn is_strict(pve_state: &PveState, sid: &str) -> bool {
    group(pve_state, sid).is_some_and(|group| text(group, "restricted") == "1")
        || node_rules(pve_state, sid).any(|rule| text(rule, "strict") == "1")
}

fn group<'a>(pve_state: &'a PveState, sid: &str) -> Option<&'a Section> {
    pve_state.ha.groups.get(pve_state.ha.resources.get(sid)?.get("group")?)
}

fn node_rules<'a>(pve_state: &'a PveState, sid: &str) -> impl Iterator<Item = &'a Section> {
    rules(pve_state, sid, "node-affinity", None)
}

fn rules<'a>(
    pve_state: &'a PveState,
    sid: &str,
    kind: &'static str,
    affinity: Option<&'static str>,
) -> impl Iterator<Item = &'a Section> {
    pve_state.ha.rules.values().filter(move |rule| {
        text(rule, "type") == kind
            && affinity.is_none_or(|affinity| text(rule, "affinity") == affinity)
            && text(rule, "disable") != "1"
            && split_list(text(rule, "resources")).contains(&sid)
    })
}

/// Whether a host runs a resource that must not be on the same host as `sid`, because of a negative affinity rule.
fn is_kept_apart(pve_state: &PveState, sid: &str, node: &str) -> bool {
    has_partner_on(pve_state, sid, "negative", node)
}

/// Whether a host runs a resource that must be on the same host as `sid`, because of a positive affinity rule.
fn is_kept_together(pve_state: &PveState, sid: &str, node: &str) -> bool {
    has_partner_on(pve_state, sid, "positive", node)
}

fn has_partner_on(pve_state: &PveState, sid: &str, affinity: &'static str, node: &str) -> bool {
    let on_node =
        |mate| pve_state.ha.services.get(mate).is_some_and(|service| service.node == node);
    affinity_partners(pve_state, sid, affinity).into_iter().any(on_node)
}

/// Resources that are in the same resource affinity rule as `sid`. `affinity` selects positive or negative rules.
pub(crate) fn affinity_partners<'a>(
    pve_state: &'a PveState,
    sid: &str,
    affinity: &'static str,
) -> BTreeSet<&'a str> {
    rules(pve_state, sid, "resource-affinity", Some(affinity))
        .flat_map(|rule| split_list(text(rule, "resources")))
        .filter(|mate| *mate != sid && pve_state.ha.services.contains_key(*mate))
        .collect()
}

fn text<'a>(section: &'a Section, name: &str) -> &'a str {
    section.get(name).map_or("", String::as_str)
}
