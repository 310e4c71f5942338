//! Kubernetes client that makes the requests of a health check.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use talmox_clock::Clock;
use talmox_talos_api::Address;
use talmox_talos_api::health::{KubeNode, KubePod, KubeView, Replicas};
use talmox_talos_config::client::kubeconfig;
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::time::UnixTime;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::cluster::Cluster;

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/kube-system/pods?labelSelector=\
                    k8s-app+in+(kube-apiserver,kube-controller-manager,kube-scheduler)";
const PROXY: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy";
const DNS: &str = "/apis/apps/v1/namespaces/kube-system/deployments/coredns";

/// Connection to the API server of the first control-plane node.
pub(crate) struct Kube(SendRequest<String>);

impl Kube {
    /// Connects to the API server; `None` while it does not answer.
    pub(crate) async fn connect(cluster: &Cluster) -> Option<Self> {
        let address = Address { host: "10.0.0.1".to_owned(), port: 6443 };
        let target = cluster.settings.reach.target(&address);
        let socket = TcpStream::connect((target.host.as_str(), target.port)).await.ok()?;
        socket.set_nodelay(true).ok()?;
        let name = ServerName::try_from(address.host).unwrap();
        let tls = TlsConnector::from(Arc::new(tls(cluster)));
        let stream = tls.connect(name, socket).await.ok()?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        Some(Self(sender))
    }

    /// Gets the data for a health check with four requests, for any number of nodes. `only` limits the data to some nodes; an
    /// empty list means all nodes.
    pub(crate) async fn view(&mut self, only: &[String]) -> Option<KubeView> {
        let nodes = match only {
            [] => self.get(NODES).await?,
            names => {
                let names = names.join(",");
                let selector = format!("kubernetes.io%2Fhostname+in+({names})");
                self.get(&format!("{NODES}?labelSelector={selector}")).await?
            }
        };
        let nodes: Vec<KubeNode> = nodes["items"].as_array()?.iter().map(node).collect();
        let pods = self.get(PODS).await?;
        let proxy = self.get(PROXY).await?;
        let dns = self.get(DNS).await?;
        Some(KubeView {
            has_network: nodes.iter().any(|node| node.is_ready),
            nodes,
            control_plane_pods: pods["items"].as_array()?.iter().map(pod).collect(),
            kube_proxy: Some(Replicas {
                desired: count(&proxy["status"]["desiredNumberScheduled"]),
                ready: count(&proxy["status"]["numberReady"]),
            }),
            core_dns: Some(Replicas {
                desired: count(&dns["spec"]["replicas"]),
                ready: count(&dns["status"]["readyReplicas"]),
            }),
        })
    }

    /// Gets an object; `None` if the object does not exist or the connection failed.
    async fn get(&mut self, path: &str) -> Option<Value> {
        self.0.ready().await.ok()?;
        let request = Request::get(path).header("Host", "10.0.0.1:6443").body(String::new());
        let response = self.0.send_request(request.unwrap()).await.ok()?;
        let is_found = response.status().is_success();
        let mut body: Incoming = response.into_body();
        let mut bytes = vec![];
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            bytes.extend(frame.ok()?.into_data().ok()?);
        }
        if is_found { serde_json::from_slice(&bytes).ok() } else { None }
    }
}

fn tls(cluster: &Cluster) -> ClientConfig {
    let now = UnixTime::from_seconds(Clock::real().unix().try_into().unwrap());
    let (groups, ttl) = (["system:masters".to_owned()], Duration::from_hours(24));
    let randomness = &mut SystemRandomness::new();
    let issued = kubeconfig::issue(&cluster.bundle, &groups, ttl, now, randomness);
    let (certificate, key) = issued.unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.to_pkcs8_pem().expose().as_bytes()).unwrap();
    let authority = cluster.bundle.certs.k8s.authority().unwrap().certificate;
    let roots = talmox_net::authorities::from_der(authority.as_der()).unwrap();
    let chain = vec![CertificateDer::from(certificate.as_der().to_vec())];
    talmox_net::tls::client()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap()
}

fn node(node: &Value) -> KubeNode {
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    let internal = addresses.filter(|address| address["type"] == "InternalIP");
    KubeNode {
        name: node["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        internal_addresses: internal
            .filter_map(|address| address["address"].as_str()?.parse().ok())
            .collect(),
        is_ready: is_ready(node),
        is_schedulable: node["spec"]["unschedulable"] != true,
    }
}

fn pod(pod: &Value) -> KubePod {
    let component = pod["metadata"]["labels"]["k8s-app"].as_str();
    KubePod {
        component: component.unwrap_or_default().to_owned(),
        host: pod["status"]["hostIP"].as_str().and_then(|host| host.parse().ok()),
        is_ready: is_ready(pod),
    }
}

fn is_ready(object: &Value) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn count(number: &Value) -> u32 {
    number.as_u64().and_then(|number| number.try_into().ok()).unwrap_or_default()
}
