//! The cluster of those who have no inventory yet.

use std::path::{Path, PathBuf};

use crate::disk;
use crate::error::CommandError;

const INVENTORY: &str = include_str!("quickstart.yaml");

/// A folder with the built-in inventory. It goes when this does.
///
/// It has a folder around it: what lies beside an inventory is checked for clashes, and one that was killed leaves its own
/// behind.
#[derive(Debug)]
pub(crate) struct Quickstart {
    around: PathBuf,
    folder: PathBuf,
}

impl Quickstart {
    pub(crate) fn new() -> Result<Self, CommandError> {
        let around = std::env::temp_dir().join(format!("talmox-quickstart-{}", std::process::id()));
        let folder = around.join("quickstart");
        let failed = |error: std::io::Error| {
            CommandError::failed(format!("cannot use the folder {}", folder.display()))
                .because(error)
        };
        disk::create_folder(&around).map_err(failed)?;
        disk::create_folder(&folder).map_err(failed)?;
        std::fs::write(folder.join("cluster.yaml"), INVENTORY).map_err(failed)?;
        Ok(Self { around, folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Quickstart {
    fn drop(&mut self) {
        // Nobody misses it, and nobody minds what is left of it.
        std::fs::remove_dir_all(&self.around).ok();
    }
}
