//! Saved plans: `up --plan FILE`.

use std::path::Path;

use talmox_plan::observed::Observed;
use talmox_plan::plan::{Plan, SavedPlan, SavedPlanError};

use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::secrets::read_input;

pub(super) fn read(path: &Path) -> Result<SavedPlan, CommandError> {
    let text = read_input(path)?;
    SavedPlan::parse(text.expose()).map_err(|error| unusable(path, error))
}

/// Returns an error if the plan or the observed state differs from the saved one.
pub(super) fn check(
    path: &Path,
    saved: &SavedPlan,
    plan: &Plan,
    observed: &Observed,
) -> Result<(), CommandError> {
    saved.check(plan, observed).map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, error: SavedPlanError) -> CommandError {
    let code = match error {
        SavedPlanError::Unreadable | SavedPlanError::Edited => CommandCode::SavedPlanInvalid,
        SavedPlanError::OtherCluster(_)
        | SavedPlanError::ObservedChanged
        | SavedPlanError::InventoryChanged => CommandCode::SavedPlanChanged,
    };
    let message = format!("nothing was changed: {} cannot be used", path.display());
    CommandError::failed(code, message)
        .because(error)
        .hint("save a new plan with `talmox plan --out FILE`")
}
