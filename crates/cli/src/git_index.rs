//! Reader for the Git index: the paths that Git tracks.
//!
//! `git` is not run, because the configuration of a foreign repository can name programs to run. Versions 2 to 4 of the
//! format are supported, with SHA-1 and SHA-256 object names. A split index is not supported.

use std::path::{Path, PathBuf};

use crate::regular_file::{self, ReadError};

/// Maximum size of an index file, in bytes.
const LARGEST: u64 = 64 << 20;

/// Lengths of object names in bytes: SHA-1 and SHA-256.
const OBJECT_NAMES: [usize; 2] = [20, 32];

/// Reason why the Git index could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IndexError {
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: ReadError },
    #[error("the format of {} is not supported", path.display())]
    Unknown { path: PathBuf },
}

/// Paths that Git tracks, relative to the root of the repository. Empty for a repository without an index.
pub(crate) fn tracked(repository: &Path) -> Result<Vec<Vec<u8>>, IndexError> {
    let path = git_folder(repository)?.join("index");
    match regular_file::read(&path, LARGEST) {
        Ok(bytes) => {
            let names = OBJECT_NAMES.into_iter().find_map(|length| Reader::read(&bytes, length));
            names.ok_or(IndexError::Unknown { path })
        }
        Err(ReadError::Missing) => Ok(vec![]),
        Err(source) => Err(IndexError::Unreadable { path, source }),
    }
}

/// Git folder of a repository. In a worktree and in a submodule, `.git` is a file that contains the path of the Git
/// folder.
fn git_folder(repository: &Path) -> Result<PathBuf, IndexError> {
    let path = repository.join(".git");
    if path.is_dir() {
        return Ok(path);
    }
    let text = match regular_file::read(&path, 4096) {
        Ok(text) => text,
        Err(source) => return Err(IndexError::Unreadable { path, source }),
    };
    let text = String::from_utf8(text).unwrap_or_default();
    match text.trim_end().strip_prefix("gitdir: ") {
        Some(folder) => Ok(repository.join(folder)),
        None => Err(IndexError::Unknown { path }),
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Parses all paths of an index. `None` if the format is unknown or the index is split.
    fn read(bytes: &'a [u8], object_name: usize) -> Option<Vec<Vec<u8>>> {
        let mut reader = Self { rest: bytes.get(..bytes.len().checked_sub(object_name)?)? };
        if reader.take(4)? != b"DIRC" {
            return None;
        }
        let version = reader.number()?;
        if !(2..=4).contains(&version) {
            return None;
        }
        let mut names: Vec<Vec<u8>> = vec![];
        for _ in 0..reader.number()? {
            let before = names.last().map_or(&[][..], Vec::as_slice);
            let name = reader.entry(version, object_name, before)?;
            if name.as_slice() < before {
                return None;
            }
            names.push(name);
        }
        while !reader.rest.is_empty() {
            let kind = reader.take(4)?;
            let length = reader.number()?;
            reader.take(usize::try_from(length).ok()?)?;
            // The remaining paths of a split index are in another file.
            if kind == b"link" {
                return None;
            }
        }
        Some(names)
    }

    fn entry(&mut self, version: u32, object_name: usize, before: &[u8]) -> Option<Vec<u8>> {
        let start = self.rest.len();
        self.take(24)?;
        let mode = self.number()?;
        // These modes are regular files, links, submodules, and folders of a sparse index.
        if ![0o10, 0o12, 0o16, 0o4].contains(&(mode >> 12)) {
            return None;
        }
        self.take(12 + object_name)?;
        let flags = self.short()?;
        if flags & 0x4000 != 0 {
            if version < 3 {
                return None;
            }
            self.take(2)?;
        }
        let mut name = vec![];
        if version == 4 {
            let kept = before.len().checked_sub(self.offset()?)?;
            name.extend_from_slice(&before[..kept]);
        }
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(self.take(end)?);
        let padding = match version {
            4 => 1,
            _ => 8 - (start - self.rest.len()) % 8,
        };
        self.take(padding)?;
        let length = usize::from(flags & 0xfff);
        (name.len().min(0xfff) == length).then_some(name)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    /// Parses a variable-length number of Git's offset encoding.
    fn offset(&mut self) -> Option<usize> {
        let mut value: usize = 0;
        loop {
            let byte = self.take(1)?[0];
            value = value.checked_add(usize::from(byte & 0x7f))?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            value = value.checked_add(1)?.checked_mul(128)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds an index in Git's format.
    fn index(version: u32, object_name: usize, names: &[&str], extension: &[u8]) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(version.to_be_bytes());
        bytes.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
        let mut before = "";
        for name in names {
            let start = bytes.len();
            bytes.extend([0; 24]);
            bytes.extend(0o100_644_u32.to_be_bytes());
            bytes.extend(vec![7; 12 + object_name]);
            bytes.extend(u16::try_from(name.len().min(0xfff)).unwrap().to_be_bytes());
            if version == 4 {
                let same = name.bytes().zip(before.bytes()).take_while(|(a, b)| a == b).count();
                let dropped = before.len() - same;
                if dropped >= 128 {
                    bytes.push(0x80 | u8::try_from((dropped >> 7) - 1).unwrap());
                }
                bytes.push(u8::try_from(dropped & 0x7f).unwrap());
                bytes.extend(name.as_bytes()[same..].iter().chain(&[0]));
            } else {
                bytes.extend(name.bytes());
                let padding = 8 - (bytes.len() - start) % 8;
                bytes.extend(vec![0; padding]);
            }
            before = name;
        }
        bytes.extend(extension);
        bytes.extend(vec![9; object_name]);
        bytes
    }

    fn names(bytes: &[u8]) -> Option<Vec<String>> {
        let found = OBJECT_NAMES.into_iter().find_map(|length| Reader::read(bytes, length))?;
        Some(found.into_iter().map(|name| String::from_utf8(name).unwrap()).collect())
    }

    #[test]
    fn all_versions_are_read() {
        let long = format!("a/{}", "x".repeat(300));
        let all = [".gitignore", long.as_str(), "a/y", "inventory/dev/kubeconfig", "z"];
        for version in 2..=4 {
            for object_name in OBJECT_NAMES {
                let bytes = index(version, object_name, &all, b"TREE\0\0\0\x03abc");
                assert_eq!(names(&bytes).unwrap(), all, "{version} {object_name}");
            }
        }
        assert_eq!(names(&index(2, 20, &[], b"")).unwrap(), [""; 0]);
    }

    #[test]
    fn an_unknown_format_is_an_error_and_not_an_empty_index() {
        let good = index(4, 20, &["a", "b"], b"");
        assert_eq!(names(&index(2, 20, &["a"], b"link\0\0\0\0")), None);
        assert_eq!(names(&index(5, 20, &["a"], b"")), None);
        assert_eq!(names(&index(2, 20, &["b", "a"], b"")), None);
        assert_eq!(names(b""), None);
        for length in 0..good.len() - 20 {
            assert_eq!(names(&good[..length]), None, "{length}");
        }
    }

    #[test]
    fn the_git_folder_of_a_worktree_is_found() {
        let place = tempfile::tempdir().unwrap();
        let (real, tree) = (place.path().join("real"), place.path().join("tree"));
        std::fs::create_dir_all(&real).unwrap();
        std::fs::create_dir_all(&tree).unwrap();
        std::fs::write(tree.join(".git"), "gitdir: ../real\n").unwrap();
        assert_eq!(tracked(&tree).unwrap(), [[0_u8; 0]; 0]);
        std::fs::write(real.join("index"), index(2, 20, &["kubeconfig"], b"")).unwrap();
        assert_eq!(tracked(&tree).unwrap(), [b"kubeconfig"]);
        std::fs::write(real.join("index"), "nonsense").unwrap();
        assert!(tracked(&tree).is_err());
    }
}
