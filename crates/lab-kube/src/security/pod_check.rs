//! Pod that PodSecurity checks, and the texts of violations.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::object::{list, text};

/// Violation of a PodSecurity level.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) reason: String,
    detail: String,
}

impl Problem {
    pub(super) fn new(reason: &str, detail: String) -> Self {
        Self { reason: reason.to_owned(), detail }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.detail)
    }
}

pub(super) struct PodCheck<'p> {
    pub(super) spec: &'p Value,
    /// Minor version of the Kubernetes API server.
    pub(super) minor: u64,
}

impl<'p> PodCheck<'p> {
    pub(super) fn containers(&self) -> impl Iterator<Item = &'p Value> {
        let spec = self.spec;
        let lists = ["/initContainers", "/containers", "/ephemeralContainers"].into_iter();
        lists.flat_map(move |pointer| list(spec, pointer))
    }

    /// Names of the containers that match the predicate.
    pub(super) fn names(&self, matches: impl Fn(&Value) -> bool) -> Vec<&'p str> {
        let those = self.containers().filter(|container| matches(container));
        those.map(|container| text(container, "/name")).collect()
    }

    /// Value from the security context of the pod.
    pub(super) fn of_pod(&self, pointer: &str) -> Option<&'p Value> {
        self.spec.pointer(&format!("/securityContext{pointer}"))
    }

    pub(super) fn is_windows(&self) -> bool {
        text(self.spec, "/os/name") == "windows"
    }

    /// Subject of a violation in messages: the pod, some containers, or both. `None` if there is no violation.
    pub(super) fn violators(
        &self,
        pointer: &str,
        is_bad: impl Fn(&Value) -> bool,
    ) -> Option<String> {
        let names = self.names(|container| of_container(container, pointer).is_some_and(&is_bad));
        match (self.of_pod(pointer).is_some_and(&is_bad), names.as_slice()) {
            (false, []) => None,
            (true, []) => Some("pod".to_owned()),
            (false, names) => Some(containers(names)),
            (true, names) => Some(format!("pod and {}", containers(names))),
        }
    }
}

/// Value from the security context of a container.
pub(super) fn of_container<'c>(container: &'c Value, pointer: &str) -> Option<&'c Value> {
    container.pointer(&format!("/securityContext{pointer}"))
}

/// Phrase in messages: `container "a"`, or `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("container{} {}", plural(names.len()), quoted(names))
}

pub(super) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

pub(super) fn quoted<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("{:?}", name.as_ref())).collect();
    names.join(", ")
}

/// Names of the containers that add capabilities outside `allowed`, and these capabilities.
pub(super) fn added<'p>(
    pod_check: &PodCheck<'p>,
    allowed: &[&str],
) -> (Vec<&'p str>, BTreeSet<&'p str>) {
    let mut found = BTreeSet::new();
    let mut names = vec![];
    for container in pod_check.containers() {
        let wanted = list(container, "/securityContext/capabilities/add").iter();
        let beyond = wanted.filter_map(Value::as_str).filter(|one| !allowed.contains(one));
        let before = names.len();
        for one in beyond {
            found.insert(one);
            if names.len() == before {
                names.push(text(container, "/name"));
            }
        }
    }
    (names, found)
}
