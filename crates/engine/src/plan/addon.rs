//! Add-ons: what is to be applied, and what is left of those that the inventory has no longer.

use super::Builder;
use super::action::{Action, ApplyAddon};
use super::change::{Change, Class, FieldChange, Object};
use super::step::StepId;
use crate::desired::Addon;
use crate::observe::KubernetesSeen;

/// Applies an add-on, unless it is known to be as it should.
pub(super) fn apply(builder: &mut Builder<'_>, addon: &Addon, after: &[StepId]) -> Option<StepId> {
    let object = Object::Addon(addon.name.clone());
    let known = builder.world.addons.known.get(&addon.name);
    let change = match known {
        Some(seen) if seen.is_noted && seen.changes.is_empty() => return None,
        Some(seen) => {
            let class = if seen.is_noted { Class::Live } else { Class::Create };
            let changes = seen.changes.iter();
            let fields = changes.map(|change| FieldChange::set(&change.object, &change.what));
            Change::planned(object, class, fields.collect())
        }
        None if builder.world.kubernetes == KubernetesSeen::NotAsked => {
            Change::planned(object, Class::Create, vec![])
        }
        None => Change::planned(object, Class::Live, vec![])
            .note("it cannot be compared with what is there, so it is applied once more"),
    };
    builder.changes.push(change);
    let action = Action::ApplyAddon(ApplyAddon {
        name: addon.name.clone(),
        source: addon.source.clone(),
        deadline: builder.desired.timeouts.health,
    });
    let id = format!("addon/{}", addon.name);
    Some(builder.steps.add(id, None, after.iter().cloned(), action))
}

/// Objects of add-ons that the inventory has no longer, whole or in part.
pub(super) fn left(builder: &mut Builder<'_>) {
    for (name, objects) in &builder.world.addons.left {
        let is_known = builder.desired.addons.iter().any(|addon| addon.name == *name);
        let note = if is_known {
            "its manifests have no such objects any more"
        } else {
            "the inventory has no such add-on any more"
        };
        let gone = |object: &String| FieldChange::new(object, Some("applied".to_owned()), None);
        let fields = objects.iter().map(gone).collect();
        let change = Change::open(Object::Addon(name.clone()), Class::Destroy, fields);
        builder.changes.push(change.note(note));
    }
}
