//! Output folder of `render`. It contains a list of the written files, so that only these files are removed later.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use serde_json::{Value as Json, json};
use talmox_talos_config::secret::SecretText;

use crate::command_code::CommandCode;
use crate::disk::{self, Before, Readers, Staged};
use crate::error::CommandError;

/// Default output folder of `render`.
pub(crate) const DEFAULT_FOLDER: &str = "generated";

/// Name of the file that lists the written files and their checksums.
const LIST: &str = ".talmox-rendered.json";

#[derive(Debug)]
pub(crate) struct RenderedFolder {
    folder: PathBuf,
    /// Checksum of the ID of the cluster that the configs belong to.
    cluster: Option<String>,
    /// Checksums of the files that the last `render` wrote, by path.
    before: BTreeMap<String, String>,
    files: BTreeMap<String, SecretText>,
}

/// Result of a write, with the names of the files.
#[derive(Debug, Default)]
pub(crate) struct RenderSummary {
    pub(crate) written: Vec<String>,
    pub(crate) unchanged: usize,
    pub(crate) removed: Vec<String>,
    /// Stale files that were kept because the user had changed them.
    pub(crate) kept: Vec<String>,
    /// Overwritten files that the user had changed.
    pub(crate) overwritten: Vec<String>,
}

impl RenderedFolder {
    pub(crate) fn open(folder: &Path) -> Result<Self, CommandError> {
        let list = folder.join(LIST);
        let (cluster, before) = match disk::read_secret(&list)? {
            None => (None, BTreeMap::new()),
            Some(text) => parse_list(text.expose()).ok_or_else(|| {
                CommandError::failed(
                    CommandCode::FileExists,
                    format!("{} is not a file list of talmox", list.display()),
                )
                .hint("move it away; then delete the files of removed nodes by hand")
            })?,
        };
        Ok(Self { folder: folder.to_owned(), cluster, before, files: BTreeMap::new() })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the folder contains configs of this cluster.
    pub(crate) fn is_of(&self, cluster_id: &str) -> bool {
        self.cluster.as_ref() == Some(&checksum(cluster_id))
    }

    /// Removes the files that the last `render` wrote, and the folders that are then empty. Files that the user changed
    /// since are kept, and their names are returned.
    pub(crate) fn take_back(self) -> Result<Vec<String>, CommandError> {
        let mut summary = RenderSummary::default();
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
            // A folder that is not empty is kept, so this error is ignored.
            fs::remove_dir(self.folder.join(folder)).ok();
        }
        Ok(summary.kept)
    }

    /// Whether the folder contains configs of any cluster.
    pub(crate) fn is_rendered(&self) -> bool {
        self.cluster.is_some()
    }

    /// Files that the last `render` wrote, relative to the folder.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.before.keys().map(String::as_str)
    }

    /// Returns an error if the folder contains configs of another cluster, or of this cluster with other secrets. These
    /// configs must not be replaced by accident.
    pub(crate) fn claim(&mut self, cluster_id: &str) -> Result<(), CommandError> {
        let own = checksum(cluster_id);
        if self.cluster.as_ref().is_some_and(|known| *known != own) {
            let folder = self.folder.display();
            let message = format!("{folder} has the configs of another cluster");
            return Err(CommandError::failed(CommandCode::FileExists, message).hint(
                "choose another --output; if the cluster got new secrets, its running nodes do not \
                 know them",
            ));
        }
        self.cluster = Some(own);
        Ok(())
    }

    pub(crate) fn add(&mut self, path: &str, text: &SecretText) {
        self.files.insert(path.to_owned(), text.clone());
    }

    /// Current content of a file, if talmox wrote it.
    pub(crate) fn existing(&self, path: &str) -> Result<Option<SecretText>, CommandError> {
        if !self.before.contains_key(path) {
            return Ok(None);
        }
        disk::read_secret(&self.folder.join(path))
    }

    /// Returns an error if one of the files to write exists and talmox did not write the existing file.
    fn refuse_foreign_files(&self) -> Result<(), CommandError> {
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

    /// Writes changed files under temporary names, so that a folder that cannot be written is reported before any file has
    /// its final name. Returns an error before any write if a file exists that talmox did not write.
    pub(crate) fn stage(self) -> Result<StagedFolder, CommandError> {
        self.refuse_foreign_files()?;
        let mut summary = RenderSummary::default();
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
                    let staged = Staged::new(&full, text.expose(), Readers::Owner)?;
                    changes.push((path.clone(), staged));
                }
            }
        }
        let mut listed: BTreeMap<String, String> = self.before.clone();
        listed
            .extend(self.files.iter().map(|(path, text)| (path.clone(), checksum(text.expose()))));
        let list = if changes.is_empty() && listed == self.before {
            None
        } else {
            Some(self.stage_list(&listed)?)
        };
        Ok(StagedFolder { folder: self, summary, list, listed, changes })
    }

    fn remove_stale(&self, summary: &mut RenderSummary) -> Result<(), CommandError> {
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

    /// Returns an error for links below the folder. Otherwise the author of the list could cause talmox to replace or
    /// remove any file.
    fn refuse_links(&self, path: &str) -> Result<(), CommandError> {
        let parts = Path::new(path).ancestors().filter(|part| !part.as_os_str().is_empty());
        parts.map(|part| self.folder.join(part)).try_for_each(|part| disk::refuse_link(&part))
    }

    fn stage_list(&self, files: &BTreeMap<String, String>) -> Result<Staged, CommandError> {
        let list = json!({ "format": 1, "cluster": self.cluster, "files": files });
        Staged::new(&self.folder.join(LIST), &format!("{list:#}\n"), Readers::Owner)
    }
}

/// Output folder whose changed files have temporary names. If this value is dropped, the temporary files are removed.
pub(crate) struct StagedFolder {
    folder: RenderedFolder,
    summary: RenderSummary,
    /// The new list of files. None if the list does not change.
    list: Option<Staged>,
    /// Checksums of the listed files, by path.
    listed: BTreeMap<String, String>,
    /// Changed files, by path.
    changes: Vec<(String, Staged)>,
}

impl StagedFolder {
    /// Gives the changed files their final names, and removes stale files.
    pub(crate) fn put(self) -> Result<RenderSummary, CommandError> {
        let Self { folder, mut summary, list, mut listed, changes } = self;
        // The list is put first, so that the list contains every written file even after an interrupt.
        if let Some(list) = list {
            list.put(Before::Anything)?;
        }
        for (path, staged) in changes {
            staged.put(Before::Anything)?;
            summary.written.push(path);
        }
        folder.remove_stale(&mut summary)?;
        listed.retain(|path, _| folder.files.contains_key(path) || summary.kept.contains(path));
        folder.stage_list(&listed)?.put(Before::Anything)?;
        Ok(summary)
    }
}

fn ignore_missing(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Parses the list. `None` if the format is unknown or a path is outside of the folder.
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
