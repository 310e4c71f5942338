//! Endpoint of the API: method, path, permission and parameters.

use super::property::{Property, Schema, TableEntry, formatted, integer, p, pattern, text};
use super::value_format::{
    CONFIG_ID, HA_RESOURCE_OR_VMID, INTERFACE, NODE, POOL_ID, ROLE_ID, STORAGE_ID,
};
use super::value_format::{USER_ID, VMID};
use crate::Release;

/// HTTP method of an API call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Method {
    Get,
    Post,
    Put,
    Delete,
}

impl Method {
    /// Parses a method; `None` for a method that no path of the API has.
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

/// Permission that an endpoint declares. It is checked before the parameters are verified. Placeholders such as `/vms/{vmid}`
/// are replaced by parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Only `root@pam` may call the endpoint. This applies if the endpoint declares no permission.
    Root,
    /// Every client may call the endpoint, without authentication.
    World,
    /// Any authenticated caller may call the endpoint. The handler may make further checks.
    All,
    Privileges {
        path: &'static str,
        privileges: &'static [&'static str],
        /// Whether one of the privileges is sufficient. Otherwise all of them are required.
        any: bool,
        /// Parameter without which the check fails.
        needs: Option<&'static str>,
    },
    /// The caller may change the access control list of the path.
    Modify(&'static str),
    /// The parameter `userid` is the user ID of the caller.
    IsSelf,
    /// The caller has this privilege on the realm of the user in `userid`.
    OnRealm(&'static str),
    /// The caller has one of the privileges on a group of the user in `userid`.
    OnGroups {
        privileges: &'static [&'static str],
        groups: Groups,
    },
    And(Vec<Self>),
    Or(Vec<Self>),
}

/// Groups of a user on which a permission check looks for privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Groups {
    /// Groups that the user is a member of.
    Current,
    /// Groups in the parameter `groups`, for a new user.
    Create,
    /// Both the groups of the user and the groups in the parameter `groups`.
    Update,
}

/// API endpoint of one Proxmox VE release.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) method: Method,
    /// Path template: `/nodes/{node}/qemu/{vmid}/config`.
    pub(crate) path: &'static str,
    /// Whether API tokens may call the endpoint.
    pub(crate) allow_token: bool,
    /// Whether the call runs on the host in the path, even if another host received it.
    pub(crate) proxied: bool,
    pub(crate) permission: Permission,
    pub(crate) parameters: Schema,
    /// Whether the endpoint accepts unknown parameters.
    pub(crate) open: bool,
}

impl Endpoint {
    /// Method and path template. Handlers are selected by this pair.
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

    /// Adds parameters. A parameter of the path with the same name is replaced.
    pub(crate) fn with(mut self, entries: impl IntoIterator<Item = TableEntry>) -> Self {
        let more = Schema::new(self.parameters.release, entries);
        self.parameters.plain.extend(more.plain);
        self.parameters.numbered.extend(more.numbered);
        self
    }
}

/// Constructor of endpoints of one release.
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

/// Permission that requires all of the privileges.
pub(crate) fn all(path: &'static str, privileges: &'static [&'static str]) -> Permission {
    Permission::Privileges { path, privileges, any: false, needs: None }
}

/// Permission that requires at least one of the privileges.
pub(crate) fn any(path: &'static str, privileges: &'static [&'static str]) -> Permission {
    Permission::Privileges { path, privileges, any: true, needs: None }
}

pub(crate) fn placeholders(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/').filter_map(placeholder)
}

pub(crate) fn placeholder(component: &'static str) -> Option<&'static str> {
    component.strip_prefix('{')?.strip_suffix('}')
}

/// Definition of the parameter for a path placeholder. It is the same in all paths.
fn path_parameter(name: &'static str) -> TableEntry {
    let property = match name {
        "node" => formatted(NODE),
        "vmid" => vmid(),
        "storage" => formatted(STORAGE_ID),
        "snapname" => formatted(CONFIG_ID).longest(40),
        "group" | "rule" | "id" => formatted(CONFIG_ID),
        "sid" => formatted(HA_RESOURCE_OR_VMID),
        "poolid" => formatted(POOL_ID),
        "roleid" => formatted(ROLE_ID),
        "userid" => formatted(USER_ID).longest(64),
        "tokenid" => pattern(r"(?:[A-Za-z][A-Za-z0-9\.\-_]+)"),
        "iface" => formatted(INTERFACE).shortest(2).longest(20),
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
