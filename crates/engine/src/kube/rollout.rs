//! Waiting until applied workloads run.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;
use talmox_clock::Wait;
use talmox_plan::manifest::Manifest;

use super::apply::{ApplyError, is_true, rejected};
use super::{KubeClient, KubeError};

/// Maximum number of objects that are listed in a reason.
const SHOWN: usize = 3;

/// State of a workload.
#[derive(Debug, PartialEq, Eq)]
enum WorkloadState {
    Up,
    NotYet(String),
    Failed(String),
}

/// Reason why a pod does not run.
struct PodProblem {
    text: String,
    /// Whether Kubernetes found no node for the pod.
    is_unscheduled: bool,
}

impl KubeClient {
    /// Waits until all workloads among `manifests` run: Deployments, DaemonSets, StatefulSets and Jobs. Other objects are ready once
    /// they exist.
    pub async fn await_rollout(
        &self,
        manifests: &[Manifest],
        wait: &mut Wait<'_>,
    ) -> Result<(), ApplyError> {
        let mut left: Vec<&Manifest> = manifests.iter().filter(|one| is_workload(one)).collect();
        loop {
            let mut reasons = vec![];
            let mut still = vec![];
            for workload in left {
                match self.state(workload).await {
                    Ok(WorkloadState::Up) => continue,
                    Ok(WorkloadState::NotYet(reason)) => {
                        reasons.push(format!("{workload}: {reason}"));
                    }
                    Ok(WorkloadState::Failed(reason)) => {
                        return Err(ApplyError::Failed { object: workload.to_string(), reason });
                    }
                    Err(error) if error.may_pass() => reasons.push(error.reason()),
                    Err(error) => return Err(rejected(workload, error)),
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

    async fn state(&self, workload: &Manifest) -> Result<WorkloadState, KubeError> {
        let Some(object) = self.read(workload).await? else {
            return Ok(WorkloadState::NotYet("it does not exist".to_owned()));
        };
        let state = judge(&workload.kind, &object);
        let WorkloadState::NotYet(reason) = state else { return Ok(state) };
        let Some(PodProblem { text, is_unscheduled }) = self.problem(workload, &object).await?
        else {
            return Ok(WorkloadState::NotYet(reason));
        };
        let unready = if is_unscheduled { self.unready_node().await? } else { None };
        let because = unready.map_or_else(String::new, |why| format!(" ({why})"));
        Ok(WorkloadState::NotYet(format!("{reason}; {text}{because}")))
    }

    /// Name of the first node that is not ready, with the reason. None if all nodes are ready.
    async fn unready_node(&self) -> Result<Option<String>, KubeError> {
        let nodes = self.nodes().await?;
        let unready = nodes.into_iter().find(|node| !node.is_ready);
        Ok(unready.map(|node| format!("{} is not ready: {}", node.name, node.reason)))
    }

    /// Problem of the first pod of a workload that has one. None if no pod has a known problem.
    async fn problem(
        &self,
        workload: &Manifest,
        object: &Value,
    ) -> Result<Option<PodProblem>, KubeError> {
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
        Ok(pods.items.iter().find_map(pod_problem))
    }
}

fn shortened(reasons: &[String]) -> String {
    let shown = reasons[..reasons.len().min(SHOWN)].join("; ");
    match reasons.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// Reason why a workload does not run. None if it runs, or if the object is not a workload.
pub(super) fn problem_of(manifest: &Manifest, found: &Value) -> Option<String> {
    if !is_workload(manifest) {
        return None;
    }
    match judge(&manifest.kind, found) {
        WorkloadState::Up => None,
        WorkloadState::NotYet(why) | WorkloadState::Failed(why) => Some(why),
    }
}

fn is_workload(manifest: &Manifest) -> bool {
    matches!(
        (manifest.group(), manifest.kind.as_str()),
        ("apps", "Deployment" | "DaemonSet" | "StatefulSet") | ("batch", "Job")
    )
}

fn judge(kind: &str, object: &Value) -> WorkloadState {
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or_default();
    if kind == "Job" {
        return job(object);
    }
    if number("/status/observedGeneration") < number("/metadata/generation") {
        return WorkloadState::NotYet("its controller has not observed it yet".to_owned());
    }
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let (desired, updated, ready) = match kind {
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
    // A StatefulSet with the strategy OnDelete does not report updated pods.
    let by_hand = object.pointer("/spec/updateStrategy/type").is_some_and(|one| one == "OnDelete");
    if updated < desired && !by_hand {
        return WorkloadState::NotYet(format!("{updated} of {desired} pods are updated"));
    }
    if ready < desired {
        return WorkloadState::NotYet(format!("{ready} of {desired} pods are ready"));
    }
    WorkloadState::Up
}

fn job(object: &Value) -> WorkloadState {
    if is_true(object, "Complete") {
        return WorkloadState::Up;
    }
    if is_true(object, "Failed") {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let mut failed = conditions.into_iter().flatten().filter(|one| one["type"] == "Failed");
        let message = failed.next().and_then(|one| one["message"].as_str());
        return WorkloadState::Failed(message.unwrap_or("the job gives no reason").to_owned());
    }
    WorkloadState::NotYet("the job is not done".to_owned())
}

fn pod_problem(pod: &Pod) -> Option<PodProblem> {
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
    let is_unscheduled = unscheduled.is_some();
    let why = unscheduled.or_else(|| containers.find_map(waiting))?;
    Some(PodProblem { text: format!("pod {name}: {why}"), is_unscheduled })
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
        let not_yet = |text: &str| WorkloadState::NotYet(text.to_owned());
        let judged = |object: &Value| judge("Deployment", object);
        assert_eq!(judged(&deployment(1, 3, 3)), not_yet("its controller has not observed it yet"));
        assert_eq!(judged(&deployment(2, 1, 3)), not_yet("1 of 3 pods are updated"));
        assert_eq!(judged(&deployment(2, 3, 2)), not_yet("2 of 3 pods are ready"));
        assert_eq!(judged(&deployment(2, 3, 3)), WorkloadState::Up);
        let set = json!({"spec": {"updateStrategy": {"type": "OnDelete"}, "replicas": 1},
            "status": {"readyReplicas": 1}});
        assert_eq!(judge("StatefulSet", &set), WorkloadState::Up);
    }

    #[test]
    fn a_job_may_fail_for_good() {
        let job = json!({"status": {"conditions": [
            {"type": "Failed", "status": "True", "message": "it was tried six times"}]}});
        assert_eq!(judge("Job", &job), WorkloadState::Failed("it was tried six times".to_owned()));
    }
}
