//! The check that an endpoint declares, made with the parameters as they came.

use std::collections::BTreeMap;

use super::{normalize, refused};
use crate::Refusal;
use crate::schema::{Groups, Permission, Raw, split_list};
use crate::world::{Caller, World};

type Sent = BTreeMap<String, Raw>;

impl World {
    /// Whether the caller may make this call at all. Parameters are those of path, query and body,
    /// not yet judged.
    pub(crate) fn check_declared(
        &self,
        caller: &Caller,
        permission: &Permission,
        sent: &Sent,
    ) -> Result<(), Refusal> {
        if caller.is_root() {
            return Ok(());
        }
        self.judge(caller, permission, sent, false)
    }

    /// Inside an `or` a user that does not exist is one more check that failed, elsewhere it is an
    /// error of its own.
    fn judge(
        &self,
        caller: &Caller,
        permission: &Permission,
        sent: &Sent,
        in_or: bool,
    ) -> Result<(), Refusal> {
        match permission {
            Permission::Root => Err(refused("user != root@pam")),
            Permission::World | Permission::All => Ok(()),
            Permission::Privileges { path, privileges, any, needs } => {
                if needs.is_some_and(|name| text(sent, name).is_none()) {
                    return Err(refused(""));
                }
                let path = normalize(&fill(path, sent)).unwrap_or_default();
                match any {
                    true => self.check_any(caller, &path, privileges),
                    false => self.check(caller, &path, privileges),
                }
            }
            Permission::Modify(path) => match normalize(&fill(path, sent)) {
                Some(path) => self.check_modify(caller, &path),
                None => Ok(()),
            },
            Permission::IsSelf => {
                let user = named_user(sent)?;
                self.check_user_exists(&user, in_or)?;
                if caller.to_string() == user { Ok(()) } else { Err(refused("")) }
            }
            Permission::OnRealm(privilege) => {
                let user = named_user(sent)?;
                let realm = user.rsplit('@').next().unwrap_or_default();
                self.check(caller, &format!("/access/realm/{realm}"), &[privilege])
            }
            Permission::OnGroups { privileges, groups } => {
                self.judge_groups(caller, privileges, *groups, sent, in_or)
            }
            Permission::And(all) => {
                all.iter().try_for_each(|one| self.judge(caller, one, sent, in_or))
            }
            Permission::Or(any) => {
                for one in any {
                    match self.judge(caller, one, sent, true) {
                        Err(refusal) if refusal.status == 403 => {}
                        other => return other,
                    }
                }
                Err(refused(""))
            }
        }
    }

    /// Rights on all users, or on a group that the user is in; a new user's groups count instead,
    /// and those that a user is to be put into count as well.
    fn judge_groups(
        &self,
        caller: &Caller,
        privileges: &[&str],
        groups: Groups,
        sent: &Sent,
        in_or: bool,
    ) -> Result<(), Refusal> {
        let user = text(sent, "userid").unwrap_or_default();
        if groups != Groups::Create {
            self.check_user_exists(&user, in_or)?;
        }
        if self.allowed_any(caller, "/access/groups", privileges) {
            return Ok(());
        }
        if groups != Groups::Current {
            let given = text(sent, "groups").unwrap_or_default();
            let given = split_list(&given);
            if given.is_empty() {
                return self.check_any(caller, "/access/groups", privileges);
            }
            for group in given {
                let path = format!("/access/groups/{group}");
                if !self.access.groups.contains_key(group) {
                    return Err(refused(&format!("{path}, {}", privileges.join("|"))));
                }
                self.check_any(caller, &path, privileges)?;
            }
        }
        if groups == Groups::Create || self.reaches_user(caller, &user, privileges) {
            return Ok(());
        }
        Err(refused(""))
    }

    /// Whether the caller has one of these privileges on a group that the user is in.
    pub(crate) fn reaches_user(&self, caller: &Caller, user: &str, privileges: &[&str]) -> bool {
        self.access.groups.iter().any(|(group, members)| {
            members.contains(user)
                && self.allowed_any(caller, &format!("/access/groups/{group}"), privileges)
        })
    }

    fn check_user_exists(&self, user: &str, in_or: bool) -> Result<(), Refusal> {
        match self.access.users.contains_key(user) {
            true => Ok(()),
            false if in_or => Err(refused("")),
            false => Err(Refusal::failed(format!("no such user ('{user}')"))),
        }
    }
}

fn text(sent: &Sent, name: &str) -> Option<String> {
    sent.get(name).filter(|value| **value != Raw::Null)?.scalar().ok()
}

/// `/vms/{vmid}` with what was sent for `vmid`.
fn fill(template: &str, sent: &Sent) -> String {
    let mut path = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        path.push_str(before);
        path.push_str(&text(sent, name).unwrap_or_default());
        rest = after;
    }
    path + rest
}

/// The parameter `userid`, which is not yet known to be one.
fn named_user(sent: &Sent) -> Result<String, Refusal> {
    let user = text(sent, "userid").unwrap_or_default();
    let length = user.chars().count();
    if length < 3 {
        return Err(Refusal::failed(format!("user name '{user}' is too short")));
    }
    if length > 64 {
        return Err(Refusal::failed(format!("user name '{user}' is too long ({length} > 64)")));
    }
    match user.rsplit_once('@') {
        Some((name, realm)) if is_name(name) && is_realm(realm) => Ok(user),
        _ => Err(Refusal::failed(format!("value '{user}' does not look like a valid user name"))),
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || matches!(c, ':' | '/'))
}

fn is_realm(realm: &str) -> bool {
    realm.len() > 1
        && realm.starts_with(|c: char| c.is_ascii_alphabetic())
        && realm.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}
