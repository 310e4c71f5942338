//! The plan of a cluster that has no secrets yet. `up` makes them; whoever only looks does not.

use talmox_plan::plan::{Change, Class, FieldValue, Object, Plan};

use crate::session::Session;

/// Says that the secrets will be made. Those for a lab of our own are of no interest to anybody.
pub(super) fn announce_secrets(plan: &mut Plan, session: &Session) {
    if !session.is_draft || session.is_alone() || plan.is_empty() {
        return;
    }
    let path = session.chosen.secrets_path().display().to_string();
    let note = "the cluster's secrets, made once; back the file up, or keep it in git";
    plan.changes.insert(0, file(path, Class::Create, note));
}

/// A file that comes or goes beside the inventory.
pub(super) fn file(path: String, class: Class, note: &str) -> Change {
    Change {
        object: Object::File(path),
        class,
        fields: vec![],
        note: Some(note.to_owned()),
        is_planned: true,
    }
}

/// Takes out what comes from secrets that nobody keeps: the MACs that `up` will give are others.
pub(super) fn forget_identities(plan: &mut Plan, session: &Session) {
    if !session.is_draft {
        return;
    }
    let nodes = session.desired.nodes.iter();
    let own: Vec<String> =
        nodes.flat_map(|node| &node.identity.macs).map(ToString::to_string).collect();
    let forget = |value: &mut Option<FieldValue>| {
        let Some(FieldValue::Text(text)) = value else { return };
        for mac in &own {
            *text = text.replace(mac, "…");
        }
    };
    for field in plan.changes.iter_mut().flat_map(|change| &mut change.fields) {
        forget(&mut field.old);
        forget(&mut field.new);
    }
}
