//! The steps of a plan, one file for each kind of step. A step observes, returns if there is nothing to do, makes its change,
//! and observes again.
//!
//! Every step can run twice, and can be killed at any point. A step makes no choices, because its action contains everything
//! that it needs. An error shows whether a retry can succeed. A retry starts again with the first observation.

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

/// Execution of the steps of one kind. [`StepKind`](talmox_plan::plan::StepKind) defines the data of the kind.
trait RunStep {
    /// Runs the step once.
    async fn run(&self, context: &StepContext) -> Result<Done, StepError>;
}

/// Generates the function `run`, which calls [`RunStep::run`] of the kind of the step.
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
