//! Built-in inventory for `talmox up --lab` without an inventory.

use std::path::{Path, PathBuf};

use crate::command_code::CommandCode;
use crate::disk::PrivateFolder;
use crate::error::CommandError;

const INVENTORY: &str = include_str!("quickstart.yaml");

/// Temporary folder with the built-in inventory. The folder is removed on drop.
///
/// The folder is inside a private folder, so that no other user can create a `defaults.yaml` beside it.
#[derive(Debug)]
pub(crate) struct Quickstart {
    /// Private folder, removed on drop.
    _around: PrivateFolder,
    folder: PathBuf,
}

impl Quickstart {
    pub(crate) fn new() -> Result<Self, CommandError> {
        let parent = std::env::temp_dir();
        let failed = |error: std::io::Error| {
            CommandError::failed(
                CommandCode::FileUnwritable,
                format!("cannot create a folder in {}", parent.display()),
            )
            .because(error)
        };
        let around = PrivateFolder::new(&parent).map_err(failed)?;
        let folder = around.make_folder("quickstart").map_err(failed)?;
        around.write("quickstart/cluster.yaml", INVENTORY).map_err(failed)?;
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
