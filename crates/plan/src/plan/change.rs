use std::fmt;

use serde::{Deserialize, Serialize};

use super::field_value::FieldValue;
use super::finding_code::FindingCode;

/// Thing that a change creates, modifies or deletes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind", content = "name")]
pub enum Object {
    /// A local file. Planning adds no such change: the caller that writes files adds it.
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

impl Object {
    /// The node that the object belongs to, if it belongs to one.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Vm(name) | Self::Node(name) => Some(name.as_str()),
            Self::Disk(name) => name.split('/').next(),
            Self::File(_)
            | Self::Image(_)
            | Self::Mapping(_)
            | Self::Addon(_)
            | Self::Cluster(_) => None,
        }
    }
}

/// Effect of a change. The variants are ordered by cost, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// An object is created.
    Create,
    /// The change takes effect without a reboot.
    Live,
    /// The change takes effect with a reboot.
    Reboot,
    /// The change takes effect with a reboot, and the node is drained before the reboot.
    Drain,
    /// The VM is deleted and created again. The data on its disks is lost.
    Replace,
    /// The object is deleted. Its data is lost.
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

/// Fields that are a state to wait for, not a setting.
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
    /// Whether the steps of the plan make this change. If not, the change is only reported.
    pub is_planned: bool,
    /// Why no step makes this change. None if the change is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
}

/// Why no step of a run makes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Left {
    /// The change loses data, and the user has not consented to the loss with `--allow-removal`.
    NeedsConsent,
    /// Neither Proxmox nor Talos can make the change, and a replacement of the node cannot make it either.
    Impossible,
    /// `--node` or `--only` excludes the change.
    NotSelected,
    /// An error about the node of the change prevents the change, or only nodes with errors need the change.
    Blocked,
    /// The inventory accepts the difference (`ignore:`).
    Ignored,
}

impl Left {
    /// Whether the user must act before the change can be made: consent, edit the inventory, or fix an error.
    pub fn needs_the_user(self) -> bool {
        match self {
            Self::NeedsConsent | Self::Impossible | Self::Blocked => true,
            Self::NotSelected | Self::Ignored => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The plan cannot be executed. If `blocks_only_its_node` is set, the plan is executed without the node that the finding
    /// names.
    Error,
    Warning,
}

/// A problem that planning or a preflight check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub severity: Severity,
    pub code: FindingCode,
    /// Name of the object with the problem, such as a node, a storage or a host.
    pub subject: String,
    pub message: String,
    /// Instruction for the user. The text may have several lines.
    pub hint: Option<String>,
    /// Whether this error prevents only the steps of the node that the error names. The rest of the plan is executed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocks_only_its_node: bool,
}

impl Finding {
    pub(crate) fn error(code: FindingCode, subject: &str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            subject: subject.to_owned(),
            message: message.into(),
            hint: None,
            blocks_only_its_node: false,
        }
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
        Self { object, class, fields, note: None, is_planned: true, left: None }
    }

    /// A change that no step makes.
    pub(crate) fn left(object: Object, class: Class, fields: Vec<FieldChange>, why: Left) -> Self {
        let left = Some(why);
        Self { is_planned: false, left, ..Self::planned(object, class, fields) }
    }

    /// Takes the change out of the plan.
    pub(crate) fn leave(&mut self, why: Left) {
        self.is_planned = false;
        self.left = Some(why);
    }

    /// Whether the plan only waits for a state, such as a kubelet that is starting. Such a change is not drift, because no
    /// setting differs.
    pub fn is_awaited_state(&self) -> bool {
        let is_state = |field: &FieldChange| AWAITED.contains(&field.path.as_str());
        self.class == Class::Live && !self.fields.is_empty() && self.fields.iter().all(is_state)
    }

    pub(crate) fn note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }
}

impl FieldChange {
    /// A change of a field whose values are text.
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
