//! Warnings about files with keys that Git tracks. Every reader of the repository would have access to the cluster.

use std::path::{Path, PathBuf};

use talmox_model::load::ClusterFiles;
use talmox_model::{Code, Diagnostic, Severity};
use talmox_talos_config::sops;

use super::age_key;
use crate::boundary;
use crate::choose;
use crate::rendered_folder::DEFAULT_FOLDER;
use crate::{disk, git_index};

/// Maximum number of files that are listed in a finding; further files are counted.
const MOST_NAMED: usize = 5;

const HINT: &str = "remove the files from Git with `git rm --cached FILE`. Every copy of the repository contains the keys: create \
                    a new kubeconfig and talosconfig, and treat the keys of secrets and machine configs as compromised";

/// Warnings for the selected clusters, one for each cluster that has files with keys that are tracked by Git.
pub(super) fn warnings(clusters: &[ClusterFiles]) -> Vec<Diagnostic> {
    let own = clusters.iter().filter(|files| !files.is_neighbour);
    own.filter_map(|files| warning(&files.cluster.as_ref()?.path)).collect()
}

fn warning(file: &Path) -> Option<Diagnostic> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let repository = boundary::repository(&folder.canonicalize().ok()?)?;
    let files = [
        choose::beside(file, "kubeconfig"),
        choose::beside(file, "talosconfig"),
        choose::beside(file, "secrets.yaml"),
        choose::secrets_beside(file),
    ];
    let folders = [folder.join(DEFAULT_FOLDER), PathBuf::from(DEFAULT_FOLDER)];
    let message = match git_index::tracked(&repository) {
        Ok(tracked) => {
            let mut found: Vec<String> = vec![];
            let named = files.iter().filter(|path| !is_encrypted(path));
            for path in named.filter_map(|path| inside(&repository, path)) {
                let is_tracked = tracked.iter().any(|name| name.as_slice() == bytes(&path));
                found.extend(is_tracked.then(|| path.display().to_string()));
            }
            for path in folders.iter().filter_map(|path| inside(&repository, path)) {
                let below = tracked.iter().filter(|name| holds_keys(name, &path));
                found.extend(below.map(|name| String::from_utf8_lossy(name).into_owned()));
            }
            let own = folder.canonicalize().ok()?;
            let own = own.strip_prefix(&repository).unwrap_or(Path::new(""));
            let age = age_key::search(&repository, &tracked, own);
            found.extend(age.files);
            // Two entries may be the same folder.
            found.sort();
            found.dedup();
            if found.is_empty() {
                return None;
            }
            let limit = age.limit.map(|limit| format!(" ({limit})")).unwrap_or_default();
            format!("Git tracks files with keys: {}{limit}", listed(&found))
        }
        // An unreadable index needs no warning if no file with keys exists.
        Err(_) if !files.iter().chain(&folders).any(|path| path.exists()) => return None,
        Err(error) => format!("cannot check whether Git tracks files with keys: {error}"),
    };
    Some(Diagnostic {
        severity: Severity::Warning,
        code: Code::TrackedKeys,
        message,
        primary: None,
        related: vec![],
        hint: Some(HINT.to_owned()),
    })
}

/// Whether a secrets file is encrypted, so that it may be in Git. A file that is missing or unreadable counts as
/// encrypted if its name ends with `.sops.yaml`.
fn is_encrypted(path: &Path) -> bool {
    let is_sops = path.to_string_lossy().ends_with(".sops.yaml");
    match disk::read_secret(path) {
        Ok(Some(text)) => sops::is_encrypted(text.expose()),
        _ => is_sops,
    }
}

/// Path relative to the root of the repository. `None` for a path outside the repository.
fn inside(repository: &Path, path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
    Some(folder.strip_prefix(repository).ok()?.join(path.file_name()?))
}

/// Whether a path is a machine config or talosconfig that `render` wrote. Schematics hold no keys.
fn holds_keys(name: &[u8], folder: &Path) -> bool {
    let below = name.strip_prefix(bytes(folder)).and_then(|rest| rest.strip_prefix(b"/"));
    below.is_some_and(|rest| {
        !rest.starts_with(b"schematics/")
            && (rest.ends_with(b".yaml") || rest.ends_with(b"talosconfig"))
    })
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// List of file names. Control characters are escaped, because the authors of the repository choose the names.
fn listed(names: &[String]) -> String {
    let shown: Vec<String> =
        names.iter().take(MOST_NAMED).map(|name| name.escape_debug().to_string()).collect();
    match names.len().checked_sub(MOST_NAMED) {
        Some(more @ 1..) => format!("{} and {more} more", shown.join(", ")),
        _ => shown.join(", "),
    }
}
