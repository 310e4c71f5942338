//! Requests as values. They can be built and inspected without a connection.

use std::collections::BTreeSet;
use std::fmt;

use talmox_values::secret::REDACTED;

use crate::encode;
use crate::id::{NodeName, StorageId};
use crate::secret_parameter::is_secret;
use crate::wire::{Answer, Decode, Unreadable};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Put,
    Delete,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// Host and storages that a request uses while its task runs. A client limits the number of concurrent tasks per host
/// and storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    pub node: Option<NodeName>,
    pub storages: BTreeSet<StorageId>,
}

/// API call with the decoder for its answer.
///
/// The functions in [`crate::api`] create requests, and a client sends them.
pub struct Request<T> {
    pub(crate) method: Method,
    /// Path below `/api2/json`, with every segment escaped.
    pub(crate) path: String,
    pub(crate) params: Vec<(String, String)>,
    pub(crate) scope: Scope,
    pub(crate) decode: fn(&Answer) -> Result<T, Unreadable>,
}

impl<T: Decode> Request<T> {
    pub(crate) fn new(method: Method, segments: &[&dyn fmt::Display]) -> Self {
        Self {
            method,
            path: encode::path(segments),
            params: vec![],
            scope: Scope::default(),
            decode: T::decode_answer,
        }
    }

    pub(crate) fn get(segments: &[&dyn fmt::Display]) -> Self {
        Self::new(Method::Get, segments)
    }

    pub(crate) fn post(segments: &[&dyn fmt::Display]) -> Self {
        Self::new(Method::Post, segments)
    }

    pub(crate) fn put(segments: &[&dyn fmt::Display]) -> Self {
        Self::new(Method::Put, segments)
    }

    pub(crate) fn delete(segments: &[&dyn fmt::Display]) -> Self {
        Self::new(Method::Delete, segments)
    }
}

impl<T> Request<T> {
    /// Adds a parameter. For a list, the same parameter is added several times.
    pub(crate) fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.params.push((name.to_owned(), value.to_string()));
        self
    }

    pub(crate) fn with_some(self, name: &str, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds a flag if it is set. Proxmox treats an absent flag as not set.
    pub(crate) fn with_flag(self, name: &str, is_set: bool) -> Self {
        if is_set { self.with(name, 1) } else { self }
    }

    pub(crate) fn on(mut self, node: &NodeName) -> Self {
        self.scope.node = Some(node.clone());
        self
    }

    pub(crate) fn using_storages<'a>(
        mut self,
        storages: impl IntoIterator<Item = &'a StorageId>,
    ) -> Self {
        self.scope.storages.extend(storages.into_iter().cloned());
        self
    }

    pub fn method(&self) -> Method {
        self.method
    }

    /// Path below `/api2/json`, with every segment escaped.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn params(&self) -> &[(String, String)] {
        &self.params
    }

    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Method and path, which name the operation in error messages.
    pub fn operation(&self) -> String {
        format!("{} {}", self.method.as_str(), self.path)
    }

    /// Target in the HTTP request line.
    pub fn target(&self) -> String {
        let query = match self.method {
            // Proxmox rejects a DELETE with a body.
            Method::Get | Method::Delete => encode::form(&self.params),
            Method::Post | Method::Put => String::new(),
        };
        let mark = if query.is_empty() { "" } else { "?" };
        format!("/api2/json{}{mark}{query}", self.path)
    }

    /// Decodes the answer to this request.
    pub fn decode(&self, answer: &Answer) -> Result<T, Unreadable> {
        (self.decode)(answer)
    }

    /// Form in the body; `None` if a request with this method has no body.
    pub fn body(&self) -> Option<String> {
        match self.method {
            Method::Get | Method::Delete => None,
            Method::Post | Method::Put => Some(encode::form(&self.params)),
        }
    }
}

impl<T> Clone for Request<T> {
    fn clone(&self) -> Self {
        Self {
            method: self.method,
            path: self.path.clone(),
            params: self.params.clone(),
            scope: self.scope.clone(),
            decode: self.decode,
        }
    }
}

impl<T> fmt::Debug for Request<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Request");
        out.field("operation", &self.operation());
        for (name, value) in &self.params {
            out.field(name, if is_secret(name) { &REDACTED } else { value });
        }
        out.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_in_the_query_or_the_body_by_method() {
        let delete = Request::<()>::delete(&[&"pools"]).with("poolid", "a/b").with_flag("x", false);
        assert_eq!(delete.target(), "/api2/json/pools?poolid=a%2Fb");
        assert_eq!(delete.body(), None);
        let post = Request::<()>::post(&[&"pools"]).with("poolid", "a/b").with_flag("x", true);
        assert_eq!(post.target(), "/api2/json/pools");
        assert_eq!(post.body().as_deref(), Some("poolid=a%2Fb&x=1"));
        assert_eq!(Request::<()>::get(&[&"version"]).target(), "/api2/json/version");
    }

    #[test]
    fn secrets_are_not_shown() {
        let request =
            Request::<()>::post(&[&"x"]).with("cipassword", "hunter2").with("ciuser", "me");
        let shown = format!("{request:?}");
        assert!(!shown.contains("hunter2") && shown.contains("me"), "{shown}");
    }
}
