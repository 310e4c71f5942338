//! Directory with the state of a lab: permanent or temporary.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_lc_rs::rand;

const LOCK: &str = "lock";
/// Name prefix of temporary directories.
const TEMPORARY: &str = "talmox-lab-";

/// Number of attempts to remove a directory that other threads still write to.
const ATTEMPTS: u32 = 100;

/// Temporary directories that this process has created and not yet removed.
static TEMPORARY_FOLDERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Directory that only its owner can access.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    is_temporary: bool,
    /// Lock that prevents a second lab from using or removing the directory.
    _lock: File,
}

impl Folder {
    /// Opens a permanent directory. Fails if another lab uses it.
    pub fn open(path: &Path) -> io::Result<Self> {
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

    /// Creates a temporary directory, and removes the temporary directories of labs that were killed.
    pub fn temporary() -> io::Result<Self> {
        Self::temporary_in(&std::env::temp_dir())
    }

    fn temporary_in(place: &Path) -> io::Result<Self> {
        let mut name = [0; 8];
        rand::fill(&mut name).map_err(io::Error::other)?;
        let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::temporary_at(place, &format!("{TEMPORARY}{name}"))
    }

    fn temporary_at(place: &Path, name: &str) -> io::Result<Self> {
        let path = place.join(name);
        // Creation must fail if the path exists, because an existing directory or link may belong to another user, who could
        // read the files.
        private_builder().create(&path)?;
        temporary_folders().insert(path.clone());
        // The lock file gets its final name after it is locked, so that no other process sees an unlocked lock file.
        let new = path.join("lock.new");
        let lock = private_options().create_new(true).open(&new)?;
        lock.try_lock()?;
        fs::rename(new, path.join(LOCK))?;
        let folder = Self { path, is_temporary: true, _lock: lock };
        // This lab can run even if old directories cannot be removed.
        clear(place, &folder.path).ok();
        Ok(folder)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether the directory is permanent.
    pub fn is_kept(&self) -> bool {
        !self.is_temporary
    }

    /// Writes a file of the lab directory atomically.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = self.join(&format!("{name}.new"));
        let mut file = private_options().truncate(true).open(&new)?;
        file.write_all(bytes)?;
        if self.is_kept() {
            file.sync_all()?;
        }
        fs::rename(new, self.join(name))
    }

    /// Content of a file in the lab directory; `None` if the file does not exist.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
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
        remove(&self.path);
        temporary_folders().remove(&self.path);
    }
}

/// Removes all temporary directories of this process, even if they are in use. The process must exit afterwards.
pub fn remove_temporary_folders() {
    // The lock is released before the removal, because a removal can take long.
    let folders = temporary_folders().clone();
    for path in &folders {
        remove(path);
    }
}

fn temporary_folders() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    TEMPORARY_FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes a directory. Threads that still write can add files during the removal, so the removal is retried. A directory that
/// cannot be removed stays on the disk.
fn remove(path: &Path) {
    for _ in 0..ATTEMPTS {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                std::thread::yield_now();
            }
            _ => break,
        }
    }
}

/// Removes the temporary directories of labs that no longer run. All other directories stay.
fn clear(place: &Path, own: &Path) -> io::Result<()> {
    let mine = fs::metadata(own)?;
    for entry in fs::read_dir(place)?.flatten() {
        let path = entry.path();
        let is_one = entry.file_name().to_str().is_some_and(is_temporary_name);
        // Both checks do not follow links. A directory that other users can write to was not created by a lab.
        let is_mine = || {
            fs::symlink_metadata(&path)
                .is_ok_and(|of| of.is_dir() && is_same_owner(&of, &mine) && is_private(&of))
        };
        if path == own || !is_one || !is_mine() {
            continue;
        }
        // The lock is held during the removal, so that only one process removes the directory.
        if let Ok(lock) = open_unfollowed(&path.join(LOCK))
            && lock.metadata().is_ok_and(|of| of.is_file() && is_same_owner(&of, &mine))
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

#[cfg(unix)]
fn is_private(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    found.mode().trailing_zeros() >= 6
}

#[cfg(not(unix))]
fn is_private(_: &fs::Metadata) -> bool {
    true
}

/// Opens a file in order to lock it. A link is an error, and opening a pipe does not block.
#[cfg(target_os = "linux")]
fn open_unfollowed(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

#[cfg(not(target_os = "linux"))]
fn open_unfollowed(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path)?.is_file() {
        return File::open(path);
    }
    Err(io::Error::from(io::ErrorKind::InvalidInput))
}

/// Creates a directory that only its owner can access. Does nothing if the directory exists.
pub fn private_folder(path: &Path) -> io::Result<()> {
    private_builder().recursive(true).create(path)
}

fn private_builder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
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

    #[cfg(unix)]
    #[test]
    fn an_existing_temporary_directory_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("made")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), place.path().join("linked")).unwrap();
        for name in ["made", "linked"] {
            let error = Folder::temporary_at(place.path(), name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{name}");
        }
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_directories_of_killed_labs_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, has_lock: bool| {
            let path = place.path().join(name);
            private_folder(&path.join("blobs")).unwrap();
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
        // A directory that other users can write to does not belong to a killed lab. A directory whose lock file is a link does
        // not either.
        #[cfg(unix)]
        {
            use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
            let open = make("talmox-lab-3123456789abcdef", true);
            fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
            let linked = make("talmox-lab-4123456789abcdef", false);
            symlink(elsewhere.join(LOCK), linked.join(LOCK)).unwrap();
            let foreign = make("talmox-lab-5123456789abcdef", true);
            // The change of the owner fails unless the test runs as root.
            let is_given = chown(&foreign, Some(65_534), None).is_ok();
            drop(Folder::temporary_in(place.path()).unwrap());
            assert!(open.exists() && linked.exists());
            assert_eq!(foreign.exists(), is_given);
        }
        // A lab that stops normally removes its directory.
        let path = running.path.clone();
        drop(running);
        assert!(!path.exists());
    }
}
