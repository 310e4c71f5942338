//! Restriction of the files that an inventory may name to its own repository or folder.
//!
//! The author of an inventory is not always the user who runs talmox. Without this restriction, a path with `..` or a symbolic
//! link could put private files of the user into machine configs and error messages.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use talmox_model::load::{Content, ReferenceKind};

use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::regular_file::{self, LARGEST, ReadError};

/// Folder and additional paths that an inventory may read files from.
#[derive(Clone, Debug)]
pub(crate) struct Boundary {
    /// Git repository that contains the inventory, or else the folder of the inventory. Symbolic links are resolved.
    root: PathBuf,
    /// Files and folders that the user allowed with `--allow-file`. Symbolic links are resolved.
    allowed: Vec<PathBuf>,
}

/// Reason why an inventory may not use a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RejectedFile {
    #[error(
        "it is outside {}, which contains the inventory; `--allow-file {}` allows it",
        root.display(),
        path.display()
    )]
    Outside { root: PathBuf, path: PathBuf },
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Boundary {
    /// Boundary of the inventory in `folder`: the Git repository that contains it, or else the folder.
    pub(crate) fn around(folder: &Path, allowed: &[PathBuf]) -> Self {
        let folder = resolved(folder);
        let root = repository(&folder).unwrap_or(folder);
        Self { root, allowed: allowed.iter().map(|path| resolved(path)).collect() }
    }

    /// Repository or folder that contains all files of the inventory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Resolves the path of a file. Returns an error if the inventory may not use the file.
    pub(crate) fn admit(&self, path: &Path) -> Result<PathBuf, RejectedFile> {
        let real = fs::canonicalize(path).map_err(|error| ReadError::of(path, error))?;
        // A device or a pipe is rejected inside and outside the boundary, so `NotRegular` is more useful than `Outside`.
        let known = fs::metadata(&real).map_err(|error| ReadError::of(path, error))?;
        if !known.is_file() && !known.is_dir() {
            return Err(ReadError::NotRegular.into());
        }
        let is_allowed = |allowed: &PathBuf| real.starts_with(allowed);
        if real.starts_with(&self.root) || self.allowed.iter().any(is_allowed) {
            return Ok(real);
        }
        Err(RejectedFile::Outside { root: self.root.clone(), path: real })
    }

    /// Whether a file is outside the boundary. Messages never show the content of such a file, even if `--allow-file`
    /// allows the file.
    pub(crate) fn is_outside(&self, path: &Path) -> bool {
        fs::canonicalize(path).is_ok_and(|real| !real.starts_with(&self.root))
    }

    /// Reads a file of the inventory, or a file that the inventory names.
    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>, RejectedFile> {
        Ok(regular_file::read(&self.admit(path)?, LARGEST)?)
    }

    /// Reads a file of the inventory, or a file that the inventory names, as UTF-8 text.
    pub(crate) fn read_text(&self, path: &Path) -> Result<String, CommandError> {
        let failed = || {
            CommandError::failed(
                CommandCode::FileUnreadable,
                format!("cannot read {}", path.display()),
            )
        };
        let bytes = self.read(path).map_err(|error| failed().because(error))?;
        String::from_utf8(bytes).map_err(|_| {
            CommandError::failed(
                CommandCode::FileUnreadable,
                format!("{}: not UTF-8 text", path.display()),
            )
        })
    }

    /// Reads a file that the inventory refers to, for the checks of the inventory. A folder of manifests is only checked
    /// for being inside the boundary; its files are read later.
    pub(crate) fn content(&self, path: &Path, kind: ReferenceKind) -> Content {
        if kind == ReferenceKind::Manifests && path.is_dir() {
            return self.admit(path).map(|_| vec![]).map_err(|error| error.to_string());
        }
        self.read(path).map_err(|error| error.to_string())
    }
}

/// Innermost Git repository that contains a folder. A repository that another user could have created, in a folder such as
/// `/tmp`, is ignored.
pub(crate) fn repository(folder: &Path) -> Option<PathBuf> {
    let is_root =
        |above: &&Path| above.join(".git").symlink_metadata().is_ok() && !is_writable_by_all(above);
    folder.ancestors().find(is_root).map(Path::to_owned)
}

/// Whether a file belongs to another user and its folder is writable by all users, such as `/tmp`.
pub(crate) fn is_planted(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_foreign = |found: fs::Metadata| found.uid() != own && found.uid() != 0;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    path.symlink_metadata().is_ok_and(is_foreign)
        && is_writable_by_all(folder.unwrap_or(Path::new(".")))
}

/// Whether every user of this machine can create files in a folder.
fn is_writable_by_all(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|found| found.mode() & 0o002 != 0)
}

/// Absolute path without symbolic links; the path itself if it cannot be resolved.
fn resolved(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    fs::canonicalize(path)
        .or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn files_outside_the_boundary_are_rejected() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("clone/inventory/dev")).unwrap();
        fs::write(at("private"), "hunter2").unwrap();
        fs::write(at("clone/patch.yaml"), "a: 1").unwrap();
        symlink(at("private"), at("clone/inventory/dev/link.yaml")).unwrap();
        symlink(at("clone/patch.yaml"), at("clone/inventory/dev/inner.yaml")).unwrap();
        let dev = at("clone/inventory/dev");
        let rejected = |boundary: &Boundary, name: &str| {
            matches!(boundary.read(&dev.join(name)), Err(RejectedFile::Outside { .. }))
        };
        // Without a repository the folder itself is the boundary.
        let bare = Boundary::around(&dev, &[]);
        assert!(rejected(&bare, "../../patch.yaml") && rejected(&bare, "inner.yaml"));
        fs::create_dir(at("clone/.git")).unwrap();
        let boundary = Boundary::around(&dev, &[]);
        assert_eq!(boundary.read(&dev.join("../../patch.yaml")).unwrap(), b"a: 1");
        assert_eq!(boundary.read(&dev.join("inner.yaml")).unwrap(), b"a: 1");
        for name in ["../../../private", "link.yaml", at("private").to_str().unwrap()] {
            assert!(rejected(&boundary, name), "{name}");
            assert!(boundary.is_outside(&dev.join(name)), "{name}");
        }
        let allowed = Boundary::around(&dev, &[at("private")]);
        assert_eq!(allowed.read(&dev.join("link.yaml")).unwrap(), b"hunter2");
        assert!(allowed.is_outside(&dev.join("link.yaml")));
    }

    #[test]
    fn a_file_of_another_user_in_a_shared_folder_is_planted() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("defaults.yaml");
        fs::write(&path, "").unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(!is_planted(&path));
        // Only root can change the owner of a file.
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_ok() {
            assert!(is_planted(&path));
            fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
            assert!(!is_planted(&path));
        }
    }

    #[test]
    fn a_repository_in_a_folder_writable_by_all_is_ignored() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("inventory");
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir(place.path().join(".git")).unwrap();
        assert_eq!(Boundary::around(&inner, &[]).root, fs::canonicalize(place.path()).unwrap());
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(Boundary::around(&inner, &[]).root, fs::canonicalize(&inner).unwrap());
    }
}
