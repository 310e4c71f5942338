use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// Users, groups, tokens, roles and access control lists.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Access {
    /// Users by id: `name@realm`.
    pub users: BTreeMap<String, User>,
    /// API tokens by full id: `name@realm!id`.
    pub tokens: BTreeMap<String, Token>,
    /// User ids of the members of each group.
    pub groups: BTreeMap<String, BTreeSet<String>>,
    /// Custom roles and their privileges.
    pub roles: BTreeMap<String, BTreeSet<String>>,
    pub acl: Vec<AclEntry>,
    /// Profile fields of each user: `firstname`, `lastname`, `email` and `keys`.
    #[serde(default)]
    pub profiles: BTreeMap<String, BTreeMap<String, String>>,
}

/// User of the cluster.
#[derive(Clone, Serialize, Deserialize)]
pub struct User {
    pub password: Option<String>,
    pub enabled: bool,
    /// Expiry in seconds since 1970; 0 means never.
    pub expires: u64,
    pub comment: Option<String>,
}

/// API token of a user.
#[derive(Clone, Serialize, Deserialize)]
pub struct Token {
    pub secret: String,
    /// Whether privilege separation is enabled. Then the token has only privileges that both the token and its user have.
    pub separated: bool,
    pub expires: u64,
    pub comment: Option<String>,
}

/// Entry of an access control list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AclEntry {
    pub path: String,
    /// User, token, or `@group`.
    pub who: String,
    pub role: String,
    pub propagate: bool,
}

/// Authenticated caller: a user or an API token of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub user: String,
    pub token: Option<String>,
}

impl Caller {
    pub(crate) fn parse(id: &str) -> Self {
        match id.split_once('!') {
            Some((user, token)) => Self { user: user.to_owned(), token: Some(token.to_owned()) },
            None => Self { user: id.to_owned(), token: None },
        }
    }

    /// Whether the caller is `root@pam` itself. Tokens of root are not root.
    pub(crate) fn is_root(&self) -> bool {
        self.user == "root@pam" && self.token.is_none()
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.user)?;
        self.token.as_ref().map_or(Ok(()), |token| write!(f, "!{token}"))
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("enabled", &self.enabled).finish_non_exhaustive()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("separated", &self.separated).finish_non_exhaustive()
    }
}
