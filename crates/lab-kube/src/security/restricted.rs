//! What the level `restricted` forbids beyond `baseline`, or more strictly.

use std::collections::BTreeSet;

use serde_json::Value;

use super::look::{Look, Problem, added, containers, of_container, plural, quoted};
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

pub(super) fn problems(look: &Look<'_>) -> Vec<Problem> {
    let all = [
        escalation(look),
        capabilities(look),
        volumes(look),
        non_root(look),
        root_user(look),
        seccomp(look),
    ];
    all.into_iter().flatten().collect()
}

fn escalation(look: &Look<'_>) -> Option<Problem> {
    let names = look.names(|container| {
        of_container(container, "/allowPrivilegeEscalation") != Some(&Value::Bool(false))
    });
    (!names.is_empty() && !look.is_windows()).then(|| {
        let detail = format!(
            "{} must set securityContext.allowPrivilegeEscalation=false",
            containers(&names)
        );
        Problem::new("allowPrivilegeEscalation != false", detail)
    })
}

fn capabilities(look: &Look<'_>) -> Option<Problem> {
    let drops_all = |container: &Value| {
        list(container, "/securityContext/capabilities/drop").iter().any(|one| one == "ALL")
    };
    let keeping = look.names(|container| !drops_all(container));
    let (adding, found) = added(look, &["NET_BIND_SERVICE"]);
    let mut told = vec![];
    if !keeping.is_empty() {
        let who = containers(&keeping);
        told.push(format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !found.is_empty() {
        let (who, what) = (containers(&adding), quoted(&found));
        told.push(format!("{who} must not include {what} in securityContext.capabilities.add"));
    }
    let is_bad = !told.is_empty() && !look.is_windows();
    is_bad.then(|| Problem::new("unrestricted capabilities", told.join("; ")))
}

fn volumes(look: &Look<'_>) -> Option<Problem> {
    let (mut names, mut kinds) = (vec![], BTreeSet::new());
    for volume in list(look.spec, "/volumes") {
        let keys = volume.as_object().into_iter().flat_map(|map| map.keys());
        let source = keys.map(String::as_str).find(|key| *key != "name");
        // One without a source is an empty folder.
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

/// What is wrong where it has to be said by the pod, or by each container: first what is said wrongly, then what
/// nobody says.
fn non_root(look: &Look<'_>) -> Option<Problem> {
    const KEY: &str = "/runAsNonRoot";
    let reason = "runAsNonRoot != true";
    if let Some(who) = look.culprits(KEY, |value| value == false) {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return Some(Problem::new(reason, detail));
    }
    let silent = look.names(|container| of_container(container, KEY).is_none());
    let is_said = look.of_pod(KEY).is_some() || silent.is_empty();
    (!is_said).then(|| {
        let who = containers(&silent);
        let detail = format!("pod or {who} must set securityContext.runAsNonRoot=true");
        Problem::new(reason, detail)
    })
}

fn root_user(look: &Look<'_>) -> Option<Problem> {
    let who = look.culprits("/runAsUser", |user| user == 0)?;
    Some(Problem::new("runAsUser=0", format!("{who} must not set runAsUser=0")))
}

fn seccomp(look: &Look<'_>) -> Option<Problem> {
    const KEY: &str = "/seccompProfile/type";
    let (reason, field) = ("seccompProfile", "securityContext.seccompProfile.type");
    if look.is_windows() {
        return None;
    }
    if let Some(who) = look.culprits(KEY, |kind| kind == "Unconfined") {
        return Some(Problem::new(reason, format!("{who} must not set {field} to \"Unconfined\"")));
    }
    let silent = look.names(|container| of_container(container, KEY).is_none());
    let is_said = look.of_pod(KEY).is_some() || silent.is_empty();
    (!is_said).then(|| {
        let who = containers(&silent);
        let detail =
            format!("pod or {who} must set {field} to \"RuntimeDefault\" or \"Localhost\"");
        Problem::new(reason, detail)
    })
}
