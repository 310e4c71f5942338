//! The folder that `render` writes to. It keeps a list of what it wrote, so that it can take back
//! its own files and nobody else's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use serde_json::{Value as Json, json};
use talmox_talos_config::secret::SecretText;

use crate::command_code::CommandCode;
use crate::disk::{self, Before};
use crate::error::CommandError;

/// Names the files and their checksums.
const LIST: &str = ".talmox-rendered.json";

#[derive(Debug)]
pub(crate) struct Output {
    folder: PathBuf,
    /// The cluster whose configs are there: a checksum of its id.
    cluster: Option<String>,
    /// Path → checksum of what was written last time.
    before: BTreeMap<String, String>,
    files: BTreeMap<String, SecretText>,
}

/// What became of the files.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) written: Vec<String>,
    pub(super) unchanged: usize,
    pub(super) removed: Vec<String>,
    /// Stale, but changed by somebody since.
    pub(super) kept: Vec<String>,
    /// Written although somebody had changed them.
    pub(super) overwritten: Vec<String>,
}

impl Output {
    pub(crate) fn open(folder: &Path) -> Result<Self, CommandError> {
        let list = folder.join(LIST);
        let (cluster, before) = match disk::read_secret(&list)? {
            None => (None, BTreeMap::new()),
            Some(text) => parse_list(text.expose()).ok_or_else(|| {
                CommandError::failed(
                    CommandCode::FileExists,
                    format!("{} is not a list of talmox", list.display()),
                )
                .hint("move it away; files of nodes that left are then yours to remove")
            })?,
        };
        Ok(Self { folder: folder.to_owned(), cluster, before, files: BTreeMap::new() })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// True if configs of this cluster are there.
    pub(crate) fn is_of(&self, cluster_id: &str) -> bool {
        self.cluster.as_ref() == Some(&checksum(cluster_id))
    }

    /// Removes all that was written, and folders that are empty then. Returns the files that somebody changed since:
    /// they stay.
    pub(crate) fn take_back(self) -> Result<Vec<String>, CommandError> {
        let mut summary = Summary::default();
        self.remove_stale(&mut summary)?;
        let failed = |error| {
            CommandError::failed(
                CommandCode::FileUnwritable,
                format!("cannot remove {}", self.folder.join(LIST).display()),
            )
            .because(error)
        };
        fs::remove_file(self.folder.join(LIST)).or_else(ignore_missing).map_err(failed)?;
        let mut folders: BTreeSet<&Path> = BTreeSet::new();
        folders.extend(self.before.keys().flat_map(|path| Path::new(path).ancestors().skip(1)));
        for folder in folders.into_iter().rev() {
            // One that still holds something stays, and that is no error.
            fs::remove_dir(self.folder.join(folder)).ok();
        }
        Ok(summary.kept)
    }

    /// True if configs of some cluster are there.
    pub(crate) fn is_rendered(&self) -> bool {
        self.cluster.is_some()
    }

    /// The files that were written last time, relative to the folder.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.before.keys().map(String::as_str)
    }

    /// Refuses a folder that holds the configs of another cluster, or of this one under an identity
    /// that it has no more: neither is to be replaced by accident.
    pub(super) fn claim(&mut self, cluster_id: &str) -> Result<(), CommandError> {
        let own = checksum(cluster_id);
        if self.cluster.as_ref().is_some_and(|known| *known != own) {
            let folder = self.folder.display();
            let message = format!("{folder} holds the configs of another cluster");
            return Err(CommandError::failed(CommandCode::FileExists, message).hint(
                "choose another --output; if the cluster got new secrets, its running nodes do not \
                 know them",
            ));
        }
        self.cluster = Some(own);
        Ok(())
    }

    pub(super) fn add(&mut self, path: &str, text: &SecretText) {
        self.files.insert(path.to_owned(), text.clone());
    }

    /// What stands in a file now, if talmox wrote it.
    pub(super) fn existing(&self, path: &str) -> Result<Option<SecretText>, CommandError> {
        if !self.before.contains_key(path) {
            return Ok(None);
        }
        disk::read_secret(&self.folder.join(path))
    }

    /// Refuses a folder in which a file stands in the place of one of these that talmox did not write.
    pub(super) fn refuse_foreign_files(&self) -> Result<(), CommandError> {
        for (path, text) in &self.files {
            let full = self.folder.join(path);
            self.refuse_links(path)?;
            let current = disk::read_secret(&full)?;
            let is_other = current.is_some_and(|current| current.expose() != text.expose());
            if is_other && !self.before.contains_key(path) {
                return Err(CommandError::failed(
                    CommandCode::FileExists,
                    format!("{} exists already", full.display()),
                )
                .hint("talmox did not write it; move it away or choose another --output"));
            }
        }
        Ok(())
    }

    /// Writes what differs, removes what is stale. A file that somebody else put there is refused
    /// before anything is written.
    pub(super) fn write(self) -> Result<Summary, CommandError> {
        self.refuse_foreign_files()?;
        let mut summary = Summary::default();
        let mut changes = vec![];
        for (path, text) in &self.files {
            let full = self.folder.join(path);
            match disk::read_secret(&full)? {
                Some(current) if current.expose() == text.expose() => summary.unchanged += 1,
                current => {
                    let known = self.before.get(path);
                    let is_edited =
                        current.is_some_and(|current| known != Some(&checksum(current.expose())));
                    if is_edited {
                        summary.overwritten.push(path.clone());
                    }
                    changes.push((full, path, text));
                }
            }
        }
        // The list comes first: whatever happens after, every file we wrote is on it.
        let mut listed: BTreeMap<String, String> = self.before.clone();
        listed
            .extend(self.files.iter().map(|(path, text)| (path.clone(), checksum(text.expose()))));
        if !changes.is_empty() || listed != self.before {
            self.save_list(&listed)?;
        }
        for (full, path, text) in changes {
            disk::write_private(&full, text.expose(), Before::Anything)?;
            summary.written.push(path.clone());
        }
        self.remove_stale(&mut summary)?;
        listed.retain(|path, _| self.files.contains_key(path) || summary.kept.contains(path));
        self.save_list(&listed)?;
        Ok(summary)
    }

    fn remove_stale(&self, summary: &mut Summary) -> Result<(), CommandError> {
        let stale = self.before.iter().filter(|(path, _)| !self.files.contains_key(*path));
        for (path, known) in stale {
            let full = self.folder.join(path);
            self.refuse_links(path)?;
            match disk::read_secret(&full)? {
                None => {}
                Some(text) if checksum(text.expose()) == *known => {
                    fs::remove_file(&full).or_else(ignore_missing).map_err(|error| {
                        CommandError::failed(
                            CommandCode::FileUnwritable,
                            format!("cannot remove {}", full.display()),
                        )
                        .because(error)
                    })?;
                    summary.removed.push(path.clone());
                }
                Some(_) => summary.kept.push(path.clone()),
            }
        }
        Ok(())
    }

    /// Refuses links below the folder: the author of its list could have any file replaced or removed.
    fn refuse_links(&self, path: &str) -> Result<(), CommandError> {
        let parts = Path::new(path).ancestors().filter(|part| !part.as_os_str().is_empty());
        parts.map(|part| self.folder.join(part)).try_for_each(|part| disk::refuse_link(&part))
    }

    fn save_list(&self, files: &BTreeMap<String, String>) -> Result<(), CommandError> {
        let list = json!({ "format": 1, "cluster": self.cluster, "files": files });
        disk::write_private(&self.folder.join(LIST), &format!("{list:#}\n"), Before::Anything)
    }
}

fn ignore_missing(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Paths that lead out of the folder are not ours, whoever wrote them into the list.
fn parse_list(text: &str) -> Option<(Option<String>, BTreeMap<String, String>)> {
    let json: Json = serde_json::from_str(text).ok()?;
    if json["format"] != 1 {
        return None;
    }
    let mut files = BTreeMap::new();
    for (path, checksum) in json["files"].as_object()? {
        let is_inside = Path::new(path)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        if !is_inside {
            return None;
        }
        files.insert(path.clone(), checksum.as_str()?.to_owned());
    }
    Some((json["cluster"].as_str().map(str::to_owned), files))
}

fn checksum(text: &str) -> String {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
