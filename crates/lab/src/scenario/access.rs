//! Section `access`: users, tokens, groups, roles and permissions.

use std::collections::BTreeSet;

use talmox_lab_pve::built_in_roles;
use talmox_lab_pve::pve_state::{Access, AclEntry, Token, User};
use talmox_yaml::Node;

use super::section::{Read, Section, Source};

pub(super) const ROOT: &str = "root@pam";
/// Id of the token that a lab has if its scenario defines no tokens.
pub(crate) const LAB_TOKEN: &str = "root@pam!lab";

/// Users and tokens of a scenario without the section `access`: user root, with one token that has all permissions of root.
pub(super) fn default() -> Access {
    let mut access = Access::default();
    access.users.insert(ROOT.to_owned(), user());
    access.tokens.insert(LAB_TOKEN.to_owned(), token());
    access
}

fn user() -> User {
    User { password: None, enabled: true, expires: 0, comment: None }
}

/// Token with an empty secret. The secret is generated when the initial state is created.
fn token() -> Token {
    Token { secret: String::new(), separated: false, expires: 0, comment: None }
}

pub(super) fn read(section: &Section<'_>) -> Read<Access> {
    let Some(node) = section.get("access") else { return Ok(default()) };
    let source = section.source;
    let keys = ["users", "tokens", "groups", "roles", "acl"];
    let section = Section::open(source, node, "`access`", &keys)?;
    let mut access = Access::default();
    access.users.insert(ROOT.to_owned(), user());
    for node in section.list("users")? {
        let (id, user) = read_user(source, node)?;
        access.users.insert(id, user);
    }
    for node in section.list("tokens")? {
        let (id, token) = read_token(source, node)?;
        let owner = id.split('!').next().unwrap_or_default().to_owned();
        access.users.entry(owner).or_insert_with(user);
        access.tokens.insert(id, token);
    }
    if section.get("tokens").is_none() {
        access.tokens.insert(LAB_TOKEN.to_owned(), token());
    }
    for node in section.list("groups")? {
        let group = Section::open(source, node, "a group", &["groupid", "users"])?;
        let members: BTreeSet<String> = group.words("users")?.into_iter().collect();
        access.groups.insert(group.name("groupid")?, members);
    }
    for node in section.list("roles")? {
        let role = Section::open(source, node, "a role", &["roleid", "privs"])?;
        access.roles.insert(role.name("roleid")?, role.words("privs")?.into_iter().collect());
    }
    for node in section.list("acl")? {
        let entry = read_entry(source, node, &access)?;
        access.acl.push(entry);
    }
    Ok(access)
}

fn read_user(source: Source<'_>, node: &Node) -> Read<(String, User)> {
    if node.as_scalar().is_some() {
        return Ok((user_id(source, node, source.text(node, "a user")?)?, user()));
    }
    let keys = ["userid", "password", "enable", "expire", "comment"];
    let section = Section::open(source, node, "a user", &keys)?;
    let enabled = section.get("enable").is_none() || section.flag("enable")?;
    let user = User {
        password: section.text("password")?,
        enabled,
        expires: section.number("expire")?.unwrap_or_default(),
        comment: section.text("comment")?,
    };
    Ok((user_id(source, node, section.name("userid")?)?, user))
}

fn user_id(source: Source<'_>, node: &Node, id: String) -> Read<String> {
    match id.split_once('@') {
        Some((name, realm)) if !name.is_empty() && !realm.is_empty() => Ok(id),
        _ => Err(source
            .error(node.span, format!("`{id}` is not a user"))
            .hint("a user is named name@realm, like ops@pve")),
    }
}

fn read_token(source: Source<'_>, node: &Node) -> Read<(String, Token)> {
    let keys = ["tokenid", "secret", "privsep", "expire", "comment"];
    let section = Section::open(source, node, "a token", &keys)?;
    let id = section.name("tokenid")?;
    match id.split_once('!') {
        Some((owner, name)) if owner.contains('@') && !name.is_empty() => {}
        _ => {
            return Err(section
                .error("tokenid", format!("`{id}` is not a token"))
                .hint("a token is named user@realm!id, like ops@pve!ci"));
        }
    }
    let token = Token {
        secret: section.text("secret")?.unwrap_or_default(),
        // Privilege separation is enabled by default, as in Proxmox.
        separated: section.get("privsep").is_none() || section.flag("privsep")?,
        expires: section.number("expire")?.unwrap_or_default(),
        comment: section.text("comment")?,
    };
    Ok((id, token))
}

fn read_entry(source: Source<'_>, node: &Node, access: &Access) -> Read<AclEntry> {
    let section =
        Section::open(source, node, "an ACL entry", &["path", "ugid", "roleid", "propagate"])?;
    let path = section.name("path")?;
    if !path.starts_with('/') {
        return Err(section.error("path", format!("`{path}` does not start with `/`")));
    }
    let role = section.name("roleid")?;
    if !access.roles.contains_key(&role) && !built_in_roles().any(|known| known == role) {
        return Err(section
            .error("roleid", format!("there is no role `{role}`"))
            .hint("define custom roles under `roles`"));
    }
    let who = section.name("ugid")?;
    let (kind, is_known) = match who.strip_prefix('@') {
        Some(group) => ("groups", access.groups.contains_key(group)),
        None if who.contains('!') => ("tokens", access.tokens.contains_key(&who)),
        None => ("users", access.users.contains_key(&who)),
    };
    if !is_known {
        return Err(section
            .error("ugid", format!("there is no `{who}`"))
            .hint(format!("define it under `{kind}`")));
    }
    Ok(AclEntry {
        path,
        who,
        role,
        propagate: section.get("propagate").is_none() || section.flag("propagate")?,
    })
}
