//! Digest of a config file. Clients send it back to detect changes by other clients.

use std::collections::BTreeMap;

use aws_lc_rs::digest;

use super::ApiError;

/// Digest of a config file with sections (`storage.cfg`, HA and mapping configs).
pub(crate) fn of_sections<'a>(
    sections: impl IntoIterator<Item = (&'a String, &'a BTreeMap<String, String>)>,
) -> String {
    let mut text = String::new();
    for (name, options) in sections {
        text += &format!("{name}\n");
        for (key, value) in options {
            text += &format!("\t{key} {value}\n");
        }
    }
    of_text(&text)
}

pub(crate) fn of_text(text: &str) -> String {
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Rejects a change if the `digest` that the client sent differs from the digest of the current config.
pub(crate) fn check_unchanged(current: &str, seen: Option<&str>) -> Result<(), ApiError> {
    match seen {
        Some(seen) if !seen.is_empty() && seen != current => Err(ApiError::failed(
            "detected modified configuration - file changed by other user? Try again.",
        )),
        _ => Ok(()),
    }
}
