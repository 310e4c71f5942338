//! The cluster of those who have no inventory yet.

use std::path::{Path, PathBuf};

use crate::command_code::CommandCode;
use crate::disk::PrivateFolder;
use crate::error::CommandError;

const INVENTORY: &str = include_str!("quickstart.yaml");

/// A folder with the built-in inventory. It goes when this does.
///
/// It has a private folder around it: what is beside an inventory belongs to it, such as a `defaults.yaml`, and must
/// not come from another user of the machine.
#[derive(Debug)]
pub(crate) struct Quickstart {
    /// Kept for its end: the folder is removed then.
    _around: PrivateFolder,
    folder: PathBuf,
}

impl Quickstart {
    pub(crate) fn new() -> Result<Self, CommandError> {
        let parent = std::env::temp_dir();
        let failed = |error: std::io::Error| {
            CommandError::failed(
                CommandCode::FileUnwritable,
                format!("cannot make a folder in {}", parent.display()),
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

    /// Who rehearses first and runs `init` then gets the same versions.
    #[test]
    fn the_version_is_the_one_that_init_writes() {
        let line = format!("\ntalos_version: {}\n", release::default_talos());
        assert!(INVENTORY.contains(&line), "{line}");
        assert!(!INVENTORY.contains("kubernetes_version"), "Talos brings it");
    }
}
