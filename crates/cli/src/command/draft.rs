//! Plan entries of a cluster whose secrets do not exist yet. `up` generates the secrets.

use talmox_plan::plan::{Change, Class, FieldValue, Object, Plan};

use crate::session::Session;

/// Adds an entry for the new secrets file to the plan. A lab inside this process writes no secrets file, so it gets no
/// entry.
pub(super) fn announce_secrets(plan: &mut Plan, session: &Session) {
    if !session.is_draft || session.is_own_lab() || plan.is_empty() {
        return;
    }
    let path = session.chosen.secrets_path().display().to_string();
    let note = "secrets of the cluster, generated once; back up this file or commit it to git";
    plan.changes.insert(0, file(path, Class::Create, note));
}

/// Plan entry for a file that is created or deleted.
pub(super) fn file(path: String, class: Class, note: &str) -> Change {
    Change {
        object: Object::File(path),
        class,
        fields: vec![],
        note: Some(note.to_owned()),
        is_planned: true,
        left: None,
    }
}

/// Removes values from the plan that are derived from temporary secrets, because `up` will generate other MACs.
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
