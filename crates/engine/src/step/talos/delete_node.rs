//! Deletes the Node object of a node whose machine is gone.

use talmox_plan::plan::DeleteNode;

use super::{Awaited, ExplainedWait};
use crate::step::{Done, RunStep, StepCode, StepContext, StepError};

impl RunStep for DeleteNode {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let name = &self.node;
        let kube = context.cluster()?.kube()?;
        let awaited = Awaited {
            failure: format!("{name} is not deleted"),
            what: format!("Kubernetes to delete the node {name}"),
        };
        let mut wait = ExplainedWait::new(context, awaited);
        let mut done = Done::Already;
        loop {
            match context.wait(kube.nodes()).await? {
                Ok(nodes) if !nodes.iter().any(|node| node.name == *name) => return Ok(done),
                Ok(nodes)
                    if self.only_unready
                        && nodes.iter().any(|node| node.name == *name && node.is_ready) =>
                {
                    let text = format!("{name} is not deleted: Kubernetes lists it as ready again");
                    return Err(StepError::failed(StepCode::KubernetesFailed, text)
                        .hint("run the same command to make a new plan"));
                }
                // A finalizer may delay the deletion.
                Ok(_) if done == Done::Acted => {
                    wait.not_yet("waiting for Kubernetes to delete the node").await?;
                }
                Ok(_) => {}
                Err(error) => {
                    wait.not_yet(error.progress()).await?;
                    continue;
                }
            }
            match context.act(async { Ok(kube.delete_node(name).await) }).await? {
                Ok(()) => done = Done::Acted,
                Err(error) if error.may_pass() => wait.not_yet(error.reason()).await?,
                Err(error) => {
                    let text = format!("delete the node {name} from Kubernetes");
                    return Err(
                        StepError::failed(StepCode::KubernetesFailed, text).caused_by(error)
                    );
                }
            }
        }
    }
}
