//! Text output of the status: a line for each node, and remarks below the table.

use talmox_engine::status::{Known, NodeRole, NodeStatus, Part, Status, Unreachable, VmState};
use talmox_plan::observed::{CheckSeen, CheckState};

use super::reason::{silent_apis, unknowns, unreachable};
use crate::columns::{drop_column, narrow, no_room};
use crate::words;

const TITLES: [&str; 13] = [
    "NODE",
    "ROLE",
    "HOST",
    "VMID",
    "VM",
    "CPU",
    "MEMORY",
    "ADDRESS",
    "TALOS",
    "KUBERNETES",
    "ETCD",
    "CERT",
    "DRIFT",
];
const DAY: i64 = 86_400;
/// Remaining validity in seconds below which the validity of a certificate is shown in hours.
const HOURS: i64 = 2 * DAY;
/// Remaining validity in seconds below which a certificate authority gets a remark.
const WARN_BEFORE: i64 = 30 * DAY;

/// Columns that may be removed on a narrow terminal, the most important column first.
const DISPENSABLE: [&str; 6] = ["ROLE", "HOST", "VMID", "MEMORY", "CERT", "CPU"];
/// Columns that are empty for a cluster without Talos nodes.
const OF_TALOS: [&str; 4] = ["TALOS", "KUBERNETES", "ETCD", "CERT"];

/// Complete report. The text is wrapped to `columns` characters, if given.
pub(super) fn text(
    status: &Status,
    now: i64,
    problem: Option<&str>,
    columns: Option<usize>,
) -> String {
    let mut rows = vec![TITLES.map(str::to_owned).to_vec()];
    rows.extend(status.nodes.iter().map(|node| row(node, now, problem.is_some())));
    let has_talos = has_talos(status);
    if !has_talos {
        for title in OF_TALOS {
            drop_column(&mut rows, title);
        }
    }
    let left_out = narrow(&mut rows, &DISPENSABLE, columns);
    let head = match &status.kubernetes {
        _ if !has_talos => status.cluster.clone(),
        Known::Is(version) => format!("{}: Kubernetes {version}", status.cluster),
        Known::Unknown(_) => format!("{}: no Kubernetes API answers", status.cluster),
    };
    let mut out = format!("{head}\n\n{}", words::aligned(&rows));
    out.push_str(&no_room(&left_out));
    let mut below: Vec<String> = silent_apis(status).iter().map(unreachable).collect();
    below.extend(problem.map(|why| drift_unknown(why, &status.unreachable)));
    below.extend(status.errors.iter().map(|error| format!("error: {error}")));
    below.extend(status.health.iter().find_map(failed_check));
    below.extend(
        status
            .unknown_nodes
            .iter()
            .map(|name| format!("{name}: is a node in Kubernetes, but not in the inventory")),
    );
    below.extend(unknowns(status));
    for node in &status.nodes {
        below.extend(remarks(node, now));
    }
    below.extend(drift(&status.nodes));
    below.extend(status.drift.iter().map(|line| format!("drift: {line}")));
    below.extend(status.nodes.iter().any(|node| is_short(node, now)).then(|| RENEWED.to_owned()));
    let ending = status
        .authorities
        .iter()
        .filter(|authority| has_talos && authority.not_after - now < WARN_BEFORE);
    below.extend(ending.map(|authority| {
        format!(
            "the {} certificate authority expires in {}",
            authority.authority,
            days(authority.not_after - now)
        )
    }));
    if !below.is_empty() {
        out.push('\n');
        for line in below {
            // Continuation lines are indented, so that the start of each remark is easy to see.
            let lines = words::wrapped(
                &line,
                columns.map_or(usize::MAX, |columns| columns.saturating_sub(2)),
            );
            out.push_str(&format!("{}\n", lines.join("\n  ")));
        }
    }
    out
}

/// Remark for certificates that expire within hours.
const RENEWED: &str = "CERT: Talos renews its API certificates automatically before they expire";

/// Whether the certificate of a node expires within hours. This is normal for Talos before it renews the certificate.
fn is_short(node: &NodeStatus, now: i64) -> bool {
    let talos = node.talos.as_ref().and_then(Known::get);
    let left = talos.and_then(|talos| talos.certificate_end).map(|end| end - now);
    left.is_some_and(|left| (0..HOURS).contains(&left))
}

/// Remark for unknown drift. The reason is omitted if the remark about Proxmox contains it already.
fn drift_unknown(why: &str, unreachable: &[Unreachable]) -> String {
    let is_said = unreachable.iter().any(|silent| silent.part == Part::Proxmox);
    let why = match why.split_once(": ") {
        Some((what, _)) if is_said => what,
        _ => why,
    };
    format!("drift is unknown: {why}")
}

/// Whether the cluster has Talos nodes.
pub(super) fn has_talos(status: &Status) -> bool {
    status.nodes.iter().any(|node| node.talos.is_some())
}

fn row(node: &NodeStatus, now: i64, is_drift_unknown: bool) -> Vec<String> {
    let role = match node.role {
        NodeRole::ControlPlane => "controlplane",
        NodeRole::Worker => "worker",
    };
    let vm = node.vm.get();
    let talos = cell(node.talos.as_ref(), |talos| match (&talos.version, talos.stage.as_str()) {
        (Some(version), "running") => version.clone(),
        (Some(version), stage) => format!("{version} {stage}"),
        (None, stage) => stage.to_owned(),
    });
    let kubernetes = cell(node.kubernetes.as_ref(), |kubernetes| {
        let mut text = if kubernetes.ready { "Ready" } else { "NotReady" }.to_owned();
        if !kubernetes.schedulable {
            text.push_str(",cordoned");
        }
        format!("{text} {}", kubernetes.version)
    });
    let etcd = cell(node.etcd.as_ref(), |etcd| {
        let text = match (etcd.leader, etcd.learner) {
            (true, _) => "leader",
            (false, true) => "learner",
            (false, false) => "member",
        };
        text.to_owned()
    });
    let certificate = cell(node.talos.as_ref(), |talos| match talos.certificate_end {
        Some(end) if end - now < HOURS => format!("{}h", ((end - now) / 3600).max(0)),
        Some(end) => format!("{}d", (end - now) / DAY),
        None => "-".to_owned(),
    });
    let drift = match (is_drift_unknown, node.drift.len()) {
        (true, _) => "?".to_owned(),
        (false, 0) => "-".to_owned(),
        (false, count) => count.to_string(),
    };
    let known = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
    let is_absent = matches!(node.vm, VmState::Absent(_));
    let of_vm = |text: Option<String>| if is_absent { "-".to_owned() } else { known(text) };
    let power = match &node.vm {
        VmState::Is(vm) if vm.running => "running",
        VmState::Is(_) => "stopped",
        VmState::Absent(_) => "none",
        VmState::Unknown(_) => "?",
    };
    vec![
        node.name.clone(),
        role.to_owned(),
        of_vm(vm.map(|vm| vm.host.clone())),
        of_vm(node.vmid.map(|vmid| vmid.to_string())),
        power.to_owned(),
        of_vm(vm.and_then(|vm| vm.cpu).map(|cpu| format!("{:.0}%", cpu * 100.0))),
        of_vm(vm.and_then(|vm| memory(vm.memory?, vm.max_memory?))),
        known(node.address.get().map(ToString::to_string)),
        talos,
        kubernetes,
        etcd,
        certificate,
        drift,
    ]
}

/// Text of a table cell: `-` for a value that the node does not have, `?` for an unknown value.
fn cell<T>(seen: Option<&Known<T>>, show: impl Fn(&T) -> String) -> String {
    match seen {
        None => "-".to_owned(),
        Some(Known::Unknown(_)) => "?".to_owned(),
        Some(Known::Is(found)) => show(found),
    }
}

/// Used and assigned memory in GiB.
fn memory(used: u64, given: u64) -> Option<String> {
    let tenths = |bytes: u64| {
        let tenths = (bytes >> 20) * 10 / 1024;
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    (given > 0).then(|| format!("{}/{} GiB", tenths(used), tenths(given)))
}

/// Remarks for the problems of a node.
fn remarks(node: &NodeStatus, now: i64) -> Vec<String> {
    let mut lines = vec![];
    if let Some(Known::Is(talos)) = &node.talos {
        lines.extend(talos.troubles.iter().map(|problem| format!("{}: {problem}", node.name)));
        if let Some(end) = talos.certificate_end
            && end - now < 0
        {
            lines.push(format!("{}: its certificate has expired", node.name));
        }
    }
    if let Some(Known::Is(kubernetes)) = &node.kubernetes
        && let Some(reason) = &kubernetes.reason
    {
        lines.push(format!("{}: NotReady: {reason}", node.name));
    }
    if let Some(Known::Is(etcd)) = &node.etcd {
        lines.extend(etcd.errors.iter().map(|error| format!("{}: etcd: {error}", node.name)));
    }
    lines
}

/// Remarks for the drift of the nodes. The same drift of several nodes is one remark. A node without a VM has none, because
/// the remark for the missing VM is enough.
fn drift(nodes: &[NodeStatus]) -> Vec<String> {
    let mut all: Vec<(&str, Vec<&str>)> = vec![];
    for node in nodes.iter().filter(|node| !matches!(node.vm, VmState::Absent(_))) {
        for line in &node.drift {
            match all.iter_mut().find(|(known, _)| *known == line.as_str()) {
                Some((_, names)) => names.push(&node.name),
                None => all.push((line, vec![node.name.as_str()])),
            }
        }
    }
    all.iter().map(|(line, names)| format!("{}: drift: {line}", names.join(", "))).collect()
}

/// Remark for a check that has not passed.
fn failed_check(check: &CheckSeen) -> Option<String> {
    let reason = check.reason.as_ref().filter(|_| check.state == CheckState::Waiting)?;
    Some(format!("check not passed: {}: {reason}", check.name))
}

fn days(seconds: i64) -> String {
    match seconds / DAY {
        1 => "1 day".to_owned(),
        days => format!("{} days", days.max(0)),
    }
}

#[cfg(test)]
mod tests {
    use talmox_engine::status::TalosStatus;

    use super::super::fixture::{node, status, why};
    use super::*;

    #[test]
    fn absent_values_differ_from_unknown_values() {
        let cells = |vm: VmState| {
            let node = node("wk-1", vm);
            let remarks = unknowns(&status(vec![node.clone()]));
            (row(&node, 0, false)[2..8].join(" "), remarks)
        };
        let absent = ("- - none - - ?".to_owned(), vec!["wk-1: VM: no such VM".to_owned()]);
        assert_eq!(cells(VmState::Absent(why())), absent);
        let unknown = ("? ? ? ? ? ?".to_owned(), vec!["wk-1: VM, address: no such VM".to_owned()]);
        assert_eq!(cells(VmState::Unknown(why())), unknown);
    }

    #[test]
    fn a_certificate_that_expires_within_hours_has_a_remark() {
        let talos = |end: i64| {
            Some(Known::Is(TalosStatus {
                stage: "running".to_owned(),
                version: None,
                troubles: vec![],
                certificate_end: Some(end),
            }))
        };
        let shown = |end: i64| {
            let node = NodeStatus { talos: talos(end), ..node("cp-1", VmState::Absent(why())) };
            text(&status(vec![node]), 0, None, None)
        };
        let (short, long, over) = (shown(23 * 3600), shown(3 * DAY), shown(-1));
        assert!(short.contains("23h") && short.contains(RENEWED), "{short}");
        assert!(!long.contains(RENEWED), "{long}");
        assert!(!over.contains(RENEWED) && over.contains("has expired"), "{over}");
    }

    #[test]
    fn the_same_drift_of_several_nodes_is_one_remark() {
        let with = |name: &str, vm: VmState, lines: &[&str]| NodeStatus {
            drift: lines.iter().map(|line| (*line).to_owned()).collect(),
            ..node(name, vm)
        };
        let (stopped, memory) = ("vm status stopped → running", "vm memory 4 GiB → 6 GiB");
        let nodes = [
            with("cp-1", VmState::Unknown(why()), &[stopped]),
            with("wk-1", VmState::Unknown(why()), &[memory, stopped]),
            with("wk-2", VmState::Absent(why()), &["vm is missing"]),
        ];
        assert_eq!(
            drift(&nodes),
            [format!("cp-1, wk-1: drift: {stopped}"), format!("wk-1: drift: {memory}")]
        );
    }

    /// The role of a node does not depend on its operating system.
    #[test]
    fn roles_have_the_same_names_on_every_system() {
        let ubuntu = node("cp-1", VmState::Absent(why()));
        let ubuntu = NodeStatus { role: NodeRole::ControlPlane, ..ubuntu };
        assert_eq!(row(&ubuntu, 0, false)[1], "controlplane");
        assert_eq!(serde_json::to_value(&ubuntu).unwrap()["role"], "controlplane");
    }

    #[test]
    fn apis_that_do_not_answer_are_named_in_wrapped_lines() {
        let reason = "cannot connect to 10.0.0.11:50000: connection refused".to_owned();
        let silent = |part, nodes: &[&str]| Unreachable {
            part,
            nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
            reason: reason.clone(),
        };
        let status = Status {
            cluster: "dev".to_owned(),
            kubernetes: Known::Unknown(reason.clone()),
            nodes: vec![],
            unreachable: vec![
                silent(Part::Proxmox, &[]),
                silent(Part::Talos, &["cp-1", "cp-2", "wk-1"]),
            ],
            authorities: vec![],
            drift: vec!["create add-on shop".to_owned()],
            unknown_nodes: vec!["wk-9".to_owned()],
            health: vec![CheckSeen {
                name: "all nodes are ready",
                state: CheckState::Waiting,
                reason: Some("wk-1 is NotReady".to_owned()),
            }],
            errors: vec!["there are two etcd clusters".to_owned()],
        };
        let shown = text(&status, 0, None, Some(60));
        assert!(
            shown.ends_with(
                "\nProxmox does not answer: cannot connect to\n  10.0.0.11:50000: connection refused\n\
                 Talos does not answer on cp-1 and 2 more: cannot connect\n  \
                 to 10.0.0.11:50000: connection refused\n\
                 error: there are two etcd clusters\n\
                 check not passed: all nodes are ready: wk-1 is NotReady\n\
                 wk-9: is a node in Kubernetes, but not in the inventory\n\
                 drift: create add-on shop\n"
            ),
            "{shown}"
        );
        // Output to a file is not wrapped.
        let piped = text(&status, 0, None, None);
        assert!(piped.contains(&format!("\nProxmox does not answer: {reason}\n")), "{piped}");
    }
}
