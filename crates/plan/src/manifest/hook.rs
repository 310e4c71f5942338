//! Hooks of Helm charts as objects with an order.
//!
//! talmox keeps no release in the cluster, so it cannot know whether a chart is installed or upgraded. Hooks of the installation
//! become objects that are applied before or after the others; all other hooks are dropped.

use serde_json::{Map, Value};

use super::read::Manifest;
use crate::sha256::sha256_hex;

const HELM_HOOK: &str = "helm.sh/hook";
const HELM_WEIGHT: &str = "helm.sh/hook-weight";
const HELM_POLICY: &str = "helm.sh/hook-delete-policy";

/// Annotations by which talmox orders the former hooks of a chart.
const PHASE: &str = "talmox.dev/phase";
const WEIGHT: &str = "talmox.dev/weight";

/// Maximum length of the name of a Job before its hash. Pods have the name of their Job in a label of 63 characters.
const LONGEST_NAME: usize = 54;

/// When a former hook of a chart is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPhase {
    /// Before the other objects of the add-on, except for namespaces and definitions.
    Before,
    /// After the workloads of the add-on run.
    After,
}

/// The objects of a rendered chart, with the hooks of its installation as ordered objects and without its other hooks.
#[must_use]
pub fn without_helm_hooks(manifests: Vec<Manifest>) -> Vec<Manifest> {
    manifests.into_iter().filter_map(ordered).collect()
}

fn ordered(mut manifest: Manifest) -> Option<Manifest> {
    let Some(hook) = manifest.annotation(HELM_HOOK).map(str::to_owned) else {
        return Some(manifest);
    };
    let weight = manifest.annotation(HELM_WEIGHT).unwrap_or("0").to_owned();
    let has = |event: &str| hook.split(',').any(|one| one.trim() == event);
    let phase = if has("pre-install") {
        Some("before")
    } else if has("post-install") {
        Some("after")
    } else if has("crd-install") {
        None
    } else {
        return None;
    };
    let annotations = manifest.object.pointer_mut("/metadata/annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.retain(|key, _| ![HELM_HOOK, HELM_WEIGHT, HELM_POLICY].contains(&key.as_str()));
        mark(annotations, phase, weight);
    }
    if phase.is_some() && (manifest.group(), manifest.kind.as_str()) == ("batch", "Job") {
        manifest = one_time_job(manifest);
    }
    Some(manifest)
}

fn mark(annotations: &mut Map<String, Value>, phase: Option<&str>, weight: String) {
    if let Some(phase) = phase {
        annotations.insert(PHASE.to_owned(), phase.into());
        annotations.insert(WEIGHT.to_owned(), weight.into());
    }
}

/// The Job with a hash of its content in its name. A Job cannot change, so a changed hook must be a new Job. A Job that
/// Kubernetes deletes after its end would run again with every `up`.
fn one_time_job(mut job: Manifest) -> Manifest {
    if let Some(spec) = job.object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("ttlSecondsAfterFinished");
    }
    let hash = sha256_hex(job.object.to_string().as_bytes());
    let start: String = job.name.chars().take(LONGEST_NAME).collect();
    job.name = format!("{start}-{}", &hash[..8]);
    job.object["metadata"]["name"] = job.name.as_str().into();
    job
}

impl Manifest {
    /// When the object is applied, if it was a hook of a chart.
    pub fn hook_phase(&self) -> Option<HookPhase> {
        match self.annotation(PHASE)? {
            "before" => Some(HookPhase::Before),
            "after" => Some(HookPhase::After),
            _ => None,
        }
    }

    /// Order among the former hooks of a chart. Lower weights are applied first.
    pub fn hook_weight(&self) -> i64 {
        self.annotation(WEIGHT).and_then(|weight| weight.parse().ok()).unwrap_or_default()
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.object.pointer("/metadata/annotations")?.get(key)?.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::read_manifests;
    use super::*;

    fn hook(kind: &str, name: &str, events: &str, weight: &str) -> String {
        let api_version = if kind == "Job" { "batch/v1" } else { "v1" };
        format!(
            "---\napiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: {name}\n  annotations:\n    \
             helm.sh/hook: {events}\n    helm.sh/hook-weight: \"{weight}\"\n    own: kept\n"
        )
    }

    #[test]
    fn hooks_of_the_installation_get_an_order_and_others_are_dropped() {
        let text = [
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\n".to_owned(),
            hook("ServiceAccount", "before", "pre-install, pre-upgrade", "-5"),
            hook("ConfigMap", "after", "post-install", "3"),
            hook("ConfigMap", "definition", "crd-install", "0"),
            hook("Pod", "tested", "test", "0"),
            hook("Job", "upgrade", "pre-upgrade", "0"),
            hook("Job", "gone", "post-delete", "0"),
        ];
        let found = without_helm_hooks(read_manifests("x.yaml", &text.concat()).unwrap());
        let seen: Vec<_> =
            found.iter().map(|one| (&*one.name, one.hook_phase(), one.hook_weight())).collect();
        assert_eq!(
            seen,
            [
                ("plain", None, 0),
                ("before", Some(HookPhase::Before), -5),
                ("after", Some(HookPhase::After), 3),
                ("definition", None, 0),
            ]
        );
        let kept = &found[1].object["metadata"]["annotations"];
        assert!(kept["own"] == "kept" && kept.get("helm.sh/hook").is_none(), "{kept}");
    }

    #[test]
    fn a_changed_job_is_a_new_job() {
        let job = |image: &str| {
            let spec = format!("spec: {{ttlSecondsAfterFinished: 5, image: {image}}}\n");
            let text = format!("{}{spec}", hook("Job", "migrate", "pre-install", "0"));
            without_helm_hooks(read_manifests("x.yaml", &text).unwrap()).remove(0)
        };
        let (one, two) = (job("a"), job("b"));
        assert!(one.name.starts_with("migrate-") && one.name.len() == "migrate-".len() + 8);
        assert_eq!(one.object["metadata"]["name"], one.name.as_str());
        assert_eq!(one.object["spec"].get("ttlSecondsAfterFinished"), None);
        assert_eq!(one, job("a"));
        assert_ne!(one.name, two.name);
    }
}
