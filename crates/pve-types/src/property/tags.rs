use std::collections::BTreeSet;
use std::fmt;

use crate::wire::split;

/// Set of the tags of a VM, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags(BTreeSet<String>);

impl Tags {
    pub fn of<T: AsRef<str>>(tags: impl IntoIterator<Item = T>) -> Self {
        Self(tags.into_iter().map(|tag| tag.as_ref().to_lowercase()).collect())
    }

    /// Parses any notation of Proxmox.
    pub fn parse(text: &str) -> Self {
        Self::of(split(text))
    }

    pub fn contains(&self, tag: &str) -> bool {
        self.0.contains(&tag.to_lowercase())
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl fmt::Display for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.iter().collect::<Vec<_>>().join(";"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_a_set() {
        let tags = Tags::parse("Talmox,home; b  home");
        assert_eq!(tags.to_string(), "b;home;talmox");
        assert_eq!(tags, Tags::of(["home", "b", "TALMOX"]));
        assert!(tags.contains("Home"));
    }
}
