//! Test client with the certificate of an administrator. It trusts only the CA of the cluster.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use talmox_clock::Clock;
use talmox_lab_kube::collect;
use talmox_talos_config::pki::{LeafRequest, Name, Usage};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::time::UnixTime;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::test_bench::Bench;

/// Status and body of the answer to a GET request; `None` if no trusted server answers.
pub(super) async fn get(bench: &Bench, address: IpAddr, path: &str) -> Option<(u16, String)> {
    send(bench, address, "GET", path, "").await
}

/// Status and body of the answer to a request with any method.
pub(super) async fn send(
    bench: &Bench,
    address: IpAddr,
    method: &str,
    path: &str,
    body: &str,
) -> Option<(u16, String)> {
    let authority = bench.bundle.certs.k8s.authority().unwrap();
    let now = UnixTime::from_seconds(i64::try_from(Clock::real().unix()).unwrap());
    let admin = LeafRequest {
        subject: Name {
            organizations: vec!["system:masters".to_owned()],
            common_name: Some("admin".to_owned()),
        },
        alt_names: vec![],
        usage: Usage::Client,
        key_encipherment: true,
        not_before: now.minus(Duration::from_mins(1)),
        lifetime: Duration::from_hours(24 * 30),
    };
    let (certificate, key) = authority.issue(&admin, &mut SystemRandomness::new()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.to_pkcs8_pem().expose().as_bytes()).unwrap();
    let roots = talmox_net::authorities::from_der(authority.certificate.as_der()).unwrap();
    let config = talmox_net::tls::client()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![CertificateDer::from(certificate.as_der().to_vec())], key)
        .unwrap();
    let reach = bench.simulation.loopback_network.reach();
    let at = reach.get(&address.to_string()).map(|loopback| format!("{loopback}:6443"));
    let at = at.or_else(|| reach.get(&format!("{address}:6443")).cloned())?;
    let socket = TcpStream::connect(at).await.ok()?;
    let name = ServerName::from(address);
    let stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await.ok()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", "bench");
    let request = request.header("content-type", "application/json").body(body.to_owned()).unwrap();
    let answer = sender.send_request(request).await.ok()?;
    let status = answer.status().as_u16();
    let body = collect(answer.into_body(), 8 << 20).await?;
    Some((status, String::from_utf8(body).unwrap()))
}
