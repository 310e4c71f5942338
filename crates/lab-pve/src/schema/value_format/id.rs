//! Formats of names and ids.

use super::super::perl::{fits, is_true, split_list};
use super::{ValueFormat, expect};
use crate::Release;

/// Format that accepts any text, for lists of arbitrary items.
pub(crate) const ANY: ValueFormat = ValueFormat { name: "string", check: |_, _| Ok(()) };

pub(crate) const VMID: ValueFormat = ValueFormat {
    name: "pve-vmid",
    check: |text, _| {
        expect(fits!(text, "[1-9][0-9]{2,8}"), "value does not look like a valid VM ID")
    },
};

pub(crate) const NODE: ValueFormat = ValueFormat {
    name: "pve-node",
    check: |text, _| {
        expect(
            fits!(text, "([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)"),
            "value does not look like a valid node name",
        )
    },
};

/// Name of a snapshot, a mapping, an option or a similar object.
pub(crate) const CONFIG_ID: ValueFormat = ValueFormat {
    name: "pve-configid",
    check: |text, _| {
        expect(fits!(text, "(?i)[a-z][a-z0-9_-]+"), format!("invalid configuration ID '{text}'"))
    },
};

pub(crate) const STORAGE_ID: ValueFormat =
    ValueFormat { name: "pve-storage-id", check: storage_id };

fn storage_id(text: &str, release: Release) -> Result<(), String> {
    if release >= Release::V9 && text.chars().count() < 2 {
        return Err(format!("storage ID '{text}' cannot be shorter than 2 characters"));
    }
    expect(
        fits!(text, "(?i)[a-z][a-z0-9._-]*[a-z0-9]"),
        format!("storage ID '{text}' contains illegal characters"),
    )
}

/// Entry of a storage mapping: `1`, `target` or `source:target`.
pub(crate) const STORAGE_PAIR: ValueFormat = ValueFormat {
    name: "storage-pair",
    check: |text, release| {
        if !is_true(text) {
            return Ok(());
        }
        split_list(text).into_iter().filter(|entry| *entry != "1").try_for_each(|entry| {
            let ids = match entry.split_once(':') {
                Some((source, target))
                    if !source.is_empty() && !target.is_empty() && !target.contains(':') =>
                {
                    vec![source, target]
                }
                _ => vec![entry],
            };
            // In Proxmox, the text of this error gets a newline at each level that forwards it.
            let complain =
                |complaint| format!("entry '{entry}' contains invalid ID - {complaint}\n\n");
            ids.into_iter().try_for_each(|id| storage_id(id, release).map_err(complain))
        })
    },
};

pub(crate) const POOL_ID: ValueFormat = ValueFormat {
    name: "pve-poolid",
    check: |text, _| {
        if text.trim_end_matches('/').split('/').count() > 3 {
            return Err(format!("pool name '{text}' nested too deeply (max levels = 3)"));
        }
        expect(
            fits!(text, "[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+){0,2}"),
            format!("pool name '{text}' contains invalid characters"),
        )
    },
};

pub(crate) const TAG: ValueFormat = ValueFormat {
    name: "pve-tag",
    check: |text, _| expect(fits!(text, "(?i)[a-z0-9_][a-z0-9_+.-]*"), "invalid characters in tag"),
};

pub(crate) const URL_ENCODED: ValueFormat = ValueFormat {
    name: "urlencoded",
    check: |text, _| {
        expect(fits!(text, "[-%a-zA-Z0-9_.!~*'()]*"), format!("invalid urlencoded string: {text}"))
    },
};

pub(crate) const TASK_STATUS: ValueFormat = ValueFormat {
    name: "pve-task-status-type",
    check: |text, _| {
        expect(fits!(text, "(?i)(ok|error|warning|unknown)"), format!("invalid status '{text}'"))
    },
};

pub(crate) const HA_RESOURCE: ValueFormat = ValueFormat {
    name: "pve-ha-resource-id",
    check: |text, _| {
        expect(fits!(text, r"[a-z]+:\S+"), "value does not look like a valid ha resource id")
    },
};

pub(crate) const HA_RESOURCE_OR_VMID: ValueFormat = ValueFormat {
    name: "pve-ha-resource-or-vm-id",
    check: |text, _| {
        expect(fits!(text, r"([a-z]+:\S+|\d+)"), "value does not look like a valid ha resource id")
    },
};

pub(crate) const HA_NODE: ValueFormat = ValueFormat {
    name: "pve-ha-node",
    check: |text, _| ha_node(text, "value does not look like a valid ha node"),
};

/// [`HA_NODE`] under the name that HA groups use.
pub(crate) const HA_GROUP_NODE: ValueFormat = ValueFormat {
    name: "pve-ha-group-node",
    check: |text, _| ha_node(text, "value does not look like a valid ha group node"),
};

fn ha_node(text: &str, complaint: &str) -> Result<(), String> {
    expect(fits!(text, r"([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)(:\d+)?"), complaint)
}
