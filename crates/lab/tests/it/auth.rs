//! Tests of authentication.

use std::io::Write as _;
use std::time::Duration;

use crate::support::{Answer, TestLab, scenario, settings};

const USERS: &str = "
access:
  users:
    - {userid: root@pam, password: geheim}
    - {userid: ann@pve, password: 'pass word+&='}
    - {userid: off@pve, password: x, enable: 0}
    - {userid: old@pve, password: x, expire: 1000}
  tokens:
    - {tokenid: root@pam!ci, secret: 11111111-2222-3333-4444-555555555555, privsep: 0}
    - {tokenid: root@pam!old, secret: a, privsep: 0, expire: 1000}
    - {tokenid: off@pve!x, secret: a, privsep: 0}
";

fn bare(lab: &TestLab, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    lab.raw(format!(
        "{method} /api2/json{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\
         {headers}\r\n{body}"
    ))
}

fn log_in(lab: &TestLab, form: &str) -> Answer {
    bare(lab, "POST", "/access/ticket", "", form)
}

/// Percent-encodes all bytes of a text.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Headers with the ticket, and with the CSRF token.
fn ticket(answer: &Answer) -> (String, String) {
    let data = &answer.json()["data"];
    let escaped = escaped(data["ticket"].as_str().unwrap());
    let csrf = data["CSRFPreventionToken"].as_str().unwrap();
    (
        format!("Cookie: a=1; PVEAuthCookie={escaped}\r\n"),
        format!("CSRFPreventionToken: {csrf}\r\n"),
    )
}

#[test]
fn requests_without_credentials_are_delayed_and_get_only_a_status_line() {
    let lab = TestLab::start(talmox_lab::Settings { speed: 10.0, ..scenario(USERS) });
    let clock = talmox_lab::Lab::clock(lab.lab());
    let before = clock.moment();
    let answer = bare(&lab, "GET", "/version", "", "");
    assert!(clock.moment().since(before) >= Duration::from_secs(3));
    assert_eq!(answer.line(), (401, "No ticket"));
    assert!(answer.body.is_empty());
    assert_eq!(answer.header("Content-Type"), None);
    assert_eq!(answer.header("Connection"), Some("close"));
}

#[test]
fn tokens_are_accepted_in_each_spelling() {
    let lab = TestLab::start(scenario(USERS));
    let good = "11111111-2222-3333-4444-555555555555";
    for value in [
        format!("PVEAPIToken=root@pam!ci={good}"),
        format!("PVEAPIToken root@pam!ci={good}"),
        format!("PVEAPIToken=root%40pam%21ci={good}"),
    ] {
        let answer = bare(&lab, "GET", "/version", &format!("Authorization: {value}\r\n"), "");
        assert_eq!(answer.status, 200, "{value}");
    }
    for value in [
        "PVEAPIToken=root@pam!ci=11111111-2222-3333-4444-555555555556",
        "PVEAPIToken=root@pam!nosuch=1",
        "PVEAPIToken=root@pam!old=a",
        "PVEAPIToken=off@pve!x=a",
        "PVEAPIToken=nonsense",
    ] {
        let answer = bare(&lab, "GET", "/version", &format!("Authorization: {value}\r\n"), "");
        assert_eq!(answer.line(), (401, "Authentication failed!"), "{value}");
        assert!(answer.body.is_empty());
    }
    for value in ["Bearer abc", "Basic cm9vdDp4", "PVEAPIToken"] {
        let answer = bare(&lab, "GET", "/version", &format!("Authorization: {value}\r\n"), "");
        assert_eq!(answer.line(), (401, "No ticket"), "{value}");
    }
}

#[test]
fn unauthenticated_requests_do_not_reveal_paths() {
    let lab = TestLab::start(scenario(USERS));
    assert_eq!(bare(&lab, "GET", "/nosuch", "", "").line(), (401, "No ticket"));
    // Authentication is checked first, then the body, then the route.
    assert_eq!(bare(&lab, "DELETE", "/nosuch", "", "a=1").status, 401);
    let text = "Unexpected content for method 'DELETE'";
    let answer = lab.request("DELETE", "/nosuch", "", "a=1");
    assert_eq!(answer.line(), (501, text));
}

#[test]
fn login_returns_a_ticket_and_a_csrf_token() {
    let lab = TestLab::start(scenario(USERS));
    let answer = log_in(&lab, "username=root@pam&password=geheim");
    assert_eq!(answer.status, 200);
    let data = &answer.json()["data"];
    assert_eq!(data["username"], "root@pam");
    assert!(data["ticket"].as_str().unwrap().starts_with("PVE:root@pam:"));
    assert_eq!(data["cap"]["vms"]["VM.Allocate"], 1);

    let (cookie, csrf) = ticket(&answer);
    assert_eq!(bare(&lab, "GET", "/version", &cookie, "").status, 200);
    // All methods except GET require the CSRF token.
    let answer = bare(&lab, "POST", "/nosuch", &cookie, "");
    assert_eq!(answer.line(), (401, "Permission denied - invalid csrf token"));
    let both = format!("{cookie}{csrf}");
    assert_eq!(bare(&lab, "POST", "/nosuch", &both, "").status, 501);

    // The realm may be a separate parameter, and the password may contain any character.
    let answer = log_in(&lab, "username=ann&realm=pve&password=pass+word%2B%26%3D");
    assert_eq!(answer.json()["data"]["username"], "ann@pve");
    let of_ann = ticket(&answer).1;
    let mixed = format!("{cookie}{of_ann}");
    assert_eq!(bare(&lab, "POST", "/nosuch", &mixed, "").status, 401);

    // A login with a JSON body works as well.
    let json = r#"{"username":"root@pam","password":"geheim"}"#;
    let header = "Content-Type: application/json\r\n";
    assert_eq!(bare(&lab, "POST", "/access/ticket", header, json).status, 200);
}

#[test]
fn all_failed_logins_get_the_same_answer() {
    let lab = TestLab::start(scenario(USERS));
    for form in [
        "username=root@pam&password=wrong",
        "username=nobody@pam&password=geheim",
        "username=root&password=geheim",
        "username=off@pve&password=x",
        "username=old@pve&password=x",
    ] {
        let answer = log_in(&lab, form);
        assert_eq!(answer.line(), (401, "authentication failure"), "{form}");
    }
    let answer = log_in(&lab, "username=root@pam");
    assert_eq!(answer.status, 400);
    let missing = "property is missing and it is not optional";
    assert_eq!(answer.json()["errors"]["password"], missing);
}

#[test]
fn tickets_expire_and_can_be_renewed() {
    // At this speed, two hours of lab time take 3.6 seconds. The first logins happen well before that time.
    let lab = TestLab::start(talmox_lab::Settings { speed: 2000.0, ..scenario(USERS) });
    let answer = log_in(&lab, "username=root@pam&password=geheim");
    let (cookie, _) = ticket(&answer);
    let old = escaped(answer.json()["data"]["ticket"].as_str().unwrap());
    assert_eq!(log_in(&lab, &format!("username=root@pam&password={old}")).status, 200);
    assert_eq!(log_in(&lab, &format!("username=ann@pve&password={old}")).status, 401);
    let clock = lab.lab().clock();
    let made = clock.moment();
    while clock.moment().since(made) < Duration::from_secs(7300) {
        std::thread::park_timeout(Duration::from_millis(50));
    }
    let answer = bare(&lab, "GET", "/version", &cookie, "");
    assert_eq!(answer.line(), (401, "Authentication failed!"));
    assert_eq!(log_in(&lab, &format!("username=root@pam&password={old}")).status, 401);
}

#[test]
fn tokens_cannot_log_in() {
    let lab = TestLab::new();
    let answer = lab.request("POST", "/access/ticket", "", "username=root@pam&password=x");
    assert_eq!(answer.status, 403);
    let text = "URI '/access/ticket' not available with API token, need proper ticket.";
    assert!(answer.reason.contains(text), "{}", answer.reason);
}

#[test]
fn a_parameter_must_not_contradict_the_path() {
    let lab = TestLab::new();
    let answer = lab.get("/nodes/pve/qemu/100/config?vmid=101");
    assert_eq!(answer.line(), (400, "Parameter verification failed."));
    let text = "duplicate parameter (already defined in URI) with conflicting values!";
    assert_eq!(answer.json()["errors"]["vmid"], text);
    // The same value in path and body is accepted, both as a number and as a text.
    let header = "Content-Type: application/json\r\n";
    let answer = lab.request("PUT", "/nodes/pve/qemu/100/config", header, r#"{"vmid":100}"#);
    assert_ne!(answer.status, 400, "{}", answer.text());
}

#[test]
fn query_parameters_take_precedence_over_the_body() {
    let lab = TestLab::start(scenario(USERS));
    let path = "/access/ticket?password=geheim";
    let answer = bare(&lab, "POST", path, "", "username=root@pam&password=wrong");
    assert_eq!(answer.status, 200);
}

#[test]
fn malformed_json_is_rejected() {
    let lab = TestLab::new();
    let header = "Content-Type: application/json\r\n";
    for body in ["{", "[1]", "nonsense"] {
        assert_eq!(lab.request("POST", "/nodes", header, body).status, 500, "{body}");
    }
}

#[test]
fn hosts_that_are_down_are_unreachable() {
    let nodes = "nodes: [{name: pve1}, {name: pve2, online: 0}]";
    let lab = TestLab::start(scenario(nodes));
    assert_eq!(lab.pve.node, "pve1");
    let answer = lab.get("/nodes/pve2/qemu");
    assert_eq!(answer.line(), (595, "No route to host"));
    assert!(answer.body.is_empty());
    // Permissions are checked first, so the answer does not show an unauthorized user that the host is down.
    let answer = bare(&lab, "GET", "/nodes/pve2/qemu", "", "");
    assert_eq!(answer.status, 401);
    // A client that connects to the offline host gets no answer.
    let mut stream = lab.connect();
    let text = lab.text("GET", "/version", "", "").replace("Host: localhost", "Host: pve2:8006");
    stream.write_all(text.as_bytes()).unwrap();
    assert!(Answer::read(&mut stream).is_err());
    lab.stop();
}

#[test]
fn localhost_is_the_host_that_was_contacted() {
    let lab = TestLab::start(settings());
    let answer = lab.get("/nodes/localhost/qemu/100/config");
    let text = "Configuration file 'nodes/pve/qemu-server/100.conf' does not exist";
    assert_eq!(answer.line(), (500, text));
}
