//! Checks of the PodSecurity level `restricted` that `baseline` does not have, or that are stricter than in `baseline`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pod_check::{PodCheck, Problem, added, containers, of_container, plural, quoted};
use crate::object::{list, text};

const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

pub(super) fn problems(pod_check: &PodCheck<'_>) -> Vec<Problem> {
    let all = [
        escalation(pod_check),
        capabilities(pod_check),
        volumes(pod_check),
        non_root(pod_check),
        root_user(pod_check),
        seccomp(pod_check),
    ];
    all.into_iter().flatten().collect()
}

fn escalation(pod_check: &PodCheck<'_>) -> Option<Problem> {
    let names = pod_check.names(|container| {
        of_container(container, "/allowPrivilegeEscalation") != Some(&Value::Bool(false))
    });
    (!names.is_empty() && !pod_check.is_windows()).then(|| {
        let detail = format!(
            "{} must set securityContext.allowPrivilegeEscalation=false",
            containers(&names)
        );
        Problem::new("allowPrivilegeEscalation != false", detail)
    })
}

fn capabilities(pod_check: &PodCheck<'_>) -> Option<Problem> {
    let drops_all = |container: &Value| {
        list(container, "/securityContext/capabilities/drop").iter().any(|one| one == "ALL")
    };
    let keeping = pod_check.names(|container| !drops_all(container));
    let (adding, found) = added(pod_check, &["NET_BIND_SERVICE"]);
    let mut messages = vec![];
    if !keeping.is_empty() {
        let who = containers(&keeping);
        messages.push(format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !found.is_empty() {
        let (who, what) = (containers(&adding), quoted(&found));
        messages.push(format!("{who} must not include {what} in securityContext.capabilities.add"));
    }
    let is_bad = !messages.is_empty() && !pod_check.is_windows();
    is_bad.then(|| Problem::new("unrestricted capabilities", messages.join("; ")))
}

fn volumes(pod_check: &PodCheck<'_>) -> Option<Problem> {
    let (mut names, mut kinds) = (vec![], BTreeSet::new());
    for volume in list(pod_check.spec, "/volumes") {
        let keys = volume.as_object().into_iter().flat_map(|map| map.keys());
        let source = keys.map(String::as_str).find(|key| *key != "name");
        // A volume without a source is an `emptyDir`, which is allowed.
        if let Some(kind) = source.filter(|kind| !VOLUMES.contains(kind)) {
            names.push(text(volume, "/name"));
            kinds.insert(kind);
        }
    }
    (!names.is_empty()).then(|| {
        let verb = if names.len() == 1 { "uses" } else { "use" };
        let detail = format!(
            "volume{} {} {verb} restricted volume type{} {}",
            plural(names.len()),
            quoted(&names),
            plural(kinds.len()),
            quoted(&kinds)
        );
        Problem::new("restricted volume types", detail)
    })
}

/// Violation of `runAsNonRoot`, which the pod or each container must set to true. Wrong values are reported before missing
/// values.
fn non_root(pod_check: &PodCheck<'_>) -> Option<Problem> {
    const KEY: &str = "/runAsNonRoot";
    let reason = "runAsNonRoot != true";
    if let Some(who) = pod_check.violators(KEY, |value| value == false) {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return Some(Problem::new(reason, detail));
    }
    let silent = pod_check.names(|container| of_container(container, KEY).is_none());
    let is_said = pod_check.of_pod(KEY).is_some() || silent.is_empty();
    (!is_said).then(|| {
        let who = containers(&silent);
        let detail = format!("pod or {who} must set securityContext.runAsNonRoot=true");
        Problem::new(reason, detail)
    })
}

fn root_user(pod_check: &PodCheck<'_>) -> Option<Problem> {
    let who = pod_check.violators("/runAsUser", |user| user == 0)?;
    Some(Problem::new("runAsUser=0", format!("{who} must not set runAsUser=0")))
}

fn seccomp(pod_check: &PodCheck<'_>) -> Option<Problem> {
    const KEY: &str = "/seccompProfile/type";
    let (reason, field) = ("seccompProfile", "securityContext.seccompProfile.type");
    if pod_check.is_windows() {
        return None;
    }
    if let Some(who) = pod_check.violators(KEY, |kind| kind == "Unconfined") {
        return Some(Problem::new(reason, format!("{who} must not set {field} to \"Unconfined\"")));
    }
    let silent = pod_check.names(|container| of_container(container, KEY).is_none());
    let is_said = pod_check.of_pod(KEY).is_some() || silent.is_empty();
    (!is_said).then(|| {
        let who = containers(&silent);
        let detail =
            format!("pod or {who} must set {field} to \"RuntimeDefault\" or \"Localhost\"");
        Problem::new(reason, detail)
    })
}
