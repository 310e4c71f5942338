use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// Who is known, and who may do what.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Access {
    /// By `name@realm`.
    pub users: BTreeMap<String, User>,
    /// By `name@realm!id`.
    pub tokens: BTreeMap<String, Token>,
    /// Group and its members.
    pub groups: BTreeMap<String, BTreeSet<String>>,
    /// The roles that somebody added to the built-in ones.
    pub roles: BTreeMap<String, BTreeSet<String>>,
    pub acl: Vec<AclEntry>,
    /// `firstname`, `lastname`, `email` and `keys` of users, by user.
    #[serde(default)]
    pub profiles: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct User {
    pub password: Option<String>,
    pub enabled: bool,
    /// In seconds since 1970; 0 means never.
    pub expires: u64,
    pub comment: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Token {
    pub secret: String,
    /// The token has only those of its user's rights that it was given itself.
    pub separated: bool,
    pub expires: u64,
    pub comment: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AclEntry {
    pub path: String,
    /// A user, a token, or `@group`.
    pub who: String,
    pub role: String,
    pub propagate: bool,
}

/// Who is calling: a user, or one of the user's tokens.
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

    /// Tokens of root are not root.
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
