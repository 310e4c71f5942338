//! Identification of the server at a port, by its TLS certificate.

use std::io;
use std::net::IpAddr;
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

use super::sources::KUBERNETES;

/// Timeout of the TCP connection and of the TLS handshake, in real time. An address without a machine must not delay a plan.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Ports at which machines often answer, apart from the port of the Talos API: the Kubernetes API, SSH, web servers, Proxmox.
/// The first one that is open is reported.
const COMMON_PORTS: [u16; 5] = [KUBERNETES, SSH, HTTP, 443, 8006];
const SSH: u16 = 22;
const HTTP: u16 = 80;

/// Subject of the certificates of Kubernetes API servers.
const API_SERVER: &str = "kube-apiserver";

/// Opens a connection. None if no server accepts it.
pub(super) async fn connect(address: &Address, reach: &Reach) -> Option<TcpStream> {
    reach.connect(address, CONNECT_TIMEOUT).await.ok()
}

/// Opens connections to the common ports of an address, all at the same time. Returns the first one of the list that is open.
pub(super) async fn connect_common(host: &str, reach: &Reach) -> Option<(Address, TcpStream)> {
    let [first, second, third, fourth, fifth] =
        COMMON_PORTS.map(|port| Address { host: host.to_owned(), port });
    let (first, second, third, fourth, fifth) = tokio::join!(
        connect_if_probed(first, reach),
        connect_if_probed(second, reach),
        connect_if_probed(third, reach),
        connect_if_probed(fourth, reach),
        connect_if_probed(fifth, reach),
    );
    first.or(second).or(third).or(fourth).or(fifth)
}

async fn connect_if_probed(address: Address, reach: &Reach) -> Option<(Address, TcpStream)> {
    if !is_probed(&address, reach) {
        return None;
    }
    let socket = connect(&address, reach).await?;
    Some((address, socket))
}

/// Whether an answer at this port shows that the address is in use. The addresses of a lab lead to loopback addresses. There,
/// servers of this machine that listen on all addresses answer too, for example an SSH server.
fn is_probed(address: &Address, reach: &Reach) -> bool {
    let target = reach.target(address);
    let is_local = target.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    address.port == KUBERNETES || !is_local || target.port != address.port
}

/// Identifies the server at a common port. SSH and HTTP servers send no certificate, so only their port is known.
pub(super) async fn identify_common(
    socket: TcpStream,
    address: &Address,
    authority: Option<&[u8]>,
) -> PortSeen {
    match address.port {
        SSH => PortSeen::Other("something with an open SSH port".to_owned()),
        HTTP => PortSeen::Other("something with an open HTTP port".to_owned()),
        _ => identify(socket, address, authority).await,
    }
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

/// Whether an authority signed this certificate. The names in the certificate are not checked, and the certificate may have
/// expired.
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A reach map in which the address 192.0.2.1 has only these open ports.
    fn reach(open: &[(u16, u16)]) -> Reach {
        let entry = |port: u16| {
            let target = open.iter().find(|(from, _)| *from == port).map_or(1, |(_, to)| *to);
            (format!("192.0.2.1:{port}"), format!("127.0.0.1:{target}"))
        };
        Reach::new(COMMON_PORTS.map(entry))
    }

    #[tokio::test]
    async fn servers_at_common_ports_are_found() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap().port();
        let host = "192.0.2.1";
        assert!(connect_common(host, &reach(&[])).await.is_none());
        for port in COMMON_PORTS {
            let (address, _socket) = connect_common(host, &reach(&[(port, at)])).await.unwrap();
            assert_eq!(address.port, port);
        }
        let (address, socket) = connect_common(host, &reach(&[(80, at), (22, at)])).await.unwrap();
        let seen = identify_common(socket, &address, None).await;
        assert_eq!(seen, PortSeen::Other("something with an open SSH port".to_owned()));
    }

    #[test]
    fn servers_of_this_machine_do_not_count_in_a_lab() {
        let address = |port| Address { host: "192.0.2.1".to_owned(), port };
        let lab = Reach::closed([("192.0.2.1", "127.20.30.1")]);
        assert!(is_probed(&address(KUBERNETES), &lab) && !is_probed(&address(SSH), &lab));
        assert!(is_probed(&address(SSH), &Reach::default()));
        assert!(is_probed(&address(SSH), &reach(&[])));
    }
}
