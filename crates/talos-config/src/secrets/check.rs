//! Checks of a secrets bundle, and a summary of its certificates.

use std::fmt;
use std::time::Duration;

use super::{Bundle, CertificateAndKey};
use crate::pki::{Certificate, PkiError, PrivateKey};
use crate::secret::SecretText;
use crate::time::UnixTime;

/// Problem of a secrets bundle. Displays as `certs.os: the certificate and …`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {kind}")]
pub struct BundleProblem {
    pub path: &'static str,
    pub kind: ProblemKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    Empty,
    /// The token does not have the form `[0-9a-z]{6}.[0-9a-z]{16}`.
    NotToken,
    NoEncryptionSecret,
    TwoEncryptionSecrets,
    Pki(PkiError),
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the value is empty",
            Self::NotToken => {
                "the value must be six and sixteen digits or lower-case letters with a dot between"
            }
            Self::NoEncryptionSecret => {
                "one of aescbcencryptionsecret and secretboxencryptionsecret is required"
            }
            Self::TwoEncryptionSecrets => {
                "only one of aescbcencryptionsecret and secretboxencryptionsecret may be set"
            }
            Self::Pki(error) => return error.fmt(f),
        })
    }
}

/// Certificate of a secrets bundle, for display. It never contains a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSummary {
    /// Name of the certificate in the bundle.
    pub name: &'static str,
    pub certificate: Result<Certificate, PkiError>,
}

impl CertificateSummary {
    /// Remaining validity; `None` if the certificate has expired or cannot be parsed.
    pub fn remaining(&self, now: UnixTime) -> Option<Duration> {
        self.certificate.as_ref().ok()?.not_after.remaining(now)
    }
}

impl Bundle {
    /// Finds all problems that Talos would reject, and certificates whose key does not match.
    pub fn check(&self) -> Result<(), Vec<BundleProblem>> {
        let mut problems = vec![];
        let mut report = |path, kind| problems.push(BundleProblem { path, kind });
        if self.cluster.id.is_empty() {
            report("cluster.id", ProblemKind::Empty);
        }
        if self.cluster.secret.is_empty() {
            report("cluster.secret", ProblemKind::Empty);
        }
        for (path, token) in [
            ("secrets.bootstraptoken", &self.secrets.bootstrap_token),
            ("trustdinfo.token", &self.trustd_info.token),
        ] {
            if !is_token(token) {
                report(path, ProblemKind::NotToken);
            }
        }
        let encryption = (
            self.secrets.aescbc_encryption_secret.is_some(),
            self.secrets.secretbox_encryption_secret.is_some(),
        );
        match encryption {
            (false, false) => report("secrets", ProblemKind::NoEncryptionSecret),
            (true, true) => report("secrets", ProblemKind::TwoEncryptionSecrets),
            _ => {}
        }
        for (path, pair) in [
            ("certs.etcd", &self.certs.etcd),
            ("certs.k8s", &self.certs.k8s),
            ("certs.k8saggregator", &self.certs.k8s_aggregator),
            ("certs.os", &self.certs.os),
        ] {
            if let Err(error) = pair.authority() {
                report(path, ProblemKind::Pki(error));
            }
        }
        let service_account = self.certs.k8s_service_account.expose();
        if let Err(error) = PrivateKey::from_pem(service_account) {
            report("certs.k8sserviceaccount", ProblemKind::Pki(error));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// All certificates, in the order of the bundle file.
    pub fn certificates(&self) -> impl Iterator<Item = CertificateSummary> {
        let summary = |name, pair: &CertificateAndKey| CertificateSummary {
            name,
            certificate: Certificate::from_pem(&pair.crt),
        };
        [
            summary("etcd", &self.certs.etcd),
            summary("k8s", &self.certs.k8s),
            summary("k8saggregator", &self.certs.k8s_aggregator),
            summary("os", &self.certs.os),
        ]
        .into_iter()
    }
}

fn is_token(token: &SecretText) -> bool {
    let is_part = |part: &str, length: usize| {
        let is_allowed = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
        part.len() == length && part.bytes().all(is_allowed)
    };
    let parts = token.expose().split_once('.');
    parts.is_some_and(|(id, secret)| is_part(id, 6) && is_part(secret, 16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::KeyKind;
    use crate::random::Seeded;
    use crate::secrets::generate_with;

    #[test]
    fn all_problems_are_found_at_once() {
        let mut randomness = Seeded(41);
        let key = PrivateKey::generate(KeyKind::EcdsaP256, &mut randomness);
        let now = UnixTime::from_seconds(1_800_000_000);
        let mut bundle = generate_with(&key, now, &mut randomness).unwrap();
        assert_eq!(bundle.check(), Ok(()));
        let os = bundle.certificates().last().unwrap();
        assert_eq!(os.remaining(now), Some(Duration::from_hours(87_600)));
        assert_eq!(os.remaining(now.plus(Duration::from_hours(87_601))), None);

        bundle.secrets.aescbc_encryption_secret = Some(SecretText::new("x"));
        bundle.trustd_info.token = SecretText::new("ABCDEF.0123456789abcdef");
        bundle.certs.k8s.key = bundle.certs.etcd.key.clone();
        bundle.certs.os.crt = "rubbish".to_owned();
        let problems = bundle.check().unwrap_err();
        let paths: Vec<_> = problems.iter().map(|problem| problem.path).collect();
        assert_eq!(paths, ["trustdinfo.token", "secrets", "certs.k8s", "certs.os"]);
        assert_eq!(problems[2].to_string(), "certs.k8s: the certificate and the key do not match");
    }
}
