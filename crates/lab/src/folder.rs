//! The folder that a lab keeps its things in: one that stays, or one that goes with it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::rand;

const LOCK: &str = "lock";
/// What the names of temporary folders begin with.
const TEMPORARY: &str = "talmox-lab-";

/// How often a folder is tried to be removed that others still write to.
const ATTEMPTS: u32 = 100;

/// A folder that only its owner can look into.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    is_temporary: bool,
    /// Kept, so that no second lab uses the folder, and none takes it away.
    _lock: File,
}

impl Folder {
    /// A folder that stays. It is an error if another lab uses it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        private_folder(path)?;
        let lock = private_options().truncate(false).open(path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = "another lab uses this folder";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(Self { path: fs::canonicalize(path)?, is_temporary: false, _lock: lock })
    }

    /// A folder that is taken away again, with those of labs that were killed before they could.
    pub(crate) fn temporary() -> io::Result<Self> {
        Self::temporary_in(&std::env::temp_dir())
    }

    fn temporary_in(place: &Path) -> io::Result<Self> {
        let mut name = [0; 8];
        rand::fill(&mut name).map_err(io::Error::other)?;
        let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = place.join(format!("{TEMPORARY}{name}"));
        private_folder(&path)?;
        // Whoever sees the lock sees it held: it gets its name afterwards.
        let new = path.join("lock.new");
        let lock = private_options().create_new(true).open(&new)?;
        lock.try_lock()?;
        fs::rename(new, path.join(LOCK))?;
        let folder = Self { path, is_temporary: true, _lock: lock };
        // Whatever is in the way of that is in nobody's way.
        clear(place, &folder.path).ok();
        Ok(folder)
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
        if !self.is_temporary {
            return;
        }
        // Who was still writing when the lab ended may add a file meanwhile. What cannot be removed at all is in the
        // folder for such things.
        for _ in 0..ATTEMPTS {
            match fs::remove_dir_all(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    std::thread::yield_now();
                }
                _ => break,
            }
        }
    }
}

/// Takes the temporary folders of labs away that do not run any more, but none of anybody else's.
fn clear(place: &Path, own: &Path) -> io::Result<()> {
    let mine = fs::metadata(own)?;
    for entry in fs::read_dir(place)?.flatten() {
        let path = entry.path();
        let is_one = entry.file_name().to_str().is_some_and(is_temporary_name);
        // Neither of these follows a link.
        let is_mine =
            || fs::symlink_metadata(&path).is_ok_and(|of| of.is_dir() && is_same_owner(&of, &mine));
        if path == own || !is_one || !is_mine() {
            continue;
        }
        let lock = path.join(LOCK);
        if !fs::symlink_metadata(&lock).is_ok_and(|of| of.is_file()) {
            continue;
        }
        // Held until the folder is gone: of two who find it, one takes it away.
        if let Ok(lock) = File::open(lock)
            && lock.try_lock().is_ok()
        {
            fs::remove_dir_all(&path).ok();
        }
    }
    Ok(())
}

fn is_temporary_name(name: &str) -> bool {
    let rest = name.strip_prefix(TEMPORARY);
    rest.is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(unix)]
fn is_same_owner(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    one.uid() == other.uid()
}

#[cfg(not(unix))]
fn is_same_owner(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_labs_that_were_killed_are_taken_away_and_no_others() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, has_lock: bool| {
            let path = place.path().join(name);
            fs::create_dir_all(path.join("blobs")).unwrap();
            if has_lock {
                fs::write(path.join(LOCK), "").unwrap();
            }
            path
        };
        let running = Folder::temporary_in(place.path()).unwrap();
        let killed = make("talmox-lab-0123456789abcdef", true);
        let unknown = make("talmox-lab-1123456789abcdef", false);
        let other = make("talmox-lab-of-somebody", true);
        let elsewhere = make("elsewhere", true);
        #[cfg(unix)]
        std::os::unix::fs::symlink(&elsewhere, place.path().join("talmox-lab-2123456789abcdef"))
            .unwrap();
        let next = Folder::temporary_in(place.path()).unwrap();
        assert!(!killed.exists());
        for left in [&running.path, &next.path, &unknown, &other, &elsewhere.join("blobs")] {
            assert!(left.exists(), "{}", left.display());
        }
        // Who ends in order takes its own away.
        let path = running.path.clone();
        drop(running);
        assert!(!path.exists());
    }
}
