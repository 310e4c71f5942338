//! Search for age secret keys in the files that Git tracks, whatever their names are.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use crate::regular_file;

/// Maximum size of a file to search. A key file has only a few lines.
const LARGEST: u64 = 64 << 10;
/// Maximum number of files to search, so that a check of a large repository takes a second.
const MOST_SEARCHED: usize = 5000;

/// Start of a secret key, and the number and alphabet of the characters after the start.
const START: &[u8] = b"AGE-SECRET-KEY-1";
const LENGTH: usize = 58;
const ALPHABET: &[u8] = b"QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L";

/// Result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AgeKeys {
    /// Files that contain a secret key, as paths relative to the root of the repository.
    pub(super) files: Vec<String>,
    /// Note about files that were not searched because there are too many.
    pub(super) limit: Option<String>,
}

/// Searches the files of a Git index. Files in the folder of the inventory come first, because the limit leaves out the
/// last files.
pub(super) fn search(repository: &Path, tracked: &[Vec<u8>], folder: &Path) -> AgeKeys {
    search_up_to(repository, tracked, folder, MOST_SEARCHED)
}

fn search_up_to(repository: &Path, tracked: &[Vec<u8>], folder: &Path, most: usize) -> AgeKeys {
    let mut names: Vec<&Path> =
        tracked.iter().map(|name| Path::new(OsStr::from_bytes(name))).collect();
    names.sort_by_key(|name| !name.starts_with(folder));
    let limit = (names.len() > most)
        .then(|| format!("{most} of {} tracked files were searched for age keys", names.len()));
    let files = names.into_iter().take(most).filter(|name| has_key(repository, name));
    AgeKeys { files: files.map(|name| name.display().to_string()).collect(), limit }
}

/// Whether a file of the repository contains a secret key. Links are not followed, because Git tracks only the link and
/// not its target.
fn has_key(repository: &Path, name: &Path) -> bool {
    // The author of the repository writes the index, so a path in the index must not lead out of the repository.
    if !name.components().all(|part| matches!(part, Component::Normal(_))) {
        return false;
    }
    let path = repository.join(name);
    path.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() <= LARGEST)
        && regular_file::read(&path, LARGEST).is_ok_and(|text| contains_key(&text))
}

/// Whether a text contains a complete key. A text that only mentions the format of keys does not count.
fn contains_key(text: &[u8]) -> bool {
    text.windows(START.len() + LENGTH).any(|part| {
        part.strip_prefix(START)
            .is_some_and(|rest| rest.iter().all(|letter| ALPHABET.contains(letter)))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn key() -> String {
        format!("AGE-SECRET-KEY-1{}", "Q".repeat(LENGTH))
    }

    #[test]
    fn keys_are_found_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir(folder.path().join("dev")).unwrap();
        write("dev/notes.txt", &format!("# a key\n{}\n", key()));
        write("about.md", "keys begin with AGE-SECRET-KEY-1… and are secret");
        write("large", &format!("{}{}", key(), " ".repeat(64 << 10)));
        write("untracked", &key());
        symlink("untracked", folder.path().join("link")).unwrap();
        let names = ["about.md", "dev/notes.txt", "large", "link", "missing", "../outside"];
        let tracked: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        let found = search(folder.path(), &tracked, Path::new("dev"));
        assert_eq!(found, AgeKeys { files: vec!["dev/notes.txt".to_owned()], limit: None });
        // Files in the folder of the inventory are searched first.
        let found = search_up_to(folder.path(), &tracked, Path::new("dev"), 1);
        assert_eq!(found.files, ["dev/notes.txt"]);
        let limit = "1 of 6 tracked files were searched for age keys";
        assert_eq!(found.limit.as_deref(), Some(limit));
    }

    #[test]
    fn only_whole_keys_count() {
        assert!(contains_key(format!("x{}x", key()).as_bytes()));
        assert!(!contains_key(&key().as_bytes()[1..]));
        assert!(!contains_key(&key().as_bytes()[..key().len() - 1]));
        assert!(!contains_key(key().replace('Q', "b").as_bytes()));
    }
}
