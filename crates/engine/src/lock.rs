//! Lock file that keeps two runs on one machine from using one inventory at the same time.
//!
//! The operating system releases the lock when the process ends, even if the process is killed. The cluster lock does the
//! same for runs on different machines.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

/// Lock on a lock file. It is released when this value is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("{} is in use by {holder}", path.display())]
    Held { path: PathBuf, holder: String },
    #[error("lock {}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl Lock {
    /// Takes the lock. If another process holds it, the error contains the text of that process. `me` is the text of this
    /// process for others, such as the command and its start time.
    pub fn take(path: &Path, me: &str) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), source };
        // The file is not truncated before the lock is held, because it contains the text of the current holder.
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held { path: path.to_owned(), holder: holder(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let pid = std::process::id();
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "process {pid} ({me})"))
            .map_err(failed)?;
        Ok(Self { _file: file })
    }

    /// Whether the lock is held now. A lock without a file is free.
    pub fn is_held(path: &Path) -> bool {
        let Ok(file) = File::open(path) else { return false };
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    }
}

/// The text of the holder, which may be incomplete while it is written.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(1000).read_to_string(&mut text);
    match text.lines().next() {
        Some(line) if read.is_ok() && !line.is_empty() => line.to_owned(),
        _ => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_holds_the_lock_and_the_others_name_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        std::fs::write(&path, "process 1 (a long line of one that is gone)\n").unwrap();
        let held = Lock::take(&path, "talmox up").unwrap();
        let error = Lock::take(&path, "talmox destroy").unwrap_err();
        let expected = format!("is in use by process {} (talmox up)", std::process::id());
        assert!(error.to_string().ends_with(&expected), "{error}");
        assert!(Lock::is_held(&path));
        drop(held);
        assert!(!Lock::is_held(&path) && !Lock::is_held(&folder.path().join("none")));
        Lock::take(&path, "talmox destroy").unwrap();
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = Lock::take(&folder.path().join("a/b"), "x").unwrap_err();
        assert!(matches!(error, LockError::Io { .. }), "{error}");
    }
}
