//! Decides whether a VM is an owned VM: its marker and its SMBIOS UUID must both match.

use serde::{Deserialize, Serialize};
use talmox_pve_types::config::VmConfig;

use super::marker::{ClusterMark, Marker, Stage};
use super::smbios_uuid::SmbiosUuid;

/// Properties by which the VM of a node is recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub cluster: ClusterMark,
    pub node: String,
    pub uuid: SmbiosUuid,
}

/// Whether a VM is an owned VM of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The VM is the owned VM of this node.
    Owned(Marker),
    /// The VM is a foreign VM. talmox never changes it.
    Foreign {
        /// Why the VM is not an owned VM.
        reason: String,
    },
}

impl Identity {
    /// Decides from the config of a VM whether the VM is the owned VM of this node.
    ///
    /// An unfinished clone has a UUID that Proxmox chose, so the marker and the name of the VM are sufficient. A UUID in the
    /// notes has no effect here: `Desired::identity_of_vm` checks the proof in the notes of an adopted VM.
    pub fn judge(&self, config: &VmConfig) -> Owner {
        let other = |reason: String| Owner::Foreign { reason };
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
        let is_same = found.eq_ignore_ascii_case(&self.uuid.to_string());
        let is_clone = marker.stage == Stage::Clone && config.name() == Some(self.node.as_str());
        if is_same || is_clone {
            return Owner::Owned(marker);
        }
        other(format!("it has the marker of this node, but the UUID {found} and not {}", self.uuid))
    }
}

#[cfg(test)]
mod tests {
    use talmox_pve_types::property::Tags;

    use super::*;
    use crate::ownership::{Adoption, FirstRole};

    const OWN: &str = "3c8e4b1a-0f6d-4a57-9b1e-2d7c5f60a1b2";

    fn identity() -> Identity {
        Identity {
            cluster: ClusterMark::of("id"),
            node: "cp-1".to_owned(),
            uuid: SmbiosUuid::of("id", "cp-1"),
        }
    }

    fn vm(notes: &str, uuid: &str) -> VmConfig {
        let pairs = [("description", notes.to_owned()), ("smbios1", format!("uuid={uuid}"))];
        VmConfig::new(pairs.map(|(key, value)| (key.to_owned(), value)))
    }

    #[test]
    fn an_adopted_vm_is_owned_by_its_own_uuid_and_its_copy_is_not() {
        let marker = Marker {
            cluster: ClusterMark::of("id"),
            node: "cp-1".to_owned(),
            stage: Stage::Made,
            data: None,
            are_tags_rejected: false,
            first_role: Some(FirstRole::ControlPlane),
            own_tags: Tags::default(),
            notes: None,
        };
        let notes = marker.adopt("made by Terraform\n", "home", &Adoption::of("id", "cp-1", OWN));
        assert!(notes.ends_with("\n\nmade by Terraform"), "{notes}");
        assert_eq!(Marker::named_cluster(&notes), Some("home"));
        let config = vm(&notes, OWN);
        let uuid = Adoption::proven_uuid("id", "cp-1", &config).unwrap();
        let adopted = Identity { uuid, ..identity() };
        assert_eq!(adopted.judge(&config), Owner::Owned(marker.clone()));
        let copy = adopted.judge(&vm(&notes, "11111111-2222-4333-8444-555555555555"));
        assert!(matches!(copy, Owner::Foreign { .. }), "{copy:?}");
        // If the inventory does not record the UUID, the notes do not replace it.
        assert!(matches!(identity().judge(&config), Owner::Foreign { .. }));
        // A replaced marker keeps the record of the adoption.
        let tags = Marker { are_tags_rejected: true, ..marker };
        let replaced = vm(&tags.replace_in(&notes).unwrap(), OWN);
        assert!(replaced.description().contains("made by Terraform"), "{replaced:?}");
        assert_eq!(Adoption::proven_uuid("id", "cp-1", &replaced), Some(uuid));
        assert_eq!(adopted.judge(&replaced), Owner::Owned(tags));
    }
}
