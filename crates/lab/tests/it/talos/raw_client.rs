//! gRPC client for calls with metadata. The client of talmox never sends metadata.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use talmox_talos_config::pki::{LeafRequest, Name, Usage};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::time::UnixTime;
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::codegen::Service;

/// Raw gRPC connection to a node.
#[derive(Clone)]
pub(crate) struct Raw(SendRequest<Body>);

impl Raw {
    /// Connects as an administrator. `name` is the address in the certificate of the node.
    pub(crate) async fn connect(
        bundle: &Bundle,
        now: UnixTime,
        name: &str,
        at: SocketAddr,
    ) -> Self {
        let authority = bundle.certs.os.authority().unwrap();
        let leaf = LeafRequest {
            subject: Name::organization("os:admin"),
            alt_names: vec![],
            usage: Usage::Client,
            key_encipherment: false,
            not_before: now.minus(Duration::from_hours(1)),
            lifetime: Duration::from_hours(24 * 365),
        };
        let (certificate, key) = authority.issue(&leaf, &mut SystemRandomness::new()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.to_pkcs8_pem().expose().as_bytes()).unwrap();
        let roots = talmox_net::authorities::from_der(authority.certificate.as_der()).unwrap();
        let mut config = talmox_net::tls::client()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![CertificateDer::from(certificate.as_der().to_vec())], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let socket = TcpStream::connect(at).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let stream = connector.connect(name, socket).await.unwrap();
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        Self(sender)
    }
}

impl Service<Request<Body>> for Raw {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
