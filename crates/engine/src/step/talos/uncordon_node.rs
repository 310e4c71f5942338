//! Lets Kubernetes schedule pods on a node again.

use talmox_plan::plan::UncordonNode;

use super::drain_node::passing_reason;
use super::{Awaited, ExplainedWait};
use crate::step::{Done, RunStep, StepContext, StepError};

impl RunStep for UncordonNode {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let node = &self.node;
        let doing = format!("uncordon {node}");
        let kube = context.cluster()?.kube()?;
        let awaited = Awaited {
            failure: format!("{node} is not ready"),
            what: format!("{node} to be ready"),
        };
        let mut wait = ExplainedWait::new(context, awaited);
        loop {
            let reason = match context.wait(kube.node_cordon(node)).await? {
                Ok(None) => "waiting for the kubelet to register the node".to_owned(),
                Ok(Some(found)) if self.awaits_ready && !found.is_ready => found.reason,
                Ok(Some(found)) => {
                    let is_cordoned = found.by.is_some();
                    // The annotation of talmox is removed even if another client uncordoned the node.
                    let is_uncordoned = found.is_marked || (self.is_asked && is_cordoned);
                    if !is_uncordoned {
                        if is_cordoned {
                            context
                                .note(format!("{node} stays cordoned: talmox did not cordon it"));
                        }
                        return Ok(Done::Already);
                    }
                    match context.act(async { Ok(kube.uncordon(node, &found).await) }).await? {
                        Ok(()) => return Ok(Done::Acted),
                        Err(error) => passing_reason(&doing, error)?,
                    }
                }
                Err(error) => passing_reason(&doing, error)?,
            };
            wait.not_yet(reason).await?;
        }
    }
}
