//! `talmox init --role`: the narrowest rights with which everything works.

use std::collections::BTreeSet;

use serde_json::json;
use talmox_model::value::Boot;
use talmox_model::{Cluster, Node};

use crate::args::{Format, Global};
use crate::choose;
use crate::command::Outcome;
use crate::error::Exit;
use crate::printer::Printer;

const USER: &str = "talmox@pve";
const TOKEN: &str = "talmox";

/// A role, what it allows, and where it is needed.
struct Role {
    name: &'static str,
    rights: &'static str,
    paths: BTreeSet<String>,
}

pub(super) fn run(cluster: Option<&str>, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, cluster, printer)?;
    let lines = lines(chosen.cluster());
    match printer.format {
        Format::Json => printer.result(&format!("{:#}\n", json!({"commands": lines})))?,
        Format::Text => {
            printer.result(&format!("{}\n", lines.join("\n")))?;
            printer.say(
                "\nRun these as root on a Proxmox host. The token is shown once; keep it with\n\
                 `talmox secrets set proxmox.token` (as user@realm!name=secret), and let the inventory say\n\
                 `proxmox: {token: {secret: proxmox.token}}`.",
            );
        }
    }
    Ok(Exit::Fine)
}

fn lines(cluster: &Cluster) -> Vec<String> {
    let pools = pools(cluster);
    let mut lines: Vec<String> =
        pools.iter().map(|pool| format!("pveum pool add {pool}")).collect();
    let roles: Vec<Role> =
        roles(cluster, &pools).into_iter().filter(|role| !role.paths.is_empty()).collect();
    for role in &roles {
        lines.push(format!("pveum role add {} --privs \"{}\"", role.name, role.rights));
    }
    lines.push(format!("pveum user add {USER}"));
    lines.push(format!("pveum user token add {USER} {TOKEN} --privsep 1"));
    // A token has the rights that both it and its user have.
    for who in [format!("--users {USER}"), format!("--tokens '{USER}!{TOKEN}'")] {
        for role in &roles {
            // What is needed at the root is not needed below it.
            let only = |path: &str| if path == "/" { " --propagate 0" } else { "" };
            let line = |path: &String| {
                format!("pveum acl modify {path} {who} --roles {}{}", role.name, only(path))
            };
            lines.extend(role.paths.iter().map(line));
        }
    }
    lines
}

fn roles(cluster: &Cluster, pools: &BTreeSet<String>) -> Vec<Role> {
    let proxmox = &cluster.file.proxmox;
    let settings = || cluster.nodes.iter().map(Node::settings);
    // VMs that are in no pool get their rights from above all VMs.
    let is_in_pool = settings().all(|node| node.placement.pool.is_given()) && !pools.is_empty();
    let mut vms: BTreeSet<String> = pools.iter().map(|pool| format!("/pool/{pool}")).collect();
    if !is_in_pool {
        vms.insert("/vms".to_owned());
    }
    let disks = settings().flat_map(|node| {
        let own = node.placement.datastore.get().map(ToString::to_string);
        let further = node.hardware.disks.values();
        own.into_iter()
            .chain(further.filter_map(|disk| disk.datastore.get().map(ToString::to_string)))
    });
    let bridges = settings().flat_map(|node| {
        let own = node.placement.bridge.get().map(ToString::to_string);
        let further = node.hardware.nics.values();
        own.into_iter().chain(further.filter_map(|nic| nic.bridge.get().map(ToString::to_string)))
    });
    let hosts = settings().filter_map(|node| node.placement.host.get().map(ToString::to_string));
    let hosts = hosts.chain(proxmox.hosts.values().map(ToString::to_string));
    let hosts = hosts.chain(proxmox.node.get().map(ToString::to_string));
    let images = proxmox.image_datastore.required();
    let mappings = settings().filter_map(|node| node.hardware.gpu.mapping.get());
    let has_raw_device = settings()
        .any(|node| node.hardware.gpu.mapping.is_absent() && node.hardware.gpu.pci.is_given());
    let asks_agent = cluster.nodes.iter().any(|node| {
        *node.settings().system.boot.required() == Boot::Dhcp && node.contact().is_none()
    });
    let at = |start: &str, names: &mut dyn Iterator<Item = String>| {
        names.map(|name| format!("{start}/{name}")).collect::<BTreeSet<_>>()
    };
    let role = |name, rights, paths| Role { name, rights, paths };
    vec![
        role(
            "TalmoxVM",
            "VM.Allocate VM.Audit VM.Clone VM.Config.CDROM VM.Config.CPU VM.Config.Cloudinit \
             VM.Config.Disk VM.Config.HWType VM.Config.Memory VM.Config.Network VM.Config.Options \
             VM.PowerMgmt Pool.Audit",
            vms.clone(),
        ),
        role("TalmoxDisk", "Datastore.AllocateSpace", at("/storage", &mut disks.into_iter())),
        role(
            "TalmoxImage",
            "Datastore.Audit Datastore.AllocateTemplate",
            BTreeSet::from([format!("/storage/{images}")]),
        ),
        role("TalmoxNet", "SDN.Use", at("/sdn/zones/localnetwork", &mut bridges.into_iter())),
        // Without it talmox fetches the images itself and passes them on.
        role("TalmoxFetch", "Sys.AccessNetwork", at("/nodes", &mut hosts.into_iter())),
        role(
            "TalmoxDevice",
            "Mapping.Audit Mapping.Use",
            at("/mapping/pci", &mut mappings.map(ToString::to_string)),
        ),
        // A device that the inventory names by its address is found on its host, and mapped.
        role(
            "TalmoxMapping",
            "Mapping.Audit Mapping.Modify Mapping.Use",
            if has_raw_device {
                BTreeSet::from(["/mapping/pci".to_owned()])
            } else {
                BTreeSet::new()
            },
        ),
        role(
            "TalmoxHost",
            "Sys.Audit",
            if has_raw_device { BTreeSet::from(["/".to_owned()]) } else { BTreeSet::new() },
        ),
        // On Proxmox VE 8 this right is VM.Monitor.
        role("TalmoxAgent", "VM.GuestAgent.Audit", if asks_agent { vms } else { BTreeSet::new() }),
    ]
}

fn pools(cluster: &Cluster) -> BTreeSet<String> {
    let own = cluster.nodes.iter().filter_map(|node| node.settings().placement.pool.get());
    own.chain(cluster.file.proxmox.pool.get()).map(ToString::to_string).collect()
}
