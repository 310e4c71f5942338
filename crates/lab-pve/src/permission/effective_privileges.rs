//! Effective privileges on a path, computed from access control lists.

use std::collections::BTreeMap;

use super::{Privileges, privilege};
use crate::pve_state::{Caller, PveState};
use crate::schema;

/// Roles on a path. The value is true if the role also applies to the paths below.
type Roles<'a> = BTreeMap<&'a str, bool>;

impl PveState {
    /// Privileges of the caller on a path. The value is true if the privilege also applies to the paths below.
    ///
    /// A token with privilege separation has only those privileges that both the token and its user have. For a token of root,
    /// only the entries of the token count, because root has all privileges without entries.
    pub(crate) fn permissions_of(&self, caller: &Caller, path: &str) -> Privileges<'_> {
        let Some(token) = &caller.token else {
            return self.user_permissions(&caller.user, path);
        };
        let id = format!("{}!{token}", caller.user);
        let Some(token) = self.access.tokens.get(&id) else {
            return Privileges::new();
        };
        if !token.separated {
            return self.user_permissions(&caller.user, path);
        }
        let mut held = self.listed_permissions(&id, path);
        if caller.user != "root@pam" {
            let of_user = self.user_permissions(&caller.user, path);
            held.retain(|privilege, _| of_user.contains_key(privilege));
            for (privilege, propagate) in &mut held {
                *propagate &= of_user[privilege];
            }
        }
        held
    }

    fn user_permissions(&self, user: &str, path: &str) -> Privileges<'_> {
        if user == "root@pam" {
            return schema::privileges(self.release).map(|name| (name, true)).collect();
        }
        self.listed_permissions(user, path)
    }

    /// Privileges that the access control list grants to a user or token on a path, directly and through pools.
    fn listed_permissions(&self, who: &str, path: &str) -> Privileges<'_> {
        let mut roles = self.roles_on(who, path);
        for role in self.roles_by_pool(who, path).into_keys() {
            roles.entry(role).or_insert(false);
        }
        let mut held = Privileges::new();
        if roles.contains_key("NoAccess") {
            return held;
        }
        for (role, propagate) in roles {
            for privilege in self.role(role).into_iter().flatten() {
                *held.entry(privilege).or_default() |= propagate;
            }
        }
        held
    }

    /// Roles on the pools that contain a VM or storage. These roles also apply to the VM or storage.
    fn roles_by_pool(&self, who: &str, path: &str) -> Roles<'_> {
        let vmid = path.strip_prefix("/vms/").and_then(|id| id.parse::<u32>().ok());
        let storage = path.strip_prefix("/storage/");
        let mut roles = Roles::new();
        for (id, pool) in &self.pools {
            if vmid.is_some_and(|vmid| pool.vms.contains(&vmid))
                || storage.is_some_and(|storage| pool.storages.contains(storage))
            {
                roles.extend(self.roles_on(who, &format!("/pool/{id}")));
            }
        }
        roles
    }

    /// Roles of a user or token on a path. At each level of the path, an entry replaces the roles of the levels above. Entries
    /// of the user or token take precedence over entries of its groups. Entries with an unknown role are ignored.
    fn roles_on(&self, who: &str, path: &str) -> Roles<'_> {
        let mut roles = Roles::new();
        for step in path_prefixes(path) {
            let is_last = step == path;
            let here = self.access.acl.iter().filter(|entry| entry.path == step);
            let here = here.filter(|entry| is_last || entry.propagate);
            let here = here.filter(|entry| self.has_role(&entry.role));
            let (of_groups, of_others): (Vec<_>, Vec<_>) =
                here.partition(|entry| entry.who.starts_with('@'));
            let mut found: Roles<'_> = of_others
                .into_iter()
                .filter(|entry| entry.who == who)
                .map(|entry| (entry.role.as_str(), entry.propagate))
                .collect();
            if found.is_empty() {
                let of_member = of_groups.into_iter().filter(|entry| {
                    let members = self.access.groups.get(&entry.who[1..]);
                    members.is_some_and(|members| members.contains(who))
                });
                found = of_member.map(|entry| (entry.role.as_str(), entry.propagate)).collect();
            }
            if !found.is_empty() {
                roles = found;
            }
        }
        if roles.contains_key("NoAccess") {
            roles.retain(|role, _| *role == "NoAccess");
        }
        roles
    }

    fn has_role(&self, role: &str) -> bool {
        privilege::built_in_roles().any(|name| name == role) || self.access.roles.contains_key(role)
    }

    /// Privileges of a role; `None` if the role does not exist.
    pub(crate) fn role(&self, role: &str) -> Option<Vec<&str>> {
        let added = self.access.roles.get(role);
        privilege::built_in_role(self.release, role)
            .or_else(|| added.map(|added| added.iter().map(String::as_str).collect()))
    }
}

/// Prefixes of a path, from `/` to the path itself: `/`, `/vms`, `/vms/101`.
fn path_prefixes(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').skip(1).map(|(at, _)| at);
    let below = ends.chain(std::iter::once(path.len())).map(|end| &path[..end]);
    std::iter::once("/").chain(below.filter(|step| *step != "/"))
}
