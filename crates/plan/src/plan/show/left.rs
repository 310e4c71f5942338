//! Changes that a run leaves, each with the reason.

use super::effect::Effect;
use super::removed_node::merged;
use crate::plan::Plan;
use crate::plan::change::{Change, Class, Left};

/// A line for each change that a run of this plan leaves until the user acts: the reason, and the flag that would allow the
/// change.
pub fn left(plan: &Plan) -> Vec<String> {
    let mut lines: Vec<String> =
        merged(plan.left_changes()).iter().map(|change| line(change)).collect();
    let has_line = |node: &str| plan.left_changes().any(|left| left.object.node() == Some(node));
    let others = plan.node_errors().filter(|error| !has_line(&error.subject));
    lines.extend(others.map(|error| {
        format!("node {}: an error prevents changes: {}", error.subject, error.message)
    }));
    lines
}

/// Every change that no step of this plan makes, also those that the limits of the run or `ignore:` exclude: the change, and
/// the reason.
pub(crate) fn open_changes(plan: &Plan) -> Vec<(String, String)> {
    let open = merged(plan.open_changes());
    open.iter().map(|change| (title(change), reason(change))).collect()
}

fn line(change: &Change) -> String {
    format!("{}: {}", title(change), reason(change))
}

/// The object of a change with the changed fields and the effect.
fn title(change: &Change) -> String {
    let (object, class) = (&change.object, change.class);
    let fields: Vec<&str> = change.fields.iter().map(|field| field.path.as_str()).collect();
    // The fields of an object that is created or deleted as a whole do not describe the change.
    let is_whole = matches!(class, Class::Create | Class::Destroy);
    let fields = if is_whole || fields.is_empty() {
        String::new()
    } else {
        format!(" {}", fields.join(", "))
    };
    format!("{object}{fields} ({})", Effect::of(change).as_str())
}

fn reason(change: &Change) -> String {
    let reason = match (change.left, change.object.node()) {
        (Some(Left::NeedsConsent), Some(node)) => {
            format!("it loses data; --allow-removal={node} allows it")
        }
        (Some(Left::NeedsConsent), None) => "it loses data; --allow-removal allows it".to_owned(),
        (Some(Left::Impossible) | None, _) => "talmox cannot make this change".to_owned(),
        (Some(Left::Blocked), Some(_)) => "an error about this node prevents it".to_owned(),
        (Some(Left::Blocked), None) => {
            "not needed now: all nodes that use it have errors".to_owned()
        }
        (Some(Left::NotSelected), _) => "--node or --only excludes it".to_owned(),
        (Some(Left::Ignored), _) => "`ignore:` in the inventory accepts it".to_owned(),
    };
    match &change.note {
        Some(note) => format!("{reason} ({note})"),
        None => reason,
    }
}

/// The reason in a few words, for the first line of a change.
pub(super) fn word(left: Option<Left>) -> &'static str {
    match left {
        Some(Left::NeedsConsent) => "needs --allow-removal",
        Some(Left::Impossible) | None => "impossible",
        Some(Left::NotSelected) => "not selected",
        Some(Left::Blocked) => "blocked by an error",
        Some(Left::Ignored) => "ignored",
    }
}
