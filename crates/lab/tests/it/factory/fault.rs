use talmox_lab::FaultScript as _;
use talmox_lab::pve::{Action, Fault, PathPattern, When};

use super::{EMPTY, FACTORY, connect, get, post, send, status_and_text};
use crate::support::{TestLab, scenario};

fn on(path: &str) -> When {
    When { factory: Some(PathPattern::parse(path).unwrap()), ..When::default() }
}

#[test]
fn downloads_are_truncated() {
    use std::io::{Read as _, Write as _};

    let lab = TestLab::start(scenario(
        "faults: [{factory: \"/image/**\", method: GET, truncate: {percent: 40}}]",
    ));
    post(&lab, "{}");
    let path = format!("/image/{EMPTY}/v1.13.6/nocloud-amd64.qcow2");
    let mut stream = connect(&lab, FACTORY);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {FACTORY}\r\n\r\n").unwrap();
    let mut all = vec![];
    // The connection closes early, which may be an error.
    stream.read_to_end(&mut all).ok();
    let at = all.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let whole = get(&lab, &path).body;
    let head = String::from_utf8_lossy(&all[..at]);
    assert!(head.contains(&format!("Content-Length: {}\r\n", whole.len())), "{head}");
    assert_eq!(all[at..], whole[..whole.len() * 40 / 100]);
    lab.stop();
}

#[test]
fn a_truncated_download_fails_and_leaves_no_file() {
    let lab = TestLab::start(scenario("faults: [{factory: \"/image/**\", truncate: {}}]"));
    post(&lab, "{}");
    let url = format!("https://factory.talos.dev/image/{EMPTY}/v1.13.6/nocloud-amd64.qcow2");
    let order = format!("content=import&filename=talos.qcow2&url={url}");
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let download = || {
        let path = "/nodes/pve/storage/local/download-url";
        crate::upload::outcome(&lab, &lab.request("POST", path, form, &order))
    };
    assert_eq!(download(), "download failed: exit code 4");
    assert_eq!(download(), "OK");
    lab.stop();
}

#[test]
fn factory_faults_do_not_affect_proxmox_calls() {
    let lab = TestLab::new();
    let faults = lab.lab().faults();
    let reject = Action::Reject { status: 503, message: "too busy".to_owned() };
    faults.add(Fault { times: None, ..Fault::new(on("/versions"), reject) });
    assert_eq!(status_and_text(&get(&lab, "/versions")), (503, "too busy".into()));
    assert_eq!(lab.get("/version").status, 200);
    assert_eq!(post(&lab, "{}").status, 201);
    faults.clear();

    faults.add(Fault::new(on("/schematics"), Action::CutAfter));
    faults.add(Fault::new(on("/versions"), Action::CutBefore));
    let yaml = "customization: {extraKernelArgs: [quiet]}";
    assert!(send(&lab, FACTORY, "POST /schematics", yaml).is_err());
    assert!(send(&lab, FACTORY, "GET /versions", "").is_err());
    let id = post(&lab, yaml).json()["id"].as_str().unwrap().to_owned();
    assert_eq!(get(&lab, &format!("/schematics/{id}")).status, 200);
    // A fault rule for Proxmox calls does not apply to the Image Factory.
    let all = Action::Reject { status: 500, message: "never".to_owned() };
    faults.add(Fault { times: None, ..Fault::new(When::default(), all) });
    assert_eq!(get(&lab, "/versions").status, 200);
    assert_eq!(lab.get("/version").status, 500);
    lab.stop();
}

#[test]
fn a_hanging_factory_accepts_requests_and_never_answers() {
    use std::io::{ErrorKind, Read as _, Write as _};

    let lab = TestLab::start(scenario("faults: [{factory: /versions, hang: true}]"));
    let mut stream = connect(&lab, FACTORY);
    write!(stream, "GET /versions HTTP/1.1\r\nHost: {FACTORY}\r\n\r\n").unwrap();
    // The loop waits until the rule has matched this request. The next request is answered.
    while !lab.lab().faults().idle().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(get(&lab, "/versions").status, 200);
    stream.sock.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    let silence = stream.read(&mut [0; 64]).unwrap_err().kind();
    assert!(matches!(silence, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{silence:?}");
    // When the lab stops, it closes the connection.
    lab.stop();
    stream.sock.set_read_timeout(Some(std::time::Duration::from_mins(1))).unwrap();
    assert!(!matches!(stream.read(&mut [0; 64]), Ok(1..)));
}

#[test]
fn invalid_factory_faults_are_rejected() {
    let rejected = |text: &str| Fault::parse("f", text).unwrap_err().to_string();
    let text = rejected("faults: [{factory: /versions, task: qmcreate, delay: 1s}]");
    assert!(text.contains("one kind of event, not `task` and `factory`"), "{text}");
    let text = rejected("faults: [{factory: /versions, host: pve, delay: 1s}]");
    assert!(text.contains("a fault of the factory cannot have the key `host`"), "{text}");
    let text = rejected("faults: [{path: /version, truncate: {percent: 1}}]");
    assert!(text.contains("`truncate` cannot be applied to Proxmox's calls"), "{text}");
}
