//! VMs without a marker that have the tags or a UUID that talmox sets. The notes of such a VM were replaced or deleted.
//!
//! Such a VM may hold etcd data, even if it has another name. The VM is not an owned VM, so talmox never changes it. But
//! talmox does not bootstrap etcd while such a VM exists.

use talmox_pve_types::config::VmConfig;
use talmox_pve_types::id::VmId;

use super::marker::{ClusterMark, Marker};
use crate::desired::TAG;

/// Sign that a VM without a valid marker belongs to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmarkedSign {
    /// The VM has the tag of talmox and the tag of the cluster.
    Tags,
    /// The VM has a UUID of version 5 and is in a pool of the cluster. talmox derives UUIDs of version 5. Proxmox generates
    /// random UUIDs of version 4.
    DerivedUuid,
}

impl UnmarkedSign {
    /// The sign that a VM belongs to the cluster. None for a template. Also none for a VM with a marker, because the marker
    /// says which cluster the VM belongs to.
    pub fn find(config: &VmConfig, cluster: &str, is_in_pool: bool) -> Option<Self> {
        if config.is_template() || Marker::find(config.description()).is_some() {
            return None;
        }
        let tags = config.tags();
        if tags.contains(TAG) && tags.contains(cluster) {
            return Some(Self::Tags);
        }
        let uuid = config.smbios().uuid?;
        let is_derived = uuid.as_bytes().get(14) == Some(&b'5');
        (is_in_pool && is_derived).then_some(Self::DerivedUuid)
    }

    /// Description of the sign. In a message it follows the name of the VM.
    pub fn describe(self, cluster: &str) -> String {
        match self {
            Self::Tags => {
                format!("has the tags {TAG} and {cluster}, and no valid marker in its notes")
            }
            Self::DerivedUuid => format!(
                "has a UUID such as talmox derives, is in a pool of {cluster}, and has no valid marker in its notes"
            ),
        }
    }

    /// Instructions for the user: how to mark the VM as part of the cluster, or as foreign.
    pub fn hint(self, vmid: VmId, cluster: &str, mark: &ClusterMark) -> String {
        let release = match self {
            Self::Tags => format!("remove the tags {TAG} and {cluster} from it"),
            Self::DerivedUuid => "remove it from the pool".to_owned(),
        };
        format!(
            "if VM {vmid} is a node of {cluster}, put this line into its notes, with the name that the node had: talmox/1 \
             cluster={mark} node=NAME stage=made\nif VM {vmid} belongs to something else, {release}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::Stage;

    const DERIVED: &str = "uuid=2ed6657d-e927-568b-95e1-2665a8aea6a2";
    const RANDOM: &str = "uuid=2ed6657d-e927-468b-95e1-2665a8aea6a2";

    fn found(pairs: &[(&str, &str)], is_in_pool: bool) -> Option<UnmarkedSign> {
        let owned = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        UnmarkedSign::find(&VmConfig::new(owned), "home", is_in_pool)
    }

    #[test]
    fn tags_or_a_derived_uuid_in_the_pool_are_signs() {
        let both = ("tags", "talmox;home");
        assert_eq!(found(&[both, ("smbios1", RANDOM)], false), Some(UnmarkedSign::Tags));
        assert_eq!(found(&[both, ("description", "mine")], true), Some(UnmarkedSign::Tags));
        assert_eq!(found(&[("smbios1", DERIVED)], true), Some(UnmarkedSign::DerivedUuid));
        assert_eq!(found(&[("smbios1", DERIVED)], false), None, "other tools derive UUIDs too");
        assert_eq!(found(&[("smbios1", RANDOM)], true), None);
        assert_eq!(found(&[("tags", "talmox;other")], true), None);
        assert_eq!(found(&[both, ("template", "1")], true), None);
    }

    #[test]
    fn one_marker_decides_and_two_do_not() {
        let marker = Marker {
            cluster: ClusterMark::of("another"),
            node: "cp-1".to_owned(),
            stage: Stage::Made,
            data: None,
            are_tags_rejected: false,
            first_role: None,
            own_tags: talmox_pve_types::property::Tags::default(),
            notes: None,
        };
        let both = ("tags", "talmox;home");
        let (once, twice) = (marker.to_string(), format!("{marker}\n{marker}"));
        assert_eq!(found(&[both, ("description", once.as_str())], true), None);
        let doubled = found(&[both, ("description", twice.as_str())], true);
        assert_eq!(doubled, Some(UnmarkedSign::Tags));
    }
}
