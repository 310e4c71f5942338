//! Functions for several test suites: clients of the Proxmox of a lab, faults, and reads of the recorded requests.

use std::path::Path;

use serde_json::Value as Json;
use talmox_engine::event::{Event, Stamped};
use talmox_engine::web::{Web, WebSettings};
use talmox_lab::Lab;
use talmox_lab::pve::{Action as FaultAction, Fault, PathPattern, When};
use talmox_pve::client::{self, Client, Credentials, Endpoint, Limits, Timeouts, Trust};
use talmox_talos_api::{Address, Reach};

/// Token that has all rights.
pub(crate) const ADMIN: &str = "root@pam!lab=00000000-1111-4222-8333-444444444444";
/// Token that has only the documented roles.
pub(crate) const TALMOX: &str = "talmox@pve!ci=aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";

pub(crate) fn client(lab: &Lab, token: &str) -> Client {
    client_within(lab, token, Limits::default())
}

pub(crate) fn client_within(lab: &Lab, token: &str, limits: Limits) -> Client {
    let address = lab.address();
    let endpoint = Endpoint {
        reach: Some(Address::new(address.ip().to_string(), address.port())),
        ..Endpoint::new("pve1", 8006)
    };
    Client::new(client::Settings {
        endpoints: vec![endpoint],
        trust: Trust::Authorities(std::fs::read(lab.ready().pve.ca).unwrap()),
        credentials: Credentials::Token(token.parse().unwrap()),
        limits,
        timeouts: Timeouts::default(),
        clock: lab.clock(),
        seed: 0,
    })
    .unwrap()
}

/// Web client for the servers of the lab. `also` adds entries to its reach map.
pub(crate) fn web(lab: &Lab, also: impl IntoIterator<Item = (String, String)>) -> Web {
    let ready = lab.ready();
    let settings = WebSettings {
        reach: Reach::new(ready.reach.into_iter().chain(also)),
        authorities: std::fs::read(ready.pve.ca).unwrap(),
    };
    Web::new(settings).unwrap()
}

/// Requests to Proxmox so far, as method and path, without reads of tasks.
pub(crate) fn recorded_requests(record: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(record).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let call = |line: Json| {
        let path = line["path"].as_str().unwrap();
        format!("{} {}", line["method"].as_str().unwrap(), path.replacen("/api2/json", "", 1))
    };
    lines.map(call).filter(|call| !call.contains("/tasks/")).collect()
}

/// Injects a fault into the first `times` requests with this method and path.
pub(crate) fn inject_fault(lab: &Lab, method: &str, path: &str, times: u64, action: FaultAction) {
    let when = When {
        method: Some(method.to_owned()),
        path: Some(PathPattern::parse(path).unwrap()),
        ..When::default()
    };
    lab.faults().add(Fault { times: Some(times), ..Fault::new(when, action) });
}

/// Injects a fault into the first task of this kind.
pub(crate) fn inject_task_fault(lab: &Lab, task: &str, action: FaultAction) {
    let when = When { task: Some(task.to_owned()), ..When::default() };
    lab.faults().add(Fault::new(when, action));
}

/// Texts of the notes of all steps.
pub(crate) fn notes(events: &[Stamped]) -> Vec<&str> {
    let texts = events.iter().filter_map(|event| match &event.what {
        Event::StepNote { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Asserts that each line of a wait says what is awaited.
pub(crate) fn assert_waits(events: &[Stamped]) {
    for reason in waits(events) {
        let line = reason.strip_prefix("booting: ").unwrap_or(reason);
        let what = line.strip_prefix("waiting for ").unwrap_or_default();
        assert!(!what.is_empty() && !what.starts_with("waiting"), "{reason:?}");
    }
}

/// Reasons of all waits.
pub(crate) fn waits(events: &[Stamped]) -> Vec<&str> {
    let texts = events.iter().filter_map(|event| match &event.what {
        Event::StepWaits { reason, .. } => Some(reason.as_str()),
        _ => None,
    });
    texts.collect()
}
