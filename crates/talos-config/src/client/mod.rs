//! Client files: `talosconfig` and kubeconfig. They are generated from the secrets bundle, without access to the
//! cluster, and can be merged into existing files.
//!
//! Merging keeps other contexts and unknown fields. An existing context with the same name is replaced if it belongs to
//! the same cluster, that is, if it has the same CA. Otherwise the new context is named `name-1`, as in talosctl.

pub mod kubeconfig;
mod role;
pub mod talosconfig;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use talmox_yaml::{Entry, Map, Node, ReadError, Value};

use crate::format::text as string;
use crate::pki::{Certificate, PkiError};
use crate::secret::SecretText;
use crate::time::UnixTime;

pub use role::{ClientRole, UnknownRole};

/// Time by which certificates are backdated. Without it, a node whose clock is behind would reject a certificate as not
/// valid yet.
const BACKDATED: Duration = Duration::from_mins(5);

/// Reason why a client file cannot be generated or merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("the {authority} CA of the secrets bundle cannot be used")]
    Authority {
        authority: &'static str,
        #[source]
        source: PkiError,
    },
    #[error("cannot issue a client certificate")]
    Issue(#[source] PkiError),
    #[error("the {file} is not YAML")]
    Yaml {
        file: &'static str,
        #[source]
        source: ReadError,
    },
    #[error("the {file} is invalid: {what}")]
    NotClientFile { file: &'static str, what: &'static str },
    #[error("a certificate needs at least one role")]
    NoRoles,
}

/// Result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    pub text: SecretText,
    /// Name of the new context, which is now the current context.
    pub context: String,
    /// Whether a context of the same cluster was replaced.
    pub replaced: bool,
}

/// Time when the certificate of a context expires; `None` if the context has no certificate, or the certificate cannot
/// be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextExpiry {
    pub context: String,
    pub not_after: Option<UnixTime>,
}

fn read_root(text: &str, file: &'static str) -> Result<Map, ClientError> {
    root_of(talmox_yaml::read(text), file)
}

/// Parses a file with its comments, so that merging keeps them.
fn read_commented_root(text: &str, file: &'static str) -> Result<Map, ClientError> {
    root_of(talmox_yaml::read_with_comments(text), file)
}

fn root_of(
    documents: Result<Vec<Node>, ReadError>,
    file: &'static str,
) -> Result<Map, ClientError> {
    let documents = documents.map_err(|source| ClientError::Yaml { file, source })?;
    match documents.into_iter().next() {
        None => Ok(Map::default()),
        Some(node) if node.is_null() => Ok(Map::default()),
        Some(Node { value: Value::Map(map), .. }) => Ok(map),
        Some(_) => Err(ClientError::NotClientFile { file, what: "it is not a mapping" }),
    }
}

fn set(map: &mut Map, key: &str, value: Node) {
    let is_it =
        |entry: &&mut Entry| entry.key.as_str() == Some(key) && entry.as_comment().is_none();
    match map.entries.iter_mut().find(is_it) {
        Some(entry) => entry.value = value,
        None => map.entries.push(Entry { key: string(key), value }),
    }
}

/// First name of `name`, `name-1`, `name-2` and so on that is free.
fn free_name(name: &str, mut is_free: impl FnMut(&str) -> bool) -> String {
    if is_free(name) {
        return name.to_owned();
    }
    let mut number = 1;
    loop {
        let candidate = format!("{name}-{number}");
        if is_free(&candidate) {
            return candidate;
        }
        number += 1;
    }
}

fn expiry_of(certificate: Option<&str>) -> Option<UnixTime> {
    let pem = STANDARD.decode(certificate?).ok()?;
    let certificate = Certificate::from_pem(&String::from_utf8(pem).ok()?).ok()?;
    Some(certificate.not_after)
}

#[cfg(test)]
mod tests {
    use crate::pki::{KeyKind, PrivateKey};
    use crate::random::Seeded;
    use crate::secrets::{Bundle, generate_with};
    use crate::time::UnixTime;

    pub(super) const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

    pub(super) fn bundle(seed: u64) -> Bundle {
        let mut randomness = Seeded(seed);
        let key = PrivateKey::generate(KeyKind::EcdsaP256, &mut randomness);
        generate_with(&key, NOW, &mut randomness).unwrap()
    }
}
