//! The file format of `sops`, with age recipients: read and written so that the program itself can
//! take over at any time, and the other way round.
//!
//! - [`create`] takes a plain text, [`decrypt`] an encrypted one; both give a [`Document`].
//! - [`Document::encrypt`] writes it. What did not change keeps its ciphertext, so that a diff of
//!   two versions shows what was touched.
//! - [`creation_rules`] reads `.sops.yaml`.
//!
//! Nothing is handed out before the MAC over all values has been checked. One thing is stricter
//! than in `sops`: a comment that claims to be encrypted and cannot be decrypted is an error.
//!
//! Not supported, and refused by name: key groups with Shamir's scheme, and data keys that only
//! KMS, PGP or Vault could unwrap. Such entries beside age recipients are kept.

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

pub use document::{Document, create, decrypt, is_encrypted};
pub(crate) use scalar::normal_scalar;
pub use scope::{Scope, Settings};
pub use secret_node::SecretNode;

/// The release of `sops` whose behaviour this module follows.
const SOPS_VERSION: &str = "3.11.0";
/// Where the metadata stands.
const METADATA_KEY: &str = "sops";

/// Why a SOPS file cannot be read or written. Values never appear in it, only their paths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SopsError {
    #[error("read it as YAML")]
    Yaml(#[source] ReadError),
    #[error("it is not encrypted with sops: there is no `sops` section")]
    NotSops,
    #[error("it is encrypted already: there is a `sops` section")]
    AlreadySops,
    #[error("the `sops` section is broken: {0}")]
    BadMetadata(String),
    #[error("it has no age recipient, only {0}")]
    NoAgeRecipient(String),
    #[error("its key is split among key groups (Shamir), which is not supported")]
    KeyGroups,
    #[error(
        "none of the {identities} age keys at hand opens it; it is encrypted for {}",
        recipients.join(", ")
    )]
    WrongKey { identities: usize, recipients: Vec<String> },
    #[error("unwrap its data key for {recipient}")]
    DataKey {
        recipient: String,
        #[source]
        source: AgeError,
    },
    #[error("wrap its data key")]
    WrapDataKey {
        #[source]
        source: AgeError,
    },
    #[error("the value at `{path}` should be encrypted and is not")]
    NotEncrypted { path: String },
    #[error("the value at `{path}` was changed or moved, or is damaged")]
    Damaged { path: String },
    #[error("the message authentication code does not fit: values were changed, added or removed")]
    BrokenMac,
    #[error("the value at `{path}` is {what}, which sops cannot hold")]
    Unsupported { path: String, what: &'static str },
    #[error("`{path}` stands there twice")]
    Twice { path: String },
    #[error("the pattern `{0}` is not understood")]
    BadPattern(String),
    #[error("only one of encrypted_suffix, encrypted_regex and their kin may be given")]
    ManyScopes,
    #[error("there is nobody to encrypt for")]
    NoRecipients,
    #[error("a new data key would lock out the recipients of {0}")]
    ForeignRecipients(String),
}
