//! Patches: strategic merges and JSON patches. The content of a patch determines its type, as in Talos.
//!
//! The caller reads patch files. [`source`] distinguishes file names from patches.

pub(crate) mod delete;
mod json;
mod json6902;
mod merge;

use crate::document::{Config, DecodeError, Item};
use crate::schema::Release;
use crate::secret::SecretText;
use json6902::JsonPatch;

/// Reason why patches cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch or the config cannot be parsed.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Talos accepts JSON patches only for configs with a single document.
    #[error("JSON6902 patches are not supported for multi-document machine configuration")]
    MultiDocument,
    #[error("failure applying rfc6902 patches to talos machine config: {0}")]
    Json(String),
    #[error("{0}")]
    Delete(String),
    #[error("{0}")]
    Merge(String),
}

/// Meaning of a command line argument that specifies a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// Name of a file with the patch.
    File(&'a str),
    /// Text of the patch.
    Inline(&'a str),
}

/// Distinguishes file names from patches, as `talosctl` does. A file name is `@name`, or a word that cannot be a patch.
pub fn source(argument: &str) -> Source<'_> {
    match argument.strip_prefix('@') {
        Some(name) => Source::File(name),
        None if argument.contains(['\n', ' ']) || argument.starts_with(['[', '{']) => {
            Source::Inline(argument)
        }
        None => Source::File(argument),
    }
}

/// Parsed patch.
#[derive(Clone, Debug)]
pub struct Patch(Form);

#[derive(Clone, Debug)]
enum Form {
    Strategic(Config),
    Json(JsonPatch),
}

impl Patch {
    /// Parses a patch: a strategic merge if possible, otherwise a JSON patch in JSON or YAML.
    pub fn parse(text: &str, release: Release) -> Result<Self, PatchError> {
        let rejected = match Config::parse_patch(text, release) {
            Ok(config) => return Ok(Self(Form::Strategic(config))),
            Err(error) => error,
        };
        match JsonPatch::parse(text) {
            Ok(patch) => Ok(Self(Form::Json(patch))),
            Err(reason) if text.trim_start().starts_with('[') => {
                Err(PatchError::Decode(DecodeError(reason)))
            }
            Err(_) => Err(PatchError::Decode(rejected)),
        }
    }

    /// Whether this is a JSON patch. Configs with several documents do not accept JSON patches.
    pub fn is_json(&self) -> bool {
        matches!(self.0, Form::Json(_))
    }
}

/// Applies patches in order and returns the canonical text of the result.
pub fn apply(config: &str, patches: &[Patch], release: Release) -> Result<String, PatchError> {
    let state = State::Text(SecretText::new(config));
    Ok(state.patched(patches, release)?.encode())
}

/// Applies patches to a parsed config.
pub fn apply_to(config: &Config, patches: &[Patch]) -> Result<Config, PatchError> {
    State::Config(config.clone()).patched(patches, config.release())
}

/// Config between two patches. JSON patches change the text, and merges change the documents. Talos converts between
/// them only if necessary.
enum State {
    Text(SecretText),
    Config(Config),
}

impl State {
    fn patched(mut self, patches: &[Patch], release: Release) -> Result<Config, PatchError> {
        for patch in patches {
            self = match &patch.0 {
                Form::Strategic(patch) => Self::Config(merge(&self.config(release)?, patch)?),
                Form::Json(patch) => {
                    Self::Text(SecretText::new(patch.apply(self.text().expose())?))
                }
            };
        }
        let config = self.config(release)?;
        reject_named_deletions(&config)?;
        Ok(config)
    }

    fn config(self, release: Release) -> Result<Config, DecodeError> {
        match self {
            Self::Text(text) => Config::parse(text.expose(), release),
            Self::Config(config) => Ok(config),
        }
    }

    fn text(self) -> SecretText {
        match self {
            Self::Text(text) => text,
            Self::Config(config) => SecretText::new(config.encode()),
        }
    }
}

fn merge(config: &Config, patch: &Config) -> Result<Config, PatchError> {
    let release = config.release();
    let mut items: Vec<Option<Item>> = config.in_patch_order().into_iter().map(Some).collect();
    merge::check_copyable(&config.entries, release)?;
    // A document that a patch adds is not merged with later documents of the same patch.
    let known = items.len();
    for change in patch.in_patch_order() {
        let id = change.id();
        let is_same = |item: &Option<Item>| item.as_ref().is_some_and(|item| item.id() == id);
        let Some(at) = items[..known].iter().rposition(is_same) else {
            items.push(Some(change));
            continue;
        };
        match (&mut items[at], change) {
            (Some(Item::Document(document)), Item::Document(change)) => {
                merge::merge_documents(document, &change, release).map_err(PatchError::Merge)?;
            }
            (Some(Item::Document(document)), Item::Deletion(deletion)) => {
                let gone = deletion.apply(document, release).map_err(PatchError::Delete)?;
                if gone {
                    items[at] = None;
                }
            }
            (_, Item::Deletion(deletion)) if deletion.is_whole_document() => items[at] = None,
            _ => {
                return Err(PatchError::Merge(format!(
                    "merge type mismatch: {id} is a deletion that found nothing to delete"
                )));
            }
        }
    }
    let items = items.into_iter().flatten().collect();
    Ok(Config::collect(items, release)?)
}

/// Returns an error for a deletion of a named document that does not exist. Talos keeps such a deletion as an empty
/// document, and then fails to write it.
fn reject_named_deletions(config: &Config) -> Result<(), PatchError> {
    for item in &config.entries {
        if let Item::Deletion(deletion) = item
            && deletion.has_name()
        {
            return Err(PatchError::Delete(format!(
                "patch delete: there is no document {}",
                deletion.id()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_files_or_patches() {
        assert_eq!(source("@a b.yaml"), Source::File("a b.yaml"));
        assert_eq!(source("patch.yaml"), Source::File("patch.yaml"));
        for inline in ["machine: {}", "[]", "{}", "a:\n"] {
            assert_eq!(source(inline), Source::Inline(inline));
        }
    }
}
