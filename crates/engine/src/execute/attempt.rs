//! One step, tried as often as that is safe and there is time.

use std::time::Duration;

use talmox_clock::Chance;

use crate::event::Event;
use crate::plan::Action;
use crate::step::{self, Done, ErrorKind, StepContext, StepError};

/// The first pause between two attempts; each further one is twice as long, up to the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(20);
/// More attempts than this are none the wiser, however much time is left.
const MOST: u32 = 12;

pub(super) async fn attempt(action: &Action, mut context: StepContext) -> Result<Done, StepError> {
    let mut pause = FIRST;
    loop {
        let error = match Box::pin(step::run(action, &context)).await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let ErrorKind::Retry { after } = error.kind else { return Err(error) };
        if context.attempt >= MOST || context.deadline.has_passed() {
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
        context.pause(jittered).await?;
        pause = (pause * 2).min(LONGEST);
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
