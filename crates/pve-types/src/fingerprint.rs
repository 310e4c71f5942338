//! SHA-256 fingerprint of a certificate, as Proxmox displays it.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;

/// SHA-256 fingerprint of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Display for Fingerprint {
    /// Writes the fingerprint in the form that Proxmox uses: `AB:CD:…`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

/// Error for a text that is not a fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not a SHA-256 fingerprint: 32 bytes in hexadecimal digits, such as AB:CD:…")]
pub struct BadFingerprint;

impl FromStr for Fingerprint {
    type Err = BadFingerprint;

    /// Parses a fingerprint with or without colons, in upper or lower case.
    fn from_str(text: &str) -> Result<Self, BadFingerprint> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
        let byte = |pair: &[u8]| {
            let is_hex = pair.iter().all(u8::is_ascii_hexdigit);
            let text = str::from_utf8(pair).ok().filter(|_| is_hex)?;
            u8::from_str_radix(text, 16).ok()
        };
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
        bytes
            .filter(|_| digits.len() == 64)
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or(BadFingerprint)
    }
}

impl Fingerprint {
    /// Fingerprint of a certificate in DER form.
    pub fn of(certificate: &[u8]) -> Self {
        let digest = digest::digest(&digest::SHA256, certificate);
        Self(digest.as_ref().try_into().expect("invariant: SHA-256 has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_displayed_as_in_proxmox() {
        let text = Fingerprint([0xab; 32]).to_string();
        assert!(text.starts_with("AB:AB:") && text.len() == 95, "{text}");
        assert_eq!(text.parse(), Ok(Fingerprint([0xab; 32])));
        assert_eq!("ab".repeat(32).parse(), Ok(Fingerprint([0xab; 32])));
        for odd in ["", "AB", &"ab".repeat(33), &"+b".repeat(32), &"ä".repeat(32)] {
            assert_eq!(odd.parse::<Fingerprint>(), Err(BadFingerprint), "{odd}");
        }
    }
}
