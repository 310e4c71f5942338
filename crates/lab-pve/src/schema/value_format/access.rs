//! Formats of users, groups, roles and privileges.

use super::super::perl::{fits, is_true};
use super::{ValueFormat, expect};
use crate::Release;

pub(crate) const USER_ID: ValueFormat = ValueFormat {
    name: "pve-userid",
    check: |text, _| {
        let text = if is_true(text) { text } else { "" };
        let length = text.chars().count();
        if length < 3 {
            return Err(format!("user name '{text}' is too short"));
        }
        if length > 64 {
            return Err(format!("user name '{text}' is too long ({length} > 64)"));
        }
        expect(
            fits!(text, r"([^\s:/]+)@([A-Za-z][A-Za-z0-9._-]+)"),
            format!("value '{text}' does not look like a valid user name"),
        )
    },
};

/// Full token id, including the user: `root@pam!ci`.
pub(crate) const TOKEN_ID: ValueFormat = ValueFormat {
    name: "pve-tokenid",
    check: |text, _| {
        expect(
            fits!(text, r"([^\s:/]+)@([A-Za-z][A-Za-z0-9._-]+)!([A-Za-z][A-Za-z0-9._-]+)"),
            format!("value '{text}' does not look like a valid token ID"),
        )
    },
};

pub(crate) const REALM: ValueFormat = ValueFormat {
    name: "pve-realm",
    check: |text, _| {
        expect(fits!(text, "[A-Za-z][A-Za-z0-9._-]+"), "value does not look like a valid realm")
    },
};

pub(crate) const GROUP_ID: ValueFormat = ValueFormat {
    name: "pve-groupid",
    check: |text, _| {
        expect(
            fits!(text, "[A-Za-z0-9._-]+"),
            format!("group name '{text}' contains invalid characters"),
        )
    },
};

pub(crate) const ROLE_ID: ValueFormat = ValueFormat {
    name: "pve-roleid",
    check: |text, _| {
        expect(
            fits!(text, "[A-Za-z0-9._-]+"),
            format!("role name '{text}' contains invalid characters"),
        )
    },
};

pub(crate) const PRIVILEGE: ValueFormat = ValueFormat {
    name: "pve-priv",
    check: |text, release| {
        expect(
            privileges(release).any(|known| known == text),
            format!("invalid privilege '{text}'"),
        )
    },
};

const PRIVILEGES: [&str; 41] = [
    "Datastore.Allocate",
    "Datastore.AllocateSpace",
    "Datastore.AllocateTemplate",
    "Datastore.Audit",
    "Group.Allocate",
    "Mapping.Audit",
    "Mapping.Modify",
    "Mapping.Use",
    "Permissions.Modify",
    "Pool.Allocate",
    "Pool.Audit",
    "Realm.Allocate",
    "Realm.AllocateUser",
    "SDN.Allocate",
    "SDN.Audit",
    "SDN.Use",
    "Sys.AccessNetwork",
    "Sys.Audit",
    "Sys.Console",
    "Sys.Incoming",
    "Sys.Modify",
    "Sys.PowerMgmt",
    "Sys.Syslog",
    "User.Modify",
    "VM.Allocate",
    "VM.Audit",
    "VM.Backup",
    "VM.Clone",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.Console",
    "VM.Migrate",
    "VM.PowerMgmt",
    "VM.Snapshot",
    "VM.Snapshot.Rollback",
];

/// All privileges of a release.
pub(crate) fn privileges(release: Release) -> impl Iterator<Item = &'static str> {
    let own: &[&str] = match release {
        Release::V8 => &["VM.Monitor"],
        Release::V9 => &[
            "VM.GuestAgent.Audit",
            "VM.GuestAgent.FileRead",
            "VM.GuestAgent.FileSystemMgmt",
            "VM.GuestAgent.FileWrite",
            "VM.GuestAgent.Unrestricted",
            "VM.Replicate",
        ],
    };
    PRIVILEGES.into_iter().chain(own.iter().copied())
}
