//! Tests of endpoints, tickets and limits, and of errors that must not contain credentials.

use std::net::TcpListener;
use std::time::Duration;

use talmox_lab::pve::{Action, Fault, PathPattern, When};
use talmox_pve::api::{cluster, node, pool, qemu, task};
use talmox_pve::client::{Client, Credentials, Limits, Settings, Timeouts};
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::property::Drive;
use talmox_pve::{PveError, SecretText};

use crate::rig::{ADMIN, Rig, TIMEOUT, WORKER, endpoint, id, test_scenario, vm};

fn on(method: &str, path: &str) -> When {
    let path = Some(PathPattern::parse(path).unwrap());
    When { method: Some(method.to_owned()), path, ..When::default() }
}

fn token() -> Credentials {
    Credentials::Token(ADMIN.parse().unwrap())
}

fn password(text: &str) -> Credentials {
    Credentials::Password { username: "root@pam".to_owned(), password: SecretText::new(text) }
}

/// Name of the host that answered.
async fn answers_from(client: &Client) -> String {
    let status = client.send(&cluster::status()).await.unwrap();
    status.members.iter().find(|member| member.local).unwrap().node.to_string()
}

#[tokio::test]
async fn another_endpoint_is_used_when_one_is_unreachable() {
    let rig = Rig::test_scenario("9.2");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoints = vec![endpoint("pve1", closed), endpoint("pve2", rig.lab.address())];
    let client = rig.client(Settings { endpoints, ..rig.settings(token()) });
    // No byte of the request reached the first endpoint. So the client sends even a change to the other endpoint.
    client.send(&pool::create(&id("fresh"), None)).await.unwrap();
    assert_eq!(answers_from(&client).await, "pve2");
    assert_eq!(client.send(&pool::list()).await.unwrap().len(), 4);
}

#[tokio::test]
async fn the_client_switches_from_a_host_that_goes_down() {
    let rig = Rig::test_scenario("9.2");
    let endpoints = ["pve1", "pve2"].map(|node| endpoint(node, rig.lab.address())).into();
    let client = rig.client(Settings { endpoints, ..rig.settings(token()) });
    assert_eq!(answers_from(&client).await, "pve1");
    let down = Action::Down { host: "pve1".to_owned(), lasts: None };
    rig.lab.faults().add(Fault::new(on("GET", "/version"), down));
    client.send(&cluster::version()).await.unwrap();
    assert_eq!(answers_from(&client).await, "pve2");
    let status = client.send(&cluster::status()).await.unwrap();
    let online: Vec<bool> = status.members.iter().map(|member| member.online).collect();
    assert_eq!(online, [false, true]);
    let nodes = client.send(&node::list()).await.unwrap();
    assert_eq!(nodes[0].status, "offline");
}

/// Number of recorded logins.
fn logins(rig: &Rig) -> usize {
    rig.record().iter().filter(|entry| entry["path"] == "/api2/json/access/ticket").count()
}

/// Lab in which hours of lab time take seconds.
fn hours() -> Rig {
    Rig::start(talmox_lab::Settings { speed: 5000.0, ..test_scenario("9.2") })
}

#[tokio::test]
async fn tickets_are_renewed_as_time_passes() {
    let rig = hours();
    let client = rig.client(rig.settings(password("swordfish")));
    let change = |text: &str| {
        let set = VmOptions::new().description(text);
        qemu::set_config(&vm(101), &VmChange { set, ..VmChange::default() })
    };
    client.send(&change("first")).await.unwrap();
    client.send(&change("second")).await.unwrap();
    assert_eq!(logins(&rig), 1);
    // After an hour and a half, the ticket can still be exchanged for a new one. After three hours, the ticket has expired.
    rig.lab.clock().sleep(Duration::from_mins(100)).await;
    client.send(&change("third")).await.unwrap();
    assert_eq!(logins(&rig), 2);
    rig.lab.clock().sleep(Duration::from_hours(3)).await;
    client.send(&change("fourth")).await.unwrap();
    let found = client.send(&qemu::config(&vm(101))).await.unwrap();
    assert_eq!(found.description(), "fourth");
}

#[tokio::test]
async fn a_rejected_ticket_is_renewed_once() {
    let rig = hours();
    // The clock of this client is slow, so the client does not detect that its ticket has expired.
    let clock = talmox_clock::Clock::real();
    let client = rig.client(Settings { clock, ..rig.settings(password("swordfish")) });
    client.send(&pool::list()).await.unwrap();
    rig.lab.clock().sleep(Duration::from_hours(3)).await;
    client.send(&pool::create(&id("fresh"), None)).await.unwrap();
    assert_eq!(logins(&rig), 2);
    let creates = rig.record();
    let creates = creates.iter().filter(|entry| entry["path"] == "/api2/json/pools");
    let statuses: Vec<_> = creates.map(|entry| entry["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [200, 401, 200]);
    let wrong = rig.client(rig.settings(password("sesame")));
    let rejected = wrong.send(&pool::list()).await.unwrap_err();
    assert!(rejected.is_auth(), "{rejected:?}");
}

#[tokio::test]
async fn a_deleted_token_is_rejected() {
    let rig = Rig::test_scenario("8.4");
    let client = rig.token(WORKER);
    client.send(&pool::list()).await.unwrap();
    let revoke = Action::Revoke { token: "root@pam!worker".to_owned() };
    rig.lab.faults().add(Fault::new(on("GET", "/version"), revoke));
    for _ in 0..2 {
        let rejected = client.send(&cluster::version()).await.unwrap_err();
        assert!(rejected.is_auth() && rejected.status() == Some(401), "{rejected:?}");
        assert!(!rejected.is_retryable());
    }
}

/// Maximum number of time spans that overlap at any moment.
fn max_overlap(spans: &[(f64, f64)]) -> usize {
    let at = |moment: f64| spans.iter().filter(move |(from, to)| *from <= moment && moment < *to);
    spans.iter().map(|(from, _)| at(*from).count()).max().unwrap_or_default()
}

#[tokio::test]
async fn concurrency_limits_are_respected() {
    let rig = Rig::start(talmox_lab::Settings {
        profile: talmox_lab::pve::Profile::Homelab,
        speed: 100.0,
        ..test_scenario("9.2")
    });
    let limits = Limits { requests: 3, per_host: 3, per_storage: 2 };
    let client = rig.client(Settings { limits, ..rig.settings(token()) });
    let make = async |number: u32, storage: &str| {
        let drive = Drive::import(&id(storage), &id("local:import/talos.qcow2"));
        let options = VmOptions::new().drive(&id("scsi0"), &drive);
        client.run(&qemu::create(&vm(number), None, &options), TIMEOUT).await.unwrap();
    };
    tokio::join!(
        make(300, "local-lvm"),
        make(301, "local-lvm"),
        make(302, "local-lvm"),
        make(303, "local-lvm"),
        make(304, "tank"),
        make(305, "tank"),
        make(306, "tank"),
    );
    let tasks = client.send(&task::list(&id("pve2"), &task::Filter::default())).await.unwrap();
    assert_eq!(tasks.len(), 7);
    let span = |task: &task::TaskEntry| {
        let seconds = |time: u64| f64::from(u32::try_from(time - tasks[6].upid.started()).unwrap());
        (seconds(task.upid.started()), seconds(task.ended.unwrap()))
    };
    let of = |numbers: std::ops::RangeInclusive<u32>| {
        let is_one = |task: &&task::TaskEntry| {
            task.upid.id().parse().is_ok_and(|number| numbers.contains(&number))
        };
        max_overlap(&tasks.iter().filter(is_one).map(span).collect::<Vec<_>>())
    };
    assert_eq!(of(300..=303), 2, "two for each storage");
    assert!(of(304..=306) <= 2);
    assert_eq!(of(300..=306), 3, "three for the host");
    let requests: Vec<_> = rig.record();
    let spans = requests.iter().map(|entry| {
        let from = entry["time"].as_f64().unwrap();
        (from, from + entry["ms"].as_f64().unwrap() / 1000.0)
    });
    assert!(max_overlap(&spans.collect::<Vec<_>>()) <= 3);
}

/// All texts of an error, in every format.
fn shown(error: &PveError) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text.push_str(&format!(" {inner} {inner:?}"));
        source = inner.source();
    }
    text
}

#[tokio::test]
async fn secrets_are_not_shown_or_recorded() {
    let rig = Rig::test_scenario("9.2");
    let secrets = ["swordfish", "00000000-1111-4222-8333-444444444444", "hunter2", "wrong-one"];
    let mut seen = String::new();
    let password_settings = rig.settings(password("swordfish"));
    let token_settings = rig.settings(token());
    seen.push_str(&format!("{password_settings:?} {token_settings:?}"));
    let by_password = rig.client(password_settings);
    let by_token = rig.client(token_settings);
    let options = VmOptions::new().cipassword(&SecretText::new("hunter2")).cores(3);
    let change = VmChange { set: options, ..VmChange::default() };
    let set = qemu::set_config(&vm(101), &change);
    seen.push_str(&format!("{change:?} {set:?}"));
    by_password.send(&set).await.unwrap();
    by_token.send(&set).await.unwrap();
    seen.push_str(&format!("{by_password:?} {by_token:?}"));
    let config = by_token.send(&qemu::config(&vm(101))).await.unwrap();
    seen.push_str(&format!("{config:?}"));

    let wrong = rig.client(rig.settings(password("wrong-one")));
    seen.push_str(&shown(&wrong.send(&set).await.unwrap_err()));
    let missing = qemu::set_config(&vm(999), &change);
    seen.push_str(&shown(&by_token.send(&missing).await.unwrap_err()));
    let newline = VmOptions::new().set("cipassword", "hunter2\nhunter2").set("cores", "many");
    let bad = qemu::set_config(&vm(101), &VmChange { set: newline, ..VmChange::default() });
    seen.push_str(&shown(&by_token.send(&bad).await.unwrap_err()));
    for action in [Action::CutBefore, Action::CutAfter, Action::TimedOut, Action::LostLock] {
        rig.lab.faults().add(Fault::new(on("PUT", "/nodes/**"), action));
        seen.push_str(&shown(&by_password.send(&set).await.unwrap_err()));
    }
    let down = Timeouts { connect: Duration::from_millis(50), ..Timeouts::default() };
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoints = vec![endpoint("pve1", closed)];
    let settings = rig.settings(password("swordfish"));
    let alone = rig.client(Settings { endpoints, timeouts: down, ..settings });
    seen.push_str(&shown(&alone.send(&set).await.unwrap_err()));

    let record = rig.record_text();
    for secret in secrets {
        assert!(!seen.contains(secret), "{secret} in {seen}");
        assert!(!record.contains(secret), "{secret} in {record}");
    }
    assert!(!record.contains("PVE:root@pam:") && !seen.contains("PVE:root@pam:"));
    assert!(record.contains("/access/ticket"));
}
