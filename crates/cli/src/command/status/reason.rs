//! Reasons for unknown values below the table of the status. Each reason is printed once.

use talmox_engine::status::{Known, NodeStatus, Part, Status, Unreachable, VmState};

/// The APIs that did not answer, as the remarks name them. A node whose VM does not run cannot answer, and the state of its VM
/// is the reason, so such nodes are omitted. Kubernetes is omitted if no VM runs.
pub(super) fn silent_apis(status: &Status) -> Vec<Unreachable> {
    let is_down =
        |name: &str| status.nodes.iter().any(|one| one.name == name && down(one).is_some());
    let are_all_down =
        !status.nodes.is_empty() && status.nodes.iter().all(|node| down(node).is_some());
    let mut all = vec![];
    for silent in &status.unreachable {
        match silent.part {
            Part::Kubernetes if are_all_down => {}
            Part::Talos => {
                let nodes: Vec<String> =
                    silent.nodes.iter().filter(|name| !is_down(name)).cloned().collect();
                // The reason is that of the first node, which may be one of the omitted nodes.
                let reason = nodes.first().and_then(|name| {
                    let node = status.nodes.iter().find(|node| node.name == *name)?;
                    unknown(node.talos.as_ref())
                });
                if !nodes.is_empty() {
                    let reason = reason.unwrap_or(&silent.reason).to_owned();
                    all.push(Unreachable { part: silent.part, nodes, reason });
                }
            }
            Part::Proxmox | Part::Kubernetes => all.push(silent.clone()),
        }
    }
    all
}

/// Why the VM of a node does not run. None if the VM runs, or if its state is unknown.
fn down(node: &NodeStatus) -> Option<&str> {
    match &node.vm {
        VmState::Is(vm) if !vm.running => Some("the VM is stopped"),
        VmState::Absent(why) => Some(why),
        VmState::Is(_) | VmState::Unknown(_) => None,
    }
}

/// Remark for an API that did not answer.
pub(super) fn unreachable(silent: &Unreachable) -> String {
    let part = match silent.part {
        Part::Proxmox => "Proxmox",
        Part::Talos => "Talos",
        Part::Kubernetes => "Kubernetes",
    };
    let (nodes, reason) = (silent.nodes.as_slice(), &silent.reason);
    match nodes {
        [] => format!("{part} does not answer: {reason}"),
        [one] => format!("{part} does not answer on {one}: {reason}"),
        [one, more @ ..] => {
            format!("{part} does not answer on {one} and {} more: {reason}", more.len())
        }
    }
}

/// Remarks for unknown values. Each reason is listed once, with the affected nodes and values. A reason is omitted if the
/// remark for an unreachable API contains it already.
pub(super) fn unknowns(status: &Status) -> Vec<String> {
    let printed: Vec<String> =
        silent_apis(status).iter().map(|silent| printed_reason(silent, status)).collect();
    let mut all: Vec<UnknownReason<'_>> = vec![];
    for node in &status.nodes {
        for (part, reason) in unknown_parts(node) {
            let key = without_address(reason, node);
            if printed.contains(&key) {
                continue;
            }
            let known = all.iter().position(|known| known.key == key);
            let at = known.unwrap_or_else(|| {
                all.push(UnknownReason { key, reason, nodes: vec![] });
                all.len() - 1
            });
            let nodes = &mut all[at].nodes;
            match nodes.iter_mut().find(|(name, _)| *name == node.name) {
                Some((_, parts)) => parts.push(part),
                None => nodes.push((node.name.as_str(), vec![part])),
            }
        }
    }
    all.iter().map(|one| format!("{}: {}", one.subjects(), one.reason)).collect()
}

/// Reason for unknown values, with the affected nodes and values.
struct UnknownReason<'a> {
    /// Reason without the address of the node, so that the same cause on several nodes is one reason.
    key: String,
    /// Reason as the first node reports it.
    reason: &'a str,
    nodes: Vec<(&'a str, Vec<&'static str>)>,
}

impl UnknownReason<'_> {
    /// Affected nodes and values, such as `cp-1, cp-2: Talos, etcd; wk-1: Talos`.
    fn subjects(&self) -> String {
        let mut groups: Vec<(Vec<&str>, &[&str])> = vec![];
        for (name, parts) in &self.nodes {
            match groups.iter_mut().find(|(_, of)| *of == parts.as_slice()) {
                Some((names, _)) => names.push(name),
                None => groups.push((vec![*name], parts.as_slice())),
            }
        }
        let group = |(names, parts): &(Vec<&str>, &[&str])| {
            format!("{}: {}", names.join(", "), parts.join(", "))
        };
        groups.iter().map(group).collect::<Vec<String>>().join("; ")
    }
}

/// Reason why an API does not answer, in the form of [`without_address`]. If several nodes are affected, it is the reason
/// of the first node.
fn printed_reason(silent: &Unreachable, status: &Status) -> String {
    let first = silent.nodes.first();
    let node = status.nodes.iter().find(|node| Some(&node.name) == first);
    node.map_or_else(|| silent.reason.clone(), |node| without_address(&silent.reason, node))
}

fn without_address(reason: &str, node: &NodeStatus) -> String {
    match node.address.get() {
        // The colon before the port is included, because one address can be the start of another address.
        Some(address) => reason.replace(&format!("{address}:"), ":"),
        None => reason.to_owned(),
    }
}

/// Unknown values of a node, with the reasons.
fn unknown_parts(node: &NodeStatus) -> impl Iterator<Item = (&'static str, &str)> {
    let vm = match &node.vm {
        VmState::Unknown(why) => Some(why.as_str()),
        VmState::Is(_) | VmState::Absent(_) => down(node),
    };
    let parts = [
        ("VM", vm),
        ("address", unknown(Some(&node.address))),
        ("Talos", unknown(node.talos.as_ref())),
        ("Kubernetes", unknown(node.kubernetes.as_ref())),
        ("etcd", unknown(node.etcd.as_ref())),
    ];
    // Nothing in a VM that does not run can answer, so the state of the VM is the only reason.
    let shown = if down(node).is_some() { 1 } else { parts.len() };
    parts.into_iter().take(shown).filter_map(|(what, reason)| Some((what, reason?)))
}

fn unknown<T>(seen: Option<&Known<T>>) -> Option<&str> {
    match seen {
        Some(Known::Unknown(why)) => Some(why),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use talmox_engine::status::VmStatus;

    use super::super::fixture::{node, status, why};
    use super::super::table::text;
    use super::*;

    #[test]
    fn a_reason_is_shown_once() {
        let absent = |name: &str| node(name, VmState::Absent(why()));
        let mut all = status(vec![absent("wk-1"), absent("wk-2")]);
        assert_eq!(unknowns(&all), ["wk-1, wk-2: VM: no such VM"]);
        let silent = Unreachable { part: Part::Proxmox, nodes: vec![], reason: why() };
        all.unreachable.push(silent);
        let shown = text(&all, 0, Some("cannot query Proxmox: no such VM"), None);
        assert_eq!(shown.matches("no such VM").count(), 1, "{shown}");
        assert!(shown.contains("\ndrift is unknown: cannot query Proxmox\n"), "{shown}");
        all.unreachable.clear();
        let shown = text(&all, 0, Some("cannot read: why"), None);
        assert!(shown.contains("\ndrift is unknown: cannot read: why\n"), "{shown}");
    }

    #[test]
    fn the_same_cause_on_several_nodes_is_printed_once() {
        let rejected =
            |address: &str| format!("cannot connect to {address}:50000: connection refused");
        let silent = |name: &str, address: &str| {
            let vm = VmState::Unknown("the host is silent".to_owned());
            NodeStatus {
                address: Known::Is(address.parse().unwrap()),
                talos: Some(Known::Unknown(rejected(address))),
                etcd: name.starts_with("cp").then(|| Known::Unknown(rejected(address))),
                ..node(name, vm)
            }
        };
        let mut all = status(vec![
            silent("cp-1", "10.0.0.1"),
            silent("cp-2", "10.0.0.11"),
            silent("wk-1", "10.0.0.21"),
        ]);
        assert_eq!(
            unknowns(&all),
            [
                "cp-1, cp-2, wk-1: VM: the host is silent",
                "cp-1, cp-2: Talos, etcd; wk-1: Talos: cannot connect to 10.0.0.1:50000: connection refused",
            ]
        );
        let nodes = ["cp-1", "cp-2", "wk-1"].map(str::to_owned).to_vec();
        all.unreachable.push(Unreachable {
            part: Part::Talos,
            nodes,
            reason: rejected("10.0.0.1"),
        });
        assert_eq!(unknowns(&all), ["cp-1, cp-2, wk-1: VM: the host is silent"]);
        let shown = text(&all, 0, None, None);
        assert_eq!(shown.matches("connection refused").count(), 1, "{shown}");
    }

    /// Five stopped VMs have one reason, although Talos, etcd and Kubernetes do not answer either.
    #[test]
    fn a_stopped_or_missing_vm_is_the_only_reason() {
        let rejected = || "cannot connect to 10.0.0.11:50000: connection refused".to_owned();
        let vm = |running: bool| VmStatus {
            host: "pve1".to_owned(),
            running,
            cpu: None,
            memory: None,
            max_memory: None,
            uptime: None,
        };
        let silent = |name: &str, vm: VmState| NodeStatus {
            talos: Some(Known::Unknown(rejected())),
            kubernetes: Some(Known::Unknown("no API".to_owned())),
            etcd: Some(Known::Unknown(rejected())),
            ..node(name, vm)
        };
        let stopped = |name: &str| silent(name, VmState::Is(vm(false)));
        let unreachable = |nodes: &[&str]| {
            let nodes = nodes.iter().map(|name| (*name).to_owned()).collect();
            let no_api = "no API".to_owned();
            vec![
                Unreachable { part: Part::Talos, nodes, reason: rejected() },
                Unreachable { part: Part::Kubernetes, nodes: vec![], reason: no_api },
            ]
        };
        let mut missing = silent("wk-1", VmState::Absent(why()));
        missing.drift = vec!["vm is missing".to_owned(), "node is missing".to_owned()];
        let mut all = status(vec![stopped("cp-1"), stopped("cp-2"), missing]);
        all.unreachable = unreachable(&["cp-1", "cp-2", "wk-1"]);
        let shown = text(&all, 0, None, None);
        let end = "\n\ncp-1, cp-2: VM: the VM is stopped\nwk-1: VM: no such VM\n";
        assert!(shown.ends_with(end), "{shown}");

        // A VM that runs and does not answer is reported with its own reason.
        let hung = "10.0.0.12:50000 did not answer in time".to_owned();
        let mut running = silent("cp-2", VmState::Is(vm(true)));
        running.address = Known::Is("10.0.0.12".parse().unwrap());
        running.talos = Some(Known::Unknown(hung.clone()));
        running.etcd = Some(Known::Unknown(hung.clone()));
        let mut some = status(vec![stopped("cp-1"), running]);
        some.unreachable = unreachable(&["cp-1", "cp-2"]);
        let shown = text(&some, 0, None, None);
        let expected = format!(
            "\n\nTalos does not answer on cp-2: {hung}\nKubernetes does not answer: no API\n\
             cp-1: VM: the VM is stopped\n"
        );
        assert!(shown.ends_with(&expected), "{shown}");
    }
}
