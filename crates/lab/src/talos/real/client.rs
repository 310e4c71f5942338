//! A client of the real API server that may do everything.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use talmox_talos_config::pki::{Name, Usage};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::RealCluster;
use crate::kube::collect;

const PATIENCE: Duration = Duration::from_secs(10);
/// The most that is read of an answer.
const MOST: usize = 64 << 20;
const MERGE: &str = "application/merge-patch+json";

pub(super) struct Client {
    port: u16,
    config: Arc<ClientConfig>,
}

impl Client {
    pub(super) fn new(cluster: &RealCluster) -> Result<Self, String> {
        let subject = Name {
            organizations: vec!["system:masters".to_owned()],
            common_name: Some("admin".to_owned()),
        };
        let (certificate, key) = cluster.issue(subject, &BTreeSet::new(), Usage::Client)?;
        let problem = |error: &dyn std::fmt::Display| error.to_string();
        let certificate =
            CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|e| problem(&e))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|e| problem(&e))?;
        let mut roots = RootCertStore::empty();
        let authority = cluster.authority.certificate.as_der().to_vec();
        roots.add(CertificateDer::from(authority)).map_err(|e| problem(&e))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| problem(&e))?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)
            .map_err(|e| problem(&e))?;
        Ok(Self { port: cluster.port, config: Arc::new(config) })
    }

    pub(super) async fn get(&self, path: &str) -> Result<(u16, Value), String> {
        self.send("GET", path, "application/json", &Value::Null).await
    }

    pub(super) async fn create(&self, path: &str, object: &Value) -> Result<u16, String> {
        let (status, _) = self.send("POST", path, "application/json", object).await?;
        Ok(status)
    }

    pub(super) async fn merge(&self, path: &str, patch: &Value) -> Result<u16, String> {
        let (status, _) = self.send("PATCH", path, MERGE, patch).await?;
        Ok(status)
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<(u16, Value), String> {
        let sending = self.exchange(method, path, content_type, body);
        timeout(PATIENCE, sending).await.map_err(|_| "no answer in time".to_owned())?
    }

    async fn exchange(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<(u16, Value), String> {
        let problem = |error: &dyn std::fmt::Display| error.to_string();
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await;
        let name = ServerName::from(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST));
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let stream = connector.connect(name, socket.map_err(|e| problem(&e))?).await;
        let stream = TokioIo::new(stream.map_err(|e| problem(&e))?);
        let (mut sender, connection) = http1::handshake(stream).await.map_err(|e| problem(&e))?;
        tokio::spawn(connection);
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, content_type)
            .body(text)
            .map_err(|e| problem(&e))?;
        let answer = sender.send_request(request).await.map_err(|e| problem(&e))?;
        let status = answer.status().as_u16();
        let body = collect(answer.into_body(), MOST).await.ok_or("the answer breaks off")?;
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }
}
