//! The steps of a plan, one file for each kind: observe, return if there is nothing to do, act, observe again.
//!
//! Every step can run twice, and can be killed at any point. It makes no choices: everything that it needs is in its action. An
//! error says whether another attempt, from the first observation on, can succeed.

mod code;
mod context;
mod done;
mod error;
mod post_schematic;
mod pve;
mod tag_policy;
mod talos;
mod unfinished;
mod vm_cache;

use talmox_plan::plan::{Action, PlannedSecret};
use talmox_talos_config::secret::SecretText;

pub use code::StepCode;
pub use context::{Context, Cut, CutHook, Moment, StepContext};
pub use done::Done;
pub use error::{ErrorKind, StepError};
pub(crate) use unfinished::UnfinishedSteps;
pub(crate) use vm_cache::VmCache;

/// The text of a secret of the plan.
fn secret_text(secret: &PlannedSecret) -> Result<&SecretText, StepError> {
    let missing = || {
        let text = "the plan was read from a file, which holds no secrets";
        StepError::failed(StepCode::PlanIncomplete, text)
    };
    secret.text().ok_or_else(missing)
}

/// Execution of the steps of a kind. [`StepKind`](talmox_plan::plan::StepKind) defines the data of the kind.
trait RunStep {
    /// Runs the step once.
    async fn run(&self, context: &StepContext) -> Result<Done, StepError>;
}

/// Generates `run`, which calls the [`RunStep`] of the kind.
macro_rules! define_run {
    ($($Kind:ident in $module:ident,)*) => {
        /// Runs a step once.
        pub async fn run(action: &Action, context: &StepContext) -> Result<Done, StepError> {
            match action {
                $(Action::$Kind(step) => RunStep::run(step, context).await,)*
            }
        }
    };
}
talmox_plan::for_each_step_kind!(define_run);
