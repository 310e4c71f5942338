use std::fmt;

use serde::{Deserialize, Serialize};

use super::field_value::FieldValue;
use super::finding_code::FindingCode;

/// Thing that a change creates, modifies or deletes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind", content = "name")]
pub enum Object {
    /// A local file. Planning adds none: the caller that writes files adds these.
    File(String),
    /// The VM of a node.
    Vm(String),
    /// A disk of a VM, such as `wk-1/scsi1`.
    Disk(String),
    /// The node in the VM: Talos, its config and its registration in Kubernetes.
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
            Self::File(name) => ("file", name),
            Self::Vm(name) => ("vm", name),
            Self::Disk(name) => ("disk", name),
            Self::Node(name) => ("node", name),
            Self::Image(name) => ("image", name),
            Self::Mapping(name) => ("mapping", name),
            Self::Addon(name) => ("add-on", name),
            Self::Cluster(name) => ("cluster", name),
        };
        write!(f, "{kind} {name}")
    }
}

/// Effect of a change. The order is that of the cost, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// An object is created.
    Create,
    /// Takes effect without a reboot.
    Live,
    /// Takes effect with a reboot.
    Reboot,
    /// Takes effect with a reboot, before which the node is drained.
    Drain,
    /// The VM is created again; the data on its disks is lost.
    Replace,
    /// The object is destroyed; its data is lost.
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

/// Fields that are a state, not a setting.
const AWAITED: [&str; 5] = ["cluster", "health", "kubelet", "talos", "vip"];

/// Change of a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldChange {
    pub path: String,
    pub old: Option<FieldValue>,
    pub new: Option<FieldValue>,
}

/// Change of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub object: Object,
    pub class: Class,
    pub fields: Vec<FieldChange>,
    pub note: Option<String>,
    /// Whether the steps of the plan make this change. Otherwise it is only reported.
    pub is_planned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The plan cannot be executed.
    Error,
    Warning,
}

/// A problem that planning or a preflight check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub severity: Severity,
    pub code: FindingCode,
    /// The object with the problem: a node, a storage, a host.
    pub subject: String,
    pub message: String,
    /// Instruction for the user. It may have several lines.
    pub hint: Option<String>,
}

impl Finding {
    pub(crate) fn error(code: FindingCode, subject: &str, message: impl Into<String>) -> Self {
        let severity = Severity::Error;
        Self { severity, code, subject: subject.to_owned(), message: message.into(), hint: None }
    }

    pub(crate) fn warning(code: FindingCode, subject: &str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, subject, message) }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Sorts findings, errors first, and removes duplicates.
    pub(crate) fn sort(all: &mut Vec<Self>) {
        all.sort_by(|a, b| {
            (a.severity, &a.subject, &a.message).cmp(&(b.severity, &b.subject, &b.message))
        });
        all.dedup();
    }
}

impl Change {
    /// A change that the steps of the plan make.
    pub(crate) fn planned(object: Object, class: Class, fields: Vec<FieldChange>) -> Self {
        Self { object, class, fields, note: None, is_planned: true }
    }

    /// A change that no step makes yet.
    pub(crate) fn open(object: Object, class: Class, fields: Vec<FieldChange>) -> Self {
        Self { is_planned: false, ..Self::planned(object, class, fields) }
    }

    /// Whether the plan only waits for a state, such as a kubelet that is starting. Such a state is not
    /// drift: no setting was changed.
    pub fn is_awaited_state(&self) -> bool {
        let is_state = |field: &FieldChange| AWAITED.contains(&field.path.as_str());
        self.class == Class::Live && !self.fields.is_empty() && self.fields.iter().all(is_state)
    }

    pub(crate) fn note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }
}

impl FieldChange {
    /// A change of a text.
    pub(crate) fn new(path: &str, old: Option<String>, new: Option<String>) -> Self {
        Self::of(path, old.map(FieldValue::from), new.map(FieldValue::from))
    }

    pub(crate) fn of(path: &str, old: Option<FieldValue>, new: Option<FieldValue>) -> Self {
        Self { path: path.to_owned(), old, new }
    }

    pub(crate) fn set(path: &str, new: impl fmt::Display) -> Self {
        Self::new(path, None, Some(new.to_string()))
    }

    pub(crate) fn set_value(path: &str, new: impl Into<FieldValue>) -> Self {
        Self::of(path, None, Some(new.into()))
    }
}
