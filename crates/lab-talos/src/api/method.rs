//! Methods of the Talos API: the required roles, and whether the answer is a stream.

use talmox_talos_api::server::Status;

use super::{Caller, Session};

pub(super) const ADMIN: &str = "os:admin";
const OPERATOR: &str = "os:operator";
pub(super) const READER: &str = "os:reader";
const BACKUP: &str = "os:etcd:backup";
const META: &str = "os:meta:writer";

const ADMINS: &[&str] = &[ADMIN];
const OPERATORS: &[&str] = &[ADMIN, OPERATOR];
const READERS: &[&str] = &[ADMIN, OPERATOR, READER];
const BACKUPS: &[&str] = &[ADMIN, OPERATOR, BACKUP];
const WATCHERS: &[&str] = &[ADMIN, OPERATOR, READER, BACKUP];
const META_WRITERS: &[&str] = &[ADMIN, META];

/// For each method: its path, the roles of which one is required, and whether its answer is a stream.
const METHODS: &[(&str, &[&str], bool)] = &[
    ("/cluster.ClusterService/HealthCheck", READERS, true),
    ("/cosi.resource.State/Get", READERS, false),
    ("/cosi.resource.State/List", READERS, true),
    ("/cosi.resource.State/Watch", READERS, true),
    ("/machine.ImageService/Pull", OPERATORS, true),
    ("/machine.LifecycleService/Install", ADMINS, true),
    ("/machine.LifecycleService/Upgrade", ADMINS, true),
    ("/machine.MachineService/ApplyConfiguration", ADMINS, false),
    ("/machine.MachineService/Bootstrap", ADMINS, false),
    ("/machine.MachineService/Containers", READERS, false),
    ("/machine.MachineService/Copy", ADMINS, true),
    ("/machine.MachineService/Dmesg", READERS, true),
    ("/machine.MachineService/EtcdAlarmDisarm", OPERATORS, false),
    ("/machine.MachineService/EtcdAlarmList", WATCHERS, false),
    ("/machine.MachineService/EtcdDefragment", OPERATORS, false),
    ("/machine.MachineService/EtcdForfeitLeadership", ADMINS, false),
    ("/machine.MachineService/EtcdLeaveCluster", ADMINS, false),
    ("/machine.MachineService/EtcdMemberList", WATCHERS, false),
    ("/machine.MachineService/EtcdRecover", ADMINS, false),
    ("/machine.MachineService/EtcdRemoveMemberByID", ADMINS, false),
    ("/machine.MachineService/EtcdSnapshot", BACKUPS, true),
    ("/machine.MachineService/EtcdStatus", WATCHERS, false),
    ("/machine.MachineService/Events", READERS, true),
    ("/machine.MachineService/GenerateClientConfiguration", ADMINS, false),
    ("/machine.MachineService/Hostname", READERS, false),
    ("/machine.MachineService/ImagePull", OPERATORS, false),
    ("/machine.MachineService/Kubeconfig", ADMINS, true),
    ("/machine.MachineService/Logs", READERS, true),
    ("/machine.MachineService/Memory", READERS, false),
    ("/machine.MachineService/MetaDelete", META_WRITERS, false),
    ("/machine.MachineService/MetaWrite", META_WRITERS, false),
    ("/machine.MachineService/Read", ADMINS, true),
    ("/machine.MachineService/Reboot", OPERATORS, false),
    ("/machine.MachineService/Reset", ADMINS, false),
    ("/machine.MachineService/Rollback", ADMINS, false),
    ("/machine.MachineService/ServiceList", READERS, false),
    ("/machine.MachineService/ServiceRestart", OPERATORS, false),
    ("/machine.MachineService/ServiceStart", OPERATORS, false),
    ("/machine.MachineService/ServiceStop", OPERATORS, false),
    ("/machine.MachineService/Shutdown", OPERATORS, false),
    ("/machine.MachineService/Upgrade", ADMINS, false),
    ("/machine.MachineService/Version", READERS, false),
    ("/storage.StorageService/Disks", READERS, false),
];

/// Paths of all methods. A path consists of service and method.
pub fn names() -> impl Iterator<Item = &'static str> {
    METHODS.iter().map(|(path, ..)| *path)
}

const APPLY: &str = "/machine.MachineService/ApplyConfiguration";
/// Methods that the maintenance server of releases before 1.13 answers.
const MAINTENANCE: &[&str] = &[
    APPLY,
    "/cosi.resource.State/Get",
    "/cosi.resource.State/List",
    "/cosi.resource.State/Watch",
    "/storage.StorageService/Disks",
];

/// Rejects a call that the roles of the caller do not permit.
pub(super) fn authorize_call(session: &Session, path: &str) -> Result<(), Status> {
    let is_unified = session.node(|node| node.version.is_at_least(13))?;
    if session.is_anonymous() {
        if !is_unified && !MAINTENANCE.contains(&path) {
            return Err(Status::unimplemented("API is not implemented in maintenance mode"));
        }
        if path == APPLY {
            return Ok(());
        }
    }
    if path.starts_with("/cosi.resource.State/")
        && !METHODS.iter().any(|(known, ..)| *known == path)
    {
        return Err(Status::permission_denied("write access denied"));
    }
    // A method that is missing in the table requires the administrator role, and is then answered as unimplemented.
    let needed = METHODS.iter().find(|(known, ..)| *known == path).map_or(ADMINS, |known| known.1);
    let has_one = needed.iter().any(|role| session.has_role(role));
    // Releases before 1.13 do not have the role `os:meta:writer`, so the role grants no access there.
    let only_meta = needed == META_WRITERS && !session.has_role(ADMIN);
    if !has_one || only_meta && !is_unified {
        return Err(Status::permission_denied("not authorized"));
    }
    Ok(())
}

/// Whether the answer is a stream of messages.
pub(super) fn is_streaming(path: &str) -> bool {
    METHODS.iter().any(|(known, _, streams)| *known == path && *streams)
}

/// Whether one call may be sent to several nodes.
pub(super) fn allows_several_nodes(path: &str, minor_is_13: bool) -> bool {
    if minor_is_13 {
        let prefixes =
            ["/machine.MachineService/", "/cluster.ClusterService/", "/storage.StorageService/"];
        prefixes.iter().any(|prefix| path.starts_with(prefix))
    } else {
        !path.starts_with("/cosi.")
    }
}

impl Caller {
    /// Whether the caller may read secrets.
    pub(super) fn is_admin(&self) -> bool {
        matches!(self, Self::Roles(roles) if roles.contains(ADMIN))
    }
}
