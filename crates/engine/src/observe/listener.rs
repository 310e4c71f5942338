//! What listens at a port, by the certificate that it presents.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::CertificateError;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime as TlsTime};
use talmox_net::{ByLeaf, authorities, tls};
use talmox_plan::observed::PortSeen;
use talmox_talos_api::{Address, Reach};
use talmox_talos_config::pki::{Certificate, Name};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Timeout of each step of connecting, in real time: it limits a socket. An address without a machine must not delay a plan.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Subject of the certificates of Kubernetes API servers.
const API_SERVER: &str = "kube-apiserver";

/// Opens a connection. None if no server accepts it.
pub(super) async fn connect(address: &Address, reach: &Reach) -> Option<TcpStream> {
    reach.connect(address, CONNECT_TIMEOUT).await.ok()
}

/// Identifies the server that accepted a connection. `authority` is the certificate of the Kubernetes CA of this
/// cluster, in DER form.
pub(super) async fn identify(
    socket: TcpStream,
    address: &Address,
    authority: Option<&[u8]>,
) -> PortSeen {
    let leaf = match server_certificate(socket, address).await {
        Ok(leaf) => leaf,
        Err(what) => return PortSeen::Other(what.to_owned()),
    };
    if authority.is_some_and(|authority| is_signed_by(&leaf, authority)) {
        return PortSeen::ThisCluster;
    }
    let read = Certificate::from_der(leaf.to_vec());
    PortSeen::Other(match read {
        Some(read) if read.subject.common_name.as_deref() == Some(API_SERVER) => {
            "the Kubernetes API of another cluster".to_owned()
        }
        Some(read) => format!(
            "a TLS server with a certificate for {} by {}",
            text(&read.subject),
            text(&read.issuer)
        ),
        None => "a TLS server with a certificate that cannot be read".to_owned(),
    })
}

/// The certificate of a server, or a description of the server if it does not speak TLS.
async fn server_certificate(
    socket: TcpStream,
    address: &Address,
) -> Result<CertificateDer<'static>, &'static str> {
    const MUTE: &str = "something that accepts connections and sends nothing";
    const NO_TLS: &str = "something that does not speak TLS";
    const BROKEN: &str = "a TLS server that breaks off the handshake";
    let config = tls::client()
        .map_err(|_| BROKEN)?
        .dangerous()
        // The certificate is checked afterwards.
        .with_custom_certificate_verifier(ByLeaf::anyone())
        .with_no_client_auth();
    let name = ServerName::try_from(address.host.clone()).map_err(|_| BROKEN)?;
    let handshake = TlsConnector::from(Arc::new(config)).connect(name, socket);
    let stream = timeout(CONNECT_TIMEOUT, handshake).await.map_err(|_| MUTE)?;
    let stream = stream.map_err(|error: io::Error| {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(
                rustls::Error::AlertReceived(_)
                | rustls::Error::InvalidCertificate(_)
                | rustls::Error::PeerIncompatible(_),
            ) => BROKEN,
            _ => NO_TLS,
        }
    })?;
    let leaf = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    leaf.map(|leaf| leaf.clone().into_owned()).ok_or(BROKEN)
}

/// Whether an authority signed this certificate. Its names are not checked, and it may have expired.
fn is_signed_by(leaf: &CertificateDer<'_>, authority: &[u8]) -> bool {
    let Ok(roots) = authorities::from_der(authority) else { return false };
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), tls::provider()).build();
    let (Ok(verifier), Some(read)) = (verifier, Certificate::from_der(leaf.to_vec())) else {
        return false;
    };
    let Ok(name) = ServerName::try_from("kubernetes") else { return false };
    let made = Duration::from_secs(read.not_before.seconds().try_into().unwrap_or_default());
    let issued = TlsTime::since_unix_epoch(made);
    matches!(
        verifier.verify_server_cert(leaf, &[], &name, &[], issued),
        Ok(_)
            | Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
            ))
    )
}

/// Text of a name from a foreign certificate, without control characters, which could be commands to a terminal.
fn text(name: &Name) -> String {
    let organization = name.organizations.first().map(String::as_str);
    let text = name.common_name.as_deref().or(organization).unwrap_or("an unknown subject");
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}
