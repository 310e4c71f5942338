//! Checks of the PodSecurity level `baseline`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pod_check::{PodCheck, Problem, added, containers, of_container, plural, quoted};
use crate::object::{flag, list, text};

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
const LABELS: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];
/// First minor version of Kubernetes that checks the hosts of probes.
const PROBES: u64 = 34;

/// Violations of `baseline`. With `also_restricted`, checks that `restricted` repeats more strictly are omitted.
pub(super) fn problems(pod_check: &PodCheck<'_>, also_restricted: bool) -> Vec<Problem> {
    let all = [
        (app_armor(pod_check), true),
        (capabilities(pod_check), false),
        (host_namespaces(pod_check), true),
        (host_paths(pod_check), false),
        (host_ports(pod_check), true),
        (probes(pod_check), true),
        (privileged(pod_check), true),
        (proc_mount(pod_check), true),
        (se_linux(pod_check), true),
        (seccomp(pod_check), false),
        (sysctls(pod_check), true),
        (windows(pod_check), true),
    ];
    let counted = all.into_iter().filter(|(_, is_unique)| *is_unique || !also_restricted);
    counted.filter_map(|(problem, _)| problem).collect()
}

fn is_unconfined(value: &Value) -> bool {
    value == "Unconfined"
}

fn app_armor(pod_check: &PodCheck<'_>) -> Option<Problem> {
    let who = pod_check.violators("/appArmorProfile/type", is_unconfined)?;
    let detail = format!("{who} must not set AppArmor profile type to \"Unconfined\"");
    Some(Problem::new("forbidden AppArmor profile", detail))
}

fn capabilities(pod_check: &PodCheck<'_>) -> Option<Problem> {
    let (names, found) = added(pod_check, &CAPABILITIES);
    (!found.is_empty()).then(|| {
        let (who, what) = (containers(&names), quoted(&found));
        let detail = format!("{who} must not include {what} in securityContext.capabilities.add");
        Problem::new("non-default capabilities", detail)
    })
}

fn host_namespaces(pod_check: &PodCheck<'_>) -> Option<Problem> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let shared = shared.filter(|key| flag(pod_check.spec, &format!("/{key}")));
    let messages: Vec<String> = shared.map(|key| format!("{key}=true")).collect();
    (!messages.is_empty()).then(|| Problem::new("host namespaces", messages.join(", ")))
}

fn host_paths(pod_check: &PodCheck<'_>) -> Option<Problem> {
    let volumes = list(pod_check.spec, "/volumes").iter();
    let volumes = volumes.filter(|volume| volume.get("hostPath").is_some());
    let names: Vec<&str> = volumes.map(|volume| text(volume, "/name")).collect();
    (!names.is_empty()).then(|| {
        let detail = format!("volume{} {}", plural(names.len()), quoted(&names));
        Problem::new("hostPath volumes", detail)
    })
}

fn host_ports(pod_check: &PodCheck<'_>) -> Option<Problem> {
    let ports_of = |container: &Value| -> Vec<String> {
        let ports = list(container, "/ports").iter().filter_map(|port| port["hostPort"].as_u64());
        ports.filter(|port| *port > 0).map(|port| port.to_string()).collect()
    };
    let names = pod_check.names(|container| !ports_of(container).is_empty());
    let ports: BTreeSet<String> = pod_check.containers().flat_map(ports_of).collect();
    (!ports.is_empty()).then(|| {
        let verb = if names.len() == 1 { "uses" } else { "use" };
        let all = ports.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let detail = format!("{} {verb} hostPort{} {all}", containers(&names), plural(ports.len()));
        Problem::new("hostPort", detail)
    })
}

fn probes(pod_check: &PodCheck<'_>) -> Option<Problem> {
    fn hosts(container: &Value) -> impl Iterator<Item = &str> {
        let places = [
            "/livenessProbe",
            "/readinessProbe",
            "/startupProbe",
            "/lifecycle/postStart",
            "/lifecycle/preStop",
        ];
        let hosts = places.into_iter().flat_map(move |place| {
            ["httpGet", "tcpSocket"].map(|how| text(container, &format!("{place}/{how}/host")))
        });
        hosts.filter(|host| !host.is_empty())
    }
    if pod_check.minor < PROBES {
        return None;
    }
    let names = pod_check.names(|container| hosts(container).next().is_some());
    let found: BTreeSet<&str> = pod_check.containers().flat_map(hosts).collect();
    (!found.is_empty()).then(|| {
        let verb = if names.len() == 1 { "uses" } else { "use" };
        let (who, many, what) = (containers(&names), plural(found.len()), quoted(&found));
        let detail = format!("{who} {verb} probe or lifecycle host{many} {what}");
        Problem::new("probe or lifecycle host", detail)
    })
}

fn privileged(pod_check: &PodCheck<'_>) -> Option<Problem> {
    let names = pod_check.names(|container| flag(container, "/securityContext/privileged"));
    (!names.is_empty()).then(|| {
        let detail = format!("{} must not set securityContext.privileged=true", containers(&names));
        Problem::new("privileged", detail)
    })
}

fn proc_mount(pod_check: &PodCheck<'_>) -> Option<Problem> {
    let is_bad = |container: &Value| {
        of_container(container, "/procMount").is_some_and(|mount| mount != "Default")
    };
    let names = pod_check.names(is_bad);
    let kinds: BTreeSet<&str> = pod_check
        .containers()
        .filter(|container| is_bad(container))
        .map(|container| text(container, "/securityContext/procMount"))
        .collect();
    (!names.is_empty()).then(|| {
        let (who, what) = (containers(&names), quoted(&kinds));
        let detail = format!("{who} must not set securityContext.procMount to {what}");
        Problem::new("procMount", detail)
    })
}

fn se_linux(pod_check: &PodCheck<'_>) -> Option<Problem> {
    const OPTIONS: &str = "/seLinuxOptions";
    let is_type_bad = |options: &Value| !LABELS.contains(&text(options, "/type"));
    let has = |key: &'static str| move |options: &Value| !text(options, key).is_empty();
    let is_bad =
        |options: &Value| is_type_bad(options) || has("/user")(options) || has("/role")(options);
    let who = pod_check.violators(OPTIONS, is_bad)?;
    let all = || {
        let own = pod_check.containers().filter_map(|container| of_container(container, OPTIONS));
        pod_check.of_pod(OPTIONS).into_iter().chain(own)
    };
    let types: BTreeSet<&str> = all()
        .filter(|options| is_type_bad(options))
        .map(|options| text(options, "/type"))
        .collect();
    let mut messages = vec![];
    if !types.is_empty() {
        messages.push(format!("type{} {}", plural(types.len()), quoted(&types)));
    }
    for (key, pointer) in [("user", "/user"), ("role", "/role")] {
        if all().any(has(pointer)) {
            messages.push(format!("{key} may not be set"));
        }
    }
    let detail =
        format!("{who} set forbidden securityContext.seLinuxOptions: {}", messages.join("; "));
    Some(Problem::new("seLinuxOptions", detail))
}

fn seccomp(pod_check: &PodCheck<'_>) -> Option<Problem> {
    let who = pod_check.violators("/seccompProfile/type", is_unconfined)?;
    let detail =
        format!("{who} must not set securityContext.seccompProfile.type to \"Unconfined\"");
    Some(Problem::new("seccompProfile", detail))
}

fn sysctls(pod_check: &PodCheck<'_>) -> Option<Problem> {
    let set = list(pod_check.spec, "/securityContext/sysctls").iter();
    let names: Vec<&str> = set.map(|one| text(one, "/name")).collect();
    let bad: Vec<&str> = names.into_iter().filter(|name| !SYSCTLS.contains(name)).collect();
    (!bad.is_empty()).then(|| Problem::new("forbidden sysctls", bad.join(", ")))
}

fn windows(pod_check: &PodCheck<'_>) -> Option<Problem> {
    let who = pod_check.violators("/windowsOptions/hostProcess", |value| value == true)?;
    let detail = format!("{who} must not set securityContext.windowsOptions.hostProcess=true");
    Some(Problem::new("hostProcess", detail))
}
