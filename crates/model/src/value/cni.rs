//! Pod network of a cluster.

use serde_json::{Value as Json, json};
use talmox_yaml::Node;

use crate::diagnostic::{Code, Diagnostic};
use crate::inventory::ManagedCni;
use crate::language::{Context, Element, Explained, Schemas, closest, read_mapping};
use crate::source::Span;

/// Pod network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cni {
    /// flannel, which Talos installs.
    Flannel,
    /// Talos installs no CNI. An add-on installs one.
    None,
    /// Talos and talmox install no CNI. The named tool or team installs one later.
    ManagedBy(String),
}

const WORDS: [&str; 2] = ["flannel", "none"];

const EXPECTED: &str =
    "`flannel` (Talos's own), `none` (you bring one, such as Cilium) or `{managed_by: …}`";

impl Cni {
    /// Whether Talos installs the pod network.
    pub fn is_by_talos(&self) -> bool {
        *self == Self::Flannel
    }

    /// Tool or team that installs the pod network, if it is neither Talos nor an add-on.
    pub fn managed_by(&self) -> Option<&str> {
        match self {
            Self::ManagedBy(manager) => Some(manager),
            Self::Flannel | Self::None => None,
        }
    }
}

impl Element for Cni {
    fn decode(value: &Node, cx: &mut Context<'_>) -> Option<Self> {
        if value.as_map().is_some() {
            return managed(value, cx);
        }
        match value.as_str() {
            Some("flannel") => Some(Self::Flannel),
            Some("none") => Some(Self::None),
            word => {
                match word.and_then(|word| closest(word, WORDS)) {
                    Some(near) => cx.wrong_word(value, EXPECTED, near),
                    None => cx.wrong_type(value, EXPECTED),
                }
                None
            }
        }
    }

    fn schema(schemas: &mut Schemas) -> Json {
        json!({ "anyOf": [{ "enum": WORDS }, schemas.mapping::<ManagedCni>()] })
    }

    fn explain(&self, path: &str, span: Option<Span>, out: &mut Vec<Explained>) {
        let value = match self {
            Self::Flannel => "flannel".to_owned(),
            Self::None => "none".to_owned(),
            Self::ManagedBy(manager) => format!("managed by {manager}"),
        };
        out.push(Explained { path: path.to_owned(), value, span });
    }
}

fn managed(value: &Node, cx: &mut Context<'_>) -> Option<Cni> {
    let mut found = ManagedCni::default();
    if !read_mapping(&mut found, value, cx) {
        return None;
    }
    let manager = found.managed_by.get().filter(|manager| !manager.trim().is_empty());
    if manager.is_none() && (found.managed_by.is_absent() || found.managed_by.is_given()) {
        let span = cx.span(value);
        let message = "`cni` does not name the tool that installs the pod network";
        let hint = "write `cni: {managed_by: Flux}` with the name of the tool or team";
        cx.report(Diagnostic::error(Code::Missing, message).at(span).hint(hint));
    }
    manager.cloned().map(Cni::ManagedBy)
}
