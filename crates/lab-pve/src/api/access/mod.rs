//! `/access`: users, API tokens, roles and access control lists.

mod acl;
mod permission;
mod role;
#[cfg(test)]
mod tests;
mod token;
mod user;

use crate::api::{index, not_implemented};
use crate::call::{Call, Outcome};
use crate::schema::{Endpoint, Method};

pub(super) fn answer(endpoint: &Endpoint, call: &Call) -> Outcome {
    use Method::{Delete, Get, Post, Put};
    match endpoint.id() {
        (Get, "/access") => index::of(
            "subdir",
            &["users", "groups", "roles", "acl", "domains", "openid", "tfa", "ticket", "password"],
        ),
        (Get, "/access/permissions") => permission::read(call),
        (Get, "/access/acl") => acl::read(call),
        (Put, "/access/acl") => acl::update(call),
        (Get, "/access/roles") => role::list(call),
        (Post, "/access/roles") => role::create(call),
        (Get, "/access/roles/{roleid}") => role::read(call),
        (Put, "/access/roles/{roleid}") => role::update(call),
        (Delete, "/access/roles/{roleid}") => role::delete(call),
        (Get, "/access/users") => user::list(call),
        (Post, "/access/users") => user::create(call),
        (Get, "/access/users/{userid}") => user::read(call),
        (Put, "/access/users/{userid}") => user::update(call),
        (Delete, "/access/users/{userid}") => user::delete(call),
        (Get, "/access/users/{userid}/token") => token::list(call),
        (Get, "/access/users/{userid}/token/{tokenid}") => token::read(call),
        (Post, "/access/users/{userid}/token/{tokenid}") => token::create(call),
        (Put, "/access/users/{userid}/token/{tokenid}") => token::update(call),
        (Delete, "/access/users/{userid}/token/{tokenid}") => token::delete(call),
        _ => not_implemented(endpoint),
    }
}
