//! What the plan needs to be allowed to do, by its own steps, and the lines that allow it.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::api::access::Permissions;
use talmox_pve::config::VmOptions;
use talmox_pve::id::{DiskSlot, PoolId, VmId};
use talmox_pve::property::{Drive, HostPci, Net, PciSource};

use super::super::Builder;
use super::super::action::Action;
use super::super::change::Finding;

/// A right on one of several paths: the first is where we would ask for it.
type Need = (Vec<String>, &'static str);

pub(super) fn check(builder: &Builder<'_>, findings: &mut Vec<Finding>) {
    let permissions = &builder.world.pve.permissions;
    let mut missing: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    for step in builder.steps.iter() {
        for (paths, right) in needs(builder, &step.action) {
            if !paths.iter().any(|path| is_allowed(permissions, path, right)) {
                missing.entry(paths[0].clone()).or_default().insert(right);
            }
        }
    }
    for (path, rights) in missing {
        let rights: Vec<&str> = rights.into_iter().collect();
        let role = role_for(&path);
        let message = format!("we lack {}", rights.join(", "));
        let hint = format!(
            "pveum role add {role} --privs \"{}\"   # or modify --append\n{}",
            rights.join(" "),
            line(builder, &path, role)
        );
        findings.push(Finding::error(&path, message).hint(hint));
    }
}

/// A right on a bridge may be held in whatever zone it is in.
fn is_allowed(permissions: &Permissions, path: &str, right: &str) -> bool {
    if permissions.allows(path, right) {
        return true;
    }
    let Some(rest) = path.strip_prefix("/sdn/zones/localnetwork/") else { return false };
    let ends = format!("/{rest}");
    permissions.0.keys().any(|known| {
        known.starts_with("/sdn/zones/")
            && known.ends_with(&ends)
            && permissions.allows(known, right)
    })
}

fn role_for(path: &str) -> &'static str {
    match path.split('/').nth(1) {
        Some("storage") => "TalmoxStorage",
        Some("sdn") => "TalmoxNet",
        Some("mapping") => "TalmoxMapping",
        _ => "TalmoxVM",
    }
}

/// The line that gives a role. A token with rights of its own needs it twice.
pub(super) fn line(builder: &Builder<'_>, path: &str, role: &str) -> String {
    let login = &builder.desired.login;
    let user = format!("pveum acl modify {path} --users {} --roles {role}", login.user);
    match &login.token {
        Some(token) => format!(
            "{user}\npveum acl modify {path} --tokens '{}!{token}' --roles {role}",
            login.user
        ),
        None => user,
    }
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

fn needs(builder: &Builder<'_>, action: &Action) -> Vec<Need> {
    match action {
        Action::CreateVm(create) => {
            let place = on_vm(create.pool.as_ref(), create.own.vm.vmid);
            let vm = MAKE.iter().map(|right| (place.clone(), *right));
            vm.chain(of_options(&create.options)).collect()
        }
        Action::MakeTemplate(make) => {
            let place = on_vm(make.pool.as_ref(), make.vm.vmid);
            let vm = MAKE.iter().map(|right| (place.clone(), *right));
            vm.chain(of_options(&make.options)).collect()
        }
        Action::CloneVm(clone) => {
            let pool = clone.clone.pool.as_ref();
            let place = on_vm(pool, clone.own.vm.vmid);
            let source = vec![format!("/vms/{}", clone.template.vmid)];
            let source = place[..place.len() - 1].iter().cloned().chain(source).collect();
            let space = clone.clone.storage.iter();
            let space = space
                .map(|storage| (vec![format!("/storage/{storage}")], "Datastore.AllocateSpace"));
            let vm = MAKE.iter().map(|right| (place.clone(), *right));
            vm.chain([(source, "VM.Clone")]).chain(space).collect()
        }
        Action::FinishVm(finish) => {
            let pool = builder.desired.node(&finish.own.identity.node);
            let place = on_vm(pool.and_then(|node| node.pool.as_ref()), finish.own.vm.vmid);
            let mut needs = of_options(&finish.set);
            let is_cloudinit = |value: &str| Drive::parse(value).is_cloudinit();
            if finish.set.get("ide2").is_some_and(is_cloudinit) {
                needs.push((place.clone(), "VM.Config.CDROM"));
                needs.push((place.clone(), "VM.Config.Cloudinit"));
            }
            needs.push((place, "VM.Config.Options"));
            needs
        }
        Action::StartVm(start) => {
            let node = builder.desired.node(&start.own.identity.node);
            let pool = node.and_then(|node| node.pool.as_ref());
            vec![(on_vm(pool, start.own.vm.vmid), "VM.PowerMgmt")]
        }
        Action::FetchImage(fetch) if !fetch.is_present => {
            on_images(fetch.volume.storage().as_str())
        }
        Action::UploadCidata(upload) => on_images(upload.volume.storage().as_str()),
        Action::CreateMapping(_) => vec![(vec!["/mapping/pci".to_owned()], "Mapping.Modify")],
        _ => vec![],
    }
}

/// Rights on a VM that is not there yet can only come from its pool or from above.
fn on_vm(pool: Option<&PoolId>, vmid: VmId) -> Vec<String> {
    let vm = format!("/vms/{vmid}");
    match pool {
        Some(pool) => vec![format!("/pool/{pool}"), vm],
        None => vec!["/vms".to_owned(), vm],
    }
}

fn on_images(storage: &str) -> Vec<Need> {
    let path = || vec![format!("/storage/{storage}")];
    vec![(path(), "Datastore.AllocateTemplate"), (path(), "Datastore.Audit")]
}

/// What disks, network cards and devices need beside rights on the VM.
fn of_options(options: &VmOptions) -> Vec<Need> {
    let mut needs = vec![];
    for (key, value) in options.iter() {
        if key.parse::<DiskSlot>().is_ok() {
            let drive = Drive::parse(value);
            let path = drive.storage().map(|storage| format!("/storage/{storage}"));
            needs.extend(path.map(|path| (vec![path], "Datastore.AllocateSpace")));
        } else if key.starts_with("net") {
            let net = Net::parse(value);
            let path = net.bridge.map(|bridge| match net.vlan {
                Some(vlan) => format!("/sdn/zones/localnetwork/{bridge}/{vlan}"),
                None => format!("/sdn/zones/localnetwork/{bridge}"),
            });
            needs.extend(path.map(|path| (vec![path], "SDN.Use")));
        } else if key.starts_with("hostpci")
            && let PciSource::Mapping(id) = HostPci::parse(value).source
        {
            needs.push((vec![format!("/mapping/pci/{id}")], "Mapping.Use"));
        }
    }
    needs
}
