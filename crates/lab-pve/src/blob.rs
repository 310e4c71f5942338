//! Storage of volume contents: immutable files in a folder. Several volumes may share one file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use talmox_lab_environment::private_folder;

/// Id of a file in [`Blobs`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlobId(String);

/// Folder with the stored files.
#[derive(Debug)]
pub struct Blobs {
    folder: PathBuf,
    next: AtomicU64,
}

impl Blobs {
    /// Opens the folder, and creates it if it does not exist.
    pub fn open(folder: &Path) -> io::Result<Self> {
        private_folder(folder)?;
        let mut next = 0;
        for entry in std::fs::read_dir(folder)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.parse::<u64>().ok());
            next = next.max(number.map_or(0, |number| number + 1));
        }
        Ok(Self { folder: folder.to_owned(), next: AtomicU64::new(next) })
    }

    /// Id of a new file. The caller writes the file to [`Self::path`].
    pub fn reserve(&self) -> BlobId {
        BlobId(self.next.fetch_add(1, Ordering::Relaxed).to_string())
    }

    pub fn path(&self, id: &BlobId) -> PathBuf {
        self.folder.join(&id.0)
    }

    pub fn write(&self, bytes: &[u8]) -> io::Result<BlobId> {
        let id = self.reserve();
        std::fs::write(self.path(&id), bytes)?;
        Ok(id)
    }

    /// All stored files with their length in bytes.
    pub fn list(&self) -> io::Result<Vec<(BlobId, u64)>> {
        let mut list = vec![];
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            list.push((BlobId(name), entry.metadata()?.len()));
        }
        Ok(list)
    }

    /// Deletes every file that is not in `used`.
    pub fn keep_only(&self, used: &std::collections::BTreeSet<BlobId>) -> io::Result<()> {
        for (blob, _) in self.list()? {
            if !used.contains(&blob) {
                std::fs::remove_file(self.path(&blob))?;
            }
        }
        Ok(())
    }
}
