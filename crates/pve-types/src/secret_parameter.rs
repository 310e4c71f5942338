//! Names of the request parameters whose values are secrets.

/// Whether the values of this parameter are secret and must not be shown.
pub fn is_secret(parameter: &str) -> bool {
    matches!(parameter, "password" | "cipassword" | "otp" | "tfa-challenge" | "ticket")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_secret_and_public_keys_are_not() {
        assert!(is_secret("cipassword") && !is_secret("sshkeys"));
    }
}
