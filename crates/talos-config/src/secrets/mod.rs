//! Secrets bundle of a cluster, in the form of `talosctl gen secrets`.
//!
//! A bundle is the identity of a cluster, so it is generated only once. Texts are kept as they were read (certificates
//! and keys as PEM), so that writing a bundle produces the original bytes.

mod check;
mod file;
mod generate;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::generate::{ClusterIdentity, KeyPair};
use crate::pki::{Authority, PkiError};
use crate::secret::{REDACTED, SecretText};

pub use check::{BundleProblem, CertificateSummary, ProblemKind};
pub use file::BundleError;
pub use generate::{generate, generate_with};

/// All secrets of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    pub cluster: Cluster,
    pub secrets: Secrets,
    pub trustd_info: TrustdInfo,
    pub certs: Certs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Cluster ID. It is not secret. Its alphabet differs between Talos releases.
    pub id: String,
    pub secret: SecretText,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secrets {
    pub bootstrap_token: SecretText,
    /// Secret for AES-CBC, only in old clusters. A bundle has either this secret or `secretbox_encryption_secret`.
    pub aescbc_encryption_secret: Option<SecretText>,
    pub secretbox_encryption_secret: Option<SecretText>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustdInfo {
    pub token: SecretText,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certs {
    pub etcd: CertificateAndKey,
    pub k8s: CertificateAndKey,
    pub k8s_aggregator: CertificateAndKey,
    /// Service account key. It has no certificate.
    pub k8s_service_account: SecretText,
    /// CA of the Talos API.
    pub os: CertificateAndKey,
}

/// Certificate and key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateAndKey {
    pub crt: String,
    pub key: SecretText,
}

impl CertificateAndKey {
    pub fn authority(&self) -> Result<Authority, PkiError> {
        Authority::from_pem(&self.crt, self.key.expose())
    }

    /// Certificate in the form that machine configs contain.
    pub fn crt_base64(&self) -> String {
        to_base64(&self.crt)
    }

    /// Key in the form that machine configs contain.
    pub fn key_base64(&self) -> SecretText {
        SecretText::new(to_base64(self.key.expose()))
    }
}

/// Base64 of a PEM text. A redacted text is not changed, as in Talos.
pub(crate) fn to_base64(pem: &str) -> String {
    if pem == REDACTED { pem.to_owned() } else { STANDARD.encode(pem) }
}

impl From<&Bundle> for ClusterIdentity {
    fn from(bundle: &Bundle) -> Self {
        let text = |secret: &SecretText| secret.expose().to_owned();
        let optional = |secret: &Option<SecretText>| secret.as_ref().map(text).unwrap_or_default();
        let pair = |pair: &CertificateAndKey| KeyPair {
            crt: pair.crt_base64(),
            key: text(&pair.key_base64()),
        };
        Self {
            cluster_id: bundle.cluster.id.clone(),
            cluster_secret: text(&bundle.cluster.secret),
            bootstrap_token: text(&bundle.secrets.bootstrap_token),
            secretbox_encryption_secret: optional(&bundle.secrets.secretbox_encryption_secret),
            aescbc_encryption_secret: optional(&bundle.secrets.aescbc_encryption_secret),
            machine_token: text(&bundle.trustd_info.token),
            os: pair(&bundle.certs.os),
            kubernetes: pair(&bundle.certs.k8s),
            aggregator: pair(&bundle.certs.k8s_aggregator),
            etcd: pair(&bundle.certs.etcd),
            service_account_key: to_base64(bundle.certs.k8s_service_account.expose()),
        }
    }
}
