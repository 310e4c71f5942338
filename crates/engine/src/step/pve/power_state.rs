//! Whether the VM of a node is off.

use talmox_plan::plan::OwnVm;

use super::super::{StepContext, StepError};
use super::destroy_vm::still_there;
use super::power::is_running;

/// Whether the VM of a node is stopped, or no longer exists.
pub(in crate::step) async fn is_off(own: &OwnVm, context: &StepContext) -> Result<bool, StepError> {
    match still_there(own, context).await? {
        Some(found) => Ok(!is_running(&found.vm, context).await?),
        None => Ok(true),
    }
}
