//! Fingerprint of a server's certificate, read from the server itself.
//!
//! Proxmox signs its own certificates, so no CA can verify them at the first contact. This module returns the
//! fingerprint. A person compares it with the fingerprint that Proxmox displays (host, System, Certificates). This
//! module never decides whether a certificate is trusted, and sends nothing except the TLS handshake.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustls::ClientConnection;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use talmox_net::{ByLeaf, tls};

pub use talmox_pve_types::fingerprint::{BadFingerprint, Fingerprint};

/// Reason why the fingerprint of a server certificate could not be determined.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("`{host}` is not a host name")]
    BadName { host: String, source: InvalidDnsNameError },
    #[error("cannot find the address of {host}")]
    Resolve { host: String, source: io::Error },
    #[error("cannot connect to {host}:{port}")]
    Connect { host: String, port: u16, source: io::Error },
    #[error("{host}:{port} did not answer in time")]
    Silent { host: String, port: u16 },
    #[error("{host}:{port} does not speak TLS")]
    Handshake { host: String, port: u16, source: io::Error },
}

/// Connects, reads the certificate, and disconnects.
pub fn probe(host: &str, port: u16, timeout: Duration) -> Result<Fingerprint, ProbeError> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|source| ProbeError::BadName { host: host.to_owned(), source })?;
    let mut socket = connect(host, port, timeout)?;
    let seen = Arc::new(OnceLock::new());
    let handshake = |source| ProbeError::Handshake { host: host.to_owned(), port, source };
    // The verifier accepts every certificate, and stores its fingerprint.
    let note = Arc::clone(&seen);
    let verifier = ByLeaf::new(move |leaf| note.set(Fingerprint::of(leaf)).is_ok());
    let config = tls::client()
        .map_err(|error| handshake(io::Error::other(error)))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    let mut connection = ClientConnection::new(Arc::new(config), name)
        .map_err(|error| handshake(io::Error::other(error)))?;
    // One deadline applies to the whole handshake, so that a server that sends single bytes cannot block the caller.
    let started = now();
    while connection.is_handshaking() {
        let left = timeout.checked_sub(started.elapsed()).filter(|left| !left.is_zero());
        let silent = || ProbeError::Silent { host: host.to_owned(), port };
        let left = left.ok_or_else(silent)?;
        socket.set_read_timeout(Some(left)).map_err(handshake)?;
        let step = if connection.wants_write() {
            connection.write_tls(&mut socket)
        } else {
            connection.read_tls(&mut socket).and_then(|count| match count {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                count => connection.process_new_packets().map(|_| count).map_err(io::Error::other),
            })
        };
        match step {
            Ok(_) => {}
            Err(error) if is_timeout(&error) => return Err(silent()),
            Err(error) => return Err(handshake(error)),
        }
    }
    // Sends the end of the handshake, so that the handshake is complete for the server.
    while connection.wants_write() {
        connection.write_tls(&mut socket).map_err(handshake)?;
    }
    seen.get()
        .copied()
        .ok_or_else(|| handshake(io::Error::other("the server presented no certificate")))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[expect(clippy::disallowed_methods, reason = "a deadline on a real socket; no lab runs this")]
fn now() -> Instant {
    Instant::now()
}

fn connect(host: &str, port: u16, timeout: Duration) -> Result<TcpStream, ProbeError> {
    let addresses = (host, port)
        .to_socket_addrs()
        .map_err(|source| ProbeError::Resolve { host: host.to_owned(), source })?;
    let mut last = io::Error::other("the host name has no address");
    for address in addresses {
        let connected = TcpStream::connect_timeout(&address, timeout).and_then(|socket| {
            socket.set_read_timeout(Some(timeout))?;
            socket.set_write_timeout(Some(timeout))?;
            Ok(socket)
        });
        match connected {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(ProbeError::Connect { host: host.to_owned(), port, source: last })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    use rustls::ServerConnection;
    use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
    use talmox_talos_config::pki::{AltName, KeyKind, LeafRequest, Name, Usage, self_signed};
    use talmox_talos_config::random::SystemRandomness;
    use talmox_talos_config::time::UnixTime;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    #[test]
    fn the_certificate_of_a_server_is_read() {
        let request = LeafRequest {
            subject: Name::organization("pve"),
            alt_names: vec![AltName::Dns("pve".to_owned())],
            usage: Usage::Server,
            key_encipherment: false,
            not_before: UnixTime::from_seconds(0),
            lifetime: Duration::from_hours(200 * 365 * 24),
        };
        let (certificate, key) =
            self_signed(&request, KeyKind::EcdsaP256, &mut SystemRandomness::new()).unwrap();
        let expected = Fingerprint::of(certificate.as_der());
        let chain = vec![CertificateDer::from(certificate.as_der().to_vec())];
        let key = PrivatePkcs8KeyDer::from(key.to_pkcs8().to_vec()).into();
        let config = tls::server().unwrap().with_no_client_auth();
        let config = config.with_single_cert(chain, key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut tls = ServerConnection::new(Arc::new(config)).unwrap();
            while tls.is_handshaking() {
                tls.complete_io(&mut socket).unwrap();
            }
        });
        assert_eq!(probe("127.0.0.1", port, TIMEOUT).unwrap(), expected);
        server.join().unwrap();
    }

    #[test]
    fn a_server_without_tls_is_reported_as_such() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        });
        let error = probe("127.0.0.1", port, TIMEOUT).unwrap_err();
        assert!(matches!(error, ProbeError::Handshake { .. }), "{error:?}");
        server.join().unwrap();

        let error = probe("127.0.0.1", port, TIMEOUT).unwrap_err();
        assert!(matches!(error, ProbeError::Connect { .. }), "{error:?}");
        assert!(matches!(probe("a b", 1, TIMEOUT), Err(ProbeError::BadName { .. })));
    }

    #[test]
    fn a_server_that_sends_single_bytes_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            // Header of a handshake record, followed by endless data, sent byte by byte.
            let mut bytes = [0x16, 3, 3, 0x40, 0].into_iter().chain(std::iter::repeat(2));
            while bytes.next().is_some_and(|byte| socket.write_all(&[byte]).is_ok()) {
                thread::park_timeout(Duration::from_millis(20));
            }
        });
        let error = probe("127.0.0.1", port, Duration::from_millis(300)).unwrap_err();
        assert!(
            matches!(error, ProbeError::Silent { .. } | ProbeError::Handshake { .. }),
            "{error:?}"
        );
        server.join().unwrap();

        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let error = probe("127.0.0.1", port, Duration::from_millis(200)).unwrap_err();
        assert!(matches!(error, ProbeError::Silent { .. }), "{error:?}");
    }
}
