//! A text that nobody gets to see by accident.

use std::fmt;

use zeroize::Zeroizing;

/// What stands in place of a secret.
pub(crate) const REDACTED: &str = "***";

/// A password, the secret of a token, a ticket. Shows itself as `***` and is wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself, for the one place that must send it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// Whether values under this parameter are nobody's business.
pub fn is_secret(parameter: &str) -> bool {
    matches!(parameter, "password" | "cipassword" | "otp" | "tfa-challenge" | "ticket")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_itself() {
        assert_eq!(format!("{:?}", Some(Secret::new("hunter2"))), "Some(***)");
        assert!(is_secret("cipassword") && !is_secret("sshkeys"));
    }
}
