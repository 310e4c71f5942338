//! Attempts of one step, until the step succeeds, fails with an error that is not retried, or reaches its deadline.

use talmox_clock::Chance;
use talmox_plan::plan::Action;

use crate::event::Event;
use crate::step::{self, Done, ErrorKind, Moment, StepCode, StepContext, StepError};
use crate::timeouts::{FIRST_RETRY_PAUSE, LONGEST_RETRY_PAUSE, MAX_ATTEMPTS, STEP_OVERTIME};

/// Runs a step. A step ends at its deadline by itself. A step that does not is aborted some minutes later, so that a run
/// cannot hang.
pub(super) async fn attempt(action: &Action, context: StepContext) -> Result<Done, StepError> {
    let last = context.clone();
    let latest = async {
        last.deadline.passed().await;
        last.run.clock.sleep(STEP_OVERTIME).await;
    };
    tokio::select! {
        biased;
        done = attempts(action, context) => done,
        () = latest => Err(overdue(action, &last.unanswered_or_last_reason())),
    }
}

fn overdue(action: &Action, reason: &str) -> StepError {
    let minutes = action.deadline().as_secs().div_ceil(60);
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    StepError::failed(StepCode::Timeout, format!("it has not ended after {minutes} min{reason}"))
        .hint("run the same command to resume")
}

async fn attempts(action: &Action, mut context: StepContext) -> Result<Done, StepError> {
    context.cut(Moment::Begin)?;
    let (mut pause, mut tried) = (FIRST_RETRY_PAUSE, 0);
    loop {
        let error = match Box::pin(step::run(action, &context)).await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let after = match error.kind {
            ErrorKind::Retry { after } => {
                tried += 1;
                after
            }
            ErrorKind::Locked => None,
            _ => return Err(error),
        };
        if tried >= MAX_ATTEMPTS || context.deadline.has_passed() {
            return Err(given_up(error, context.attempt));
        }
        let chance = Chance::new(context.run.seed);
        let jittered = chance
            .of(context.step.as_str(), u64::from(context.attempt))
            .jitter(after.unwrap_or(pause));
        context.attempt += 1;
        context.events.send(Event::StepRetries {
            step: context.step.to_string(),
            attempt: context.attempt,
            seconds: jittered.as_secs_f64(),
            reason: reason(&error),
        });
        // The next attempt first reads whether this attempt made its change after all. It starts no further change if the run
        // was cancelled.
        context.pause_to_see(jittered).await?;
        pause = (pause * 2).min(LONGEST_RETRY_PAUSE);
    }
}

/// The error in one line.
fn reason(error: &StepError) -> String {
    let mut texts = vec![error.message.clone()];
    texts.extend(error.causes());
    texts.join(": ")
}

fn given_up(error: StepError, attempts: u32) -> StepError {
    let times = if attempts == 1 { "once".to_owned() } else { format!("{attempts} times") };
    StepError {
        kind: ErrorKind::Failed,
        message: format!("{} (tried {times})", error.message),
        ..error
    }
}
