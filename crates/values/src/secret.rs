//! Texts that must not be shown: keys, passwords, tokens, and files that contain them.

use std::fmt;

use zeroize::Zeroizing;

/// Text that is shown in place of a secret. Talos uses the same text.
pub const REDACTED: &str = "******";

/// Secret text. `Debug` and `Display` print [`REDACTED`]. Dropping a secret text overwrites its memory.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The secret text itself. Reviews must check every use of this function.
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_wiped_from_memory() {
        fn assert_wiped(_: &impl zeroize::ZeroizeOnDrop) {}
        assert_wiped(&SecretText::new("hunter2").0);
    }

    #[test]
    fn secrets_show_nothing() {
        let secret = SecretText::new("hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "****** ******");
        assert_eq!(format!("{:?}", Some(&secret)), "Some(******)");
        assert_eq!(secret.expose(), "hunter2");
    }
}
