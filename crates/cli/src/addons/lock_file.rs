//! `addons.lock.yaml`: the digests of the charts of a cluster.
//!
//! A chart of a repository or registry is recorded when it is used for the first time, and verified from then on. Files of the
//! inventory are not recorded, because they change together with it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use talmox_yaml::Node;
use talmox_yaml::build::{map, number, text};

use crate::choose::{Chosen, beside};
use crate::command_code::CommandCode;
use crate::disk::{Before, Readers, Staged};
use crate::error::CommandError;
use crate::regular_file::{self, LARGEST, ReadError};

/// Version of the format.
const FORMAT: u64 = 1;

const HEAD: &str = "\
# Digests of the charts of this cluster. talmox writes this file: commit it.
# `talmox addons update` records other digests.
";

/// Stored objects of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vendored {
    /// SHA-256 of the settings that the objects were made from.
    pub(crate) inputs: String,
    /// SHA-256 of the file with the objects.
    pub(crate) objects: String,
}

/// Recorded chart of an add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockEntry {
    /// Origin of the chart, with its version.
    pub(crate) chart: String,
    /// SHA-256 of the chart. None for a chart in the inventory.
    pub(crate) sha256: Option<String>,
    pub(crate) vendored: Option<Vendored>,
}

/// Recorded charts of a cluster.
#[derive(Debug)]
pub(crate) struct LockFile {
    path: PathBuf,
    /// Content of the file. None if it does not exist.
    before: Option<String>,
    /// Entries by the name of the add-on.
    pub(crate) entries: BTreeMap<String, LockEntry>,
}

impl LockFile {
    /// Reads the file of a cluster. A missing file has no entries.
    pub(crate) fn read(chosen: &Chosen) -> Result<Self, CommandError> {
        let path = beside(chosen.file(), "addons.lock.yaml");
        if path.symlink_metadata().is_err() {
            return Ok(Self { path, before: None, entries: BTreeMap::new() });
        }
        let unreadable = |error: ReadError| {
            let message = format!("cannot read {}", path.display());
            CommandError::failed(CommandCode::FileUnreadable, message).because(error)
        };
        chosen.refuse_outside(&path)?;
        let bytes = regular_file::read(&path, LARGEST).map_err(unreadable)?;
        let content = String::from_utf8(bytes).unwrap_or_default();
        let Some(entries) = parse(&content) else {
            let message = format!("{} is not a lock file that talmox can read", path.display());
            let hint = "restore it from Git, or delete it and run `talmox addons update`";
            return Err(CommandError::failed(CommandCode::AddonLockInvalid, message).hint(hint));
        };
        Ok(Self { path, before: Some(content), entries })
    }

    /// Entry of an add-on, if it is about this chart.
    pub(crate) fn entry(&self, addon: &str, chart: &str) -> Option<&LockEntry> {
        self.entries.get(addon).filter(|entry| entry.chart == chart)
    }

    /// Records the digest of a chart.
    pub(crate) fn record(&mut self, addon: &str, chart: &str, sha256: Option<String>) {
        let vendored = self.entries.get(addon).and_then(|entry| entry.vendored.clone());
        let entry = LockEntry { chart: chart.to_owned(), sha256, vendored };
        self.entries.insert(addon.to_owned(), entry);
    }

    /// Removes the entries of add-ons that the inventory no longer has.
    pub(crate) fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.entries.retain(|name, _| is_kept(name));
    }

    /// Writes the file if its entries changed. Returns its path if it was written.
    pub(crate) fn save(&self) -> Result<Option<PathBuf>, CommandError> {
        let content = emit(&self.entries);
        let is_unchanged = match &self.before {
            Some(before) => parse(before).as_ref() == Some(&self.entries),
            None => self.entries.is_empty(),
        };
        if is_unchanged {
            return Ok(None);
        }
        let before = self.before.as_deref().map_or(Before::Absent, Before::Holds);
        Staged::new(&self.path, &content, Readers::Everybody)?.put(before)?;
        Ok(Some(self.path.clone()))
    }
}

fn emit(entries: &BTreeMap<String, LockEntry>) -> String {
    let entry = |(name, entry): (&String, &LockEntry)| {
        let vendored = entry.vendored.as_ref().map(|vendored| {
            map([
                ("inputs", Some(text(&*vendored.inputs))),
                ("objects", Some(text(&*vendored.objects))),
            ])
        });
        let node = map([
            ("chart", Some(text(&*entry.chart))),
            ("sha256", entry.sha256.as_deref().map(text)),
            ("vendored", vendored),
        ]);
        (name.clone(), node)
    };
    let entries: Vec<(String, Node)> = entries.iter().map(entry).collect();
    let entries = map(entries.iter().map(|(name, node)| (name.as_str(), Some(node.clone()))));
    let document = map([("version", Some(number(FORMAT))), ("addons", Some(entries))]);
    format!("{HEAD}{}", talmox_yaml::emit(&document, 2))
}

/// Entries of a file. None if it is not a lock file of this format.
fn parse(content: &str) -> Option<BTreeMap<String, LockEntry>> {
    let documents = talmox_yaml::read(content).ok()?;
    let [document] = documents.as_slice() else { return None };
    let root = document.as_map()?;
    if root.get("version")?.as_str()? != FORMAT.to_string() {
        return None;
    }
    let entry = |node: &Node| {
        let node = node.as_map()?;
        let word = |key: &str| Some(node.get(key)?.as_str()?.to_owned());
        let vendored = node.get("vendored").and_then(Node::as_map).and_then(|vendored| {
            let word = |key: &str| Some(vendored.get(key)?.as_str()?.to_owned());
            Some(Vendored { inputs: word("inputs")?, objects: word("objects")? })
        });
        Some(LockEntry { chart: word("chart")?, sha256: word("sha256"), vendored })
    };
    let addons = root.get("addons")?.as_map()?;
    addons
        .entries
        .iter()
        .map(|one| Some((one.key.as_str()?.to_owned(), entry(&one.value)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_were_written() {
        let mut entries = BTreeMap::new();
        assert_eq!(parse(&emit(&entries)), Some(entries.clone()));
        let vendored = Vendored { inputs: "0e1".to_owned(), objects: "00".to_owned() };
        let chart = "https://charts.example till 1.2.3".to_owned();
        let entry = LockEntry { chart, sha256: Some("12".to_owned()), vendored: Some(vendored) };
        entries.insert("shop".to_owned(), entry);
        entries.insert("on".to_owned(), LockEntry::default());
        assert_eq!(parse(&emit(&entries)), Some(entries));
        for bad in ["", "version: 2\naddons: {}\n", "version: 1\naddons: [a]\n", "a: ["] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
