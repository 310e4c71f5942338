use std::time::Duration;

use talmox_clock::Clock;
use talmox_pve::SecretText;
use talmox_pve::api::{cluster, pool};
use talmox_pve::client::{Client, Credentials, Settings};
use talmox_pve::error::{NotSent, PveError};

use crate::server::{Reaction, ReceivedRequest, Server, data, json};

const LOGIN: &str = "POST /api2/json/access/ticket";
const VERSION: &str = r#"{"version":"9.1.6"}"#;

fn client(server: &Server, clock: Clock) -> Client {
    let credentials = Credentials::Password {
        username: "root@pam".to_owned(),
        password: SecretText::new("hunter2"),
    };
    Client::new(Settings { credentials, clock, ..server.settings() }).unwrap()
}

fn ticket(nth: usize) -> Reaction {
    data(&format!(r#"{{"ticket":"PVE:root@pam:{nth}::x","CSRFPreventionToken":"csrf-{nth}"}}"#))
}

fn rejected() -> Reaction {
    Reaction::Answer(
        "HTTP/1.1 401 No ticket\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
    )
}

fn has_ticket(request: &ReceivedRequest, nth: usize) -> bool {
    request.header("cookie") == Some(&format!("PVEAuthCookie=PVE%3Aroot%40pam%3A{nth}%3A%3Ax"))
}

#[tokio::test]
async fn one_login_is_used_for_all_requests() {
    let server = Server::start(
        |request, nth| if request.line == LOGIN { ticket(nth) } else { data("null") },
    )
    .await;
    let client = client(&server, Clock::real());
    client.send(&pool::list()).await.unwrap();
    client.send(&pool::create(&"talos".parse().unwrap(), None)).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[0].text(), "username=root%40pam&password=hunter2");
    assert_eq!(requests[0].header("cookie"), None);
    assert!(has_ticket(&requests[1], 0) && has_ticket(&requests[2], 0));
    assert_eq!(requests[2].header("csrfpreventiontoken"), Some("csrf-0"));
}

#[tokio::test]
async fn a_rejected_ticket_is_renewed_once() {
    let server = Server::start(|request, nth| match request.line.as_str() {
        LOGIN => ticket(nth),
        _ if has_ticket(request, 0) => rejected(),
        _ => data(VERSION),
    })
    .await;
    client(&server, Clock::real()).send(&cluster::version()).await.unwrap();
    let requests = server.requests();
    let get = "GET /api2/json/version";
    assert_eq!(server.lines(), [LOGIN, get, LOGIN, get]);
    assert!(requests[2].text().ends_with("password=hunter2"), "not with the rejected ticket");
    assert!(has_ticket(&requests[3], 2));
}

#[tokio::test]
async fn a_second_rejection_is_an_error() {
    let server =
        Server::start(|request, nth| if request.line == LOGIN { ticket(nth) } else { rejected() })
            .await;
    let error = client(&server, Clock::real()).send(&cluster::version()).await.unwrap_err();
    assert!(error.is_auth(), "{error:?}");
    assert_eq!(server.lines().len(), 4);
}

#[tokio::test]
async fn several_rejected_requests_share_one_renewal() {
    let server = Server::start(|request, nth| match request.line.as_str() {
        LOGIN => ticket(nth),
        _ if has_ticket(request, 0) => rejected(),
        _ => data(VERSION),
    })
    .await;
    let client = client(&server, Clock::real());
    let ask = || async { client.send(&cluster::version()).await.map(drop) };
    let (one, two, three) = tokio::join!(ask(), ask(), ask());
    one.and(two).and(three).unwrap();
    let logins = server.lines().iter().filter(|line| *line == LOGIN).count();
    assert_eq!(logins, 2);
}

#[tokio::test]
async fn an_old_ticket_is_renewed_with_itself() {
    let server = Server::start(
        |request, nth| if request.line == LOGIN { ticket(nth) } else { data(VERSION) },
    )
    .await;
    let clock = Clock::scaled(100_000.0);
    let client = client(&server, clock);
    client.send(&cluster::version()).await.unwrap();
    clock.sleep(Duration::from_hours(2)).await;
    client.send(&cluster::version()).await.unwrap();
    let requests = server.requests();
    let renewal = requests.iter().skip(1).find(|request| request.line == LOGIN).unwrap();
    assert!(renewal.text().contains("password=PVE%3Aroot%40pam%3A"), "{}", renewal.text());
}

#[tokio::test]
async fn a_wrong_password_is_a_rejection_and_shows_nothing() {
    let server = Server::start(|_, _| json("401 authentication failure", "")).await;
    let error = client(&server, Clock::real()).send(&cluster::version()).await.unwrap_err();
    assert!(error.is_auth() && matches!(error, PveError::Rejected(_)), "{error:?}");
    assert!(!format!("{error:?} {error}").contains("hunter2"));
    assert_eq!(server.lines(), [LOGIN], "a retry could lock the account");
}

#[tokio::test]
async fn a_failed_login_is_reported_as_not_sent() {
    let second_factor = r#"{"ticket":"PVE:!tfa!x","CSRFPreventionToken":"y","NeedTFA":1}"#;
    let server = Server::start(move |_, _| data(second_factor)).await;
    let request = pool::create(&"talos".parse().unwrap(), None);
    let error = client(&server, Clock::real()).send(&request).await.unwrap_err();
    assert!(matches!(error, PveError::NotSent { source: NotSent::Login(_), .. }), "{error:?}");

    let server = Server::start(|_, _| Reaction::Cut).await;
    let error = client(&server, Clock::real()).send(&request).await.unwrap_err();
    assert!(matches!(error, PveError::NotSent { source: NotSent::Login(_), .. }), "{error:?}");
    assert_eq!(server.lines(), [LOGIN, LOGIN], "a login can be tried again");
}
