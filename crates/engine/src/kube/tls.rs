//! TLS settings of a client with administrator rights. The certificate authority of the cluster issues the certificates of
//! the client and of the server.

use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use talmox_clock::Clock;
use talmox_net::{authorities, tls};
use talmox_talos_config::client::kubeconfig;
use talmox_talos_config::random::Randomness;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::time::UnixTime;

/// Validity of the client certificate: longer than any command runs, but not much longer.
const TTL: Duration = Duration::from_hours(12);

/// Group whose members have all permissions, independent of the roles in the cluster.
const MASTERS: &str = "system:masters";

/// Reason why no client can be created from a secrets bundle.
#[derive(Debug, thiserror::Error)]
#[error("no client of the Kubernetes API can be made from the bundle")]
pub struct KubeSetupError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl KubeSetupError {
    fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(source.into())
    }
}

pub(super) fn client(
    bundle: &Bundle,
    clock: Clock,
    randomness: &mut dyn Randomness,
) -> Result<ClientConfig, KubeSetupError> {
    let now = UnixTime::from_seconds(i64::try_from(clock.unix()).unwrap_or(i64::MAX));
    let groups = [MASTERS.to_owned()];
    let issued = kubeconfig::issue(bundle, &groups, TTL, now, randomness);
    let (certificate, key) = issued.map_err(KubeSetupError::new)?;
    let key = PrivateKeyDer::from_pem_slice(key.to_pkcs8_pem().expose().as_bytes());
    let key = key.map_err(KubeSetupError::new)?;
    let authority = bundle.certs.k8s.authority().map_err(KubeSetupError::new)?;
    let roots =
        authorities::from_der(authority.certificate.as_der()).map_err(KubeSetupError::new)?;
    let chain = vec![CertificateDer::from(certificate.as_der().to_vec())];
    let mut config = tls::client_with_clock(clock)
        .map_err(KubeSetupError::new)?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(KubeSetupError::new)?;
    // HTTP/1.1 carries one request at a time on a connection, so a request that hangs does not delay other requests.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
