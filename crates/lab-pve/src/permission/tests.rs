use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::Release;
use crate::pve_state::{AclEntry, Pool, Token, User};
use crate::schema::{Method, Raw, find};

const USER: &str = "ops@pve";

fn pve_state(acl: &[(&str, &str, &str, bool)]) -> PveState {
    let mut pve_state = PveState::new(Release::V9);
    let user = User { password: None, enabled: true, expires: 0, comment: None };
    pve_state.access.users.insert(USER.to_owned(), user);
    for (id, separated) in [("ops@pve!own", true), ("ops@pve!all", false), ("root@pam!own", true)] {
        let token = Token { secret: String::new(), separated, expires: 0, comment: None };
        pve_state.access.tokens.insert(id.to_owned(), token);
    }
    pve_state.access.groups.insert("admins".to_owned(), BTreeSet::from([USER.to_owned()]));
    pve_state.access.acl = acl.iter().map(|entry| acl_entry(*entry)).collect();
    pve_state
}

fn acl_entry((path, who, role, propagate): (&str, &str, &str, bool)) -> AclEntry {
    AclEntry { path: path.to_owned(), who: who.to_owned(), role: role.to_owned(), propagate }
}

fn held(pve_state: &PveState, who: &str, path: &str) -> Vec<String> {
    pve_state.permissions_of(&Caller::parse(who), path).into_keys().map(str::to_owned).collect()
}

#[test]
fn built_in_roles_differ_by_release() {
    let count = |release, role| built_in_role(release, role).map(|held| held.len());
    assert_eq!(count(Release::V9, "Administrator"), Some(47));
    assert_eq!(count(Release::V8, "Administrator"), Some(42));
    assert_eq!(count(Release::V9, "NoAccess"), Some(0));
    assert_eq!(count(Release::V9, "PVESysUser"), None);
    assert_eq!(
        built_in_role(Release::V8, "PVEVMUser").unwrap_or_default(),
        [
            "VM.Audit",
            "VM.Backup",
            "VM.Config.CDROM",
            "VM.Config.Cloudinit",
            "VM.Console",
            "VM.PowerMgmt"
        ]
    );
    assert_eq!(
        built_in_role(Release::V9, "PVEUserAdmin").unwrap_or_default(),
        ["Group.Allocate", "Realm.AllocateUser", "User.Modify"]
    );
    assert_eq!(
        built_in_role(Release::V9, "PVEAuditor").unwrap_or_default(),
        [
            "Datastore.Audit",
            "Mapping.Audit",
            "Pool.Audit",
            "SDN.Audit",
            "Sys.Audit",
            "VM.Audit",
            "VM.GuestAgent.Audit"
        ]
    );
    let admin = built_in_role(Release::V9, "PVEAdmin").unwrap_or_default();
    for kept_back in ["Sys.Modify", "Sys.AccessNetwork", "Mapping.Modify", "Permissions.Modify"] {
        assert!(!admin.contains(&kept_back), "{kept_back}");
    }
    for role in built_in_roles().filter(|role| *role != "NoAccess") {
        assert_ne!(count(Release::V8, role), Some(0), "{role}");
    }
}

#[test]
fn entry_replaces_inherited_roles() {
    let pve_state =
        pve_state(&[("/", USER, "PVEAuditor", true), ("/vms/101", USER, "PVETemplateUser", true)]);
    assert_eq!(held(&pve_state, USER, "/vms/101"), ["VM.Audit", "VM.Clone"]);
    assert!(held(&pve_state, USER, "/vms/102").contains(&"Sys.Audit".to_owned()));
}

#[test]
fn entry_without_propagation_applies_to_its_path_only() {
    let pve_state = pve_state(&[("/vms", USER, "PVETemplateUser", false)]);
    assert_eq!(held(&pve_state, USER, "/vms").len(), 2);
    assert!(held(&pve_state, USER, "/vms/101").is_empty());
}

#[test]
fn user_entry_overrides_group_entry() {
    let pve_state = pve_state(&[
        ("/vms", "@admins", "PVEVMAdmin", true),
        ("/vms", USER, "PVETemplateUser", true),
    ]);
    assert_eq!(held(&pve_state, USER, "/vms/101"), ["VM.Audit", "VM.Clone"]);
}

#[test]
fn separated_token_has_intersection_with_user_privileges() {
    let pve_state = pve_state(&[
        ("/vms", USER, "PVEVMUser", true),
        ("/vms", "ops@pve!own", "PVETemplateUser", true),
        ("/vms", "root@pam!own", "PVETemplateUser", true),
    ]);
    assert_eq!(held(&pve_state, "ops@pve!own", "/vms/101"), ["VM.Audit"]);
    assert_eq!(held(&pve_state, "ops@pve!all", "/vms/101"), held(&pve_state, USER, "/vms/101"));
    assert_eq!(held(&pve_state, "root@pam!own", "/vms/101"), ["VM.Audit", "VM.Clone"]);
    assert!(held(&pve_state, "ops@pve!gone", "/vms/101").is_empty());
}

#[test]
fn pool_roles_are_added_and_no_access_wins() {
    let mut pve_state = pve_state(&[
        ("/pool/talos", USER, "PVETemplateUser", true),
        ("/vms/102", USER, "NoAccess", true),
        ("/storage", USER, "PVEDatastoreUser", true),
        ("/pool/closed", USER, "NoAccess", true),
    ]);
    let pool = Pool { vms: BTreeSet::from([101, 102]), ..Pool::default() };
    pve_state.pools.insert("talos".to_owned(), pool);
    let pool = Pool { storages: BTreeSet::from(["local".to_owned()]), ..Pool::default() };
    pve_state.pools.insert("closed".to_owned(), pool);
    let caller = Caller::parse(USER);
    let expected = BTreeMap::from([("VM.Audit", false), ("VM.Clone", false)]);
    assert_eq!(pve_state.permissions_of(&caller, "/vms/101"), expected);
    assert!(held(&pve_state, USER, "/vms/102").is_empty());
    assert!(held(&pve_state, USER, "/storage/local").is_empty());
    assert_eq!(held(&pve_state, USER, "/storage/other").len(), 2);
}

#[test]
fn errors_name_path_and_missing_privilege() {
    let pve_state = pve_state(&[("/vms", USER, "PVEAuditor", true)]);
    let caller = Caller::parse(USER);
    let text = |result: Result<(), ApiError>| result.expect_err("an error").message;
    assert_eq!(
        text(pve_state.check(&caller, "/vms/101", &["VM.Audit", "VM.Clone"])),
        "Permission check failed (/vms/101, VM.Clone)"
    );
    assert_eq!(
        text(pve_state.check_any(&caller, "/vms/101", &["VM.Clone", "VM.Console"])),
        "Permission check failed (/vms/101, VM.Clone|VM.Console)"
    );
    assert_eq!(
        text(pve_state.check_pool_exists("x")),
        "Permission check failed (pool 'x' does not exist)"
    );
    assert!(pve_state.check(&Caller::parse("root@pam"), "/", &["Sys.Modify"]).is_ok());
}

#[test]
fn tagged_network_card_requires_privilege_on_vlan() {
    let zone = "/sdn/zones/localnetwork";
    let vlan = format!("{zone}/vmbr0/40");
    let pve_state = pve_state(&[(&vlan, USER, "PVESDNUser", true)]);
    let caller = Caller::parse(USER);
    assert!(pve_state.check_bridge(&caller, "vmbr0", Some(40), None).is_ok());
    assert!(pve_state.can_see_bridge(&caller, "vmbr0"));
    assert!(!pve_state.can_see_bridge(&caller, "vmbr1"));
    let text = |tag, trunks| {
        pve_state.check_bridge(&caller, "vmbr0", tag, trunks).expect_err("an error").message
    };
    assert_eq!(text(None, None), format!("Permission check failed ({zone}/vmbr0, SDN.Use)"));
    assert_eq!(text(Some(41), None), format!("Permission check failed ({zone}/vmbr0/41, SDN.Use)"));
    assert_eq!(
        text(Some(40), Some("40;9-10")),
        format!("Permission check failed ({zone}/vmbr0/10, SDN.Use)")
    );
}

#[test]
fn acl_paths_are_normalized() {
    assert_eq!(normalize("//vms//101/").as_deref(), Some("/vms/101"));
    assert_eq!(normalize("vms").as_deref(), Some("/vms"));
    assert_eq!(normalize("/").as_deref(), Some("/"));
    assert_eq!(normalize("/vms/{vmid}"), None);
    assert_eq!(normalize(""), None);
    let valid =
        ["/", "/vms/101", "/pool/a/b/c", "/sdn/zones/localnetwork/vmbr0/40", "/access/realm"];
    assert!(valid.iter().all(|path| is_acl_path(path)));
    let invalid =
        ["/vms/10", "/pool/a/b/c/d", "/nope", "/sdn/zones/z/b/0", "/storage/a/b", "/access/x"];
    assert!(!invalid.iter().any(|path| is_acl_path(path)));
}

/// Evaluates the permission that an endpoint declares, and returns the error text or `fine`.
fn declared(
    pve_state: &PveState,
    who: &str,
    method: Method,
    path: &str,
    sent: &[(&str, &str)],
) -> String {
    let (endpoint, of_path) = find(Release::V9, method, path).expect("a known path");
    let sent = sent.iter().map(|(name, value)| ((*name).to_owned(), Raw::from(*value)));
    let of_path = of_path.into_iter().map(|(name, value)| (name, Raw::Text(value)));
    let sent = of_path.chain(sent).collect();
    match pve_state.check_declared(&Caller::parse(who), &endpoint.permission, &sent) {
        Ok(()) => "fine".to_owned(),
        Err(error) => format!("{} {}", error.status, error.message),
    }
}

#[test]
fn declared_permissions_are_enforced() {
    use Method::{Get, Post, Put};
    let mut pve_state = pve_state(&[
        ("/vms/101", USER, "PVEVMAdmin", true),
        ("/pool/talos", USER, "PVEVMAdmin", true),
        ("/access/groups/admins", USER, "PVEUserAdmin", true),
    ]);
    pve_state.pools.insert("talos".to_owned(), Pool::default());
    let as_user = |method, path, sent: &[_]| declared(&pve_state, USER, method, path, sent);
    assert_eq!(as_user(Get, "/nodes/pve/qemu/101/config", &[]), "fine");
    assert_eq!(
        as_user(Get, "/nodes/pve/qemu/102/config", &[]),
        "403 Permission check failed (/vms/102, VM.Audit)"
    );
    assert_eq!(
        as_user(Put, "/cluster/options", &[]),
        "403 Permission check failed (/, Sys.Modify)"
    );
    // The error of an `or` does not name the missing privilege. A pool counts only if the request names it.
    let clone = "/nodes/pve/qemu/101/clone";
    assert_eq!(as_user(Post, clone, &[("newid", "200")]), "403 Permission check failed");
    assert_eq!(as_user(Post, clone, &[("newid", "200"), ("pool", "talos")]), "fine");
    // A privilege on a group applies to the members of the group.
    assert_eq!(as_user(Get, "/access/users/ops@pve", &[]), "fine");
    assert_eq!(as_user(Get, "/access/users/no@pve", &[]), "500 no such user ('no@pve')");
    assert_eq!(as_user(Get, "/access/users/no@pve/token", &[]), "403 Permission check failed");
    assert_eq!(
        as_user(Post, "/access/users", &[("userid", "new@pve")]),
        "403 Permission check failed (/access/realm/pve, Realm.AllocateUser)"
    );
    // A user may create tokens for itself. The tokens of the user may not.
    let token = "/access/users/ops@pve/token/more";
    assert_eq!(as_user(Post, token, &[]), "fine");
    let separated = declared(&pve_state, "ops@pve!own", Post, token, &[]);
    assert_eq!(separated, "403 Permission check failed");
    // `VM.Allocate` on a VM permits a change of the access control list of the VM.
    assert_eq!(as_user(Put, "/access/acl", &[("path", "/vms/101")]), "fine");
    assert_eq!(
        as_user(Put, "/access/acl", &[("path", "/vms/102")]),
        "403 Permission check failed (/vms/102, Permissions.Modify|VM.Allocate)"
    );
    assert_eq!(declared(&pve_state, "root@pam", Put, "/cluster/options", &[]), "fine");
    assert_eq!(
        declared(&pve_state, "root@pam!own", Put, "/cluster/options", &[]),
        "403 Permission check failed (/, Sys.Modify)"
    );
}

/// Reference implementation. It searches from the path up to the root, and uses the first level that has an entry.
fn reference_privileges(pve_state: &PveState, who: &str, path: &str) -> BTreeSet<String> {
    fn level<'a>(pve_state: &'a PveState, who: &str, at: &str, exact: bool) -> Vec<&'a str> {
        let entries = || {
            pve_state.access.acl.iter().filter(move |entry| {
                entry.path == at && (exact || entry.propagate) && entry.role != "Gone"
            })
        };
        let own: Vec<&str> =
            entries().filter(|entry| entry.who == who).map(|entry| entry.role.as_str()).collect();
        if !own.is_empty() {
            return own;
        }
        let member = |entry: &&AclEntry| {
            entry.who.strip_prefix('@').is_some_and(|group| {
                pve_state.access.groups.get(group).is_some_and(|members| members.contains(who))
            })
        };
        entries().filter(member).map(|entry| entry.role.as_str()).collect()
    }
    fn roles<'a>(pve_state: &'a PveState, who: &str, path: &str) -> Vec<&'a str> {
        let mut at = path.to_owned();
        loop {
            let found = level(pve_state, who, &at, at == path);
            if !found.is_empty() || at == "/" {
                return found;
            }
            at.truncate(at.rfind('/').unwrap_or_default());
            if at.is_empty() {
                "/".clone_into(&mut at);
            }
        }
    }
    let mut all = roles(pve_state, who, path);
    for (id, pool) in &pve_state.pools {
        if pool.vms.iter().any(|vmid| format!("/vms/{vmid}") == path) {
            all.extend(roles(pve_state, who, &format!("/pool/{id}")));
        }
    }
    if all.contains(&"NoAccess") {
        return BTreeSet::new();
    }
    let granted = all.iter().filter_map(|role| pve_state.role(role)).flatten();
    granted.map(str::to_owned).collect()
}

proptest! {
    #[test]
    fn resolution_equals_reference_implementation(
        entries in vec(
            (
                select(vec!["/", "/vms", "/vms/101", "/vms/102", "/pool", "/pool/a", "/pool/a/b"]),
                select(vec![USER, "ops@pve!own", "@admins", "@others", "other@pve"]),
                select(vec!["PVEAuditor", "PVEVMUser", "PVETemplateUser", "NoAccess", "Gone"]),
                any::<bool>(),
            ),
            0..12,
        ),
        members in btree_set(select(vec![101, 102]), 0..2),
        path in select(vec!["/", "/vms", "/vms/101", "/vms/102", "/pool/a", "/pool/a/b"]),
    ) {
        let mut pve_state = pve_state(&[]);
        for (path, who, role, propagate) in entries {
            let same = |entry: &AclEntry| entry.path == path && entry.who == who && entry.role == role;
            pve_state.access.acl.retain(|entry| !same(entry));
            pve_state.access.acl.push(acl_entry((path, who, role, propagate)));
        }
        pve_state.pools.insert("a/b".to_owned(), Pool { vms: members, ..Pool::default() });
        let of_user = reference_privileges(&pve_state, USER, path);
        prop_assert_eq!(held(&pve_state, USER, path), of_user.iter().cloned().collect::<Vec<_>>());
        let both = reference_privileges(&pve_state, "ops@pve!own", path);
        prop_assert_eq!(
            held(&pve_state, "ops@pve!own", path),
            both.intersection(&of_user).cloned().collect::<Vec<_>>()
        );
    }
}
