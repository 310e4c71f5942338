//! Tests of the request record.

use serde_json::Value as Json;
use talmox_lab::Settings;

use crate::support::{TestLab, settings};

#[test]
fn requests_are_recorded_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.jsonl");
    let lab = TestLab::start(Settings { record: Some(file.clone()), ..settings() });
    let secret = lab.pve.token_secret.clone();
    assert_eq!(lab.get("/version?_dc=1").status, 200);
    assert_eq!(lab.get("/nosuch?x=1&x=2").status, 501);
    let form = "username=root%40pam&password=hunter2&otp=123456";
    let login = lab.raw(format!(
        "POST /api2/json/access/ticket HTTP/1.1\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    ));
    assert_eq!(login.status, 401);
    let json = r#"{"cipassword":"hunter2","cores":4}"#;
    let header = "Content-Type: application/json\r\n";
    lab.request("PUT", "/nodes/pve/qemu/100/config", header, json);
    lab.stop();

    let text = std::fs::read_to_string(&file).unwrap();
    for hidden in ["hunter2", "123456", &secret, "PVEAPIToken", "Authorization"] {
        assert!(!text.contains(hidden), "{hidden} in {text}");
    }
    let lines: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["method"], "GET");
    assert_eq!(lines[0]["path"], "/api2/json/version");
    assert_eq!(lines[0]["params"], serde_json::json!({}));
    assert_eq!(lines[0]["status"], 200);
    assert!(lines[0]["ms"].is_u64() && lines[0]["time"].is_f64());
    assert_eq!(lines[1]["params"], serde_json::json!({"x": ["1", "2"]}));
    assert_eq!(lines[1]["status"], 501);
    assert_eq!(lines[2]["params"]["username"], "root@pam");
    assert_eq!(lines[2]["params"]["password"], "<redacted>");
    assert_eq!(lines[3]["params"]["cipassword"], "<redacted>");
    assert_eq!(lines[3]["params"]["cores"], 4);

    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn answers_are_recorded_on_request_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.jsonl");
    let lab =
        TestLab::start(Settings { record: Some(file.clone()), record_answers: true, ..settings() });
    let login = format!("username=root@pam&password={}", lab.pve.password);
    let answer = lab.raw(format!(
        "POST /api2/json/access/ticket HTTP/1.1\r\nContent-Length: {}\r\n\r\n{login}",
        login.len()
    ));
    let ticket = answer.json()["data"]["ticket"].as_str().unwrap().to_owned();
    let csrf = answer.json()["data"]["CSRFPreventionToken"].as_str().unwrap().to_owned();
    let made = lab.request("POST", "/access/users/root@pam/token/second", "", "");
    let token = made.json()["data"]["value"].as_str().unwrap().to_owned();
    assert_eq!(lab.get("/version").status, 200);
    assert_eq!(lab.get("/nodes/pve/qemu/100/config").status, 500);
    assert_eq!(lab.get("/nosuch").status, 501);
    let password = lab.pve.password.clone();
    lab.stop();

    let text = std::fs::read_to_string(&file).unwrap();
    for hidden in [&ticket, &csrf, &token, &password] {
        assert!(!text.contains(hidden.as_str()), "{hidden} in {text}");
    }
    let lines: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0]["reason"], "OK");
    assert_eq!(lines[0]["answer"]["data"]["username"], "root@pam");
    assert_eq!(lines[0]["answer"]["data"]["ticket"], "<redacted>");
    assert_eq!(lines[1]["answer"]["data"]["full-tokenid"], "root@pam!second");
    assert_eq!(lines[1]["answer"]["data"]["value"], "<redacted>");
    assert!(lines[2]["answer"]["data"]["version"].is_string());
    let missing = "Configuration file 'nodes/pve/qemu-server/100.conf' does not exist";
    assert_eq!(
        (&lines[3]["status"], &lines[3]["reason"]),
        (&Json::from(500), &Json::from(missing))
    );
    assert_eq!(lines[3]["answer"]["message"], format!("{missing}\n"));
    assert_eq!(lines[4]["reason"], "Method 'GET /nosuch' not implemented");
}
