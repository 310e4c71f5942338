//! Marker of an owned VM: one line in the notes (Proxmox option `description`) of the VM.
//!
//! Users may write other text before and after the marker. The marker contains a hash of the random id of the cluster, so
//! that two clusters of the same name have different markers.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};
use talmox_pve_types::property::Tags;

use super::adoption::Adoption;

/// Start of every marker line, with the version of the format.
const HEAD: &str = "talmox/1";

/// Name of the word with the tags that talmox set. Earlier releases ignore this word and the next one.
const OWN_TAGS: &str = "own-tags";

/// Name of the word with the hash of the notes of the inventory.
const NOTES: &str = "notes";

/// Mark of a cluster: a hash that is part of the markers of its VMs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterMark(String);

impl ClusterMark {
    /// The mark of the cluster with this id. The id is a secret of the discovery service, so the mark contains only a hash of
    /// the id.
    pub fn of(cluster_id: &str) -> Self {
        let hash = digest::digest(&digest::SHA256, format!("talmox mark {cluster_id}").as_bytes());
        Self(hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far the creation of a VM has progressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The VM was created and never started. Its disks may not have their final size, and its tags are missing.
    Create,
    /// The VM was cloned and never started. Its UUID is the one that Proxmox chose.
    Clone,
    /// The creation is finished. The VM may have been started since.
    Made,
}

impl Stage {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Clone => "clone",
            Self::Made => "made",
        }
    }
}

/// The role that a VM with Talos was created for: control plane or worker.
///
/// This field is never updated, because the disk keeps the etcd data of a control plane even if the inventory changes the
/// role of the node later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FirstRole {
    ControlPlane,
    Worker,
}

impl FirstRole {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ControlPlane => "controlplane",
            Self::Worker => "worker",
        }
    }
}

/// Marker of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    pub cluster: ClusterMark,
    /// The name of the node.
    pub node: String,
    pub stage: Stage,
    /// Hash of the user-data of the VM. None for Talos, because Talos reports its config through its API.
    pub data: Option<String>,
    /// Whether Proxmox rejected the tags when the VM was created. A token with few privileges cannot read the tag policy, so
    /// without this field every plan would contain tags that no run can set.
    pub are_tags_rejected: bool,
    /// Role of the node when the VM was created. None for operating systems other than Talos, and for VMs that an earlier
    /// release of talmox created. A VM of an earlier release may have been a control plane.
    pub first_role: Option<FirstRole>,
    /// The tags that talmox set on the VM. Only these tags are removed when the inventory no longer contains them. Empty for
    /// VMs of earlier releases, whose tags are not removed.
    pub own_tags: Tags,
    /// Hash of the notes of the inventory, which follow the marker line.
    pub notes: Option<String>,
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, node, stage, data, are_tags_rejected, first_role, own_tags, notes } =
            self;
        write!(f, "{HEAD} cluster={cluster} node={node} stage={}", stage.as_str())?;
        if let Some(data) = data {
            write!(f, " data={data}")?;
        }
        if let Some(role) = first_role {
            write!(f, " role={}", role.as_str())?;
        }
        if *are_tags_rejected {
            f.write_str(" tags=rejected")?;
        }
        if own_tags.iter().next().is_some() {
            write!(f, " {OWN_TAGS}={own_tags}")?;
        }
        match notes {
            Some(hash) => write!(f, " {NOTES}={hash}"),
            None => Ok(()),
        }
    }
}

/// Error: a line is not a marker of a known format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a marker")]
pub struct NoMarker;

impl FromStr for Marker {
    type Err = NoMarker;

    fn from_str(line: &str) -> Result<Self, NoMarker> {
        let rest = line.trim().strip_prefix(HEAD).ok_or(NoMarker)?;
        let field = |key: &str| {
            let words = rest.split_ascii_whitespace();
            words.filter_map(|word| word.split_once('=')).find(|(name, _)| *name == key)
        };
        let text = |key: &str| field(key).map(|(_, value)| value.to_owned());
        let stage = match field("stage").ok_or(NoMarker)?.1 {
            "create" => Stage::Create,
            "clone" => Stage::Clone,
            "made" => Stage::Made,
            _ => return Err(NoMarker),
        };
        Ok(Self {
            cluster: ClusterMark(text("cluster").ok_or(NoMarker)?),
            node: text("node").ok_or(NoMarker)?,
            stage,
            data: text("data"),
            are_tags_rejected: field("tags").is_some_and(|(_, value)| value == "rejected"),
            // An unknown role does not prove that the VM was a worker.
            first_role: match field("role").map(|(_, value)| value) {
                Some("controlplane") => Some(FirstRole::ControlPlane),
                Some("worker") => Some(FirstRole::Worker),
                _ => None,
            },
            own_tags: field(OWN_TAGS).map(|(_, tags)| Tags::parse(tags)).unwrap_or_default(),
            notes: text(NOTES),
        })
    }
}

impl Marker {
    /// The marker in the notes of a VM. None if the notes have no marker. Also none if they have two markers, because one of
    /// them may be a copy from another VM.
    pub fn find(description: &str) -> Option<Self> {
        let mut markers = description.lines().filter_map(|line| line.parse().ok());
        let first = markers.next()?;
        markers.next().is_none().then_some(first)
    }

    /// Whether the marker line contains the record of an adoption.
    pub(crate) fn is_adopted(description: &str) -> bool {
        let is_record = |line: &str| line.parse::<Self>().is_ok() && Adoption::find(line).is_some();
        description.lines().any(is_record)
    }

    /// The notes of a VM after its adoption: the marker, followed by the previous notes.
    pub fn adopt(&self, notes: &str, cluster_name: &str, adoption: &Adoption) -> String {
        let marked = format!("{} {adoption}", self.description(cluster_name));
        match notes.trim_end() {
            "" => marked,
            notes => format!("{marked}\n\n{notes}"),
        }
    }

    /// The notes of a new VM: a sentence that explains the marker to users, followed by the marker.
    pub fn description(&self, cluster_name: &str) -> String {
        let node = &self.node;
        format!(
            "Node {node} of the cluster {cluster_name}. \
             talmox knows the VM by the next line: keep it.\n\n{self}"
        )
    }

    /// The name of the cluster in the sentence before the marker. None if a user removed or changed that sentence.
    pub fn named_cluster(description: &str) -> Option<&str> {
        let (_, rest) = description.split_once(" of the cluster ")?;
        rest.split_once(". talmox knows the VM").map(|(name, _)| name)
    }

    /// Replaces the marker line in `text` by this marker, and keeps the other lines. An adopted VM keeps the record of its
    /// adoption in the marker line. None if `text` has no marker.
    pub fn replace_in(&self, text: &str) -> Option<String> {
        Self::find(text)?;
        let line = |line: &str| match (line.parse::<Self>(), Adoption::find(line)) {
            (Ok(_), Some(adoption)) => format!("{self} {adoption}"),
            (Ok(_), None) => self.to_string(),
            (Err(NoMarker), _) => line.to_owned(),
        };
        Some(text.lines().map(line).collect::<Vec<_>>().join("\n"))
    }
}
