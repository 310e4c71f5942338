//! Atomic writes of files, with mode 0600 for files that hold secrets.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use talmox_talos_config::random::Randomness as _;
use talmox_talos_config::secret::SecretText;

use crate::command_code::CommandCode;
use crate::environment;
use crate::error::CommandError;
use crate::regular_file::{self, LARGEST_OWN, ReadError};

/// Condition that the existing file must meet when a file is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Before<'a> {
    /// The file does not exist.
    Absent,
    /// The file still has this content.
    Holds(&'a str),
    /// No condition: an existing file is replaced.
    Anything,
}

/// Users that may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    Owner,
    Everybody,
}

/// Writes a file with mode 0600. A concurrent reader gets either the old or the new content. When this function returns,
/// the new content survives a power failure.
pub(crate) fn write_private(
    path: &Path,
    text: &str,
    before: Before<'_>,
) -> Result<(), CommandError> {
    Staged::new(path, text, Readers::Owner)?.put(before)
}

/// Temporary file with new content, in the same folder as the file that it will replace.
pub(crate) struct Staged {
    path: PathBuf,
    target: PathBuf,
    temporary: Temporary,
}

impl Staged {
    pub(crate) fn new(path: &Path, text: &str, readers: Readers) -> Result<Self, CommandError> {
        let failed = |error| cannot_write(path, error);
        let target = followed(path)?;
        let folder = folder_of(&target);
        match readers {
            Readers::Owner => create_folder(&folder).map_err(failed)?,
            Readers::Everybody => fs::create_dir_all(&folder).map_err(failed)?,
        }
        let temporary = Temporary(folder.join(format!(".talmox-{}", random_name())));
        let mut file = create_file(&temporary.0, readers).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        Ok(Self { path: path.to_owned(), target, temporary })
    }

    /// Renames the temporary file to its final name.
    pub(crate) fn put(self, before: Before<'_>) -> Result<(), CommandError> {
        let Self { path, target, temporary } = &self;
        let failed = |error| cannot_write(path, error);
        match before {
            Before::Absent => put_new(&temporary.0, target).map_err(failed)?,
            Before::Anything => fs::rename(&temporary.0, target).map_err(failed)?,
            Before::Holds(known) => {
                let current = read_secret(target)?;
                if current.as_ref().map(SecretText::expose) != Some(known) {
                    let message =
                        format!("another process changed {} in the meantime", path.display());
                    return Err(CommandError::failed(CommandCode::FileChanged, message)
                        .hint("nothing was written; run the same command again"));
                }
                fs::rename(&temporary.0, target).map_err(failed)?;
            }
        }
        // Some file systems do not support a sync of a folder. The error is ignored, because the content of the file is
        // already synced.
        File::open(folder_of(target)).and_then(|folder| folder.sync_all()).ok();
        Ok(())
    }
}

fn cannot_write(path: &Path, error: io::Error) -> CommandError {
    CommandError::failed(CommandCode::FileUnwritable, format!("cannot write {}", path.display()))
        .because(error)
}

/// Reads a regular file as text. `None` if the file does not exist.
pub(crate) fn read_secret(path: &Path) -> Result<Option<SecretText>, CommandError> {
    match regular_file::read(path, LARGEST_OWN) {
        Ok(bytes) => secret_text(path, bytes).map(Some),
        // A dangling link counts as a missing file here. For a write, a dangling link is an error.
        Err(ReadError::Missing | ReadError::Dangling) => Ok(None),
        Err(error) => Err(CommandError::failed(
            CommandCode::FileUnreadable,
            format!("cannot read {}", path.display()),
        )
        .because(error)),
    }
}

/// Converts bytes to text. Returns an error if the bytes are not UTF-8.
pub(crate) fn secret_text(path: &Path, bytes: Vec<u8>) -> Result<SecretText, CommandError> {
    let text = String::from_utf8(bytes).map(SecretText::new);
    text.map_err(|_| {
        CommandError::failed(CommandCode::FileUnreadable, format!("{} is not text", path.display()))
    })
}

/// Returns an error if a path where talmox writes its own files is a link. The link could cause talmox to overwrite other
/// files.
pub(crate) fn refuse_link(path: &Path) -> Result<(), CommandError> {
    if path.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
        let message = format!("{} is a link that talmox did not create", path.display());
        return Err(CommandError::failed(CommandCode::FileUnsafe, message)
            .hint("check the target of the link, then remove the link"));
    }
    Ok(())
}

/// Creates a folder that only its owner can enter, and its missing parent folders.
fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Private temporary folder for unencrypted files. It is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct PrivateFolder(PathBuf);

impl PrivateFolder {
    /// Creates a folder with a random name. An existing path is an error, because another user may have created it, or it
    /// may be a link to another folder.
    pub(crate) fn new(parent: &Path) -> io::Result<Self> {
        Self::named(parent, &format!("talmox-{}", random_name()))
    }

    fn named(parent: &Path, name: &str) -> io::Result<Self> {
        let path = parent.join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Creates a subfolder.
    pub(crate) fn make_folder(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(path)
    }

    /// Creates a file in this folder.
    pub(crate) fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        create_file(&path, Readers::Owner)?.write_all(text.as_bytes())?;
        Ok(path)
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Path of a temporary file. The file is removed when this value is dropped, unless the file was renamed before.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

fn create_file(path: &Path, readers: Readers) -> io::Result<File> {
    let mode = match readers {
        Readers::Owner => 0o600,
        Readers::Everybody => 0o666,
    };
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Renames a temporary file, unless the target exists.
fn put_new(temporary: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(temporary, target) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists && !target.exists() => {
            // The file system has no hard links. Another process could create the target between the check and the
            // rename.
            fs::rename(temporary, target)
        }
        outcome => outcome,
    }
}

/// Resolves links, so that a write replaces the target of a link and not the link.
fn followed(path: &Path) -> Result<PathBuf, CommandError> {
    let Ok(known) = fs::symlink_metadata(path) else {
        return Ok(path.to_owned());
    };
    let nowhere = |error| {
        let message = format!("{} is a link without a target", path.display());
        CommandError::failed(CommandCode::FileUnreadable, message).because(error)
    };
    let target =
        if known.is_symlink() { path.canonicalize().map_err(nowhere)? } else { path.to_owned() };
    if !target.is_file() {
        return Err(CommandError::failed(
            CommandCode::FileUnsafe,
            format!("{} is not a regular file", path.display()),
        ));
    }
    Ok(target)
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn random_name() -> String {
    let mut bytes = [0; 8];
    environment::Kernel.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn files_are_private_and_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/secret");
        write_private(&path, "one", Before::Absent).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write_private(&path, "two", Before::Absent).is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write_private(&path, "two", Before::Holds("one")).unwrap();
        assert!(write_private(&path, "three", Before::Holds("one")).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "temporary files are removed");
    }

    #[test]
    fn a_folder_that_another_user_created_is_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::create_dir(parent.path().join("made")).unwrap();
        symlink(elsewhere.path(), parent.path().join("link")).unwrap();
        symlink("/nowhere", parent.path().join("dangling")).unwrap();
        for name in ["made", "link", "dangling"] {
            let error = PrivateFolder::named(parent.path(), name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{name}");
        }
        let own = PrivateFolder::new(parent.path()).unwrap();
        assert_eq!(fs::metadata(&own.0).unwrap().permissions().mode() & 0o777, 0o700);
        own.write("file", "one").unwrap();
        symlink(elsewhere.path().join("victim"), own.0.join("planted")).unwrap();
        for name in ["file", "planted"] {
            assert!(own.write(name, "two").is_err(), "{name}");
        }
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn links_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "one").unwrap();
        symlink(&target, &link).unwrap();
        write_private(&link, "two", Before::Anything).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "two");
        assert!(write_private(folder.path(), "x", Before::Anything).is_err());
        assert!(write_private(Path::new("/dev/null"), "x", Before::Anything).is_err());
    }

    #[test]
    fn a_private_folder_is_removed_on_drop() {
        let parent = tempfile::tempdir().unwrap();
        let folder = PrivateFolder::new(parent.path()).unwrap();
        let file = folder.write("secrets.yaml", "x").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        drop(folder);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
