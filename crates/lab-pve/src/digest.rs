//! The digest of a configuration file, by which callers notice that somebody else changed it.

use std::collections::BTreeMap;

use aws_lc_rs::digest;

use super::Refusal;

/// Sections of name to options.
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

/// Refuses a change that was made from an older reading.
pub(crate) fn check_unchanged(current: &str, seen: Option<&str>) -> Result<(), Refusal> {
    match seen {
        Some(seen) if !seen.is_empty() && seen != current => Err(Refusal::failed(
            "detected modified configuration - file changed by other user? Try again.",
        )),
        _ => Ok(()),
    }
}
