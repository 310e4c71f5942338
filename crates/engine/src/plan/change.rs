use std::fmt;

use serde::Serialize;

/// What a change is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind", content = "name")]
pub enum Object {
    /// The VM of a node.
    Vm(String),
    /// What runs in it: Talos, its config and its place in Kubernetes.
    Node(String),
    /// A file on a storage.
    Image(String),
    /// A PCI mapping.
    Mapping(String),
    Addon(String),
    /// The cluster as a whole.
    Cluster(String),
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match self {
            Self::Vm(name) => ("vm", name),
            Self::Node(name) => ("node", name),
            Self::Image(name) => ("image", name),
            Self::Mapping(name) => ("mapping", name),
            Self::Addon(name) => ("add-on", name),
            Self::Cluster(name) => ("cluster", name),
        };
        write!(f, "{kind} {name}")
    }
}

/// What a change costs, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Something new comes into being.
    Create,
    /// Nothing stops.
    Live,
    /// Takes effect with a reboot.
    Reboot,
    /// Takes effect with a reboot, before which the node is drained.
    Drain,
    /// The VM is made anew; what was on its disks is lost.
    Replace,
    /// Something ends; data is lost.
    Destroy,
}

impl Class {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Live => "live",
            Self::Reboot => "reboot",
            Self::Drain => "drain",
            Self::Replace => "replace",
            Self::Destroy => "destroy",
        }
    }
}

/// One field of an object. Values are for people, and hold no secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    pub path: String,
    pub old: Option<String>,
    pub new: Option<String>,
}

/// What changes about one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    pub object: Object,
    pub class: Class,
    pub fields: Vec<FieldChange>,
    pub note: Option<String>,
    /// Whether the steps of this plan make it so. What they do not is only said.
    pub is_planned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The plan cannot be carried out.
    Error,
    Warning,
}

/// Something that stands in the way, or may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    /// What it is about: a node, a storage, a host.
    pub subject: String,
    pub message: String,
    /// What to do about it; may have several lines.
    pub hint: Option<String>,
}
