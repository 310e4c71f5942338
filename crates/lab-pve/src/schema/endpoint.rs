//! One line of the API: a method on a path, who may call it, and with which parameters.

use super::code::{CONFIG_ID, HA_RESOURCE_OR_VMID, INTERFACE, NODE, POOL_ID, ROLE_ID, STORAGE_ID};
use super::code::{USER_ID, VMID};
use super::property::{Entry, Property, Schema, code, integer, p, pattern, text};
use crate::Release;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Method {
    Get,
    Post,
    Put,
    Delete,
}

impl Method {
    /// Other methods are on no path.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "GET" => Some(Self::Get),
            "POST" => Some(Self::Post),
            "PUT" => Some(Self::Put),
            "DELETE" => Some(Self::Delete),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// The check that is declared for a call, and made before its parameters are judged. Templates such
/// as `/vms/{vmid}` are filled in with the parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Nothing is declared, so only `root@pam` may call it.
    Root,
    /// Without logging in.
    World,
    /// Whoever is logged in; the handler may look closer.
    All,
    Privileges {
        path: &'static str,
        privileges: &'static [&'static str],
        /// One of them is enough.
        any: bool,
        /// Fails where this parameter is not given.
        needs: Option<&'static str>,
    },
    /// May change the ACL of a path.
    Modify(&'static str),
    /// The user named by the parameter `userid` is the caller.
    IsSelf,
    /// A privilege on the realm of the parameter `userid`.
    OnRealm(&'static str),
    /// Privileges on any group of the parameter `userid`.
    OnGroups {
        privileges: &'static [&'static str],
        groups: Groups,
    },
    And(Vec<Self>),
    Or(Vec<Self>),
}

/// Which groups a check of a user's groups looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Groups {
    /// Those that the user is in.
    Current,
    /// Those of the parameter `groups`, for a new user.
    Create,
    /// Both.
    Update,
}

/// One endpoint, as it is on one release.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) method: Method,
    /// The template: `/nodes/{node}/qemu/{vmid}/config`.
    pub(crate) path: &'static str,
    /// Whether API tokens may call it at all.
    pub(crate) allow_token: bool,
    /// Whether the node of the path answers it, whichever node was asked.
    pub(crate) proxied: bool,
    pub(crate) permission: Permission,
    pub(crate) parameters: Schema,
    /// Takes parameters that it does not know.
    pub(crate) open: bool,
}

impl Endpoint {
    /// What a dispatcher matches on.
    pub(crate) fn id(&self) -> (Method, &'static str) {
        (self.method, self.path)
    }

    fn new(release: Release, method: Method, path: &'static str) -> Self {
        let parameters = Schema::new(release, placeholders(path).map(path_parameter));
        Self {
            method,
            path,
            allow_token: true,
            proxied: false,
            permission: Permission::All,
            parameters,
            open: false,
        }
    }

    pub(crate) fn allow(self, permission: Permission) -> Self {
        Self { permission, ..self }
    }

    pub(crate) fn proxied(self) -> Self {
        Self { proxied: true, ..self }
    }

    pub(crate) fn proxied_since(self, release: Release) -> Self {
        let proxied = self.parameters.release >= release;
        Self { proxied, ..self }
    }

    pub(crate) fn without_tokens(self) -> Self {
        Self { allow_token: false, ..self }
    }

    pub(crate) fn open(self) -> Self {
        Self { open: true, ..self }
    }

    /// Adds parameters to those of the path; one of the same name takes its place.
    pub(crate) fn with(mut self, entries: impl IntoIterator<Item = Entry>) -> Self {
        let more = Schema::new(self.parameters.release, entries);
        self.parameters.plain.extend(more.plain);
        self.parameters.numbered.extend(more.numbered);
        self
    }
}

/// Makes the endpoints of one release.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table(pub(crate) Release);

impl Table {
    pub(crate) fn get(self, path: &'static str) -> Endpoint {
        Endpoint::new(self.0, Method::Get, path)
    }

    pub(crate) fn post(self, path: &'static str) -> Endpoint {
        Endpoint::new(self.0, Method::Post, path)
    }

    pub(crate) fn put(self, path: &'static str) -> Endpoint {
        Endpoint::new(self.0, Method::Put, path)
    }

    pub(crate) fn delete(self, path: &'static str) -> Endpoint {
        Endpoint::new(self.0, Method::Delete, path)
    }
}

/// The privileges that must all be held.
pub(crate) fn all(path: &'static str, privileges: &'static [&'static str]) -> Permission {
    Permission::Privileges { path, privileges, any: false, needs: None }
}

/// The privileges of which one must be held.
pub(crate) fn any(path: &'static str, privileges: &'static [&'static str]) -> Permission {
    Permission::Privileges { path, privileges, any: true, needs: None }
}

pub(crate) fn placeholders(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/').filter_map(placeholder)
}

pub(crate) fn placeholder(component: &'static str) -> Option<&'static str> {
    component.strip_prefix('{')?.strip_suffix('}')
}

/// What a path's placeholder stands for, wherever it occurs.
fn path_parameter(name: &'static str) -> Entry {
    let property = match name {
        "node" => code(NODE),
        "vmid" => vmid(),
        "storage" => code(STORAGE_ID),
        "snapname" => code(CONFIG_ID).longest(40),
        "group" | "rule" | "id" => code(CONFIG_ID),
        "sid" => code(HA_RESOURCE_OR_VMID),
        "poolid" => code(POOL_ID),
        "roleid" => code(ROLE_ID),
        "userid" => code(USER_ID).longest(64),
        "tokenid" => pattern(r"(?:[A-Za-z][A-Za-z0-9\.\-_]+)"),
        "iface" => code(INTERFACE).shortest(2).longest(20),
        "pci-id-or-mapping" => pattern(
            r"(?:(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])|([a-zA-Z][a-zA-Z0-9_-]+)",
        ),
        _ => text(),
    };
    p(name, property.required())
}

pub(crate) fn vmid() -> Property {
    integer().checked(VMID).min(100).max(999_999_999)
}
