//! Generation of a secrets bundle.

use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::{Bundle, CertificateAndKey, Certs, Cluster, Secrets, TrustdInfo};
use crate::pki::{AuthorityRequest, KeyKind, Name, PkiError, PrivateKey, new_authority};
use crate::random::{self, Randomness, SystemRandomness};
use crate::secret::SecretText;
use crate::time::UnixTime;

/// Validity of CA certificates: ten years.
const LIFETIME: Duration = Duration::from_hours(87_600);

/// Generates all secrets of a new cluster. The RSA key of the service account is generated on a separate thread and
/// takes a second or more. This function waits for it, so an async caller must use a blocking task.
pub fn generate(now: UnixTime, randomness: &mut dyn Randomness) -> Result<Bundle, PkiError> {
    thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let mut randomness = SystemRandomness::new();
            PrivateKey::generate(KeyKind::Rsa4096, &mut randomness)
        });
        let mut bundle = without_service_account_key(now, randomness)?;
        let key = slow.join();
        let key = key.expect("invariant: making a key does not panic");
        bundle.certs.k8s_service_account = key.to_pem();
        Ok(bundle)
    })
}

/// Generates a bundle with the given service account key.
pub fn generate_with(
    service_account: &PrivateKey,
    now: UnixTime,
    randomness: &mut dyn Randomness,
) -> Result<Bundle, PkiError> {
    let mut bundle = without_service_account_key(now, randomness)?;
    bundle.certs.k8s_service_account = service_account.to_pem();
    Ok(bundle)
}

/// Generates all secrets except for the service account key.
fn without_service_account_key(
    now: UnixTime,
    randomness: &mut dyn Randomness,
) -> Result<Bundle, PkiError> {
    let cluster_id: [u8; 32] = random::array(randomness);
    Ok(Bundle {
        cluster: Cluster { id: URL_SAFE.encode(cluster_id), secret: secret(randomness) },
        secrets: Secrets {
            bootstrap_token: token(randomness),
            aescbc_encryption_secret: None,
            secretbox_encryption_secret: Some(secret(randomness)),
        },
        trustd_info: TrustdInfo { token: token(randomness) },
        certs: Certs {
            etcd: authority(Name::organization("etcd"), KeyKind::EcdsaP256, now, randomness)?,
            k8s: authority(Name::organization("kubernetes"), KeyKind::EcdsaP256, now, randomness)?,
            // Talos leaves the subject of this CA empty.
            k8s_aggregator: authority(Name::default(), KeyKind::EcdsaP256, now, randomness)?,
            k8s_service_account: SecretText::default(),
            os: authority(Name::organization("talos"), KeyKind::Ed25519, now, randomness)?,
        },
    })
}

fn authority(
    subject: Name,
    kind: KeyKind,
    now: UnixTime,
    randomness: &mut dyn Randomness,
) -> Result<CertificateAndKey, PkiError> {
    let request = AuthorityRequest { subject, kind, not_before: now, lifetime: LIFETIME };
    let authority = new_authority(&request, randomness)?;
    Ok(CertificateAndKey { crt: authority.certificate.to_pem(), key: authority.key.to_pem() })
}

fn secret(randomness: &mut dyn Randomness) -> SecretText {
    let bytes: [u8; 32] = random::array(randomness);
    SecretText::new(STANDARD.encode(bytes))
}

/// Token with six and sixteen characters, as in kubeadm.
fn token(randomness: &mut dyn Randomness) -> SecretText {
    let mut part =
        |length: usize| -> String { (0..length).map(|_| character(randomness)).collect() };
    SecretText::new(format!("{}.{}", part(6), part(16)))
}

/// Random digit or lower-case letter. All characters have the same probability.
fn character(randomness: &mut dyn Randomness) -> char {
    const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    loop {
        let [byte] = random::array(randomness);
        if byte < 252 {
            return char::from(ALPHABET[usize::from(byte % 36)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeded;

    #[test]
    fn a_new_bundle_is_complete() {
        let now = UnixTime::from_seconds(1_800_000_000);
        let mut randomness = Seeded(21);
        let bundle = generate(now, &mut randomness).unwrap();
        assert_eq!(bundle.check(), Ok(()));
        let key = bundle.certs.k8s_service_account.expose();
        assert!(key.starts_with("-----BEGIN RSA PRIVATE KEY-----\n"));
        let names: Vec<_> = bundle
            .certificates()
            .map(|c| (c.name, c.certificate.unwrap().subject.to_string()))
            .collect();
        assert_eq!(
            names,
            [
                ("etcd", "O=etcd".to_owned()),
                ("k8s", "O=kubernetes".to_owned()),
                ("k8saggregator", String::new()),
                ("os", "O=talos".to_owned()),
            ]
        );
        assert!(!format!("{bundle:?}").contains("PRIVATE"));
    }
}
