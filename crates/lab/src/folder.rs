//! The folder that a lab keeps its things in: one that stays, or one that goes with it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::rand;

/// A folder that only its owner can look into.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    is_temporary: bool,
    /// Kept, so that no second lab uses the folder.
    _lock: Option<File>,
}

impl Folder {
    /// A folder that stays. It is an error if another lab uses it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        private_folder(path)?;
        let lock = private_options().truncate(false).open(path.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = "another lab uses this folder";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(Self { path: fs::canonicalize(path)?, is_temporary: false, _lock: Some(lock) })
    }

    /// A folder that is taken away again.
    pub(crate) fn temporary() -> io::Result<Self> {
        let mut name = [0; 8];
        rand::fill(&mut name).map_err(io::Error::other)?;
        let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = std::env::temp_dir().join(format!("talmox-lab-{name}"));
        private_folder(&path)?;
        Ok(Self { path, is_temporary: true, _lock: None })
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether what is written here is read again one day.
    pub(crate) fn is_kept(&self) -> bool {
        !self.is_temporary
    }

    /// Writes a file as a whole, or not at all.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = self.join(&format!("{name}.new"));
        let mut file = private_options().truncate(true).open(&new)?;
        file.write_all(bytes)?;
        if self.is_kept() {
            file.sync_all()?;
        }
        fs::rename(new, self.join(name))
    }

    /// A file's content, if there is such a file.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_temporary {
            // What cannot be removed is in the folder for such things.
            fs::remove_dir_all(&self.path).ok();
        }
    }
}

/// Makes a folder that only its owner can look into, unless it is there.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
