use serde_json::{Value as Json, json};

use super::answer;
use crate::Release;
use crate::api::testing::{ApiTestBench, data, error_line};
use crate::call::Outcome;
use crate::schema::Method::{self, Delete, Get, Post, Put};

const ROOT: &str = "root@pam";
const USER: &str = "ops@pve";

fn ask(bench: &ApiTestBench, who: &str, method: Method, path: &str, sent: Json) -> Outcome {
    bench.call(who, method, path, sent, answer)
}

/// Sends a request, and expects an answer without data.
fn set(bench: &ApiTestBench, method: Method, path: &str, sent: Json) {
    assert_eq!(data(ask(bench, ROOT, method, path, sent)), Json::Null);
}

#[test]
fn token_id_is_unique_and_secret_returned_only_on_creation() {
    let bench = ApiTestBench::new(Release::V9);
    let path = "/access/users/ops@pve/token/ci";
    let made = data(ask(&bench, USER, Post, path, json!({ "privsep": "0", "comment": "robot" })));
    assert_eq!(made["full-tokenid"], "ops@pve!ci");
    assert_eq!(made["info"], json!({ "privsep": "0", "comment": "robot" }));
    let secret = made["value"].as_str().unwrap_or_default();
    let parts: Vec<usize> = secret.split('-').map(str::len).collect();
    assert_eq!(parts, [8, 4, 4, 4, 12], "{secret}");
    assert_eq!(secret.as_bytes()[14], b'4');
    assert_eq!(
        error_line(ask(&bench, ROOT, Post, path, json!({}))),
        "400 Parameter verification failed. [tokenid: Token already exists.]"
    );
    let read = data(ask(&bench, ROOT, Get, path, json!({})));
    assert_eq!(read, json!({ "privsep": 0, "expire": 0, "comment": "robot" }));
    let listed = data(ask(&bench, ROOT, Get, "/access/users/ops@pve/token", json!({})));
    assert_eq!(listed[0]["tokenid"], "ci");
    let changed = data(ask(&bench, ROOT, Put, path, json!({ "privsep": 1, "comment": "" })));
    assert_eq!(changed, json!({ "privsep": 1, "expire": 0 }));
    set(&bench, Delete, path, json!({}));
    assert_eq!(
        error_line(ask(&bench, ROOT, Delete, path, json!({}))),
        "500 no such token 'ci' for user 'ops@pve'"
    );
}

#[test]
fn recreated_token_has_another_secret() {
    let bench = ApiTestBench::new(Release::V9);
    let path = "/access/users/ops@pve/token/ci";
    let first = data(ask(&bench, ROOT, Post, path, json!({})));
    set(&bench, Delete, path, json!({}));
    let again = data(ask(&bench, ROOT, Post, path, json!({})));
    assert_eq!(first["info"], json!({ "privsep": 1 }));
    assert_ne!(first["value"], again["value"]);
    let kept = bench.site.pve_state().access.tokens["ops@pve!ci"].secret.clone();
    assert_eq!(again["value"], kept.as_str());
}

#[test]
fn invalid_acl_update_changes_nothing() {
    let bench = ApiTestBench::new(Release::V9);
    let acl = "/access/acl";
    set(&bench, Put, acl, json!({ "path": "//vms/101/", "users": USER, "roles": "PVEVMAdmin" }));
    let read = data(ask(&bench, ROOT, Get, acl, json!({})));
    let entry = json!({
        "path": "/vms/101", "type": "user", "ugid": USER, "roleid": "PVEVMAdmin", "propagate": 1,
    });
    assert_eq!(read, json!([entry]));
    let wrong = |sent: Json| error_line(ask(&bench, ROOT, Put, acl, sent));
    assert_eq!(
        wrong(json!({ "path": "/vms", "users": USER, "roles": "PVEAuditor,Gone" })),
        "500 ACL update failed: role 'Gone' does not exist"
    );
    assert_eq!(
        wrong(json!({ "path": "/vms", "users": "no@pve", "roles": "PVEAuditor" })),
        "500 ACL update failed: user 'no@pve' does not exist"
    );
    assert_eq!(
        wrong(json!({ "path": "/nope", "users": USER, "roles": "PVEAuditor" })),
        "400 Parameter verification failed. [path: invalid ACL path '/nope']"
    );
    assert!(wrong(json!({ "path": "/vms", "roles": "PVEAuditor" })).contains("[groups: either"));
    assert_eq!(data(ask(&bench, ROOT, Get, acl, json!({}))), json!([entry]));
    let gone = json!({ "path": "/vms/101", "users": USER, "roles": "PVEVMAdmin", "delete": 1 });
    set(&bench, Put, acl, gone);
    assert_eq!(data(ask(&bench, ROOT, Get, acl, json!({}))), json!([]));
}

#[test]
fn caller_can_only_grant_privileges_it_has() {
    let bench = ApiTestBench::new(Release::V9);
    let acl = "/access/acl";
    let own = json!({ "path": "/vms/101", "users": USER, "roles": "PVEVMAdmin", "propagate": 0 });
    set(&bench, Put, acl, own);
    let pass = |roles: &str, propagate: u8| {
        let sent = json!({
            "path": "/vms/101", "users": ROOT, "roles": roles, "propagate": propagate,
        });
        ask(&bench, USER, Put, acl, sent)
    };
    assert_eq!(data(pass("PVEVMUser", 0)), Json::Null);
    assert_eq!(
        error_line(pass("PVEVMUser", 1)),
        "500 ACL update failed: 400 Parameter verification failed.\nrole: Cannot add role \
         'PVEVMUser' with propagation - requires 'Permissions.Modify' or propagated superset of \
         privileges."
    );
    assert!(error_line(pass("Administrator", 0)).contains("or superset of privileges."));
    assert!(error_line(pass("NoAccess", 0)).ends_with("- requires 'Permissions.Modify'"));
}

#[test]
fn caller_without_privileges_can_read_own_permissions() {
    let bench = ApiTestBench::new(Release::V9);
    let path = "/access/permissions";
    let right = json!({
        "path": "/sdn/zones/localnetwork/vmbr0", "users": USER, "roles": "PVESDNUser",
    });
    set(&bench, Put, "/access/acl", right);
    let returned = data(ask(&bench, USER, Get, path, json!({})));
    let rights = json!({ "SDN.Audit": 1, "SDN.Use": 1 });
    assert_eq!(returned, json!({ "/sdn/zones/localnetwork/vmbr0": rights }));
    // The answer contains the path in the request, even if the caller has no permissions on it.
    let returned = data(ask(&bench, USER, Get, path, json!({ "path": "/vms/300" })));
    assert_eq!(returned, json!({ "/vms/300": {} }));
    assert_eq!(
        error_line(ask(&bench, USER, Get, path, json!({ "userid": ROOT }))),
        "403 Permission check failed (/access, Sys.Audit)"
    );
    let everything = data(ask(&bench, ROOT, Get, path, json!({})));
    assert_eq!(everything["/"].as_object().map(serde_json::Map::len), Some(47));
    assert!(everything.get("/sdn/zones").is_some(), "parent paths are reported");
}

#[test]
fn custom_roles_can_change_and_built_in_roles_cannot() {
    let bench = ApiTestBench::new(Release::V8);
    let roles = "/access/roles";
    let role = json!({ "roleid": "Talmox", "privs": "VM.Audit,VM.Allocate" });
    set(&bench, Post, roles, role.clone());
    let wrong = |method, path: &str, sent: Json| error_line(ask(&bench, ROOT, method, path, sent));
    assert_eq!(wrong(Post, roles, role), "500 create role failed: role 'Talmox' already exists");
    assert!(wrong(Post, roles, json!({ "roleid": "pveMine" })).contains("'PVE' namespace"));
    assert_eq!(
        wrong(Put, "/access/roles/PVEAdmin", json!({})),
        "500 auto-generated role 'PVEAdmin' cannot be modified"
    );
    let more = json!({ "privs": "VM.Monitor", "append": 1 });
    set(&bench, Put, "/access/roles/Talmox", more);
    let read = data(ask(&bench, ROOT, Get, "/access/roles/Talmox", json!({})));
    assert_eq!(read, json!({ "VM.Allocate": 1, "VM.Audit": 1, "VM.Monitor": 1 }));
    let listed = data(ask(&bench, USER, Get, roles, json!({})));
    let listed = listed.as_array().expect("a list");
    assert_eq!(listed.len(), 18);
    assert!(listed.contains(&json!({
        "roleid": "Talmox", "privs": "VM.Allocate,VM.Audit,VM.Monitor", "special": 0,
    })));
    set(&bench, Delete, "/access/roles/Talmox", json!({}));
    assert_eq!(wrong(Get, "/access/roles/Talmox", json!({})), "500 role 'Talmox' does not exist");
}

#[test]
fn deleting_a_user_deletes_profile_tokens_and_acl_entries() {
    let bench = ApiTestBench::new(Release::V9);
    bench.site.pve_state().access.groups.insert("admins".to_owned(), [].into());
    let user = json!({ "userid": "new@pve", "email": "n@lan", "groups": "admins", "comment": "x" });
    set(&bench, Post, "/access/users", user.clone());
    assert_eq!(
        error_line(ask(&bench, ROOT, Post, "/access/users", user)),
        "500 create user failed: user 'new@pve' already exists"
    );
    let path = "/access/users/new@pve";
    assert_eq!(
        data(ask(&bench, ROOT, Get, path, json!({}))),
        json!({ "enable": 1, "expire": 0, "email": "n@lan", "comment": "x", "groups": ["admins"] })
    );
    set(&bench, Put, path, json!({ "email": "", "enable": 0, "groups": "" }));
    assert_eq!(
        data(ask(&bench, ROOT, Get, path, json!({}))),
        json!({ "enable": 0, "expire": 0, "comment": "x", "groups": [] })
    );
    // Every user can list itself.
    let listed = data(ask(&bench, USER, Get, "/access/users", json!({})));
    assert_eq!(listed, json!([{ "enable": 1, "expire": 0, "userid": USER, "realm-type": "pve" }]));
    data(ask(&bench, ROOT, Post, "/access/users/new@pve/token/ci", json!({})));
    let rights =
        json!({ "path": "/", "tokens": "new@pve!ci", "users": "new@pve", "roles": "PVEAdmin" });
    set(&bench, Put, "/access/acl", rights);
    set(&bench, Delete, path, json!({}));
    let pve_state = bench.site.pve_state();
    assert!(!pve_state.access.users.contains_key("new@pve"));
    assert!(pve_state.access.tokens.is_empty() && pve_state.access.acl.is_empty());
}
