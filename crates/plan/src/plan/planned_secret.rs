//! Secret texts of a plan.

use serde::{Deserialize, Serialize};
use talmox_talos_config::secret::SecretText;

use crate::sha256::sha256_hex;

/// A secret text of a plan, such as a machine config.
///
/// The JSON form of a plan contains the SHA-256 of the text instead of the text. So a plan that was read from a file can be
/// shown and compared with another plan. A step of such a plan that needs the secret text cannot run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlannedSecret {
    sha256: String,
    #[serde(skip)]
    text: Option<SecretText>,
}

impl PlannedSecret {
    /// The secret text. None if the plan was read from a file.
    pub fn text(&self) -> Option<&SecretText> {
        self.text.as_ref()
    }
}

impl From<SecretText> for PlannedSecret {
    fn from(text: SecretText) -> Self {
        Self { sha256: sha256_hex(text.expose().as_bytes()), text: Some(text) }
    }
}

impl From<String> for PlannedSecret {
    fn from(text: String) -> Self {
        SecretText::new(text).into()
    }
}

/// Compares the SHA-256 only, because a plan that was read from a file does not contain the text.
impl PartialEq for PlannedSecret {
    fn eq(&self, other: &Self) -> bool {
        self.sha256 == other.sha256
    }
}

impl Eq for PlannedSecret {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_holds_the_hash_and_not_the_text() {
        let secret = PlannedSecret::from("hunter2".to_owned());
        let json = serde_json::to_string(&secret).unwrap();
        assert_eq!(json, format!("{{\"sha256\":\"{}\"}}", sha256_hex(b"hunter2")));
        assert!(!format!("{secret:?}").contains("hunter2"));
        let read: PlannedSecret = serde_json::from_str(&json).unwrap();
        assert!(read == secret && read.text().is_none() && secret.text().is_some());
        assert_ne!(read, PlannedSecret::from("hunter3".to_owned()));
    }
}
