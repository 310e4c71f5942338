//! Preflight check: the token has the privileges that the steps of the plan need. The hint contains the commands that grant
//! them.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve_types::api::cluster::Version;
use talmox_pve_types::config::VmOptions;
use talmox_pve_types::id::{ConfigId, DiskSlot, PoolId, VmId};
use talmox_pve_types::property::{Drive, HostPci, Net, PciSource};

use crate::desired::Login;
use crate::observed::Pve;
use crate::plan::{Action, Finding, FindingCode, OwnVm, Privilege};
use crate::planning::builder::Builder;
use crate::rights::{BridgeZones, Grants, PveRole, lock_pool, sdn_zone};

/// A privilege that a step needs.
struct Need {
    right: &'static str,
    /// The privilege on any one of these paths is sufficient.
    paths: Vec<String>,
    /// The path on which the hint grants `role`.
    place: String,
    role: PveRole,
}

pub(super) fn check(builder: &Builder<'_>, findings: &mut Vec<Finding>) {
    let permissions = &builder.observed.pve.permissions;
    let mut missing: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    let mut roles: BTreeMap<String, BTreeSet<PveRole>> = BTreeMap::new();
    let privileges = builder.steps.iter().flat_map(|step| step.action.privileges());
    for need in privileges.flat_map(|privilege| needs(builder, privilege)) {
        if !need.paths.iter().any(|path| permissions.allows(path, need.right)) {
            missing.entry(need.place.clone()).or_default().insert(need.right);
        }
        roles.entry(need.place).or_default().insert(need.role);
    }
    for (path, rights) in missing {
        // An ACL entry on a path replaces the inherited roles, so the grant must contain all roles that are needed on the
        // path.
        let mut grants = Grants::default();
        for role in roles.get(&path).into_iter().flatten() {
            grants.add(&path, *role);
        }
        let rights: Vec<&str> = rights.into_iter().collect();
        let message = format!("the token lacks {}", rights.join(", "));
        let subject = sdn_zone::shown(&path);
        findings.push(
            Finding::error(FindingCode::RightMissing, &subject, message)
                .hint(lines(builder, &grants)),
        );
    }
}

/// Checks the privilege to lock the cluster against runs from other machines.
///
/// Without this privilege, only runs from this folder exclude each other. That is a warning, so that tokens for earlier
/// releases of talmox keep working. It is an error if etcd is bootstrapped, because a second run at the same time would
/// create a second cluster.
pub(super) fn check_lock(builder: &Builder<'_>, findings: &mut Vec<Finding>) {
    let is_change = |action: &Action| !matches!(action, Action::WriteClientFiles(_));
    if !builder.steps.iter().any(|step| is_change(&step.action)) {
        return;
    }
    let bootstraps =
        builder.steps.iter().any(|step| matches!(step.action, Action::BootstrapEtcd(_)));
    findings.extend(lock_finding(&builder.observed.pve, &builder.desired.login, bootstraps));
}

/// The finding about a token that may not lock the cluster. None if the token has the privileges.
pub(in crate::planning) fn lock_finding(
    pve: &Pve,
    login: &Login,
    bootstraps: bool,
) -> Option<Finding> {
    let path = lock_pool::access_path();
    let lock = format!("{path}/lock");
    let missing: Vec<&str> = lock_pool::RIGHTS
        .into_iter()
        .filter(|right| !pve.permissions.allows(&lock, right))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let message = format!(
        "the token lacks {}: runs from other machines or folders are not locked out of this cluster",
        missing.join(", ")
    );
    let finding = if bootstraps {
        let message =
            format!("{message}, and two runs that bootstrap etcd at once create two clusters");
        Finding::error(FindingCode::LockRightMissing, &path, message)
    } else {
        let message = format!("{message}; make sure that no other machine runs `up` or `destroy`");
        Finding::warning(FindingCode::LockRightMissing, &path, message)
    };
    let lines = Grants::one(&path, PveRole::Lock).lines(login).join("\n");
    Some(finding.hint(format!("as root on a host; the commands can be repeated:\n{lines}")))
}

/// The commands that grant these roles to the token.
pub(super) fn lines(builder: &Builder<'_>, grants: &Grants) -> String {
    let lines = grants.lines(&builder.desired.login).join("\n");
    format!("as root on a host; the commands can be repeated:\n{lines}")
}

const MAKE: &[&str] = &[
    "VM.Allocate",
    "VM.Audit",
    "VM.Config.CPU",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
];

/// The privileges of a step, with the paths on which Proxmox checks them.
fn needs(builder: &Builder<'_>, privilege: Privilege<'_>) -> Vec<Need> {
    match privilege {
        Privilege::CreateVm { vmid, pool } => OnVm { pool, vmid }.make().collect(),
        Privilege::CloneTemplate { template, vmid, pool } => {
            let mut copy = OnVm { pool, vmid }.need("VM.Clone", PveRole::Vm);
            copy.paths.pop();
            copy.paths.push(format!("/vms/{template}"));
            vec![copy]
        }
        Privilege::AllocateSpace(storage) => {
            let path = format!("/storage/{storage}");
            vec![Need::at(path, "Datastore.AllocateSpace", PveRole::Disk)]
        }
        Privilege::UseDevices(options) => of_options(builder, options),
        Privilege::OnVm(own, right) => vec![planned(builder, own).need(right, PveRole::Vm)],
        Privilege::OnExistingVm(own, right) => {
            vec![existing(builder, own).need(right, PveRole::Vm)]
        }
        Privilege::QueryAgent(own) => {
            vec![planned(builder, own).need(agent_right(builder), PveRole::Agent)]
        }
        Privilege::WriteImages(storage) => on_images(storage.as_str()),
        Privilege::CreateMappings => {
            vec![Need::at("/mapping/pci".to_owned(), "Mapping.Modify", PveRole::Mapping)]
        }
    }
}

/// A VM in the pool of the inventory.
fn planned<'a>(builder: &Builder<'a>, own: &OwnVm) -> OnVm<'a> {
    let node = builder.desired.node(&own.identity.node);
    OnVm { pool: node.and_then(|node| node.pool.as_ref()), vmid: own.vm.vmid }
}

/// An existing VM, in the pool that Proxmox reports. If Proxmox reports no pool, in the pool of the inventory.
fn existing<'a>(builder: &Builder<'a>, own: &OwnVm) -> OnVm<'a> {
    let planned = planned(builder, own);
    let observed = builder.observed.pve.guest(own.vm.vmid).and_then(|guest| guest.pool.as_ref());
    OnVm { pool: observed.or(planned.pool), ..planned }
}

impl Need {
    fn at(path: String, right: &'static str, role: PveRole) -> Self {
        Self { right, paths: vec![path.clone()], place: path, role }
    }
}

/// Privileges on a VM. They are granted on its pool or on `/vms`, because the VM may not exist yet.
struct OnVm<'a> {
    pool: Option<&'a PoolId>,
    vmid: VmId,
}

impl OnVm<'_> {
    fn need(&self, right: &'static str, role: PveRole) -> Need {
        let vm = format!("/vms/{}", self.vmid);
        match self.pool {
            Some(pool) => {
                let place = format!("/pool/{pool}");
                Need { right, paths: vec![place.clone(), vm], place, role }
            }
            None => Need { right, paths: vec![vm], place: "/vms".to_owned(), role },
        }
    }

    fn make(&self) -> impl Iterator<Item = Need> {
        MAKE.iter().map(|right| self.need(right, PveRole::Vm))
    }
}

/// The privilege to query the guest agent. It has another name before Proxmox VE 9.
fn agent_right(builder: &Builder<'_>) -> &'static str {
    let major = builder.observed.pve.version.as_ref().and_then(Version::major);
    if major.is_some_and(|major| major < 9) { "VM.Monitor" } else { "VM.GuestAgent.Audit" }
}

fn on_images(storage: &str) -> Vec<Need> {
    let rights = ["Datastore.AllocateTemplate", "Datastore.Audit"];
    rights.map(|right| Need::at(format!("/storage/{storage}"), right, PveRole::Image)).into()
}

/// Privileges that disks, network cards and devices need, without the privileges on the VM.
fn of_options(builder: &Builder<'_>, options: &VmOptions) -> Vec<Need> {
    let mut needs = vec![];
    for (key, value) in options.iter() {
        if key.parse::<DiskSlot>().is_ok() {
            let drive = Drive::parse(value);
            let path = drive.storage().map(|storage| format!("/storage/{storage}"));
            needs.extend(path.map(|path| Need::at(path, "Datastore.AllocateSpace", PveRole::Disk)));
        } else if key.starts_with("net") {
            let net = Net::parse(value);
            needs.extend(
                net.bridge
                    .map(|bridge| on_bridge(&builder.observed.pve, bridge.as_str(), net.vlan)),
            );
        } else if key.starts_with("hostpci")
            && let PciSource::Mapping(id) = HostPci::parse(value).source
        {
            needs.push(on_mapping(builder, &id));
        }
    }
    needs
}

/// The privilege on a bridge. The VLANs of a bridge inherit its privileges, unless a VLAN has its own ACL entry.
fn on_bridge(pve: &Pve, bridge: &str, vlan: Option<u16>) -> Need {
    let zones = BridgeZones::of(pve, bridge);
    let (paths, whole) = (zones.paths(vlan), zones.grant_path());
    let own = vlan.map(|vlan| format!("{whole}/{vlan}"));
    let own = own.filter(|path| pve.permissions.0.contains_key(path));
    Need { right: "SDN.Use", paths, place: own.unwrap_or(whole), role: PveRole::Net }
}

/// The privilege to use a mapping. For a mapping that the plan creates, the privilege is granted on `/mapping/pci`.
fn on_mapping(builder: &Builder<'_>, id: &ConfigId) -> Need {
    let makes = |action: &Action| matches!(action, Action::CreateMapping(new) if new.id == *id);
    let path = format!("/mapping/pci/{id}");
    if builder.steps.iter().any(|step| makes(&step.action)) {
        let (paths, place) = (vec![path], "/mapping/pci".to_owned());
        return Need { right: "Mapping.Use", paths, place, role: PveRole::Mapping };
    }
    Need::at(path, "Mapping.Use", PveRole::Device)
}
