//! Health checks that need data from the Talos API only.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_values::HttpUrl;

use super::view::{NodeView, Seen, Unavailable};
use super::{Check, State};
use crate::client::{Health, Member};

const MIB: u64 = 1 << 20;

/// Minimum memory, minus the memory that the kernel reserves.
const MEMORY_OF_CONTROL_PLANES: u64 = (1848 - 150) * MIB;
const MEMORY_OF_WORKERS: u64 = (1024 - 150) * MIB;

/// Minimum size of EPHEMERAL: a disk of 6 GiB, minus the system partitions and the gaps between them.
const DISK: u64 = (6 * 1024 - (100 + 1 + 2000) - 100 - 1 - 10) * MIB;

/// State of a check; `None` if the check needs data from Kubernetes.
pub(super) fn node_check(check: Check, nodes: &[NodeView]) -> Option<State> {
    let control_planes: Vec<&NodeView> =
        nodes.iter().filter(|node| node.is_control_plane).collect();
    let all: Vec<&NodeView> = nodes.iter().collect();
    Some(match check {
        Check::EtcdHealthy => each(&control_planes, |node| service(node, "etcd")),
        Check::EtcdConsistent => consistent(&control_planes),
        Check::EtcdOnControlPlanes => on_control_planes(&control_planes),
        Check::ApiReady => each(&all, |node| known(&node.version, |_| None)),
        Check::Memory => each(&all, memory),
        Check::Disks => each(&all, disk),
        Check::NoDiagnostics => each(&all, diagnostics),
        Check::KubeletHealthy => each(&control_planes, |node| service(node, "kubelet")),
        Check::Booted => each(&all, booted),
        _ => return None,
    })
}

/// Nodes that cannot report the data of a check, with the reason: `w-1, w-2: …`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Silent {
    pub(super) text: String,
    /// Whether these are all nodes, so that the check has no node to evaluate.
    pub(super) are_all: bool,
}

pub(super) fn silent(check: Check, nodes: &[NodeView]) -> Option<Silent> {
    let mut silent: BTreeMap<Unavailable, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        let unavailable = match check {
            Check::Disks => node.ephemeral.unavailable(),
            Check::NoDiagnostics => node.diagnostics.unavailable(),
            _ => None,
        };
        if let Some(why) = unavailable {
            silent.entry(why).or_default().push(&node.name);
        }
    }
    let count: usize = silent.values().map(Vec::len).sum();
    let texts: Vec<String> =
        silent.iter().map(|(why, names)| format!("{}: {why}", names.join(", "))).collect();
    (count > 0).then(|| Silent { text: texts.join("; "), are_all: count == nodes.len() })
}

/// Passes if no node has a problem; otherwise lists the problems of all nodes.
fn each(nodes: &[&NodeView], problem: impl Fn(&NodeView) -> Option<String>) -> State {
    let problems: Vec<String> = nodes
        .iter()
        .filter_map(|node| problem(node).map(|why| format!("{}: {why}", node.name)))
        .collect();
    if problems.is_empty() { State::Passed } else { State::Waiting(problems.join("; ")) }
}

fn known<T>(seen: &Seen<T>, problem: impl FnOnce(&T) -> Option<String>) -> Option<String> {
    match seen {
        Seen::Is(value) => problem(value),
        // Such a node is listed in `Report::unavailable`.
        Seen::Unavailable(_) => None,
        Seen::Unknown(why) => Some(why.clone()),
    }
}

/// Problem of a service that does not run or is not healthy.
fn service(node: &NodeView, id: &str) -> Option<String> {
    known(&node.services, |services| {
        let Some(service) = services.iter().find(|service| service.id == id) else {
            return Some(format!("the service {id} does not exist yet"));
        };
        let fine = service.is_running() && service.health == Health::Good;
        (!fine).then(|| match service.health {
            Health::Unknown if service.is_running() => {
                format!("the health of {id} has not been checked yet")
            }
            _ => service.describe(),
        })
    })
}

/// Checks that all control planes report the same etcd members.
fn consistent(nodes: &[&NodeView]) -> State {
    let key = |member: &Member| (member.id, member.hostname.clone(), member.is_learner);
    let sorted = |members: &[Member]| {
        let mut keys: Vec<_> = members.iter().map(key).collect();
        keys.sort();
        keys
    };
    let first = nodes.iter().find_map(|node| match &node.etcd_members {
        Seen::Is(members) => Some((node.name.as_str(), sorted(members))),
        _ => None,
    });
    each(nodes, |node| {
        known(&node.etcd_members, |members| {
            let (name, expected) = first.as_ref()?;
            let names = |keys: &[(u64, String, bool)]| {
                keys.iter().map(|(_, name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
            };
            let found = sorted(members);
            (found != *expected).then(|| {
                format!(
                    "its member list is {}, but {name} reports {}",
                    names(&found),
                    names(expected)
                )
            })
        })
    })
}

/// Checks that every etcd member has the address of a control plane.
fn on_control_planes(nodes: &[&NodeView]) -> State {
    let addresses: Vec<IpAddr> = nodes.iter().flat_map(|node| node.addresses.clone()).collect();
    each(nodes, |node| {
        known(&node.etcd_members, |members| {
            let urls = members.iter().flat_map(|member| &member.peer_urls);
            let strange = urls.filter(|url| !ip_of(url).is_some_and(|ip| addresses.contains(&ip)));
            let strange: Vec<&str> = strange.map(String::as_str).collect();
            (!strange.is_empty()).then(|| {
                format!("etcd has members that are not control planes: {}", strange.join(", "))
            })
        })
    })
}

/// Address of a URL such as `https://10.0.0.11:2380` or `https://[fd00::11]:2380`.
fn ip_of(url: &str) -> Option<IpAddr> {
    HttpUrl::parse(url).ok()?.ip()
}

fn memory(node: &NodeView) -> Option<String> {
    let least = if node.is_control_plane { MEMORY_OF_CONTROL_PLANES } else { MEMORY_OF_WORKERS };
    known(&node.memory, |memory| {
        (*memory < least)
            .then(|| format!("it has {} MiB of memory, but needs {}", memory / MIB, least / MIB))
    })
}

fn disk(node: &NodeView) -> Option<String> {
    known(&node.ephemeral, |size| {
        (*size < DISK)
            .then(|| format!("EPHEMERAL has {} MiB, but needs {}", size / MIB, DISK / MIB))
    })
}

fn diagnostics(node: &NodeView) -> Option<String> {
    known(&node.diagnostics, |all| (!all.is_empty()).then(|| all.join(", ")))
}

fn booted(node: &NodeView) -> Option<String> {
    known(&node.stage, |stage| (stage != "running").then(|| format!("its stage is {stage}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_urls_have_an_address() {
        assert_eq!(ip_of("https://10.0.0.11:2380"), "10.0.0.11".parse().ok());
        assert_eq!(ip_of("https://[fd00::11]:2380/"), "fd00::11".parse().ok());
        assert_eq!(ip_of("https://etcd:2380"), None);
    }
}
