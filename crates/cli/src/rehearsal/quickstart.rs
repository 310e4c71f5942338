//! Built-in inventory for `talmox up --lab` without an inventory.

use std::path::{Path, PathBuf};

use talmox_lab::{Folder, private_folder};

use crate::command_code::CommandCode;
use crate::error::CommandError;

const INVENTORY: &str = include_str!("quickstart.yaml");

/// Temporary folder with the built-in inventory. The folder is removed on drop.
///
/// The folder is inside a private folder, so that no other user can create a `defaults.yaml` beside it. If this process is
/// killed, the next lab removes it.
#[derive(Debug)]
pub(crate) struct Quickstart {
    /// Private folder, removed on drop.
    _around: Folder,
    folder: PathBuf,
}

impl Quickstart {
    pub(crate) fn new() -> Result<Self, CommandError> {
        let failed = |error: std::io::Error| {
            let message = format!("cannot create a folder in {}", std::env::temp_dir().display());
            CommandError::failed(CommandCode::FileUnwritable, message).because(error)
        };
        let around = Folder::temporary().map_err(failed)?;
        let folder = around.join("quickstart");
        private_folder(&folder).map_err(failed)?;
        around.write("quickstart/cluster.yaml", INVENTORY.as_bytes()).map_err(failed)?;
        Ok(Self { _around: around, folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

#[cfg(test)]
mod tests {
    use talmox_model::release;

    use super::*;

    /// `up --lab` and a later `init` must use the same Talos version.
    #[test]
    fn the_talos_version_is_that_of_init() {
        let line = format!("\ntalos_version: {}\n", release::default_talos());
        assert!(INVENTORY.contains(&line), "{line}");
        assert!(
            !INVENTORY.contains("kubernetes_version"),
            "the default of the Talos version is used"
        );
    }
}
