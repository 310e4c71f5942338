//! Privileges of each release, and the built-in roles.

use crate::{Release, schema};

/// Lowest built-in role, within the group of a privilege, that contains the privilege.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    /// Only `Administrator` has the privilege.
    Root,
    Admin,
    User,
    /// `PVEAuditor` also contains the privilege.
    Audit,
}

/// Privileges of all releases. The API schema determines which of these privileges a release has.
const PRIVILEGES: &[(&str, Tier)] = &[
    ("Datastore.Allocate", Tier::Admin),
    ("Datastore.AllocateSpace", Tier::User),
    ("Datastore.AllocateTemplate", Tier::Admin),
    ("Datastore.Audit", Tier::Audit),
    ("Group.Allocate", Tier::Admin),
    ("Mapping.Audit", Tier::Audit),
    ("Mapping.Modify", Tier::Admin),
    ("Mapping.Use", Tier::User),
    ("Permissions.Modify", Tier::Root),
    ("Pool.Allocate", Tier::Admin),
    ("Pool.Audit", Tier::Audit),
    ("Realm.Allocate", Tier::Root),
    ("Realm.AllocateUser", Tier::Admin),
    ("SDN.Allocate", Tier::Admin),
    ("SDN.Audit", Tier::Audit),
    ("SDN.Use", Tier::User),
    ("Sys.AccessNetwork", Tier::Root),
    ("Sys.Audit", Tier::Audit),
    ("Sys.Console", Tier::Admin),
    ("Sys.Incoming", Tier::Root),
    ("Sys.Modify", Tier::Root),
    ("Sys.PowerMgmt", Tier::Root),
    ("Sys.Syslog", Tier::Admin),
    ("User.Modify", Tier::Admin),
    ("VM.Allocate", Tier::Admin),
    ("VM.Audit", Tier::Audit),
    ("VM.Backup", Tier::User),
    ("VM.Clone", Tier::Admin),
    ("VM.Config.CDROM", Tier::User),
    ("VM.Config.CPU", Tier::Admin),
    ("VM.Config.Cloudinit", Tier::User),
    ("VM.Config.Disk", Tier::Admin),
    ("VM.Config.HWType", Tier::Admin),
    ("VM.Config.Memory", Tier::Admin),
    ("VM.Config.Network", Tier::Admin),
    ("VM.Config.Options", Tier::Admin),
    ("VM.Console", Tier::User),
    ("VM.GuestAgent.Audit", Tier::Audit),
    ("VM.GuestAgent.FileRead", Tier::User),
    ("VM.GuestAgent.FileSystemMgmt", Tier::User),
    ("VM.GuestAgent.FileWrite", Tier::User),
    ("VM.GuestAgent.Unrestricted", Tier::Admin),
    ("VM.Migrate", Tier::Admin),
    ("VM.Monitor", Tier::Admin),
    ("VM.PowerMgmt", Tier::User),
    ("VM.Replicate", Tier::Admin),
    ("VM.Snapshot", Tier::Admin),
    ("VM.Snapshot.Rollback", Tier::Admin),
];

/// Built-in roles, sorted by name. `PVESysUser` and `PVEUserUser` do not exist, because they would
/// have no privileges.
const ROLES: [&str; 17] = [
    "Administrator",
    "NoAccess",
    "PVEAdmin",
    "PVEAuditor",
    "PVEDatastoreAdmin",
    "PVEDatastoreUser",
    "PVEMappingAdmin",
    "PVEMappingUser",
    "PVEPoolAdmin",
    "PVEPoolUser",
    "PVESDNAdmin",
    "PVESDNUser",
    "PVESysAdmin",
    "PVETemplateUser",
    "PVEUserAdmin",
    "PVEVMAdmin",
    "PVEVMUser",
];

pub fn built_in_roles() -> impl Iterator<Item = &'static str> {
    ROLES.into_iter()
}

/// Privileges of a built-in role, or `None` if the role is not built in.
pub(crate) fn built_in_role(release: Release, role: &str) -> Option<Vec<&'static str>> {
    let role = ROLES.into_iter().find(|known| *known == role)?;
    let granted = PRIVILEGES.iter().filter(|(name, tier)| grants(role, name, *tier));
    let known: Vec<&str> = schema::privileges(release).collect();
    Some(granted.map(|(name, _)| *name).filter(|name| known.contains(name)).collect())
}

fn grants(role: &str, privilege: &str, tier: Tier) -> bool {
    match role {
        "Administrator" => true,
        "NoAccess" => false,
        // Mappings give access to the hardware of a host, so a change of them requires a separate role in Proxmox.
        "PVEAdmin" => tier >= Tier::Admin && privilege != "Mapping.Modify",
        "PVEAuditor" => tier == Tier::Audit,
        "PVETemplateUser" => matches!(privilege, "VM.Audit" | "VM.Clone"),
        of_group => {
            let of_group = of_group.strip_prefix("PVE").unwrap_or_default();
            let group = group(privilege);
            of_group.strip_prefix(group).is_some_and(|rest| match rest {
                "Admin" => tier >= Tier::Admin,
                "User" => tier >= Tier::User,
                _ => false,
            })
        }
    }
}

fn group(privilege: &str) -> &str {
    match privilege.split_once('.').map_or(privilege, |(group, _)| group) {
        "Group" | "Realm" => "User",
        group => group,
    }
}
