//! New files that a command writes. Several files are written together or not at all. Existing files are replaced only on
//! request.

use std::fs;
use std::path::{Path, PathBuf};

use talmox_talos_config::secret::SecretText;

use crate::command_code::CommandCode;
use crate::disk::{Before, Readers, Staged};
use crate::error::CommandError;

/// File to write. The debug output contains only the path.
pub(crate) struct NewFile {
    pub(crate) path: PathBuf,
    /// Content. It is erased from memory on drop, because configs hold keys.
    pub(crate) text: SecretText,
    /// Whether the file holds keys. Then only the owner of the file may read it.
    pub(crate) is_secret: bool,
}

impl std::fmt::Debug for NewFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Whether a path is an existing folder or ends with a slash.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Returns an error if one of the paths exists.
pub(crate) fn refuse_existing(
    paths: impl IntoIterator<Item = impl AsRef<Path>>,
    hint: &str,
) -> Result<(), CommandError> {
    for path in paths {
        let path = path.as_ref();
        if fs::symlink_metadata(path).is_ok() {
            let error = CommandError::failed(
                CommandCode::FileExists,
                format!("{} exists already", path.display()),
            );
            return Err(error.hint(hint));
        }
    }
    Ok(())
}

/// Writes all files, and replaces existing files. The first rename happens after all temporary files are written.
pub(crate) fn write_all(files: &[NewFile]) -> Result<(), CommandError> {
    let stage = |file: &NewFile| {
        let readers = if file.is_secret { Readers::Owner } else { Readers::Everybody };
        Staged::new(&file.path, file.text.expose(), readers)
    };
    let staged: Vec<Staged> = files.iter().map(stage).collect::<Result<_, _>>()?;
    staged.into_iter().try_for_each(|file| file.put(Before::Anything))
}

/// Creates a file. Returns an error if the file exists.
pub(crate) fn write_new(path: &Path, text: &str) -> Result<PathBuf, CommandError> {
    Staged::new(path, text, Readers::Everybody)?.put(Before::Absent)?;
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn file(path: PathBuf, text: &str) -> NewFile {
        NewFile { path, text: SecretText::new(text), is_secret: true }
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
    fn a_failed_write_changes_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let good = folder.path().join("good");
        let files = [file(good.clone(), "one"), file(folder.path().to_owned(), "two")];
        assert!(write_all(&files).is_err());
        assert!(write_all(&[file(PathBuf::from("/dev/null"), "")]).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
