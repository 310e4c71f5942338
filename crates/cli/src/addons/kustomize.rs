//! Rendering of kustomize folders.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::program::{self, NetworkUse};
use crate::command_code::CommandCode;
use crate::error::CommandError;

const TIMEOUT: Duration = Duration::from_mins(3);

/// Builds a folder with `kustomize`, or else with `kubectl`. Bases on the network are not loaded.
pub(super) fn build(folder: &Path, doing: &str) -> Result<String, CommandError> {
    let found = program::find("kustomize", None).map(|program| (program, "build"));
    let found =
        found.or_else(|| program::find("kubectl", None).map(|program| (program, "kustomize")));
    let Some((program, command)) = found else {
        let message = format!("{doing}: neither kustomize nor kubectl is on PATH");
        return Err(CommandError::failed(CommandCode::AddonProgramMissing, message)
            .hint("install kustomize or kubectl"));
    };
    let workplace = program::workplace()?;
    let arguments: [OsString; 2] = [command.into(), folder.into()];
    program::run(&program, &arguments, &workplace, NetworkUse::Blocked, TIMEOUT, doing)
}
