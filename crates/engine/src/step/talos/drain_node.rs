//! Cordons a node and evicts its pods.

use talmox_clock::{Wait, WaitError};
use talmox_plan::plan::DrainNode;

use crate::kube::{KubeClient, KubeError, LeavingPod};
use crate::step::{Done, RunStep, StepCode, StepContext, StepError};

/// Maximum number of pods that a reason names.
const NAMED: usize = 5;

impl RunStep for DrainNode {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let kube = context.cluster()?.kube()?;
        let what = format!("{} to be drained", self.node);
        let mut wait = context.cancellable_wait(context.deadline.clone(), what);
        let Some(cordoned) = cordon(self, &kube, &mut wait, context).await? else {
            return Ok(Done::Already);
        };
        let is_evicted =
            self.evicts && evict(self, &kube, cordoned.is_lost, &mut wait, context).await?;
        Ok(if is_evicted { Done::Acted } else { cordoned.done })
    }
}

/// A node that is cordoned.
struct Cordoned {
    done: Done,
    /// Whether the kubelet of the node has stopped reporting.
    is_lost: bool,
}

/// Cordons the node. A node that another client cordoned does not get the annotation of talmox, and stays cordoned after the
/// change. None if Kubernetes has no such node.
async fn cordon(
    step: &DrainNode,
    kube: &KubeClient,
    wait: &mut Wait<'_>,
    context: &StepContext,
) -> Result<Option<Cordoned>, StepError> {
    let node = &step.node;
    loop {
        let reason = match context.wait(kube.node_cordon(node)).await? {
            Ok(None) => return Ok(None),
            Ok(Some(found)) => {
                let is_lost = found.is_lost;
                if found.by.is_some() {
                    return Ok(Some(Cordoned { done: Done::Already, is_lost }));
                }
                match context.act(async { Ok(kube.cordon(node, &found).await) }).await? {
                    Ok(()) => return Ok(Some(Cordoned { done: Done::Acted, is_lost })),
                    Err(error) => passing_reason(&format!("cordon {node}"), error)?,
                }
            }
            Err(error) => passing_reason(&format!("cordon {node}"), error)?,
        };
        wait.not_yet(reason).await.map_err(|error| not_drained(node, error))?;
    }
}

/// Evicts the pods of the node, and waits until they have ended. Returns false if there were no pods to evict.
async fn evict(
    step: &DrainNode,
    kube: &KubeClient,
    is_lost: bool,
    wait: &mut Wait<'_>,
    context: &StepContext,
) -> Result<bool, StepError> {
    let node = &step.node;
    let doing = format!("drain {node}");
    let mut has_evicted = false;
    loop {
        let reason = match context.wait(kube.pods_to_evict(node)).await? {
            Ok(pods) if pods.is_empty() => return Ok(has_evicted),
            Ok(pods) => {
                has_evicted = true;
                let blocked = evict_round(kube, &pods, &doing, context).await?;
                if is_lost && blocked.is_empty() {
                    context.note(format!(
                        "the kubelet of {node} does not report that its {} ended",
                        counted(pods.len())
                    ));
                    return Ok(true);
                }
                remaining(node, &pods, &blocked)
            }
            Err(error) => passing_reason(&doing, error)?,
        };
        wait.not_yet(reason).await.map_err(|error| not_drained(node, error))?;
    }
}

/// Evicts the pods that are not ending yet. Returns the pods that Kubernetes does not evict now, with the reasons.
async fn evict_round(
    kube: &KubeClient,
    pods: &[LeavingPod],
    doing: &str,
    context: &StepContext,
) -> Result<Vec<String>, StepError> {
    let due: Vec<&LeavingPod> = pods.iter().filter(|pod| !pod.is_ending).collect();
    if due.is_empty() {
        return Ok(vec![]);
    }
    let round = async {
        let mut blocked = vec![];
        for pod in due {
            match kube.evict(pod).await {
                Ok(None) => {}
                Ok(Some(reason)) => blocked.push(format!("{pod}: {reason}")),
                Err(error) => return Err(failed(doing, error)),
            }
        }
        Ok(blocked)
    };
    context.act(round).await
}

/// The reason of the wait: the pods that are still on the node. Pods that cannot be evicted now come first.
fn remaining(node: &str, pods: &[LeavingPod], blocked: &[String]) -> String {
    let is_blocked = |pod: &LeavingPod| {
        let start = format!("{pod}: ");
        blocked.iter().any(|text| text.starts_with(&start))
    };
    let ending = pods.iter().filter(|pod| !is_blocked(pod)).map(|pod| format!("{pod} is ending"));
    let all: Vec<String> = blocked.iter().cloned().chain(ending).collect();
    let named = all.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let verb = if pods.len() == 1 { "is" } else { "are" };
    format!("{} {verb} still on {node}; {named}{more}", counted(pods.len()))
}

fn counted(pods: usize) -> String {
    if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") }
}

/// The reason of an error that may pass. This includes a node that was changed since it was read, because the caller reads it
/// again.
pub(super) fn passing_reason(doing: &str, error: KubeError) -> Result<String, StepError> {
    if error.may_pass() || matches!(error.code(), Some(404 | 409)) {
        return Ok(error.reason());
    }
    Err(failed(doing, error))
}

fn failed(doing: &str, error: KubeError) -> StepError {
    StepError::failed(StepCode::KubernetesFailed, doing)
        .caused_by(error)
        .hint("run the same command to resume")
}

fn not_drained(node: &str, error: WaitError) -> StepError {
    match error {
        WaitError::Cancelled => StepError::cancelled(),
        WaitError::TimedOut { reason, .. } => {
            let text = format!("{node} is not drained in time: {reason}");
            StepError::failed(StepCode::DrainBlocked, text).hint(
                "make room for the pods on other nodes, or change their disruption budget; then run the same command to \
                 resume",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_pods_are_named_first() {
        let pod = |number: u32| LeavingPod {
            namespace: "shop".to_owned(),
            name: format!("app-{number}"),
            is_ending: false,
        };
        let pods: Vec<LeavingPod> = (1..=7).map(pod).collect();
        let blocked = ["shop/app-6: no room".to_owned()];
        assert_eq!(
            remaining("worker-1", &pods, &blocked),
            "7 pods are still on worker-1; shop/app-6: no room; shop/app-1 is ending; shop/app-2 is ending; \
             shop/app-3 is ending; shop/app-4 is ending; and 2 more"
        );
        assert_eq!(
            remaining("worker-1", &pods[..1], &[]),
            "1 pod is still on worker-1; shop/app-1 is ending"
        );
    }
}
