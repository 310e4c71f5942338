//! Client of the real API server, with administrator rights.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use talmox_lab_kube::collect;
use talmox_lab_kube::object::{list, text};
use talmox_talos_config::pki::{Name, Usage};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::RealCluster;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of an answer.
const MAX_SIZE: usize = 64 << 20;
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

pub(super) struct Client {
    port: u16,
    config: Arc<ClientConfig>,
    /// Open connection, which the next request uses again.
    sender: Option<SendRequest<String>>,
}

/// Answer of the API server.
#[derive(Debug)]
pub(super) struct ApiServerAnswer {
    pub(super) status: u16,
    pub(super) body: Value,
    #[cfg(test)]
    pub(super) warnings: Vec<String>,
}

impl ApiServerAnswer {
    /// Object in the answer, or the error of the API server.
    pub(super) fn found(self) -> Result<Value, String> {
        match self.status {
            200..=299 => Ok(self.body),
            status => Err(format!("{status}: {}", text(&self.body, "/message"))),
        }
    }
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
        let roots = talmox_net::authorities::from_der(cluster.authority.certificate.as_der())
            .map_err(|e| problem(&e))?;
        let config = talmox_net::tls::client()
            .map_err(|e| problem(&e))?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)
            .map_err(|e| problem(&e))?;
        Ok(Self { port: cluster.port, config: Arc::new(config), sender: None })
    }

    pub(super) async fn get(&mut self, path: &str) -> Result<ApiServerAnswer, String> {
        self.send("GET", path, &Value::Null).await
    }

    /// All objects in a list answer.
    pub(super) async fn list(&mut self, path: &str) -> Result<Vec<Value>, String> {
        let found = self.get(path).await?.found()?;
        Ok(list(&found, "/items").to_vec())
    }

    pub(super) async fn create(
        &mut self,
        path: &str,
        object: &Value,
    ) -> Result<ApiServerAnswer, String> {
        self.send("POST", path, object).await
    }

    pub(super) async fn replace(
        &mut self,
        path: &str,
        object: &Value,
    ) -> Result<ApiServerAnswer, String> {
        self.send("PUT", path, object).await
    }

    pub(super) async fn merge(
        &mut self,
        path: &str,
        patch: &Value,
    ) -> Result<ApiServerAnswer, String> {
        self.send("PATCH", path, patch).await
    }

    pub(super) async fn delete(
        &mut self,
        path: &str,
        how: &Value,
    ) -> Result<ApiServerAnswer, String> {
        self.send("DELETE", path, how).await
    }

    async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<ApiServerAnswer, String> {
        let media = if method == "PATCH" { MERGE } else { JSON };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send_body(method, path, media, body).await
    }

    /// Sends a request with a body of any content type.
    pub(super) async fn send_body(
        &mut self,
        method: &str,
        path: &str,
        media: &str,
        body: String,
    ) -> Result<ApiServerAnswer, String> {
        let sending = self.exchange(method, path, media, body);
        timeout(TIMEOUT, sending)
            .await
            .unwrap_or_else(|_| Err("timed out waiting for an answer".to_owned()))
    }

    async fn exchange(
        &mut self,
        method: &str,
        path: &str,
        media: &str,
        body: String,
    ) -> Result<ApiServerAnswer, String> {
        let problem = |error: &dyn std::fmt::Display| error.to_string();
        // The connection is taken out, so that cancelling the request closes the connection as well.
        let mut sender = match self.sender.take() {
            Some(sender) if !sender.is_closed() => sender,
            _ => self.connect().await?,
        };
        sender.ready().await.map_err(|e| problem(&e))?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, media)
            .body(body)
            .map_err(|e| problem(&e))?;
        let answer = sender.send_request(request).await.map_err(|e| problem(&e))?;
        let status = answer.status().as_u16();
        #[cfg(test)]
        let warnings = {
            let all = answer.headers().get_all(hyper::header::WARNING).iter();
            all.filter_map(|text| text.to_str().ok()).map(str::to_owned).collect()
        };
        let body = collect(answer.into_body(), MAX_SIZE)
            .await
            .ok_or("the answer is incomplete or too large")?;
        self.sender = Some(sender);
        let body = serde_json::from_slice(&body).unwrap_or_default();
        Ok(ApiServerAnswer {
            status,
            body,
            #[cfg(test)]
            warnings,
        })
    }

    async fn connect(&self) -> Result<SendRequest<String>, String> {
        let problem = |error: &dyn std::fmt::Display| error.to_string();
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await;
        let name = ServerName::from(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let stream = connector.connect(name, socket.map_err(|e| problem(&e))?).await;
        let stream = TokioIo::new(stream.map_err(|e| problem(&e))?);
        let (sender, connection) = http1::handshake(stream).await.map_err(|e| problem(&e))?;
        tokio::spawn(connection);
        Ok(sender)
    }
}
