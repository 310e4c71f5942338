//! Files that a command makes. Several are made together or not at all, and none takes the place
//! of another one unless that was asked for.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process;

use crate::error::CommandError;

/// A file that is to be written.
#[derive(Debug)]
pub(crate) struct NewFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// It holds keys: only its owner may read it.
    pub(crate) is_secret: bool,
}

/// True if a path names a folder: one that is there, or one that it says to make.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Refuses paths that something stands at.
pub(crate) fn refuse_existing(
    paths: impl IntoIterator<Item = impl AsRef<Path>>,
    hint: &str,
) -> Result<(), CommandError> {
    for path in paths {
        let path = path.as_ref();
        if fs::symlink_metadata(path).is_ok() {
            let error = CommandError::failed(format!("{} exists already", path.display()));
            return Err(error.hint(hint));
        }
    }
    Ok(())
}

/// Writes all files, in place of those that are there. Whoever reads one meanwhile sees the old
/// text or the new one.
pub(crate) fn write_all(files: &[NewFile]) -> Result<(), CommandError> {
    let mut ready = vec![];
    for file in files {
        let failed = |error| cannot_write(&file.path, error);
        let target = followed(&file.path)?;
        let temporary = Temporary::beside(&target).map_err(failed)?;
        let mode = if file.is_secret { 0o600 } else { 0o666 };
        let mut options = OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(mode).open(&temporary.0);
        let mut open = opened.map_err(failed)?;
        open.write_all(file.text.as_bytes()).map_err(failed)?;
        open.sync_all().map_err(failed)?;
        ready.push((temporary, target));
    }
    for (temporary, target) in &ready {
        fs::rename(&temporary.0, target).map_err(|error| cannot_write(target, error))?;
    }
    Ok(())
}

/// Creates a file that must not be there yet.
pub(crate) fn write_new(path: &Path, text: &str) -> Result<PathBuf, CommandError> {
    let failed = |error| cannot_write(path, error);
    create_folder_of(path).map_err(failed)?;
    let mut file = File::create_new(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    Ok(path.to_owned())
}

fn cannot_write(path: &Path, error: io::Error) -> CommandError {
    CommandError::failed(format!("cannot write {}", path.display())).because(error)
}

fn create_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => fs::create_dir_all(folder),
        _ => Ok(()),
    }
}

/// Where a path leads: a link stays a link, and only a regular file can be replaced by one.
fn followed(path: &Path) -> Result<PathBuf, CommandError> {
    let Ok(known) = fs::symlink_metadata(path) else {
        return Ok(path.to_owned());
    };
    let target = if known.is_symlink() {
        path.canonicalize().map_err(|error| cannot_write(path, error))?
    } else {
        path.to_owned()
    };
    if target.is_file() {
        return Ok(target);
    }
    let message = format!("cannot write {}: it is no regular file", path.display());
    Err(CommandError::failed(message))
}

/// A file in the folder of its target, under another name. What is left of it goes with this value.
struct Temporary(PathBuf);

impl Temporary {
    fn beside(target: &Path) -> io::Result<Self> {
        create_folder_of(target)?;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self(target.with_file_name(format!(".{name}.{}", process::id()))))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn file(path: PathBuf, text: &str) -> NewFile {
        NewFile { path, text: text.to_owned(), is_secret: true }
    }

    #[test]
    fn files_are_private_and_links_stay_links() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("deep/target"), folder.path().join("link"));
        write_all(&[file(target.clone(), "one")]).unwrap();
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
        symlink(&target, &link).unwrap();
        write_all(&[file(link.clone(), "two")]).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "two");
        assert!(refuse_existing([&link], "").is_err());
    }

    #[test]
    fn one_that_fails_leaves_the_others_alone() {
        let folder = tempfile::tempdir().unwrap();
        let good = folder.path().join("good");
        let files = [file(good.clone(), "one"), file(folder.path().to_owned(), "two")];
        assert!(write_all(&files).is_err());
        assert!(write_all(&[file(PathBuf::from("/dev/null"), "")]).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
