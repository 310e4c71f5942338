use std::time::Duration;

use talmox_clock::Clock;
use talmox_pve::api::{cluster, pool, qemu};
use talmox_pve::client::{Client, Endpoint, Settings, Timeouts, Trust};
use talmox_pve::error::{Lost, NotSent, PveError};
use talmox_pve::id::VmId;
use tokio::net::TcpListener;

use crate::server::{Reaction, Server, data, json};

const VERSION: &str = r#"{"version":"9.1.6","release":"9.1"}"#;

fn vm() -> qemu::Vm {
    qemu::Vm::new(&"pve1".parse().unwrap(), VmId::new(300).unwrap())
}

/// Endpoint at which no server listens.
async fn nowhere() -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Endpoint::new("127.0.0.1", listener.local_addr().unwrap().port())
}

#[tokio::test]
async fn connections_are_reused_and_requests_have_no_body() {
    let server = Server::start(|_, _| data(VERSION)).await;
    let client = server.client();
    for _ in 0..3 {
        client.send(&cluster::version()).await.unwrap();
    }
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.connection == 0), "one connection is enough");
    assert_eq!(requests[0].line, "GET /api2/json/version");
    assert_eq!(requests[0].header("host"), Some("pve.test:8006"));
    assert_eq!(
        requests[0].header("authorization"),
        Some("PVEAPIToken=talmox@pve!ci=01234567-secret")
    );
    assert_eq!(
        (requests[0].header("content-length"), requests[0].header("content-type")),
        (None, None)
    );
}

#[tokio::test]
async fn writes_have_a_form_and_deletes_have_no_body() {
    let server = Server::start(|_, _| data("null")).await;
    let client = server.client();
    let id = "talos".parse().unwrap();
    client.send(&pool::create(&id, Some("a & b"))).await.unwrap();
    client.send(&pool::delete(&id)).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests[0].line, "POST /api2/json/pools");
    assert_eq!(requests[0].header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(requests[0].text(), "poolid=talos&comment=a%20%26%20b");
    assert_eq!(requests[1].line, "DELETE /api2/json/pools?poolid=talos");
    assert_eq!(requests[1].header("content-length"), None);
    client.send(&qemu::agent_ping(&vm())).await.unwrap();
    assert_eq!(server.requests()[2].header("content-length"), Some("0"));
}

#[tokio::test]
async fn the_reason_phrase_is_used_without_a_body() {
    let server = Server::start(|_, _| {
        let line =
            "HTTP/1.1 500 Configuration file 'nodes/pve1/qemu-server/300.conf' does not exist";
        Reaction::Answer(format!("{line}\r\nContent-Length: 0\r\n\r\n"))
    })
    .await;
    let error = server.client().send(&qemu::config(&vm())).await.unwrap_err();
    assert!(error.is_not_found(), "{error:?}");
    assert_eq!(
        error.to_string(),
        "GET /nodes/pve1/qemu/300/config was rejected: Configuration file \
         'nodes/pve1/qemu-server/300.conf' does not exist (status 500)"
    );
}

#[tokio::test]
async fn an_interrupted_read_is_sent_again() {
    let server = Server::start(|_, nth| if nth == 0 { Reaction::Cut } else { data(VERSION) }).await;
    server.client().send(&cluster::version()).await.unwrap();
    assert_eq!(server.lines().len(), 2);
}

#[tokio::test]
async fn an_interrupted_write_is_maybe_applied_and_not_sent_again() {
    let server = Server::start(|_, _| Reaction::Cut).await;
    let error = server.client().send(&qemu::start(&vm())).await.unwrap_err();
    assert!(matches!(error, PveError::MaybeApplied { source: Lost::Cut(_), .. }), "{error:?}");
    assert!(!error.is_retryable());
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test]
async fn an_unanswered_write_is_maybe_applied() {
    let server = Server::start(|_, _| Reaction::Hang).await;
    let timeouts = Timeouts { answer: Duration::from_millis(100), ..Timeouts::default() };
    let client = Client::new(Settings { timeouts, ..server.settings() }).unwrap();
    let error = client.send(&qemu::start(&vm())).await.unwrap_err();
    assert!(matches!(error, PveError::MaybeApplied { source: Lost::Silent, .. }), "{error:?}");
}

#[tokio::test]
async fn an_unreadable_answer_to_a_write_is_maybe_applied() {
    for odd in ["<html>", r#"{"data":{"x":1}}"#, r#"{"data":"UPID:odd"}"#] {
        let server = Server::start(move |_, _| json("200 OK", odd)).await;
        let error = server.client().send(&qemu::start(&vm())).await.unwrap_err();
        assert!(
            matches!(error, PveError::MaybeApplied { source: Lost::Unreadable(_), .. }),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn the_next_endpoint_is_used_when_one_is_down() {
    let server = Server::start(|_, _| data(VERSION)).await;
    let endpoints = vec![nowhere().await, server.endpoint()];
    let client = Client::new(Settings { endpoints, ..server.settings() }).unwrap();
    client.send(&cluster::version()).await.unwrap();
    // A write is also sent to the second endpoint, because it was not sent to the first one.
    client.send(&pool::create(&"talos".parse().unwrap(), None)).await.unwrap();
    assert_eq!(server.lines().len(), 2);
}

#[tokio::test]
async fn reads_use_another_endpoint_when_a_gateway_fails() {
    let gateway = Server::start(|_, _| json("502 Bad Gateway", "<html>")).await;
    let server = Server::start(|_, _| data(VERSION)).await;
    let settings = Settings {
        endpoints: vec![gateway.endpoint(), server.endpoint()],
        trust: Trust::Pinned([gateway.fingerprint, server.fingerprint].into()),
        ..server.settings()
    };
    let client = Client::new(settings.clone()).unwrap();
    client.send(&cluster::version()).await.unwrap();
    assert_eq!((gateway.lines().len(), server.lines().len()), (1, 1));

    let client = Client::new(settings).unwrap();
    let error = client.send(&qemu::start(&vm())).await.unwrap_err();
    assert!(
        matches!(error, PveError::MaybeApplied { source: Lost::Proxy { .. }, .. }),
        "{error:?}"
    );
    assert_eq!(server.lines().len(), 1, "nothing is changed twice");
}

#[tokio::test]
async fn an_endpoint_that_timed_out_is_tried_last() {
    let silent = Server::start(|_, _| Reaction::Hang).await;
    let server = Server::start(|_, _| data(VERSION)).await;
    let settings = Settings {
        endpoints: vec![silent.endpoint(), server.endpoint()],
        trust: Trust::Pinned([silent.fingerprint, server.fingerprint].into()),
        timeouts: Timeouts { answer: Duration::from_millis(200), ..Timeouts::default() },
        clock: Clock::real(),
        ..server.settings()
    };
    let client = Client::new(settings).unwrap();
    for _ in 0..3 {
        client.send(&cluster::version()).await.unwrap();
    }
    assert_eq!((silent.lines().len(), server.lines().len()), (1, 3));
}

#[tokio::test]
async fn not_sent_is_reported_when_all_endpoints_are_down() {
    let server = Server::start(|_, _| data(VERSION)).await;
    let endpoints = vec![nowhere().await, nowhere().await];
    let client = Client::new(Settings { endpoints, ..server.settings() }).unwrap();
    let error = client.send(&qemu::start(&vm())).await.unwrap_err();
    assert!(
        matches!(error, PveError::NotSent { source: NotSent::Connect { .. }, .. }),
        "{error:?}"
    );
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_not_used_for_a_write() {
    // The server answers the first request. At the second request, it closes the connection without an answer.
    let server = Server::start(|_, nth| match nth {
        0 => data(VERSION),
        1 => Reaction::Cut,
        _ => data("null"),
    })
    .await;
    let client = server.client();
    client.send(&cluster::version()).await.unwrap();
    // This read gets no answer, so the client sends it again on another connection.
    client.send(&pool::list()).await.unwrap();
    client.send(&pool::create(&"talos".parse().unwrap(), None)).await.unwrap();
    let last = server.requests().pop().unwrap();
    assert!(last.line.starts_with("POST") && last.connection != 0, "{last:?}");
}

#[tokio::test]
async fn an_unreachable_node_is_distinguished_from_a_lost_answer() {
    let server = Server::start(|request, _| {
        let is_start = request.line.ends_with("/start");
        json(if is_start { "596 Connection timed out" } else { "595 No route to host" }, "")
    })
    .await;
    let client = server.client();
    let error = client.send(&qemu::config(&vm())).await.unwrap_err();
    assert!(error.is_node_scoped() && error.is_retryable(), "{error:?}");
    let error = client.send(&qemu::start(&vm())).await.unwrap_err();
    assert!(error.is_node_scoped() && !error.is_retryable(), "{error:?}");
}
