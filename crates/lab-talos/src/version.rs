//! Talos version of a node.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) patch: u32,
    /// Pre-release without the hyphen before it, such as `rc.1`.
    pub(crate) pre: String,
}

impl Version {
    /// Parses a version such as `v1.13.6` or `1.14.0-rc.1`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (numbers, pre) = text.split_once('-').unwrap_or((text, ""));
        let mut numbers = numbers.split('.').map(str::parse);
        let mut next = || numbers.next()?.ok();
        let (major, minor, patch) = (next()?, next()?, next()?);
        Some(Self { major, minor, patch, pre: pre.to_owned() })
    }

    /// Whether this version is of Talos `1.minor` or later.
    pub(crate) fn is_at_least(&self, minor: u32) -> bool {
        (self.major, self.minor) >= (1, minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}.{}", self.major, self.minor, self.patch)?;
        if self.pre.is_empty() { Ok(()) } else { write!(f, "-{}", self.pre) }
    }
}
