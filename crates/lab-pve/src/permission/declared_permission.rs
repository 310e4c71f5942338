//! Check of the permission that an endpoint declares. The check runs before the parameters are verified.

use std::collections::BTreeMap;

use super::{normalize, permission_denied};
use crate::ApiError;
use crate::pve_state::{Caller, PveState};
use crate::schema::{Groups, Permission, Raw, split_list};

/// Unverified parameters of a call, by name.
type Sent = BTreeMap<String, Raw>;

impl PveState {
    /// Checks the permission that the endpoint of a call declares. `sent` holds the unverified parameters of path, query and
    /// body.
    pub(crate) fn check_declared(
        &self,
        caller: &Caller,
        permission: &Permission,
        sent: &Sent,
    ) -> Result<(), ApiError> {
        if caller.is_root() {
            return Ok(());
        }
        self.evaluate(caller, permission, sent, false)
    }

    /// Evaluates one permission expression. If the parameter `userid` names an unknown user inside an `or`, only this
    /// alternative fails. Elsewhere, the result is the error for an unknown user.
    fn evaluate(
        &self,
        caller: &Caller,
        permission: &Permission,
        sent: &Sent,
        in_or: bool,
    ) -> Result<(), ApiError> {
        match permission {
            Permission::Root => Err(permission_denied("user != root@pam")),
            Permission::World | Permission::All => Ok(()),
            Permission::Privileges { path, privileges, any, needs } => {
                if needs.is_some_and(|name| text(sent, name).is_none()) {
                    return Err(permission_denied(""));
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
                if caller.to_string() == user { Ok(()) } else { Err(permission_denied("")) }
            }
            Permission::OnRealm(privilege) => {
                let user = named_user(sent)?;
                let realm = user.rsplit('@').next().unwrap_or_default();
                self.check(caller, &format!("/access/realm/{realm}"), &[privilege])
            }
            Permission::OnGroups { privileges, groups } => {
                self.evaluate_groups(caller, privileges, *groups, sent, in_or)
            }
            Permission::And(all) => {
                all.iter().try_for_each(|one| self.evaluate(caller, one, sent, in_or))
            }
            Permission::Or(any) => {
                for one in any {
                    match self.evaluate(caller, one, sent, true) {
                        Err(error) if error.status == 403 => {}
                        other => return other,
                    }
                }
                Err(permission_denied(""))
            }
        }
    }

    /// Checks privileges on `/access/groups` or on a group of the user. For a new user, the requested groups are checked. For a
    /// change of a user, the requested groups and the present groups are checked.
    fn evaluate_groups(
        &self,
        caller: &Caller,
        privileges: &[&str],
        groups: Groups,
        sent: &Sent,
        in_or: bool,
    ) -> Result<(), ApiError> {
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
                    return Err(permission_denied(&format!("{path}, {}", privileges.join("|"))));
                }
                self.check_any(caller, &path, privileges)?;
            }
        }
        if groups == Groups::Create || self.has_privilege_on_group_of(caller, &user, privileges) {
            return Ok(());
        }
        Err(permission_denied(""))
    }

    /// Whether the caller has one of these privileges on a group of the user.
    pub(crate) fn has_privilege_on_group_of(
        &self,
        caller: &Caller,
        user: &str,
        privileges: &[&str],
    ) -> bool {
        self.access.groups.iter().any(|(group, members)| {
            members.contains(user)
                && self.allowed_any(caller, &format!("/access/groups/{group}"), privileges)
        })
    }

    fn check_user_exists(&self, user: &str, in_or: bool) -> Result<(), ApiError> {
        match self.access.users.contains_key(user) {
            true => Ok(()),
            false if in_or => Err(permission_denied("")),
            false => Err(ApiError::failed(format!("no such user ('{user}')"))),
        }
    }
}

fn text(sent: &Sent, name: &str) -> Option<String> {
    sent.get(name).filter(|value| **value != Raw::Null)?.scalar().ok()
}

/// Path in which the placeholders, as in `/vms/{vmid}`, are replaced by parameters.
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

/// Parameter `userid`, with the errors of Proxmox for an invalid user id.
fn named_user(sent: &Sent) -> Result<String, ApiError> {
    let user = text(sent, "userid").unwrap_or_default();
    let length = user.chars().count();
    if length < 3 {
        return Err(ApiError::failed(format!("user name '{user}' is too short")));
    }
    if length > 64 {
        return Err(ApiError::failed(format!("user name '{user}' is too long ({length} > 64)")));
    }
    match user.rsplit_once('@') {
        Some((name, realm)) if is_name(name) && is_realm(realm) => Ok(user),
        _ => Err(ApiError::failed(format!("value '{user}' does not look like a valid user name"))),
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
