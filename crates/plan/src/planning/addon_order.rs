//! Order of add-ons: `needs:`, and what their objects need of each other.

use std::collections::BTreeSet;

use crate::desired::{Addon, Desired};
use crate::manifest::Manifest;
use crate::observed::{AddonRead, Observed};

/// What the objects of an add-on bring and use.
#[derive(Default)]
struct Traits {
    defined_kinds: BTreeSet<(String, String)>,
    used_kinds: BTreeSet<(String, String)>,
    own_namespaces: BTreeSet<String>,
    used_namespaces: BTreeSet<String>,
    /// Whether an object installs a pod network, and whether one needs it.
    network: (bool, bool),
}

/// All add-ons, each after those that are applied before it. The names are those of the add-ons directly before it.
///
/// An add-on comes after those that it needs, that define its kinds, that contain its namespaces, and that bring the pod network
/// of its pods. `needs:` decides if these rules contradict each other.
pub(super) fn ordered<'a>(
    desired: &'a Desired,
    observed: &Observed,
) -> Vec<(&'a Addon, Vec<&'a str>)> {
    let addons = &desired.addons;
    let count = addons.len();
    let mut before: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); count];
    for (at, addon) in addons.iter().enumerate() {
        let is_needed = |other: &Addon| addon.needs.contains(&other.name);
        let needed = (0..count).filter(|other| *other != at && is_needed(&addons[*other]));
        before[at].extend(needed);
    }
    let traits: Vec<Traits> = addons.iter().map(|addon| traits_of(addon, observed)).collect();
    for (later, user) in traits.iter().enumerate() {
        for (first, source) in traits.iter().enumerate() {
            let is_free = first != later && !reaches(&before, first, later);
            if is_free && serves(source, user) {
                before[later].insert(first);
            }
        }
    }
    let mut done: Vec<usize> = vec![];
    while done.len() < count {
        let is_next =
            |at: &usize| !done.contains(at) && before[*at].iter().all(|one| done.contains(one));
        let Some(next) = (0..count).find(is_next) else { break };
        done.push(next);
    }
    // The inventory has no cycles in `needs:`, so this adds none. Without it, a cycle would drop add-ons from the plan.
    let left: Vec<usize> = (0..count).filter(|at| !done.contains(at)).collect();
    done.extend(left);
    let names = |at: usize| -> Vec<&'a str> {
        before[at].iter().map(|one| addons[*one].name.as_str()).collect()
    };
    done.iter().map(|at| (&addons[*at], names(*at))).collect()
}

/// Whether `to` is before `from`, directly or through others.
fn reaches(before: &[BTreeSet<usize>], from: usize, to: usize) -> bool {
    let mut open = vec![from];
    let mut seen = BTreeSet::new();
    while let Some(at) = open.pop() {
        if at == to {
            return true;
        }
        if seen.insert(at) {
            open.extend(&before[at]);
        }
    }
    false
}

/// Whether the later add-on uses objects of the first one.
fn serves(first: &Traits, later: &Traits) -> bool {
    let mut kinds = later.used_kinds.difference(&later.defined_kinds);
    let mut namespaces = later.used_namespaces.difference(&later.own_namespaces);
    kinds.any(|kind| first.defined_kinds.contains(kind))
        || namespaces.any(|namespace| first.own_namespaces.contains(namespace))
        || (first.network.0 && later.network.1 && !later.network.0)
}

fn traits_of(addon: &Addon, observed: &Observed) -> Traits {
    let mut traits = Traits::default();
    let Some(AddonRead::Objects(objects)) = observed.addons.read.get(&addon.name) else {
        return traits;
    };
    for object in objects {
        traits.defined_kinds.extend(object.defined_kind());
        traits.used_kinds.insert((object.group().to_owned(), object.kind.clone()));
        traits.used_namespaces.extend(object.namespace.clone());
        if object.is_namespace() {
            traits.own_namespaces.insert(object.name.clone());
        }
    }
    traits.network =
        (objects.iter().any(Manifest::brings_network), objects.iter().any(Manifest::needs_network));
    traits
}
