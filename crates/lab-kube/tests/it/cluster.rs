//! Test cluster with an HTTP client.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use talmox_clock::{Chance, Clock};
use talmox_lab_kube::{
    KubeControllers, KubeServer, KubeSettings, KubeStore, KubeTls, Machine, control, serve,
};
use talmox_talos_config::pki::{
    AltName, Authority, AuthorityRequest, KeyKind, LeafRequest, Name, Usage, new_authority,
};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::time::UnixTime;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

pub(crate) struct Cluster {
    pub(crate) store: Arc<KubeStore>,
    clock: Clock,
    pub(crate) address: SocketAddr,
    authority: Authority,
    tls: KubeTls,
    _server: KubeServer,
    _controllers: KubeControllers,
}

/// Status code and body of a response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

/// Client certificate and private key, as PEM.
pub(crate) type Pair = (String, String);

fn now() -> UnixTime {
    let seconds = Clock::real().unix();
    UnixTime::from_seconds(seconds.try_into().unwrap())
}

impl Cluster {
    /// Starts a cluster with these nodes. Its lab time runs a hundred times faster than real time.
    pub(crate) async fn start(nodes: &[&str]) -> Self {
        let request = AuthorityRequest {
            subject: Name::organization("kubernetes"),
            kind: KeyKind::EcdsaP256,
            not_before: now(),
            lifetime: Duration::from_hours(365 * 24),
        };
        let authority = new_authority(&request, &mut SystemRandomness::new()).unwrap();
        let clock = Clock::scaled(100.0);
        let store = KubeStore::new(KubeSettings {
            clock,
            chance: Chance::new(7),
            pod_start: Duration::from_secs(2),
            service_network: [10, 96, 0],
            pod_network: [10, 244],
            authority: authority.certificate.to_pem(),
        });
        let names = vec![
            AltName::Dns("localhost".to_owned()),
            AltName::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        ];
        let tls = KubeTls::issue(&authority, names, now(), &mut SystemRandomness::new()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = serve(listener, tls.clone(), "v1.32.4", Arc::clone(&store));
        let controllers = control(Arc::clone(&store));
        let cluster = Self {
            store,
            clock,
            address,
            authority,
            tls,
            _server: server,
            _controllers: controllers,
        };
        for (at, name) in nodes.iter().enumerate() {
            cluster.store.start_kubelet(machine(name, at));
        }
        cluster
    }

    /// Starts a further API server, with a newer version than the first one.
    pub(crate) async fn listen(&self) -> (SocketAddr, KubeServer) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (address, serve(listener, self.tls.clone(), "v1.33.0", Arc::clone(&self.store)))
    }

    /// Starts a cluster with a CNI plugin, so that its nodes become ready.
    pub(crate) async fn start_ready(nodes: &[&str]) -> Self {
        let cluster = Self::start(nodes).await;
        cluster.store.create("daemonsets.apps", flannel()).unwrap();
        for node in nodes {
            cluster.until("nodes", "", node, |node| is_true(node, "Ready")).await;
        }
        cluster
    }

    pub(crate) fn authority_pem(&self) -> String {
        self.authority.certificate.to_pem()
    }

    pub(crate) fn certificate(&self, user: &str, groups: &[&str]) -> Pair {
        let request = LeafRequest {
            subject: Name {
                organizations: groups.iter().map(|group| (*group).to_owned()).collect(),
                common_name: Some(user.to_owned()),
            },
            alt_names: vec![],
            usage: Usage::Client,
            key_encipherment: true,
            not_before: now().minus(Duration::from_secs(10)),
            lifetime: Duration::from_hours(365 * 24),
        };
        let (certificate, key) =
            self.authority.issue(&request, &mut SystemRandomness::new()).unwrap();
        (certificate.to_pem(), key.to_pkcs8_pem().expose().to_owned())
    }

    pub(crate) async fn connect(&self, identity: Option<Pair>) -> Client {
        self.connect_to(self.address, identity).await
    }

    pub(crate) async fn connect_to(&self, address: SocketAddr, identity: Option<Pair>) -> Client {
        let roots = talmox_net::authorities::from_der(self.authority.certificate.as_der()).unwrap();
        let builder = talmox_net::tls::client().unwrap().with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        let socket = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Client { sender, token: None }
    }

    /// Client with administrator rights.
    pub(crate) async fn admin(&self) -> Client {
        self.connect(Some(self.certificate("admin", &["system:masters"]))).await
    }

    /// Waits up to one minute until the object matches the predicate.
    pub(crate) async fn until(
        &self,
        id: &str,
        namespace: &str,
        name: &str,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Arc<Value> {
        let clock = Clock::real();
        for _ in 0..6000 {
            if let Some(found) =
                self.store.get(id, namespace, name).filter(|found| is_wanted(found))
            {
                return found;
            }
            clock.sleep(Duration::from_millis(10)).await;
        }
        panic!("{id} {namespace}/{name} is {:#?}", self.store.get(id, namespace, name));
    }

    /// Lab time of the cluster.
    pub(crate) fn now(&self) -> Duration {
        self.clock.since_epoch()
    }

    /// Checks that an idle cluster changes no object for half a minute of lab time.
    pub(crate) async fn assert_idle(&self) {
        let mut admin = self.admin().await;
        let mut before = Value::Null;
        for _ in 0..20 {
            let now = admin.get("/api/v1/nodes").await.body["metadata"]["resourceVersion"].clone();
            if now == before {
                return;
            }
            before = now;
            Clock::real().sleep(Duration::from_millis(300)).await;
        }
        panic!("the cluster does not come to rest");
    }

    /// Waits up to one minute until the object is deleted.
    pub(crate) async fn until_gone(&self, id: &str, namespace: &str, name: &str) {
        let clock = Clock::real();
        for _ in 0..6000 {
            if self.store.get(id, namespace, name).is_none() {
                return;
            }
            clock.sleep(Duration::from_millis(10)).await;
        }
        panic!("{id} {namespace}/{name} is still {:#?}", self.store.get(id, namespace, name));
    }
}

pub(crate) struct Client {
    sender: SendRequest<String>,
    pub(crate) token: Option<String>,
}

impl Client {
    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> hyper::Response<Incoming> {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let mut request = Request::builder().method(method).uri(path).header("Host", "localhost");
        request = request.header("User-Agent", "tester/1.0");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        self.sender.ready().await.unwrap();
        self.sender.send_request(request.body(text).unwrap()).await.unwrap()
    }

    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let response = self.send(method, path, headers, body).await;
        let status = response.status().as_u16();
        let content_type = response.headers().get("content-type").unwrap();
        let content_type = content_type.to_str().unwrap().to_owned();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|value| value.to_str().unwrap().to_owned()).collect();
        let mut incoming = response.into_body();
        let mut bytes = vec![];
        while let Some(piece) = next_piece(&mut incoming).await {
            bytes.extend(piece);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text.into());
        Answer { status, content_type, warnings, body }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, &[], &Value::Null).await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, &[("Content-Type", "application/json")], body).await
    }

    pub(crate) async fn put(&mut self, path: &str, body: &Value) -> Answer {
        self.ask("PUT", path, &[("Content-Type", "application/json")], body).await
    }

    pub(crate) async fn patch(&mut self, path: &str, kind: &str, body: &Value) -> Answer {
        let kind = format!("application/{kind}");
        self.ask("PATCH", path, &[("Content-Type", &kind)], body).await
    }

    pub(crate) async fn delete(&mut self, path: &str) -> Answer {
        self.ask("DELETE", path, &[], &Value::Null).await
    }

    /// Opens a watch. [`Events::next`] returns its events.
    pub(crate) async fn watch(&mut self, path: &str) -> Events {
        let response = self.send("GET", path, &[], &Value::Null).await;
        assert_eq!(response.status(), 200);
        Events { body: response.into_body(), text: vec![] }
    }
}

pub(crate) struct Events {
    body: Incoming,
    text: Vec<u8>,
}

impl Events {
    /// Waits for the next event; `None` after the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let clock = Clock::real();
            let piece = clock.timeout(Duration::from_mins(1), next_piece(&mut self.body));
            self.text.extend(piece.await.unwrap()?);
        }
    }

    /// Type of the next event and name of its object.
    pub(crate) async fn next_name(&mut self) -> (String, String) {
        let event = self.next().await.unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }
}

async fn next_piece(body: &mut Incoming) -> Option<Vec<u8>> {
    let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
    Some(frame.unwrap().into_data().unwrap().to_vec())
}

pub(crate) fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .is_some_and(|all| all.iter().any(|c| c["type"] == condition && c["status"] == "True"))
}

pub(crate) fn machine(name: &str, at: usize) -> Machine {
    let role = ("node-role.kubernetes.io/control-plane".to_owned(), String::new());
    let is_control_plane = name.starts_with("cp");
    let taint = json!({"key": role.0, "effect": "NoSchedule"});
    Machine {
        name: name.to_owned(),
        address: format!("10.0.0.{}", at + 11),
        kubelet_version: "v1.32.4".to_owned(),
        os_image: "Talos (v1.10.0)".to_owned(),
        kernel_version: "6.12.25-talos".to_owned(),
        container_runtime: "containerd://2.0.5".to_owned(),
        architecture: "amd64".to_owned(),
        cpus: 4,
        memory_bytes: 8 << 30,
        system_uuid: format!("00000000-0000-4000-8000-00000000000{at}"),
        boot_id: format!("00000000-0000-4000-9000-00000000000{at}"),
        labels: if is_control_plane { BTreeMap::from([role]) } else { BTreeMap::new() },
        taints: if is_control_plane { vec![taint] } else { vec![] },
        static_pods: if is_control_plane { vec![static_pod("v1.32.4")] } else { vec![] },
    }
}

pub(crate) fn static_pod(version: &str) -> Value {
    let image = format!("registry.k8s.io/kube-apiserver:{version}");
    json!({
        "metadata": {
            "name": "kube-apiserver",
            "namespace": "kube-system",
            "labels": {"k8s-app": "kube-apiserver", "tier": "control-plane"},
        },
        "spec": {
            "hostNetwork": true,
            "containers": [{"name": "kube-apiserver", "image": image}],
            "tolerations": [{"operator": "Exists"}],
        },
    })
}

pub(crate) fn flannel() -> Value {
    json!({
        "metadata": {"name": "kube-flannel", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"k8s-app": "flannel"}},
            "template": {
                "metadata": {"labels": {"k8s-app": "flannel"}},
                "spec": {
                    "hostNetwork": true,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "kube-flannel", "image": "flannel:v0.26"}],
                },
            },
        },
    })
}

pub(crate) fn deployment(name: &str, replicas: u64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    })
}
