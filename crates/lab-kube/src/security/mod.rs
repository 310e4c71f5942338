//! PodSecurity admission. The config of the API server and the labels of a namespace set the levels. All versions of a level
//! have the checks of the newest version.

mod baseline;
mod pod_check;
mod restricted;

use std::fmt;

use serde_json::Value;

use super::kind::Kind;
use super::object::{self, list, text};
use super::store::State;
use pod_check::{PodCheck, Problem};

const LABEL: &str = "pod-security.kubernetes.io/";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Self::Privileged),
            "baseline" => Some(Self::Baseline),
            "restricted" => Some(Self::Restricted),
            _ => None,
        }
    }
}

/// PodSecurity level with the Kubernetes version that defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Standard {
    level: Level,
    version: String,
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        write!(f, "{level}:{}", self.version)
    }
}

/// PodSecurity config of the API servers.
#[derive(Clone, Debug)]
pub(crate) struct PodSecurity {
    enforce: Standard,
    warn: Standard,
    exempt_namespaces: Vec<String>,
    exempt_runtimes: Vec<String>,
    /// Minor version of the Kubernetes API server.
    minor: u64,
}

impl PodSecurity {
    /// Reads the PodSecurity config from the admission plugins. Without a config of the plugin, only namespace labels set
    /// levels.
    pub(crate) fn of_plugins(plugins: &[Value], server_version: &str) -> Self {
        let plugin = plugins.iter().find(|plugin| plugin["name"] == "PodSecurity");
        let config = plugin.map_or(&Value::Null, |plugin| &plugin["configuration"]);
        let standard = |mode: &str| {
            let version = text(config, &format!("/defaults/{mode}-version"));
            Standard {
                level: Level::parse(text(config, &format!("/defaults/{mode}")))
                    .unwrap_or(Level::Privileged),
                version: if version.is_empty() { "latest" } else { version }.to_owned(),
            }
        };
        let exempt = |what: &str| {
            let names = list(config, &format!("/exemptions/{what}")).iter();
            names.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let minor = server_version.split('.').nth(1).and_then(|minor| minor.parse().ok());
        Self {
            enforce: standard("enforce"),
            warn: standard("warn"),
            exempt_namespaces: exempt("namespaces"),
            exempt_runtimes: exempt("runtimeClasses"),
            minor: minor.unwrap_or_default(),
        }
    }

    fn is_exempt(&self, namespace: &str, spec: &Value) -> bool {
        let runtime = text(spec, "/runtimeClassName");
        self.exempt_namespaces.iter().any(|name| name == namespace)
            || self.exempt_runtimes.iter().any(|name| name == runtime)
    }

    /// Level in a namespace. The labels of the namespace override the config.
    fn standard(&self, namespace: &Value, mode: &str) -> Standard {
        let mut standard = if mode == "enforce" { &self.enforce } else { &self.warn }.clone();
        let label = |key: &str| object::label(namespace, &format!("{LABEL}{key}"));
        if let Some(level) = label(mode).and_then(Level::parse) {
            standard.level = level;
        }
        if let Some(version) = label(&format!("{mode}-version")) {
            version.clone_into(&mut standard.version);
        }
        standard
    }

    fn problems(&self, level: Level, spec: &Value) -> Vec<Problem> {
        let pod_check = PodCheck { spec, minor: self.minor };
        match level {
            Level::Privileged => vec![],
            Level::Baseline => baseline::problems(&pod_check, false),
            Level::Restricted => {
                let mut all = baseline::problems(&pod_check, true);
                all.extend(restricted::problems(&pod_check));
                all
            }
        }
    }

    /// Message with the violations of a pod against the level of its namespace; `None` if there are no violations.
    fn verdict(&self, namespace: &Value, mode: &str, spec: &Value) -> Option<String> {
        let standard = self.standard(namespace, mode);
        let problems = self.problems(standard.level, spec);
        let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
        (!messages.is_empty())
            .then(|| format!("PodSecurity \"{standard}\": {}", messages.join(", ")))
    }
}

/// Reason why PodSecurity rejects a pod; `None` if PodSecurity allows the pod.
pub(super) fn rejection(state: &State, pod: &Value) -> Option<String> {
    let (security, spec) = (state.pod_security.as_ref()?, &pod["spec"]);
    let namespace = state.get("namespaces", "", object::namespace(pod))?;
    if security.is_exempt(object::name(namespace), spec) {
        return None;
    }
    security.verdict(namespace, "enforce", spec).map(|problem| format!("violates {problem}"))
}

/// PodSecurity warnings for a written object.
pub(super) fn warnings(
    state: &State,
    kind: &Kind,
    old: Option<&Value>,
    new: &Value,
) -> Vec<String> {
    let Some(security) = &state.pod_security else { return vec![] };
    let pointer = match kind.id.as_str() {
        "namespaces" => return of_namespace(state, security, old, new),
        // An update cannot cause a violation, because the mutable fields of a pod do not affect PodSecurity.
        "pods" if old.is_some() => return vec![],
        "pods" => "/spec",
        "cronjobs.batch" => "/spec/jobTemplate/spec/template/spec",
        "deployments.apps"
        | "replicasets.apps"
        | "daemonsets.apps"
        | "statefulsets.apps"
        | "jobs.batch"
        | "replicationcontrollers" => "/spec/template/spec",
        _ => return vec![],
    };
    let spec = new.pointer(pointer).unwrap_or(&Value::Null);
    let namespace = state.get("namespaces", "", object::namespace(new));
    let Some(namespace) = namespace.filter(|found| !security.is_exempt(object::name(found), spec))
    else {
        return vec![];
    };
    let problem = security.verdict(namespace, "warn", spec);
    problem.map(|problem| format!("would violate {problem}")).into_iter().collect()
}

/// Warnings about existing pods that violate the new level of a namespace.
fn of_namespace(
    state: &State,
    security: &PodSecurity,
    old: Option<&Value>,
    new: &Value,
) -> Vec<String> {
    let name = object::name(new);
    if security.is_exempt(name, &Value::Null) {
        return exempt_namespace(security, old, new).into_iter().collect();
    }
    let Some(old) = old else { return vec![] };
    let (before, after) = (security.standard(old, "enforce"), security.standard(new, "enforce"));
    let is_laxer = before.version == after.version && after.level <= before.level;
    if before == after || after.level == Level::Privileged || is_laxer {
        return vec![];
    }
    // Pods with the same violations share one line. The line names the first of these pods.
    let mut lines: Vec<(String, &str, usize)> = vec![];
    for pod in state.in_namespace("pods", name) {
        let problems = security.problems(after.level, &pod["spec"]);
        let reasons: Vec<&str> = problems.iter().map(|problem| problem.reason.as_str()).collect();
        let reasons = reasons.join(", ");
        match lines.iter_mut().find(|(known, ..)| *known == reasons) {
            _ if reasons.is_empty() => {}
            Some((_, _, others)) => *others += 1,
            None => lines.push((reasons, object::name(pod), 0)),
        }
    }
    if lines.is_empty() {
        return vec![];
    }
    let mut messages: Vec<String> = lines
        .into_iter()
        .map(|(reasons, first, others)| match others {
            0 => format!("{first}: {reasons}"),
            1 => format!("{first} (and 1 other pod): {reasons}"),
            _ => format!("{first} (and {others} other pods): {reasons}"),
        })
        .collect();
    messages.sort();
    let head = format!(
        "existing pods in namespace \"{name}\" violate the new PodSecurity enforce level \"{after}\""
    );
    messages.insert(0, head);
    messages
}

/// Warning that the level of an exempt namespace has no effect.
fn exempt_namespace(security: &PodSecurity, old: Option<&Value>, new: &Value) -> Option<String> {
    let asked = |object: &Value| -> Vec<String> {
        let modes = ["enforce", "warn"].into_iter();
        let given = modes.filter(|mode| object::label(object, &format!("{LABEL}{mode}")).is_some());
        given.map(|mode| format!("{mode}={}", security.standard(object, mode))).collect()
    };
    let wanted = asked(new);
    let is_news = !wanted.is_empty() && old.is_none_or(|old| asked(old) != wanted);
    is_news.then(|| {
        format!(
            "namespace \"{}\" is exempt from Pod Security, and the policy ({}) will be ignored",
            object::name(new),
            wanted.join(", ")
        )
    })
}
