//! Waiting until what was applied runs.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;
use talmox_plan::manifest::Manifest;

use super::apply::{ApplyError, is_true, refusal};
use super::{KubeClient, KubeError};
use crate::patience::Patience;

/// Of how many objects a reason speaks.
const SHOWN: usize = 3;

/// How one object stands.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Up,
    NotYet(String),
    Failed(String),
}

/// What keeps a pod from running.
struct Trouble {
    text: String,
    /// No node takes it.
    is_homeless: bool,
}

impl KubeClient {
    /// Waits until all workloads among `manifests` run as they say: Deployments, DaemonSets,
    /// StatefulSets and Jobs. Other objects are what they are as soon as they are there.
    pub async fn await_rollout(
        &self,
        manifests: &[Manifest],
        patience: Patience<'_>,
    ) -> Result<(), ApplyError> {
        let mut left: Vec<&Manifest> = manifests.iter().filter(|one| is_workload(one)).collect();
        let mut wait = patience.begin();
        loop {
            let mut reasons = vec![];
            let mut still = vec![];
            for workload in left {
                match self.standing(workload).await {
                    Ok(Standing::Up) => continue,
                    Ok(Standing::NotYet(reason)) => reasons.push(format!("{workload}: {reason}")),
                    Ok(Standing::Failed(reason)) => {
                        return Err(ApplyError::Failed { object: workload.to_string(), reason });
                    }
                    Err(error) if error.may_pass() => reasons.push(error.reason()),
                    Err(error) => return Err(refusal(workload, error)),
                }
                still.push(workload);
            }
            if still.is_empty() {
                return Ok(());
            }
            left = still;
            wait.not_yet(shortened(&reasons)).await?;
        }
    }

    async fn standing(&self, workload: &Manifest) -> Result<Standing, KubeError> {
        let Some(object) = self.read(workload).await? else {
            return Ok(Standing::NotYet("it is not there".to_owned()));
        };
        let standing = judge(&workload.kind, &object);
        let Standing::NotYet(reason) = standing else { return Ok(standing) };
        let Some(Trouble { text, is_homeless }) = self.trouble(workload, &object).await? else {
            return Ok(Standing::NotYet(reason));
        };
        let unready = if is_homeless { self.unready_node().await? } else { None };
        let because = unready.map_or_else(String::new, |why| format!(" ({why})"));
        Ok(Standing::NotYet(format!("{reason}; {text}{because}")))
    }

    /// Why the first node that takes no pods is not ready.
    async fn unready_node(&self) -> Result<Option<String>, KubeError> {
        let nodes = self.nodes().await?;
        let unready = nodes.into_iter().find(|node| !node.is_ready);
        Ok(unready.map(|node| format!("{} is not ready: {}", node.name, node.reason)))
    }

    /// What the first pod says that does not come up.
    async fn trouble(
        &self,
        workload: &Manifest,
        object: &Value,
    ) -> Result<Option<Trouble>, KubeError> {
        let labels = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
        let Some(labels) = labels.filter(|labels| !labels.is_empty()) else { return Ok(None) };
        let pairs: Vec<String> = labels
            .iter()
            .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
            .collect();
        let namespace = workload.namespace.as_deref().unwrap_or("default");
        let pods: Api<Pod> = Api::namespaced(self.inner.clone(), namespace);
        let params = ListParams::default().labels(&pairs.join(","));
        let pods = self.ask(format!("list the pods of {workload}"), pods.list(&params)).await?;
        Ok(pods.items.iter().find_map(pod_trouble))
    }
}

fn shortened(reasons: &[String]) -> String {
    let shown = reasons[..reasons.len().min(SHOWN)].join("; ");
    match reasons.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// Why a workload, as it was found, does not run as it says; nothing for any other object.
pub(super) fn trouble_of(manifest: &Manifest, found: &Value) -> Option<String> {
    if !is_workload(manifest) {
        return None;
    }
    match judge(&manifest.kind, found) {
        Standing::Up => None,
        Standing::NotYet(why) | Standing::Failed(why) => Some(why),
    }
}

fn is_workload(manifest: &Manifest) -> bool {
    matches!(
        (manifest.group(), manifest.kind.as_str()),
        ("apps", "Deployment" | "DaemonSet" | "StatefulSet") | ("batch", "Job")
    )
}

fn judge(kind: &str, object: &Value) -> Standing {
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or_default();
    if kind == "Job" {
        return job(object);
    }
    if number("/status/observedGeneration") < number("/metadata/generation") {
        return Standing::NotYet("its controller has not looked yet".to_owned());
    }
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let (wanted, updated, ready) = match kind {
        "DaemonSet" => (
            number("/status/desiredNumberScheduled"),
            number("/status/updatedNumberScheduled"),
            number("/status/numberAvailable"),
        ),
        "StatefulSet" => {
            (replicas, number("/status/updatedReplicas"), number("/status/readyReplicas"))
        }
        _ => (replicas, number("/status/updatedReplicas"), number("/status/availableReplicas")),
    };
    // A StatefulSet that is updated by hand says nothing of updated pods.
    let by_hand = object.pointer("/spec/updateStrategy/type").is_some_and(|one| one == "OnDelete");
    if updated < wanted && !by_hand {
        return Standing::NotYet(format!("{updated} of {wanted} pods are of this version"));
    }
    if ready < wanted {
        return Standing::NotYet(format!("{ready} of {wanted} pods are ready"));
    }
    Standing::Up
}

fn job(object: &Value) -> Standing {
    if is_true(object, "Complete") {
        return Standing::Up;
    }
    if is_true(object, "Failed") {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let mut failed = conditions.into_iter().flatten().filter(|one| one["type"] == "Failed");
        let message = failed.next().and_then(|one| one["message"].as_str());
        return Standing::Failed(message.unwrap_or("the job says nothing more").to_owned());
    }
    Standing::NotYet("the job is not done".to_owned())
}

fn pod_trouble(pod: &Pod) -> Option<Trouble> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let status = pod.status.as_ref()?;
    let unscheduled = status.conditions.iter().flatten().find_map(|condition| {
        let is_left = condition.type_ == "PodScheduled" && condition.status == "False";
        is_left.then(|| condition.message.clone().unwrap_or_default())
    });
    let containers = status.init_container_statuses.iter().flatten();
    let mut containers = containers.chain(status.container_statuses.iter().flatten());
    let waiting = |container: &ContainerStatus| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        waiting.reason.clone()
    };
    let is_homeless = unscheduled.is_some();
    let why = unscheduled.or_else(|| containers.find_map(waiting))?;
    Some(Trouble { text: format!("pod {name}: {why}"), is_homeless })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_workload_is_up_when_all_its_pods_are_new_and_ready() {
        let deployment = |generation: i64, updated: i64, available: i64| {
            json!({
                "metadata": {"generation": 2},
                "spec": {"replicas": 3},
                "status": {
                    "observedGeneration": generation,
                    "updatedReplicas": updated,
                    "availableReplicas": available,
                },
            })
        };
        let not_yet = |text: &str| Standing::NotYet(text.to_owned());
        let judged = |object: &Value| judge("Deployment", object);
        assert_eq!(judged(&deployment(1, 3, 3)), not_yet("its controller has not looked yet"));
        assert_eq!(judged(&deployment(2, 1, 3)), not_yet("1 of 3 pods are of this version"));
        assert_eq!(judged(&deployment(2, 3, 2)), not_yet("2 of 3 pods are ready"));
        assert_eq!(judged(&deployment(2, 3, 3)), Standing::Up);
        let set = json!({"spec": {"updateStrategy": {"type": "OnDelete"}, "replicas": 1},
            "status": {"readyReplicas": 1}});
        assert_eq!(judge("StatefulSet", &set), Standing::Up);
    }

    #[test]
    fn a_job_may_fail_for_good() {
        let job = json!({"status": {"conditions": [
            {"type": "Failed", "status": "True", "message": "it was tried six times"}]}});
        assert_eq!(judge("Job", &job), Standing::Failed("it was tried six times".to_owned()));
    }
}
