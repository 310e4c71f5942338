//! Tests of users, tokens, roles and ACLs.

use serde_json::{Value as Json, json};

use crate::support::{Answer, TestLab, scenario};

const ACCESS: &str = "
vms:
  - {vmid: 101, config: {name: web}}
  - {vmid: 102, config: {name: db}}
access:
  users: [ops@pve]
  tokens:
    - {tokenid: root@pam!lab, secret: all, privsep: 0}
    - {tokenid: ops@pve!ci, secret: s3cret, privsep: 1}
  acl:
    - {path: /vms, ugid: ops@pve, roleid: PVEVMAdmin}
    - {path: /vms/101, ugid: ops@pve!ci, roleid: PVEAuditor}
";
const CI: &str = "ops@pve!ci=s3cret";
const ROOT: &str = "root@pam!lab=all";

fn call(lab: &TestLab, token: &str, method: &str, path: &str, form: &str) -> Answer {
    let length = form.len();
    let headers = format!("Host: localhost\r\nAuthorization: PVEAPIToken={token}\r\n");
    let body = match length {
        0 => "\r\n".to_owned(),
        _ => format!("Content-Length: {length}\r\n\r\n{form}"),
    };
    lab.raw(format!("{method} /api2/json{path} HTTP/1.1\r\n{headers}{body}"))
}

fn message(answer: &Answer) -> (u16, String) {
    let text = answer.json()["message"].as_str().unwrap_or_default().trim_end().to_owned();
    (answer.status, text)
}

#[test]
fn a_separated_token_has_the_intersection_of_privileges() {
    let lab = TestLab::start(scenario(ACCESS));
    assert_eq!(call(&lab, CI, "GET", "/nodes/pve/qemu/101/config", "").status, 200);
    let audit = call(&lab, CI, "GET", "/nodes/pve/qemu/102/config", "");
    let text = "Permission check failed (/vms/102, VM.Audit)";
    assert_eq!(message(&audit), (403, text.to_owned()));
    assert_eq!(audit.reason, text);
    let stop = call(&lab, CI, "POST", "/nodes/pve/qemu/101/status/stop", "");
    assert_eq!(
        message(&stop),
        (403, "Permission check failed (/vms/101, VM.PowerMgmt)".to_owned())
    );
    let rights = call(&lab, CI, "GET", "/access/permissions", "").json();
    let held = json!({ "/vms/101": { "VM.Audit": 1, "VM.GuestAgent.Audit": 1 } });
    assert_eq!(rights["data"], held);
}

#[test]
fn a_token_is_created_used_and_deleted() {
    let lab = TestLab::start(scenario(ACCESS));
    let made = call(&lab, ROOT, "POST", "/access/users/ops@pve/token/new", "privsep=0").json();
    let value = made["data"]["value"].as_str().unwrap();
    assert_eq!(made["data"]["info"], json!({ "privsep": "0" }));
    let new = format!("ops@pve!new={value}");
    assert_eq!(call(&lab, &new, "GET", "/nodes/pve/qemu/102/config", "").status, 200);
    let again = call(&lab, ROOT, "POST", "/access/users/ops@pve/token/new", "");
    assert_eq!(again.json()["errors"], json!({ "tokenid": "Token already exists." }));
    let path = "/access/users/ops@pve/token/new";
    assert_eq!(call(&lab, ROOT, "DELETE", path, "").json()["data"], Json::Null);
    assert_eq!(call(&lab, &new, "GET", "/version", "").status, 401);
}

#[test]
fn permission_changes_apply_to_the_next_call() {
    let lab = TestLab::start(scenario(ACCESS));
    let config = "/nodes/pve/qemu/102/config";
    assert_eq!(call(&lab, CI, "GET", config, "").status, 403);
    let form = "path=/pool/web&tokens=ops@pve!ci&users=ops@pve&roles=PVEAuditor";
    assert_eq!(call(&lab, ROOT, "POST", "/pools", "poolid=web").status, 200);
    assert_eq!(call(&lab, ROOT, "PUT", "/access/acl", form).status, 200);
    assert_eq!(call(&lab, ROOT, "PUT", "/pools/web", "vms=102").status, 200);
    assert_eq!(call(&lab, CI, "GET", config, "").status, 200);
    let pool = call(&lab, CI, "GET", "/pools/web", "").json();
    assert_eq!(pool["data"]["members"][0]["vmid"], 102);
    assert_eq!(call(&lab, ROOT, "PUT", "/pools/web", "vms=102&delete=1").status, 200);
    assert_eq!(call(&lab, CI, "GET", config, "").status, 403);
}

#[test]
fn root_tokens_do_not_have_all_root_privileges() {
    let lab = TestLab::start(scenario(ACCESS));
    let put = call(&lab, ROOT, "PUT", "/nodes/pve/qemu/101/config", "args=-s");
    assert_eq!(message(&put), (500, "only root can set 'args' config".to_owned()));
    let role = call(&lab, ROOT, "POST", "/access/roles", "roleid=Old&privs=VM.Monitor");
    let error = role.json()["errors"]["privs"].as_str().unwrap().to_owned();
    assert_eq!(error, "invalid format - invalid privilege 'VM.Monitor'\n");
}
