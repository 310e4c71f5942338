//! Preflight check: hosts are online and have the resources and bridges that new VMs need.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve_types::api::cluster::HostResource;
use talmox_pve_types::api::node::Bridge;
use talmox_pve_types::id::NodeName;

use super::right;
use crate::plan::{Finding, FindingCode, memory_text};
use crate::planning::builder::Builder;
use crate::planning::missing_template::MissingTemplate;
use crate::planning::placed::Placed;
use crate::rights::{BridgeZones, Grants, PveRole, may_be_vnet};

const MIB: u64 = 1 << 20;

pub(super) fn check(builder: &Builder<'_>, new: &[&Placed<'_>], findings: &mut Vec<Finding>) {
    let mut by_host: BTreeMap<&NodeName, Vec<&Placed<'_>>> = BTreeMap::new();
    for placed in new {
        by_host.entry(&placed.own.vm.node).or_default().push(placed);
    }
    for (host, nodes) in by_host {
        let Some(seen) = find(builder, host, findings) else { continue };
        for placed in &nodes {
            let vm = &placed.node.vm;
            if seen.max_cpu.is_some_and(|cores| cores < u64::from(vm.cpus())) {
                let message = format!("{host} has fewer than {} cores", vm.cpus());
                let finding = Finding::error(FindingCode::HostTooSmall, &placed.node.name, message);
                findings.push(finding.hint("give the node fewer cores, or another host"));
            }
            if seen.max_memory.is_some_and(|memory| memory < vm.memory_mib * MIB) {
                let memory = memory_text(vm.memory_mib);
                let message = format!("{host} has less than {memory} of memory");
                let finding = Finding::error(FindingCode::HostTooSmall, &placed.node.name, message);
                findings.push(finding.hint("give the node less memory, or another host"));
            }
        }
        if let (Some(all), Some(used)) = (seen.max_memory, seen.memory) {
            let desired: u64 = nodes.iter().map(|placed| placed.node.vm.memory_mib).sum();
            let free = all.saturating_sub(used) / MIB;
            if desired > free {
                let (desired, free) = (memory_text(desired), memory_text(free));
                let message = format!("new VMs need {desired} of memory, and {free} are free");
                let hint = "give the VMs less memory, or spread them over hosts: they may fail to start, or be killed";
                findings.push(
                    Finding::warning(FindingCode::HostMemoryLow, host.as_str(), message).hint(hint),
                );
            }
        }
        bridges(builder, host, &nodes, findings);
    }
}

/// Checks that the hosts of missing templates exist and are online. Cores, memory and bridges are not checked, because
/// a template is never started.
pub(super) fn check_templates(
    builder: &Builder<'_>,
    missing: &[MissingTemplate<'_>],
    findings: &mut Vec<Finding>,
) {
    let hosts: BTreeSet<&NodeName> = missing.iter().map(|template| &template.host).collect();
    for host in hosts {
        find(builder, host, findings);
    }
}

/// The host. If the host does not exist or is not online, adds a finding and returns None.
fn find<'a>(
    builder: &Builder<'a>,
    host: &NodeName,
    findings: &mut Vec<Finding>,
) -> Option<&'a HostResource> {
    let pve = &builder.observed.pve;
    let Some(seen) = pve.host(host) else {
        let names = pve.resources.hosts.iter().map(|host| host.node.to_string());
        let names: Vec<String> = names.collect();
        let message = format!("Proxmox has no such host; it has: {}", names.join(", "));
        findings.push(
            Finding::error(FindingCode::HostMissing, host.as_str(), message)
                .hint("correct `node:` or `host:`"),
        );
        return None;
    };
    if seen.status != "online" {
        let message = format!("the host is {}, and new VMs must be created on it", seen.status);
        findings.push(
            Finding::error(FindingCode::HostOffline, host.as_str(), message)
                .hint("bring it up, or use another host"),
        );
        return None;
    }
    Some(seen)
}

fn bridges(
    builder: &Builder<'_>,
    host: &NodeName,
    nodes: &[&Placed<'_>],
    findings: &mut Vec<Finding>,
) {
    let Some(Ok(known)) = builder.observed.pve.bridges.get(host) else { return };
    let mut desired: BTreeMap<&str, BTreeSet<u16>> = BTreeMap::new();
    for (bridge, vlan) in nodes.iter().flat_map(|placed| &placed.node.vm.bridges) {
        desired.entry(bridge).or_default().extend(vlan);
    }
    for (bridge, vlans) in desired {
        let Some(found) = known.iter().find(|one| one.name.as_str() == bridge) else {
            findings.extend(no_bridge(builder, host, bridge, known));
            continue;
        };
        if !found.active && found.kind != "vnet" {
            let message = format!("the bridge {bridge} is down");
            let hint = "bring it up on the host: ifreload -a";
            findings
                .push(Finding::warning(FindingCode::BridgeDown, host.as_str(), message).hint(hint));
        }
        if !found.vlan_aware && found.kind == "bridge" && !vlans.is_empty() {
            let vlans: Vec<String> = vlans.iter().map(ToString::to_string).collect();
            let vlans = vlans.join(", ");
            let message = format!(
                "the bridge {bridge} is not VLAN aware, and nodes use the VLAN {vlans} on it"
            );
            let hint = "make it VLAN aware (bridge-vlan-aware yes), unless it has a network port of its own \
                        from which Proxmox can branch the VLAN off";
            findings.push(
                Finding::warning(FindingCode::BridgeNotVlanAware, host.as_str(), message)
                    .hint(hint),
            );
        }
    }
}

/// The error about a bridge that does not exist. None if the token may not use the bridge, because the check of privileges
/// reports that.
fn no_bridge(
    builder: &Builder<'_>,
    host: &NodeName,
    bridge: &str,
    known: &[Bridge],
) -> Option<Finding> {
    let pve = &builder.observed.pve;
    let zones = BridgeZones::of(pve, bridge);
    if !zones.paths(None).iter().any(|path| pve.permissions.allows(path, "SDN.Use")) {
        return None;
    }
    let names: Vec<&str> = known.iter().map(|one| one.name.as_str()).collect();
    let others = match names.as_slice() {
        [] => String::new(),
        names => format!("; it has: {}", names.join(", ")),
    };
    if !may_be_vnet(bridge) {
        let message = format!("the host has no bridge {bridge}{others}");
        let hint = "correct `bridge:`, or create the bridge on the host";
        return Some(Finding::error(FindingCode::BridgeMissing, host.as_str(), message).hint(hint));
    }
    // A privilege in the wrong zone hides a vnet.
    let message =
        format!("bridge or SDN vnet {bridge} not found, or the token may not use it{others}");
    let hint = format!(
        "correct `bridge:`; or, if {bridge} is a vnet, add {host} to the nodes of its zone, and give the token the right in that \
         zone, {}",
        right::lines(builder, &Grants::one(zones.grant_path(), PveRole::Net))
    );
    Some(Finding::error(FindingCode::BridgeMissing, host.as_str(), message).hint(hint))
}
