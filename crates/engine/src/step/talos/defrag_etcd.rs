//! Defragments the database of an etcd member.

use talmox_plan::plan::DefragEtcd;

use super::etcd_member::etcd_member;
use super::{ExplainedWait, answer_of, or_wait};
use crate::step::{Done, RunStep, StepCode, StepContext, StepError};

impl RunStep for DefragEtcd {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        defrag_etcd(self, context).await
    }
}

async fn defrag_etcd(step: &DefragEtcd, context: &StepContext) -> Result<Done, StepError> {
    let node = &step.node;
    let mut wait =
        ExplainedWait::new(context, answer_of(&format!("the etcd member of {}", node.name)))
            .about([&node.own]);
    let client = loop {
        break or_wait!(wait, etcd_member(node, context).await?);
    };
    if let Err(error) = context.act(async { Ok(client.etcd_defragment().await) }).await? {
        let doing = format!("defragment the etcd database of {}", node.name);
        // The step is retried after a lost answer, because a second defragmentation does no harm.
        let kind = if error.may_pass() { StepError::retry } else { StepError::failed };
        return Err(kind(StepCode::TalosRejected, doing).caused_by(error));
    }
    // The step waits until the member has a leader again, because the next member must not be defragmented before.
    loop {
        match context.wait(client.etcd_status()).await? {
            Ok(status) if status.leader != 0 => return Ok(Done::Acted),
            Ok(_) => wait.not_yet("it has no leader").await?,
            Err(error) => wait.not_yet(error.reason()).await?,
        }
    }
}
