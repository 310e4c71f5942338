//! A foreign machine at an address of the cluster is reported before any change.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use talmox_plan::plan::show;
use talmox_talos_config::pki::{LeafRequest, Name, Usage};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::time::UnixTime;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::inventory::{another_bundle, home, pair};
use super::rig::Rig;

impl Rig {
    /// A listener that talmox reaches at this address and port.
    async fn listener(&self, address: &str, port: u16) -> TcpListener {
        let place = &self.lab.ready().reach[address];
        TcpListener::bind((place.as_str(), port)).await.unwrap()
    }

    async fn errors(&self, text: &str) -> Vec<String> {
        let plan = self.plan(text).await;
        plan.errors().map(|one| format!("{}: {}", one.subject, one.message)).collect()
    }
}

/// Accepts connections, and sends text that is not TLS.
fn plain(listener: TcpListener) -> JoinHandle<()> {
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            socket.writable().await.unwrap();
            socket.try_write(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        }
    })
}

/// A server with a certificate from the Kubernetes authority of this bundle.
fn server(listener: TcpListener, bundle: &Bundle, subject: &str) -> JoinHandle<()> {
    let request = LeafRequest {
        subject: Name { common_name: Some(subject.to_owned()), organizations: vec![] },
        alt_names: vec![],
        usage: Usage::Server,
        key_encipherment: true,
        not_before: UnixTime::from_seconds(1_750_000_000),
        lifetime: Duration::from_hours(24),
    };
    let authority = bundle.certs.k8s.authority().unwrap();
    let (certificate, key) = authority.issue(&request, &mut SystemRandomness::new()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.to_pkcs8_pem().expose().as_bytes()).unwrap();
    let config = talmox_net::tls::server()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(certificate.as_der().to_vec())], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        let mut open = vec![];
        while let Ok((socket, _)) = listener.accept().await {
            open.push(acceptor.accept(socket).await.ok());
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_machine_at_the_address_of_a_new_node_is_an_error() {
    let rig = Rig::start();
    let used = |who: &str, port: u16| {
        vec![format!("cp-1: its address 10.0.0.11 is in use: {who} answers at port {port}")]
    };
    for port in [50000, 6443] {
        let foreign_machine = plain(rig.listener("10.0.0.11", port).await);
        assert_eq!(rig.errors(&pair()).await, used("something that does not speak TLS", port));
        foreign_machine.abort();
        foreign_machine.await.unwrap_err();
        let listener = rig.listener("10.0.0.11", port).await;
        let foreign_machine = server(listener, &another_bundle(), "nas.lan");
        let errors = rig.errors(&pair()).await;
        let who = "a TLS server with a certificate for nas.lan by kubernetes";
        assert_eq!(errors, used(who, port));
        foreign_machine.abort();
        foreign_machine.await.unwrap_err();
    }
    assert_eq!(rig.errors(&pair()).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shared_address_must_be_free_before_the_cluster_holds_it() {
    let rig = Rig::start();
    let listener = rig.listener("10.0.0.20", 6443).await;
    let foreign_machine = server(listener, &another_bundle(), "kube-apiserver");
    assert_eq!(
        rig.errors(&home()).await,
        [
            "network.vip: 10.0.0.20 is in use: the Kubernetes API of another cluster answers at port 6443"
        ]
    );
    foreign_machine.abort();
    foreign_machine.await.unwrap_err();
    // An expired certificate of this cluster still identifies this cluster.
    let own_server = server(rig.listener("10.0.0.20", 6443).await, &rig.bundle, "kube-apiserver");
    let errors = rig.errors(&home()).await;
    assert!(errors.len() == 1 && errors[0].contains("of this cluster answers"), "{errors:?}");
    own_server.abort();
    own_server.await.unwrap_err();
    rig.up(&home()).await.assert_done();
    let plan = rig.plan(&home()).await;
    assert!(plan.is_empty() && plan.findings.is_empty(), "{}", show::text(&plan));
}
