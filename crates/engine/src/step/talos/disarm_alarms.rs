//! Clears the alarms of etcd.

use talmox_plan::plan::DisarmAlarms;
use talmox_talos_api::Look;

use super::etcd_member::etcd_member;
use super::{Awaited, ExplainedWait};
use crate::step::{Done, RunStep, StepCode, StepContext, StepError};

impl RunStep for DisarmAlarms {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        disarm_alarms(self, context).await
    }
}

async fn disarm_alarms(step: &DisarmAlarms, context: &StepContext) -> Result<Done, StepError> {
    let own = step.nodes.iter().map(|node| &node.own);
    let awaited = Awaited {
        failure: "the alarms of etcd are not cleared".to_owned(),
        what: "etcd to report no alarms".to_owned(),
    };
    let mut wait = ExplainedWait::new(context, awaited).about(own);
    let mut done = Done::Already;
    loop {
        let mut reason = "no control plane answers".to_owned();
        for node in &step.nodes {
            let client = match etcd_member(node, context).await? {
                Look::Done(client) => client,
                Look::NotYet(why) => {
                    reason = format!("{}: {why}", node.name);
                    continue;
                }
            };
            match context.wait(client.etcd_alarms()).await? {
                Ok(alarms) if alarms.is_empty() => return Ok(done),
                Ok(_) => {}
                Err(error) => {
                    reason = format!("{}: {}", node.name, error.reason());
                    continue;
                }
            }
            match context.act(async { Ok(client.etcd_disarm().await) }).await? {
                Ok(_) => done = Done::Acted,
                Err(error) if error.may_pass() => {}
                Err(error) => {
                    let doing = format!("clear the alarms of etcd through {}", node.name);
                    return Err(StepError::failed(StepCode::TalosRejected, doing).caused_by(error));
                }
            }
            // The next round reads whether alarms remain, because etcd raises an alarm again if its cause remains.
            "waiting for etcd to report no alarms".clone_into(&mut reason);
            break;
        }
        wait.not_yet(reason).await?;
    }
}
