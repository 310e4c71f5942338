//! File format of `sops` with age recipients, compatible with the program `sops` in both directions.
//!
//! - [`create`] reads a plain text, and [`decrypt`] reads an encrypted text. Both return a [`SopsDocument`].
//! - [`SopsDocument::encrypt`] writes the document. Unchanged values keep their ciphertext, so that a diff of two
//!   versions shows only the changes.
//! - [`creation_rules`] reads `.sops.yaml`.
//!
//! No value is returned before the MAC over all values was verified. One check is stricter than in `sops`: it is an
//! error if a comment has the form of an encrypted value but cannot be decrypted.
//!
//! Key groups with Shamir's scheme are not supported, and neither are data keys that only KMS, PGP or Vault can unwrap.
//! The error names the unsupported kind. If a file also has age recipients, entries of these kinds are kept.

mod cipher;
mod comments;
pub mod creation_rules;
mod crypt;
mod document;
mod metadata;
mod scalar;
mod scope;
mod secret_node;
mod walk;

use talmox_yaml::ReadError;

use crate::age::AgeError;

pub use document::{SopsDocument, create, decrypt, is_encrypted};
pub(crate) use scalar::normal_scalar;
pub use scope::{Scope, Settings};
pub use secret_node::SecretNode;

/// Release of `sops` whose behaviour this module reproduces.
const SOPS_VERSION: &str = "3.11.0";
/// Key of the metadata section.
const METADATA_KEY: &str = "sops";

/// Reason why a SOPS file cannot be read or written. The error contains paths, but never values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SopsError {
    #[error("the file is not YAML")]
    Yaml(#[source] ReadError),
    #[error("the file is not encrypted with sops: it has no `sops` section")]
    NotSops,
    #[error("the file is already encrypted: it has a `sops` section")]
    AlreadySops,
    #[error("the `sops` section is invalid: {0}")]
    BadMetadata(String),
    #[error("the file has no age recipient, only {0}")]
    NoAgeRecipient(String),
    #[error("the data key is split among key groups (Shamir), which is not supported")]
    KeyGroups,
    #[error(
        "none of the {identities} available age keys can decrypt the file; it is encrypted for {}",
        recipients.join(", ")
    )]
    WrongKey { identities: usize, recipients: Vec<String> },
    #[error("cannot unwrap the data key for {recipient}")]
    DataKey {
        recipient: String,
        #[source]
        source: AgeError,
    },
    #[error("cannot wrap the data key")]
    WrapDataKey {
        #[source]
        source: AgeError,
    },
    #[error("the value at `{path}` is not encrypted, but must be")]
    NotEncrypted { path: String },
    #[error("the value at `{path}` was changed or moved, or is damaged")]
    Damaged { path: String },
    #[error(
        "the message authentication code does not match: values were changed, added or removed"
    )]
    BrokenMac,
    #[error("the value at `{path}` is {what}, which sops does not support")]
    Unsupported { path: String, what: &'static str },
    #[error("`{path}` is set twice")]
    Twice { path: String },
    #[error("the pattern `{0}` is not a valid regular expression")]
    BadPattern(String),
    #[error("only one of encrypted_suffix, encrypted_regex and similar settings may be set")]
    ManyScopes,
    #[error("the file has no recipients")]
    NoRecipients,
    #[error("a new data key would lock out the recipients of {0}")]
    ForeignRecipients(String),
}
