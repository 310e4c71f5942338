//! A pod as the checks of Pod Security look at it, and how they word what they find.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::object::{list, text};

/// Something about a pod that a level does not allow.
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

pub(super) struct Look<'p> {
    pub(super) spec: &'p Value,
    /// Kubernetes 1.this.
    pub(super) minor: u64,
}

impl<'p> Look<'p> {
    pub(super) fn containers(&self) -> impl Iterator<Item = &'p Value> {
        let spec = self.spec;
        let lists = ["/initContainers", "/containers", "/ephemeralContainers"].into_iter();
        lists.flat_map(move |pointer| list(spec, pointer))
    }

    /// The names of those containers of which it is so.
    pub(super) fn names(&self, is_so: impl Fn(&Value) -> bool) -> Vec<&'p str> {
        let those = self.containers().filter(|container| is_so(container));
        those.map(|container| text(container, "/name")).collect()
    }

    /// What the pod says for all of its containers.
    pub(super) fn of_pod(&self, pointer: &str) -> Option<&'p Value> {
        self.spec.pointer(&format!("/securityContext{pointer}"))
    }

    pub(super) fn is_windows(&self) -> bool {
        text(self.spec, "/os/name") == "windows"
    }

    /// Who does what they must not: the pod, containers, or both. None if nobody does.
    pub(super) fn culprits(
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

/// What a container says in its own security context.
pub(super) fn of_container<'c>(container: &'c Value, pointer: &str) -> Option<&'c Value> {
    container.pointer(&format!("/securityContext{pointer}"))
}

/// `container "a"`, or `containers "a", "b"`.
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

/// What containers add to their capabilities that is not among these, and which containers do.
pub(super) fn added<'p>(look: &Look<'p>, allowed: &[&str]) -> (Vec<&'p str>, BTreeSet<&'p str>) {
    let mut found = BTreeSet::new();
    let mut names = vec![];
    for container in look.containers() {
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
