//! Planning of add-ons: steps that apply them, objects that removed add-ons left, and findings about manifests.

use std::collections::BTreeSet;

use super::builder::Builder;
use crate::desired::{Addon, AddonSource};
use crate::manifest::{ALWAYS_THERE, Manifest};
use crate::observed::{AddonRead, KubernetesSeen, RejectedObject};
use crate::plan::{
    Action, ApplyAddon, Change, Class, FieldChange, Finding, FindingCode, Left, Object, StepId,
};

/// Plans to apply an add-on. Returns None if the cluster already matches the add-on, or if the command does not apply it.
pub(super) fn apply(builder: &mut Builder<'_>, addon: &Addon, after: &[StepId]) -> Option<StepId> {
    if addon.source == AddonSource::Skipped {
        return None;
    }
    let object = Object::Addon(addon.name.clone());
    let known = builder.observed.addons.known.get(&addon.name);
    let change = match known {
        Some(seen) if seen.is_noted && seen.changes.is_empty() => {
            tracing::info!(target: "talmox::plan", subject = addon.name, "skipped: the add-on is as desired");
            return None;
        }
        Some(seen) => {
            let class = if seen.is_noted { Class::Live } else { Class::Create };
            let changes = seen.changes.iter();
            let fields = changes.map(|change| FieldChange::set(&change.object, &change.what));
            Change::planned(object, class, fields.collect())
        }
        None if builder.observed.kubernetes == KubernetesSeen::NotAsked => {
            Change::planned(object, Class::Create, vec![])
        }
        None => Change::planned(object, Class::Live, vec![])
            .note("it cannot be compared with the cluster, so it is applied again"),
    };
    builder.changes.push(change);
    let action = Action::ApplyAddon(ApplyAddon {
        name: addon.name.clone(),
        source: addon.source.clone(),
        namespace: addon.namespace.clone(),
        skips_rollout: !addon.waits,
        deadline: addon.timeout.unwrap_or(builder.desired.timeouts.health),
    });
    let id = format!("addon/{}", addon.name);
    Some(builder.steps.add(id, None, after.iter().cloned(), action))
}

/// Reports objects in the cluster whose add-on is no longer in the inventory, or whose add-on no longer contains them.
pub(super) fn left(builder: &mut Builder<'_>) {
    for (name, objects) in &builder.observed.addons.left {
        let is_known = builder.desired.addons.iter().any(|addon| addon.name == *name);
        let note = if is_known {
            "its manifests no longer have these objects"
        } else {
            "the inventory no longer has this add-on"
        };
        let gone = |object: &String| FieldChange::new(object, Some("applied".to_owned()), None);
        let fields = objects.iter().map(gone).collect();
        let object = Object::Addon(name.clone());
        let change = Change::left(object, Class::Destroy, fields, Left::Impossible);
        builder.changes.push(change.note(note));
    }
}

/// Adds findings about manifests, before anything is applied.
pub(super) fn check(builder: &mut Builder<'_>) {
    let mut findings = vec![];
    let mut objects: Vec<(&str, &Manifest)> = vec![];
    for addon in &builder.desired.addons {
        let name = addon.name.as_str();
        match builder.observed.addons.read.get(name) {
            Some(AddonRead::Objects(manifests)) => {
                for manifest in manifests {
                    findings.extend(duplicate(&objects, name, manifest));
                    objects.push((name, manifest));
                }
            }
            Some(AddonRead::Wrong(why)) => {
                let hint = "correct the manifests, or the checksum if the change is intended";
                findings.push(
                    Finding::error(FindingCode::AddonInvalid, &subject(name), why).hint(hint),
                );
            }
            Some(AddonRead::Unreachable(why)) => {
                let message = format!("its manifests cannot be downloaded now: {why}");
                let hint =
                    "check the address; `up` downloads them again when it applies the add-on";
                findings.push(
                    Finding::warning(FindingCode::AddonUnreachable, &subject(name), message)
                        .hint(hint),
                );
            }
            None => {}
        }
    }
    findings.extend(missing_namespaces(builder, &objects));
    findings.extend(rejected(builder));
    findings.extend(without_pod_network(builder, &objects));
    builder.findings.extend(findings);
}

fn subject(addon: &str) -> String {
    Object::Addon(addon.to_owned()).to_string()
}

/// Finding about an object that is in two manifests. Each run would change the object to one version and back to the other.
fn duplicate(known: &[(&str, &Manifest)], addon: &str, manifest: &Manifest) -> Option<Finding> {
    // Several add-ons can have the same `namespace:`, and one of them can also contain it.
    let is_shared = |one: &Manifest| one.is_created_namespace() || manifest.is_created_namespace();
    let (other, first) = known.iter().find(|(_, one)| one.is_same(manifest) && !is_shared(one))?;
    let place = if *other == addon {
        first.place.clone()
    } else {
        format!("{} ({})", first.place, subject(other))
    };
    let message = format!("{manifest} is in {place} and in {} as well", manifest.place);
    Some(
        Finding::error(FindingCode::AddonDuplicate, &subject(addon), message)
            .hint("keep one of the two"),
    )
}

/// Findings about objects in namespaces that do not exist and that no add-on creates. Applying such an object would time out.
fn missing_namespaces(builder: &Builder<'_>, objects: &[(&str, &Manifest)]) -> Vec<Finding> {
    if !are_all_read(builder) {
        return vec![];
    }
    let mut there: BTreeSet<&str> = ALWAYS_THERE.into_iter().collect();
    match &builder.observed.addons.namespaces {
        Some(found) => there.extend(found.iter().map(String::as_str)),
        // Machine configs can contain manifests with namespaces, and a cluster that does not answer cannot list its
        // namespaces.
        None if builder.observed.kubernetes != KubernetesSeen::NotAsked || has_extras(builder) => {
            return vec![];
        }
        None => {}
    }
    there.extend(objects.iter().filter(|(_, one)| one.is_namespace()).map(|(_, one)| &*one.name));
    let mut reported = BTreeSet::new();
    let mut findings = vec![];
    for (addon, manifest) in objects {
        let Some(namespace) = manifest.namespace.as_deref() else { continue };
        if there.contains(namespace) || !reported.insert((addon, namespace)) {
            continue;
        }
        let place = &manifest.place;
        let message = format!(
            "{manifest} ({place}) needs the namespace {namespace}, which neither the cluster nor an add-on has"
        );
        let hint = format!(
            "add it to a manifest: {{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}"
        );
        findings.push(
            Finding::error(FindingCode::NamespaceMissing, &subject(addon), message).hint(hint),
        );
    }
    findings
}

/// Findings about objects that Kubernetes would reject. A rejection that is not final is a warning, because another change of
/// the plan may fix it. If the plan makes no other change, such a rejection is an error.
fn rejected(builder: &Builder<'_>) -> Vec<Finding> {
    let known = &builder.observed.addons.known;
    let is_settled = |addon: &Addon| {
        known.get(&addon.name).is_some_and(|seen| seen.changes.len() == seen.refusals.len())
    };
    let is_addon = |change: &Change| matches!(change.object, Object::Addon(_));
    let is_alone =
        builder.desired.addons.iter().all(is_settled) && builder.changes.iter().all(is_addon);
    let finding = |addon: &str, refusal: &RejectedObject| {
        let RejectedObject { object, place, why, is_final } = refusal;
        let message = format!("Kubernetes rejects {object} ({place}): {why}");
        if !is_final && !is_alone {
            let hint = "run `up`: its other changes may fix this; if not, it stops there";
            return Finding::warning(FindingCode::AddonRejected, &subject(addon), message)
                .hint(hint);
        }
        let hint = if why.contains("immutable") {
            "undo the change, or delete the object: `up` creates it again"
        } else {
            "correct the manifest"
        };
        Finding::error(FindingCode::AddonRejected, &subject(addon), message).hint(hint)
    };
    let expected = builder.desired.addons.iter().map(|addon| addon.name.as_str());
    let seen = expected.filter_map(|name| Some((name, known.get(name)?)));
    seen.flat_map(|(name, seen)| seen.refusals.iter().map(move |one| (name, one)))
        .map(|(name, refusal)| finding(name, refusal))
        .collect()
}

fn are_all_read(builder: &Builder<'_>) -> bool {
    let read = &builder.observed.addons.read;
    let is_read = |addon: &Addon| matches!(read.get(&addon.name), Some(AddonRead::Objects(_)));
    builder.desired.addons.iter().all(is_read)
}

/// Findings about pods that need a pod network, if no pod network of the cluster is known. One finding per add-on.
fn without_pod_network(builder: &Builder<'_>, objects: &[(&str, &Manifest)]) -> Vec<Finding> {
    let has_network = builder.desired.has_cni
        || builder.desired.cni_managed_by.is_some()
        || objects.iter().any(|(_, manifest)| manifest.brings_network())
        || match &builder.observed.kubernetes {
            // The cluster has a pod network if its health checks include the check for ready nodes.
            KubernetesSeen::Answers(registered) => !registered.lacks_pod_network,
            KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => false,
        };
    if has_network || !are_all_read(builder) || has_extras(builder) {
        return vec![];
    }
    let mut reported = BTreeSet::new();
    let waiting = objects.iter().filter(|(_, manifest)| manifest.needs_network());
    let first = waiting.filter(|(addon, _)| reported.insert(*addon));
    let finding = |(addon, manifest): &(&str, &Manifest)| {
        let message = format!(
            "{manifest} ({}) needs a pod network: Talos brings none in this cluster, and no add-on is known to",
            manifest.place
        );
        let hint = "add one to `addons:`, or remove `cni: none` here and in patches so that Talos brings its own; \
                    otherwise `up` waits until its timeout";
        Finding::warning(FindingCode::PodNetworkMissing, &subject(addon), message).hint(hint)
    };
    first.map(finding).collect()
}

/// Whether machine configs contain manifests.
fn has_extras(builder: &Builder<'_>) -> bool {
    let mut configs = builder.desired.nodes.iter().map(|node| node.config.expose());
    configs.any(|text| text.contains("inlineManifests") || text.contains("extraManifests"))
}
