//! Notes of existing VMs: the notes of the inventory, and the record of tags in the marker.

use talmox_pve_types::config::{VmConfig, VmOptions};

use super::placed::ObservedVm;
use super::vm_tags;
use crate::desired::DesiredNode;
use crate::ownership::inventory_notes;
use crate::plan::FieldChange;

/// Path of the notes in a plan and in `ignore:`.
pub(super) const NOTES: &str = "notes";

/// Maximum number of characters of the notes that a plan shows.
const SHOWN: usize = 60;

/// The difference between the notes of the inventory and those of the VM.
pub(super) fn difference(node: &DesiredNode, config: &VmConfig) -> Option<FieldChange> {
    let found = inventory_notes::find(config.description());
    let desired = &node.vm.notes;
    let shown = |notes: &Option<String>| notes.as_deref().map(shortened);
    (found != *desired).then(|| FieldChange::new(NOTES, shown(&found), shown(desired)))
}

/// The options with the description that they need: a run that sets tags records them in the marker, and a run that changes the
/// notes writes them beside the marker.
pub(super) fn described(
    node: &DesiredNode,
    found: &ObservedVm<'_>,
    set: VmOptions,
    changes_notes: bool,
) -> VmOptions {
    let sets_tags = set.get("tags").is_some();
    if !sets_tags && !changes_notes {
        return set;
    }
    let (config, marker) = (found.config, &found.marker);
    let text = config.description();
    let notes = if changes_notes { node.vm.notes.clone() } else { inventory_notes::find(text) };
    let tags = if sets_tags {
        vm_tags::recorded(&node.vm.tags, &config.tags(), marker)
    } else {
        marker.own_tags.clone()
    };
    match inventory_notes::put(text, notes.as_deref(), &tags) {
        Some(new) if new.trim_end() != text.trim_end() => set.description(&new),
        _ => set,
    }
}

/// The first line of the notes, or its first characters.
fn shortened(notes: &str) -> String {
    let line = notes.lines().next().unwrap_or_default();
    let start: String = line.chars().take(SHOWN).collect();
    if start == notes { start } else { format!("{start}…") }
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn long_notes_are_shortened_to_a_part_of_a_line() {
        assert_eq!(shortened("rack 1"), "rack 1");
        assert_eq!(shortened("rack 1\nowner: ops"), "rack 1…");
        assert_eq!(shortened(&"x".repeat(80)).chars().count(), 61);
    }
}
