//! Endpoints of users, tokens, roles and access control lists.

use super::super::endpoint::{Endpoint, Groups, Permission, Table, all};
use super::super::property::{TableEntry, each, flag, formatted, integer, p, pattern, text};
use super::super::value_format::{
    CONFIG_ID, EMAIL, GROUP_ID, PRIVILEGE, REALM, ROLE_ID, TOKEN_ID, USER_ID,
};
use crate::Release;

const ROLE: &str = "/access/roles/{roleid}";
const USER: &str = "/access/users/{userid}";
const TOKEN: &str = "/access/users/{userid}/token/{tokenid}";

pub(super) fn endpoints(table: Table) -> Vec<Endpoint> {
    vec![
        table.get("/access"),
        table.get("/access/ticket").allow(Permission::World),
        table.post("/access/ticket").allow(Permission::World).without_tokens().with([
            p("username", text().longest(64).required()),
            p("password", text().required()),
            p("realm", formatted(REALM).longest(32)),
            p("new-format", flag()),
            p("otp", text()),
            p("path", text().longest(64).requires("privs")),
            p("privs", each(PRIVILEGE).longest(64).requires("path")),
            p("tfa-challenge", text()),
        ]),
        table.get("/access/permissions").with([
            p("path", text()),
            p(
                "userid",
                pattern(
                    r"(?:^(?:[^\s:/]+)\@(?:[A-Za-z][A-Za-z0-9\.\-_]+)(?:!(?:[A-Za-z][A-Za-z0-9\.\-_]+))?$)",
                ),
            ),
        ]),
        table.get("/access/acl"),
        table.put("/access/acl").allow(Permission::Modify("{path}")).with([
            p("path", text().required()),
            p("roles", each(ROLE_ID).required()),
            p("delete", flag()),
            p("groups", each(GROUP_ID)),
            p("propagate", flag()),
            p("tokens", each(TOKEN_ID)),
            p("users", each(USER_ID)),
        ]),
        table.get("/access/roles"),
        table
            .post("/access/roles")
            .allow(all("/access", &["Sys.Modify"]))
            .with([p("roleid", formatted(ROLE_ID).required()), p("privs", each(PRIVILEGE))]),
        table.get(ROLE),
        table
            .put(ROLE)
            .allow(all("/access", &["Sys.Modify"]))
            .with([p("append", flag().requires("privs")), p("privs", each(PRIVILEGE))]),
        table.delete(ROLE).allow(all("/access", &["Sys.Modify"])),
        table.get("/access/users").with([p("enabled", flag()), p("full", flag())]),
        table
            .post("/access/users")
            .allow(Permission::And(vec![
                Permission::OnRealm("Realm.AllocateUser"),
                Permission::OnGroups { privileges: &["User.Modify"], groups: Groups::Create },
            ]))
            .with(user())
            .with([
                p("userid", formatted(USER_ID).longest(64).required()),
                p("password", text().shortest(8).longest(64)),
            ]),
        table.get(USER).allow(on_groups(&["User.Modify", "Sys.Audit"])),
        table
            .put(USER)
            .allow(Permission::OnGroups { privileges: &["User.Modify"], groups: Groups::Update })
            .with(user())
            .with([p("append", flag().requires("groups"))]),
        table.delete(USER).allow(Permission::And(vec![
            Permission::OnRealm("Realm.AllocateUser"),
            on_groups(&["User.Modify"]),
        ])),
        table.get("/access/users/{userid}/token").allow(own_or_managed()),
        table.get(TOKEN).allow(own_or_managed()),
        table.post(TOKEN).allow(own_or_managed()).with(token()),
        table
            .put(TOKEN)
            .allow(own_or_managed())
            .with(token())
            .with([p("delete", each(CONFIG_ID).since(Release::V9))]),
        table.delete(TOKEN).allow(own_or_managed()),
    ]
}

fn on_groups(privileges: &'static [&'static str]) -> Permission {
    Permission::OnGroups { privileges, groups: Groups::Current }
}

fn own_or_managed() -> Permission {
    Permission::Or(vec![Permission::IsSelf, on_groups(&["User.Modify"])])
}

fn user() -> [TableEntry; 8] {
    [
        p("comment", text().longest(2048)),
        p("email", text().longest(254).checked_unless_empty(EMAIL)),
        p("enable", flag()),
        p("expire", integer().min(0)),
        p("firstname", text().longest(1024)),
        p("groups", each(GROUP_ID)),
        p("keys", pattern("[0-9a-zA-Z!=]{0,4096}")),
        p("lastname", text().longest(1024)),
    ]
}

fn token() -> [TableEntry; 3] {
    [p("comment", text()), p("expire", integer().min(0)), p("privsep", flag())]
}
