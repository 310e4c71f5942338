use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::UnixTime as TlsTime;
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use talmox_clock::Clock;
use talmox_talos_api::probe::Whose;
use talmox_talos_api::server::Services;
use talmox_talos_api::{Credentials, DialError, Expected, Pin, Reach, Settings, Verdict, probe};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::fixture::{Cluster, DAY, HOST, Server, host, maintenance_tls_config, now};
use crate::node::{Node, services};

async fn probe_server(tls_config: ServerConfig, credentials: &Credentials) -> Verdict {
    let server = Server::start(tls_config, services(&Arc::new(Node::default()))).await;
    probe(&host(), credentials, None, &server.settings()).await.unwrap()
}

#[tokio::test]
async fn a_closed_port_is_verdict_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = Settings::new(Clock::real());
    settings.reach = Reach::new([(HOST, listener.local_addr().unwrap().to_string())]);
    drop(listener);
    let verdict = probe(&host(), &Cluster::new().credentials(), None, &settings).await.unwrap();
    let Verdict::Nothing(error) = verdict else { panic!("{verdict:?}") };
    assert!(matches!(error, DialError::Connect { .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_that_sends_nothing_is_verdict_mute() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = Settings::new(Clock::real());
    settings.reach = Reach::new([(HOST, listener.local_addr().unwrap().to_string())]);
    settings.limits.connect = Duration::from_millis(200);
    let verdict = probe(&host(), &Cluster::new().credentials(), None, &settings).await.unwrap();
    assert!(matches!(verdict, Verdict::Mute(DialError::Silent { .. })), "{verdict:?}");
    let words = "a server that accepts connections but sends nothing: 10.0.0.11:50000 ";
    assert!(verdict.to_string().starts_with(words), "{verdict}");
}

#[tokio::test]
async fn a_server_that_closes_the_connection_is_verdict_mute() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = Settings::new(Clock::real());
    settings.reach = Reach::new([(HOST, listener.local_addr().unwrap().to_string())]);
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let verdict = probe(&host(), &Cluster::new().credentials(), None, &settings).await.unwrap();
    assert!(matches!(verdict, Verdict::Mute(DialError::HungUp { .. })), "{verdict:?}");
}

#[tokio::test]
async fn another_tls_server_is_not_a_node() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = Settings::new(Clock::real());
    settings.reach = Reach::new([(HOST, listener.local_addr().unwrap().to_string())]);
    settings.limits.connect = Duration::from_secs(2);
    let mut tls_config = maintenance_tls_config(HOST);
    tls_config.alpn_protocols = vec![];
    let acceptor = TlsAcceptor::from(Arc::new(tls_config));
    tokio::spawn(async move {
        // Like a web server, this server waits for a request.
        let mut open = vec![];
        while let Ok((socket, _)) = listener.accept().await {
            open.push(acceptor.accept(socket).await);
        }
    });
    let verdict = probe(&host(), &Cluster::new().credentials(), None, &settings).await.unwrap();
    assert!(matches!(verdict, Verdict::NoNode(DialError::Silent { .. })), "{verdict:?}");
}

#[tokio::test]
async fn a_server_without_tls_is_not_a_node() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = Settings::new(Clock::real());
    settings.reach = Reach::new([(HOST, listener.local_addr().unwrap().to_string())]);
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await.unwrap();
        // Reads until the client closes the connection, because closing the socket first would discard sent data.
        let mut rest = vec![];
        socket.read_to_end(&mut rest).await.ok();
    });
    let verdict = probe(&host(), &Cluster::new().credentials(), None, &settings).await.unwrap();
    assert!(matches!(verdict, Verdict::NoNode(DialError::Tls { .. })), "{verdict:?}");
}

#[tokio::test]
async fn a_server_that_aborts_before_its_certificate_is_not_a_node() {
    let own = Cluster::new();
    let mut tls_config = own.tls_config(HOST);
    tls_config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let verdict = probe_server(tls_config, &own.credentials()).await;
    assert!(matches!(verdict, Verdict::NoNode(_)), "{verdict:?}");
}

#[tokio::test]
async fn a_node_in_maintenance_mode_reports_its_identity() {
    let server =
        Server::start(maintenance_tls_config(HOST), services(&Arc::new(Node::default()))).await;
    let credentials = Cluster::new().credentials();
    let verdict = probe(&host(), &credentials, None, &server.settings()).await.unwrap();
    let Verdict::Maintenance(found) = verdict else { panic!("{verdict:?}") };
    let expected = Expected {
        uuid: Some("4C4C4544-0042-3510-8051-B4C04F333732".to_owned()),
        macs: vec!["bc:24:11:00:00:01".to_owned()],
        instance_id: Some("1d3f".to_owned()),
    };
    assert_eq!(found.machine.mismatch(&expected), None);
    assert_eq!(found.machine.macs, ["bc:24:11:00:00:01"]);
    assert_eq!(found.machine.hostname.as_deref(), Some("talos-cp-01"));
    assert_eq!(found.machine.serial, None);
    // The returned client accepts only this key, on old and new connections.
    assert_eq!(found.client.version().await.unwrap().tag, "v1.13.6");
    server.cut();
    let _crossed_with_the_cut = found.client.version().await;
    assert_eq!(found.client.version().await.unwrap().tag, "v1.13.6");

    let pin = found.pin;
    assert!(pin.is_some());
    let again = probe(&host(), &credentials, pin, &server.settings()).await.unwrap();
    assert!(matches!(again, Verdict::Maintenance(_)), "{again:?}");
    let other: Pin = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".parse().unwrap();
    let verdict = probe(&host(), &credentials, Some(other), &server.settings()).await.unwrap();
    assert!(matches!(verdict, Verdict::OtherKey { found } if found == pin), "{verdict:?}");
}

#[tokio::test]
async fn a_server_that_accepts_any_client_and_is_not_a_node_is_unclear() {
    let server = Server::start(maintenance_tls_config(HOST), Services::default()).await;
    let verdict =
        probe(&host(), &Cluster::new().credentials(), None, &server.settings()).await.unwrap();
    assert!(matches!(verdict, Verdict::Unclear(_)), "{verdict:?}");
    assert!(verdict.to_string().contains("Unimplemented"), "{verdict}");
}

#[tokio::test]
async fn configured_nodes_are_distinguished_by_their_ca() {
    let (own, other) = (Cluster::new(), Cluster::new());
    let verdict = probe_server(own.tls_config(HOST), &own.credentials()).await;
    assert!(matches!(verdict, Verdict::OwnNode), "{verdict:?}");
    let verdict = probe_server(other.tls_config(HOST), &own.credentials()).await;
    assert!(matches!(verdict, Verdict::OtherAuthority), "{verdict:?}");
    let verdict = probe_server(own.tls_config("10.0.0.12"), &own.credentials()).await;
    let Verdict::OtherName { presented } = verdict else { panic!("{verdict:?}") };
    assert_eq!(presented, ["10.0.0.12", "node"]);
    // The node presents a certificate of this cluster, but requires client certificates of another CA.
    let mixed = other.tls_config_with(own.node(HOST, now()), Arc::new(DefaultTimeProvider));
    let verdict = probe_server(mixed, &own.credentials()).await;
    assert!(matches!(verdict, Verdict::RejectsClient(_)), "{verdict:?}");
}

#[tokio::test]
async fn expired_certificates_are_distinguished_from_clock_skew() {
    let (own, other) = (Cluster::new(), Cluster::new());
    let usual = || Arc::new(DefaultTimeProvider);
    let long_ago = now().minus(DAY * 3);
    let ended = own.tls_config_with(own.node(HOST, long_ago), usual());
    let verdict = probe_server(ended, &own.credentials()).await;
    assert!(
        matches!(verdict, Verdict::Expired { whose: Whose::TheNode, not_after } if not_after == long_ago.plus(DAY)),
        "{verdict:?}"
    );
    // The CA of a certificate is more important than its dates.
    let ended = other.tls_config_with(other.node(HOST, long_ago), usual());
    let verdict = probe_server(ended, &own.credentials()).await;
    assert!(matches!(verdict, Verdict::OtherAuthority), "{verdict:?}");
    let soon = own.tls_config_with(own.node(HOST, now().plus(DAY)), usual());
    let verdict = probe_server(soon, &own.credentials()).await;
    let Verdict::ClockSkew { at_least: Some(ahead) } = verdict else { panic!("{verdict:?}") };
    assert!(ahead + Duration::from_mins(5) > DAY && ahead <= DAY, "{ahead:?}");
    let stale = own.credentials_made(long_ago, DAY);
    let verdict = probe_server(own.tls_config(HOST), &stale).await;
    assert!(matches!(verdict, Verdict::Expired { whose: Whose::Client, .. }), "{verdict:?}");
    let behind =
        own.tls_config_with(own.node(HOST, now().minus(DAY / 2)), Arc::new(ClockOneDayBehind));
    let verdict = probe_server(behind, &own.credentials()).await;
    assert!(matches!(verdict, Verdict::ClockSkew { at_least: None }), "{verdict:?}");
}

/// Time source of a node whose clock is a day behind.
#[derive(Debug)]
struct ClockOneDayBehind;

impl TimeProvider for ClockOneDayBehind {
    fn current_time(&self) -> Option<TlsTime> {
        Some(TlsTime::since_unix_epoch(Clock::real().since_epoch().saturating_sub(DAY)))
    }
}
