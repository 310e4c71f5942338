use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_talos_api::client::{Apply, ApplyMode, ResourceKind};
use talmox_talos_api::{Client, Code, DialError, Reach, Settings, TalosError};
use talmox_talos_config::secret::SecretText;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::fixture::{Cluster, HOST, Server, host, maintenance_tls_config};
use crate::node::{KEY, Node, services};

async fn configured() -> (Arc<Node>, Server, Client) {
    let (cluster, node) = (Cluster::new(), Arc::new(Node::default()));
    let server = Server::start(cluster.tls_config(HOST), services(&node)).await;
    let client = Client::new(host(), &cluster.credentials(), &server.settings()).unwrap();
    (node, server, client)
}

#[tokio::test]
async fn calls_are_answered_over_mutual_tls() {
    let (_node, server, client) = configured().await;
    let version = client.version().await.unwrap();
    assert_eq!((version.tag.as_str(), version.arch.as_str()), ("v1.13.6", "amd64"));
    assert_eq!(client.boot_id().await.unwrap(), "abcd");
    assert!(client.has_file("/big").await.unwrap());
    assert!(!client.has_file("/not-there").await.unwrap());
    assert!(!client.has_file("/not-there-and-older").await.unwrap());
    // A lost connection is opened again. A call at the moment of the loss fails.
    server.cut();
    let _crossed_with_the_cut = client.version().await;
    assert_eq!(client.version().await.unwrap(), version);
}

#[tokio::test]
async fn a_node_of_another_ca_gets_no_request() {
    let (_node, server, _client) = configured().await;
    let other_credentials = Cluster::new().credentials();
    let client = Client::new(host(), &other_credentials, &server.settings()).unwrap();
    let error = client.version().await.unwrap_err();
    assert!(matches!(error, TalosError::Unreachable { .. }), "{error:?}");
    assert!(error.is_untouched() && error.may_pass());
    let client = Client::maintenance(host(), None, &server.settings()).unwrap();
    let error = client.version().await.unwrap_err();
    assert!(error.reason().contains("requires a client certificate"), "{error:?}");
}

#[tokio::test]
async fn not_yet_no_and_unimplemented_are_distinguished() {
    let (node, _server, client) = configured().await;
    let error = client.bootstrap().await.unwrap_err();
    assert!(
        matches!(&error, TalosError::NotYet { reason, .. } if reason == "time is not in sync yet")
    );
    client.bootstrap().await.unwrap();
    let error = client.bootstrap().await.unwrap_err();
    assert!(matches!(error, TalosError::No { code: Code::AlreadyExists, .. }), "{error:?}");
    assert_eq!(node.bootstraps.load(Ordering::SeqCst), 3);
    let error = client.hostname().await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Unimplemented));
    // The node does not have the whole service, as Talos 1.12 does not have LifecycleService.
    let error = client.upgrade("factory.talos.dev/installer").await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Unimplemented));
    let error = client.read("/none").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Read on 10.0.0.11:50000 was rejected: it is not there (NotFound)"
    );
}

#[tokio::test]
async fn answers_to_an_apply_show_no_keys() {
    let (_node, _server, client) = configured().await;
    let config = SecretText::new(format!("key: {KEY}\n"));
    let apply = |mode, dry_run| Apply { config: &config, mode, dry_run };
    let applied = client.apply(&apply(ApplyMode::Auto, true)).await.unwrap();
    assert_eq!(applied.mode, Some(ApplyMode::NoReboot));
    assert_eq!(applied.details, config);
    assert_eq!(applied.warnings.len(), 1);
    assert!(!format!("{applied:?}{:?}", apply(ApplyMode::Auto, true)).contains(KEY));
    let error = client.apply(&apply(ApplyMode::NoReboot, false)).await.unwrap_err();
    assert_eq!(error.reason(), "this config change can't be applied in immediate mode");
    assert!(!format!("{error:?}").contains(KEY), "{error:?}");
}

#[tokio::test]
async fn a_missing_answer_is_late() {
    let (cluster, node) = (Cluster::new(), Arc::new(Node::default()));
    let server = Server::start(cluster.tls_config(HOST), services(&node)).await;
    // A node always has some seconds of real time to answer, even if the clock is fast.
    let mut settings = server.settings();
    settings.clock = Clock::scaled(10.0);
    let client = Client::new(host(), &cluster.credentials(), &settings).unwrap();
    let real = Clock::real();
    let made = real.moment();
    let client = client.within(Duration::from_secs(1));
    assert_eq!(client.version().await.unwrap().tag, "v1.13.6");
    let error = client.etcd_defragment().await.unwrap_err();
    assert!(matches!(error, TalosError::Late { .. }), "{error:?}");
    assert!(real.moment().since(made) >= Duration::from_secs(5));
    assert!(!error.is_untouched());
}

#[tokio::test]
async fn a_silent_server_is_unreachable_with_any_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = Settings::new(Clock::scaled(10.0));
    settings.reach = Reach::new([(HOST, listener.local_addr().unwrap().to_string())]);
    settings.limits.connect = Duration::from_hours(1);
    let known = Client::new(host(), &Cluster::new().credentials(), &settings).unwrap();
    let unknown = Client::maintenance(host(), None, &settings).unwrap();
    let [known, unknown] = [known, unknown].map(|client| client.within(Duration::from_secs(1)));
    let (first, second) = tokio::join!(known.etcd_defragment(), unknown.version());
    for error in [first.unwrap_err(), second.unwrap_err()] {
        let TalosError::Unreachable { source, .. } = &error else { panic!("{error:?}") };
        assert!(matches!(**source, DialError::Silent { .. }), "{source:?}");
        assert!(error.is_untouched() && error.may_pass());
    }
}

#[tokio::test]
async fn resources_are_read_as_yaml() {
    let (_node, _server, client) = configured().await;
    let found = client.get(ResourceKind::SYSTEM_INFORMATION, "systeminformation").await.unwrap();
    let found = found.unwrap();
    assert_eq!(found.text("uuid").as_deref(), Some("4c4c4544-0042-3510-8051-b4c04f333732"));
    assert!(!format!("{found:?}").contains("4c4c4544"));
    assert_eq!(client.get(ResourceKind::NODENAME, "nodename").await.unwrap(), None);
    let error = client.get(ResourceKind::MACHINE_CONFIG, "v1alpha1").await.unwrap_err();
    assert_eq!(error.code(), Some(Code::PermissionDenied));
    assert_eq!(client.list(ResourceKind::LINK_STATUS).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_node_whose_api_restarts_is_unreachable() {
    let config = SecretText::new("machine: {}".to_owned());
    let apply = Apply { config: &config, mode: ApplyMode::Auto, dry_run: false };
    for is_secured in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let acceptor = TlsAcceptor::from(Arc::new(maintenance_tls_config(HOST)));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                if is_secured {
                    let _closed = acceptor.accept(socket).await;
                }
            }
        });
        let mut settings = Settings::new(Clock::real());
        settings.reach = Reach::new([(HOST, at)]);
        let client = Client::maintenance(host(), None, &settings).unwrap();
        let error = client.apply(&apply).await.unwrap_err();
        assert!(error.is_untouched(), "{error:?}");
        let TalosError::Unreachable { source, .. } = &error else { panic!("{error:?}") };
        assert!(source.is_restart(), "{source:?}");
        // The error names the node, not the address in the reach map.
        assert_eq!(error.reason(), format!("{} closed the connection before it answered", host()));
        assert!(
            std::error::Error::source(source.as_ref()).is_none(),
            "library texts are not shown"
        );
    }
}
