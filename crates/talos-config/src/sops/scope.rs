//! Rule that determines which values of a file are encrypted.

use regex_lite::Regex;
use talmox_yaml::Map;

use super::SopsError;

const DEFAULT_SUFFIX: &str = "_unencrypted";

/// Rule that determines which values are encrypted. A file has exactly one rule.
#[derive(Clone, Debug)]
pub enum Scope {
    /// All values are encrypted, except for values below a key with this suffix.
    UnencryptedSuffix(String),
    /// Only values below a key with this suffix are encrypted.
    EncryptedSuffix(String),
    /// All values are encrypted, except for values below a key that matches.
    UnencryptedRegex(Regex),
    /// Only values below a key that matches are encrypted.
    EncryptedRegex(Regex),
    /// All values are encrypted, except for values after a comment that matches.
    UnencryptedCommentRegex(Regex),
    /// Only values after a comment that matches are encrypted.
    EncryptedCommentRegex(Regex),
}

/// Encryption settings of a file. The recipients are not part of them.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub scope: Scope,
    /// Whether the MAC covers only the encrypted values, so that the other values can be edited without `sops`.
    pub mac_only_encrypted: bool,
}

impl Default for Scope {
    fn default() -> Self {
        Self::UnencryptedSuffix(DEFAULT_SUFFIX.to_owned())
    }
}

impl Scope {
    /// Key and value of the rule in the metadata and in `.sops.yaml`.
    pub(super) fn to_field(&self) -> (&'static str, &str) {
        match self {
            Self::UnencryptedSuffix(suffix) => ("unencrypted_suffix", suffix),
            Self::EncryptedSuffix(suffix) => ("encrypted_suffix", suffix),
            Self::UnencryptedRegex(regex) => ("unencrypted_regex", regex.as_str()),
            Self::EncryptedRegex(regex) => ("encrypted_regex", regex.as_str()),
            Self::UnencryptedCommentRegex(regex) => ("unencrypted_comment_regex", regex.as_str()),
            Self::EncryptedCommentRegex(regex) => ("encrypted_comment_regex", regex.as_str()),
        }
    }

    fn from_field(name: &str, text: &str) -> Option<Result<Self, SopsError>> {
        let regex = |make: fn(Regex) -> Self| Some(pattern(text).map(make));
        match name {
            "unencrypted_suffix" => Some(Ok(Self::UnencryptedSuffix(text.to_owned()))),
            "encrypted_suffix" => Some(Ok(Self::EncryptedSuffix(text.to_owned()))),
            "unencrypted_regex" => regex(Self::UnencryptedRegex),
            "encrypted_regex" => regex(Self::EncryptedRegex),
            "unencrypted_comment_regex" => regex(Self::UnencryptedCommentRegex),
            "encrypted_comment_regex" => regex(Self::EncryptedCommentRegex),
            _ => None,
        }
    }

    /// Whether the value at this path is encrypted. `comments` contains the comments before the value and before the
    /// collections that contain it, outermost first, as written in the file. If the value itself is a comment, it is
    /// the last of these comments.
    pub(super) fn covers(
        &self,
        path: &[String],
        comments: &[Vec<String>],
        is_comment: bool,
    ) -> bool {
        match self {
            Self::UnencryptedSuffix(suffix) => !path.iter().any(|key| key.ends_with(suffix)),
            Self::EncryptedSuffix(suffix) => path.iter().any(|key| key.ends_with(suffix)),
            Self::UnencryptedRegex(regex) => !path.iter().any(|key| regex.is_match(key)),
            Self::EncryptedRegex(regex) => path.iter().any(|key| regex.is_match(key)),
            Self::UnencryptedCommentRegex(regex) => {
                !comments.iter().flatten().any(|text| regex.is_match(text))
            }
            Self::EncryptedCommentRegex(regex) => {
                // The comment that selects encryption is not encrypted itself.
                let count = comments.iter().map(Vec::len).sum::<usize>();
                let others = count - usize::from(is_comment && count > 0);
                comments.iter().flatten().take(others).any(|text| regex.is_match(text))
            }
        }
    }
}

impl Settings {
    /// Reads the settings from the metadata or from a creation rule.
    pub(super) fn read(map: &Map) -> Result<Self, SopsError> {
        let mut scopes = map.entries.iter().filter_map(|entry| {
            let text = entry.value.as_str().filter(|text| !text.is_empty())?;
            Scope::from_field(entry.key.as_str()?, text)
        });
        let scope = scopes.next().transpose()?.unwrap_or_default();
        if scopes.next().is_some() {
            return Err(SopsError::ManyScopes);
        }
        let mac_only_encrypted = map
            .get("mac_only_encrypted")
            .and_then(|node| node.as_str())
            .is_some_and(|text| text.eq_ignore_ascii_case("true"));
        Ok(Self { scope, mac_only_encrypted })
    }
}

pub(super) fn pattern(text: &str) -> Result<Regex, SopsError> {
    Regex::new(text).map_err(|_| SopsError::BadPattern(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(field: &str, text: &str, path: &[&str], comments: &[&[&str]], comment: bool) -> bool {
        let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let comments: Vec<Vec<String>> = comments.iter().map(|texts| own(texts)).collect();
        let path: Vec<String> = own(path);
        let scope = Scope::from_field(field, text).unwrap().unwrap();
        scope.covers(&path, &comments, comment)
    }

    #[test]
    fn keys_select_the_encrypted_values() {
        assert!(!covers("unencrypted_suffix", "_u", &["a_u", "b"], &[], false));
        assert!(covers("unencrypted_suffix", "_u", &["a", "b"], &[], false));
        assert!(covers("encrypted_suffix", "_e", &["a_e", "b"], &[], false));
        assert!(covers("encrypted_regex", "^(b|c)$", &["a", "b"], &[], false));
        assert!(!covers("encrypted_regex", "^(b|c)$", &["a", "bc"], &[], false));
        assert!(!covers("unencrypted_regex", "^a", &["ab", "c"], &[], false));
    }

    #[test]
    fn comments_select_the_encrypted_values() {
        let field = "encrypted_comment_regex";
        assert!(covers(field, "enc", &["a"], &[&[" enc"]], false));
        assert!(covers(field, "enc", &["a", "b"], &[&[" enc"], &[]], false));
        assert!(!covers(field, "enc", &[], &[&[" enc"]], true));
        assert!(covers(field, "enc", &[], &[&[" enc", " more"]], true));
        assert!(!covers(field, "enc", &["a"], &[&[]], false));
        assert!(!covers("unencrypted_comment_regex", "raw", &["a"], &[&[" raw"]], false));
    }

    #[test]
    fn a_file_has_one_rule() {
        let read = |text: &str| {
            let documents = talmox_yaml::read(text).unwrap();
            Settings::read(documents[0].as_map().unwrap())
        };
        assert_eq!(read("a: 1").unwrap().scope.to_field(), ("unencrypted_suffix", "_unencrypted"));
        assert!(read("mac_only_encrypted: true").unwrap().mac_only_encrypted);
        assert!(matches!(
            read("encrypted_suffix: a\nencrypted_regex: b"),
            Err(SopsError::ManyScopes)
        ));
        assert!(matches!(read("encrypted_regex: ("), Err(SopsError::BadPattern(_))));
    }
}
