//! The boundary of an inventory: the repository or folder that its files must be in.
//!
//! The author of an inventory is not always the user who runs it. A patch, an add-on or a secrets file that leads out of
//! a checkout, by `..` or by a link, would put the user's own files into machine configs and into messages.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use talmox_model::load::{Content, ReferenceKind};

use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::regular_file::{self, LARGEST, ReadError};

/// Which files an inventory may name.
#[derive(Clone, Debug)]
pub(crate) struct Boundary {
    /// The repository that holds the inventory, else the folder of the inventory. Without links.
    root: PathBuf,
    /// Files and folders that the user allowed with `--allow-file`. Without links.
    allowed: Vec<PathBuf>,
}

/// Why a file is not part of an inventory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RefusedFile {
    #[error(
        "it is outside {}, where the inventory is; `--allow-file {}` allows it",
        root.display(),
        path.display()
    )]
    Outside { root: PathBuf, path: PathBuf },
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Boundary {
    /// The boundary of an inventory whose files are all in `folder`: the Git repository around it, if there is one.
    pub(crate) fn around(folder: &Path, allowed: &[PathBuf]) -> Self {
        let folder = resolved(folder);
        let root = repository(&folder).unwrap_or(folder);
        Self { root, allowed: allowed.iter().map(|path| resolved(path)).collect() }
    }

    /// The repository or folder itself.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The real path of a file, if the inventory may name it.
    pub(crate) fn admit(&self, path: &Path) -> Result<PathBuf, RefusedFile> {
        let real = fs::canonicalize(path).map_err(|error| ReadError::of(path, error))?;
        // It would not be read either way: that it is outside is not the reason to tell.
        let known = fs::metadata(&real).map_err(|error| ReadError::of(path, error))?;
        if !known.is_file() && !known.is_dir() {
            return Err(ReadError::NotRegular.into());
        }
        let is_allowed = |allowed: &PathBuf| real.starts_with(allowed);
        if real.starts_with(&self.root) || self.allowed.iter().any(is_allowed) {
            return Ok(real);
        }
        Err(RefusedFile::Outside { root: self.root.clone(), path: real })
    }

    /// Whether a file is outside. Nothing of its text is ever shown, also where it is allowed.
    pub(crate) fn is_outside(&self, path: &Path) -> bool {
        fs::canonicalize(path).is_ok_and(|real| !real.starts_with(&self.root))
    }

    /// The content of a file that the inventory consists of or names.
    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>, RefusedFile> {
        Ok(regular_file::read(&self.admit(path)?, LARGEST)?)
    }

    /// The same as text, for commands.
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

    /// The same for the checks of an inventory. A folder of manifests is only looked for: what is in it is read later.
    pub(crate) fn content(&self, path: &Path, kind: ReferenceKind) -> Content {
        if kind == ReferenceKind::Manifests && path.is_dir() {
            return self.admit(path).map(|_| vec![]).map_err(|error| error.to_string());
        }
        self.read(path).map_err(|error| error.to_string())
    }
}

/// The innermost Git repository that holds a folder. One that anybody could have made, in a folder such as `/tmp`, is
/// not taken for the user's.
pub(crate) fn repository(folder: &Path) -> Option<PathBuf> {
    let is_root =
        |above: &&Path| above.join(".git").symlink_metadata().is_ok() && !is_writable_by_all(above);
    folder.ancestors().find(is_root).map(Path::to_owned)
}

/// Whether another user may have put a file where an inventory looks for it, as in `/tmp`.
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

/// A path without links, as far as that is known.
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
    fn files_outside_are_refused_however_they_are_named() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("clone/inventory/dev")).unwrap();
        fs::write(at("private"), "hunter2").unwrap();
        fs::write(at("clone/patch.yaml"), "a: 1").unwrap();
        symlink(at("private"), at("clone/inventory/dev/link.yaml")).unwrap();
        symlink(at("clone/patch.yaml"), at("clone/inventory/dev/inner.yaml")).unwrap();
        let dev = at("clone/inventory/dev");
        let refused = |boundary: &Boundary, name: &str| {
            matches!(boundary.read(&dev.join(name)), Err(RefusedFile::Outside { .. }))
        };
        // Without a repository the folder itself is the boundary.
        let bare = Boundary::around(&dev, &[]);
        assert!(refused(&bare, "../../patch.yaml") && refused(&bare, "inner.yaml"));
        fs::create_dir(at("clone/.git")).unwrap();
        let boundary = Boundary::around(&dev, &[]);
        assert_eq!(boundary.read(&dev.join("../../patch.yaml")).unwrap(), b"a: 1");
        assert_eq!(boundary.read(&dev.join("inner.yaml")).unwrap(), b"a: 1");
        for name in ["../../../private", "link.yaml", at("private").to_str().unwrap()] {
            assert!(refused(&boundary, name), "{name}");
            assert!(boundary.is_outside(&dev.join(name)), "{name}");
        }
        let allowed = Boundary::around(&dev, &[at("private")]);
        assert_eq!(allowed.read(&dev.join("link.yaml")).unwrap(), b"hunter2");
        assert!(allowed.is_outside(&dev.join("link.yaml")));
    }

    #[test]
    fn a_file_that_another_user_put_into_a_shared_folder_is_planted() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("defaults.yaml");
        fs::write(&path, "").unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(!is_planted(&path));
        // Only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_ok() {
            assert!(is_planted(&path));
            fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
            assert!(!is_planted(&path));
        }
    }

    #[test]
    fn a_repository_that_anybody_could_have_made_is_ignored() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("inventory");
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir(place.path().join(".git")).unwrap();
        assert_eq!(Boundary::around(&inner, &[]).root, fs::canonicalize(place.path()).unwrap());
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(Boundary::around(&inner, &[]).root, fs::canonicalize(&inner).unwrap());
    }
}
