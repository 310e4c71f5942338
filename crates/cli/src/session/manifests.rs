//! Manifest files of add-ons.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

use talmox_model::Span;
use talmox_model::inventory::ManifestSource;
use talmox_plan::desired::{ManifestFile, SourceTexts};

use crate::boundary::Boundary;
use crate::choose::Chosen;
use crate::command_code::CommandCode;
use crate::error::CommandError;

/// Reads the manifests in the files and folders of the add-ons. The key is the position of the path in the inventory.
pub(crate) fn read(chosen: &Chosen) -> Result<BTreeMap<Span, SourceTexts>, CommandError> {
    let mut all = BTreeMap::new();
    for addon in chosen.cluster().file.addons.values() {
        for item in addon.manifests.iter() {
            let ManifestSource::Path(file) = &item.value else { continue };
            let path = chosen.path_at(item.span, &file.0);
            let mut texts = vec![];
            for path in paths(&path, chosen.boundary())? {
                let text = chosen.boundary().read_text(&path)?;
                texts.push(ManifestFile { origin: path.display().to_string(), text: text.into() });
            }
            all.insert(item.span, Ok(texts));
        }
    }
    Ok(all)
}

/// Paths of the manifests. For a file, this is the path of the file. For a folder, these are its manifests, sorted by
/// name.
fn paths(path: &Path, boundary: &Boundary) -> Result<Vec<PathBuf>, CommandError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    boundary.admit(path).map_err(|error| failed(path, error))?;
    let mut found = vec![];
    for entry in std::fs::read_dir(path).map_err(|error| failed(path, error))? {
        let inner = entry.map_err(|error| failed(path, error))?.path();
        let extension = inner.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && !inner.is_dir() {
            found.push(inner);
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(CommandError::failed(
            CommandCode::ManifestsMissing,
            format!("{} has no manifests", path.display()),
        )
        .hint("add .yaml, .yml or .json files to this folder"));
    }
    Ok(found)
}

fn failed(path: &Path, error: impl Error + Send + Sync + 'static) -> CommandError {
    CommandError::failed(CommandCode::FileUnreadable, format!("cannot read {}", path.display()))
        .because(error)
}
