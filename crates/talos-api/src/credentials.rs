//! Credentials for configured nodes: the CA of the cluster, a client certificate and its key.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use talmox_talos_config::client::{ClientError, ClientRole, talosconfig};
use talmox_talos_config::pki::{Certificate, PkiError, PrivateKey};
use talmox_talos_config::random::Randomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::time::UnixTime;
use talmox_yaml::{Node, ReadError};

/// Certificates and key for mutual TLS. `Debug` hides the key.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub(crate) authority: Certificate,
    pub(crate) certificate: Certificate,
    key: SecretText,
}

/// Reason why credentials could not be created.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("cannot generate a talosconfig")]
    Issue(#[from] ClientError),
    #[error("the talosconfig is not YAML")]
    Yaml(#[from] ReadError),
    #[error("the talosconfig has no context `{context}`")]
    NoContext { context: String },
    #[error("`{field}` of the context is missing, or is not base64-encoded text")]
    Field { field: &'static str },
    #[error("`{field}` of the context is invalid")]
    Pki {
        field: &'static str,
        #[source]
        source: PkiError,
    },
    #[error("the certificate and the key of the context do not match")]
    Mismatch,
}

impl Credentials {
    /// Issues a certificate with these roles from the secrets bundle. A short `ttl` limits the damage if the
    /// certificate leaks.
    pub fn issue(
        bundle: &Bundle,
        roles: &[ClientRole],
        ttl: Duration,
        now: UnixTime,
        randomness: &mut dyn Randomness,
    ) -> Result<Self, CredentialsError> {
        let request = talosconfig::TalosconfigRequest {
            context: "talmox",
            endpoints: &[],
            nodes: &[],
            roles,
            ttl,
        };
        let text = talosconfig::generate(bundle, &request, now, randomness)?;
        Self::from_talosconfig(&text, None)
    }

    /// Reads the named context of a talosconfig, or its current context.
    pub fn from_talosconfig(
        text: &SecretText,
        context: Option<&str>,
    ) -> Result<Self, CredentialsError> {
        let root = talmox_yaml::read_first(text.expose())?;
        let get = |node: Option<&Node>, key: &str| node?.as_map()?.get(key).cloned();
        let current = get(root.as_ref(), "context");
        let name = context.or(current.as_ref().and_then(Node::as_str)).unwrap_or_default();
        let contexts = get(root.as_ref(), "contexts");
        let context = get(contexts.as_ref(), name)
            .ok_or_else(|| CredentialsError::NoContext { context: name.to_owned() })?;
        let pem = |field: &'static str| {
            let value = context.as_map().and_then(|map| map.get(field)).and_then(Node::as_str);
            let bytes = value.and_then(|text| STANDARD.decode(text).ok());
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            text.map(SecretText::new).ok_or(CredentialsError::Field { field })
        };
        let certificate = |field| {
            Certificate::from_pem(pem(field)?.expose())
                .map_err(|source| CredentialsError::Pki { field, source })
        };
        let key = PrivateKey::from_pem(pem("key")?.expose())
            .map_err(|source| CredentialsError::Pki { field: "key", source })?;
        let (authority, certificate) = (certificate("ca")?, certificate("crt")?);
        if !certificate.belongs_to(&key) {
            return Err(CredentialsError::Mismatch);
        }
        Ok(Self { authority, certificate, key: key.to_pkcs8_pem() })
    }

    /// Name of the current context of a talosconfig.
    pub fn current_context(text: &SecretText) -> Option<String> {
        let root = talmox_yaml::read_first(text.expose()).ok()??;
        root.as_map()?.get("context")?.as_str().map(str::to_owned)
    }

    /// Expiry of the client certificate.
    pub fn not_after(&self) -> UnixTime {
        self.certificate.not_after
    }

    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![CertificateDer::from(self.certificate.as_der().to_vec())]
    }

    pub(crate) fn private_key(&self) -> Result<PrivateKeyDer<'static>, pem::Error> {
        PrivateKeyDer::from_pem_slice(self.key.expose().as_bytes())
    }
}
