//! Which VMs are ours: those that carry our marker and the UUID that goes with it.
//!
//! The marker is one line of a VM's description. People may write around it as they like. It names
//! the cluster by a hash of its random id, so that clusters of one name never meet.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;
use talmox_pve::config::VmConfig;

use crate::desired::SmbiosUuid;

/// What every marker line begins with; the number is that of the format.
const HEAD: &str = "talmox/1";

/// A cluster, as its VMs name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterMark(String);

impl ClusterMark {
    /// The id is a secret of the cluster's discovery, so only a hash of it is shown.
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

/// How far a VM has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Created, and never started: disks may not have their size, tags are missing.
    Create,
    /// Cloned, with a UUID that Proxmox chose, and never started.
    Clone,
    /// As it was meant to be. From here on it may have been started.
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

/// The marker of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    pub cluster: ClusterMark,
    /// The name of the node.
    pub node: String,
    pub stage: Stage,
    /// A hash of the user-data that the VM was made with, where nobody can ask the guest for it.
    pub data: Option<String>,
    /// Whether Proxmox rejected the tags when the VM was made. The tag policy cannot be read with a narrow token, so without
    /// this note every plan would show tags that no run can set.
    pub are_tags_rejected: bool,
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, node, stage, data, are_tags_rejected } = self;
        write!(f, "{HEAD} cluster={cluster} node={node} stage={}", stage.as_str())?;
        if let Some(data) = data {
            write!(f, " data={data}")?;
        }
        if *are_tags_rejected { f.write_str(" tags=rejected") } else { Ok(()) }
    }
}

/// A line that is no marker of a format that is known here.
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
        })
    }
}

impl Marker {
    /// The marker in a description. Two of them are as good as none: somebody copied a VM's notes.
    pub fn find(description: &str) -> Option<Self> {
        let mut markers = description.lines().filter_map(|line| line.parse().ok());
        let first = markers.next()?;
        markers.next().is_none().then_some(first)
    }

    /// A description with this marker and a word for the people who read it.
    pub fn description(&self, cluster_name: &str) -> String {
        let node = &self.node;
        format!(
            "Node {node} of the cluster {cluster_name}. \
             talmox knows the VM by the next line: keep it.\n\n{self}"
        )
    }

    /// The name of the cluster in a description of ours, as long as people left it there.
    pub fn told_cluster(description: &str) -> Option<&str> {
        let (_, rest) = description.split_once(" of the cluster ")?;
        rest.split_once(". talmox knows the VM").map(|(name, _)| name)
    }

    /// Puts this marker in the place of the one in `text`, and leaves the rest as it is.
    pub fn replace_in(&self, text: &str) -> Option<String> {
        Self::find(text)?;
        let line = |line: &str| match line.parse::<Self>() {
            Ok(_) => self.to_string(),
            Err(NoMarker) => line.to_owned(),
        };
        Some(text.lines().map(line).collect::<Vec<_>>().join("\n"))
    }
}

/// The VM of a node, as it is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster: ClusterMark,
    pub node: String,
    pub uuid: SmbiosUuid,
}

/// Whose a VM is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Ours, and made for this node.
    Ours(Marker),
    /// Not provably ours: never to be touched.
    Other {
        /// For people: why not.
        reason: String,
    },
}

impl Identity {
    /// Whether this is the config of the VM that is meant.
    ///
    /// A clone has a UUID of Proxmox's choice until our first change to it, so there the marker, with
    /// the name beside it, must do.
    pub fn judge(&self, config: &VmConfig) -> Owner {
        let other = |reason: String| Owner::Other { reason };
        let Some(marker) = Marker::find(config.description()) else {
            return other("it does not carry talmox's marker".to_owned());
        };
        if marker.cluster != self.cluster {
            return other(format!("it belongs to another cluster ({})", marker.cluster));
        }
        if marker.node != self.node {
            return other(format!("it is the VM of the node {}", marker.node));
        }
        let found = config.smbios().uuid.unwrap_or_else(|| "none".to_owned());
        let is_same = found == self.uuid.to_string();
        let is_clone = marker.stage == Stage::Clone && config.name() == Some(self.node.as_str());
        if is_same || is_clone {
            return Owner::Ours(marker);
        }
        other(format!("it has our marker, but the UUID {found} and not {}", self.uuid))
    }
}
