//! Record of an adoption: words in the marker line of a VM whose UUID talmox did not derive.
//!
//! The inventory records the UUID of an adopted VM as long as it contains the node. After that, only the notes of the VM
//! show the UUID. Every user who may edit the notes can write a UUID there. So the record contains a proof, which only the
//! secrets bundle of the cluster can produce.

use std::fmt;

use aws_lc_rs::digest;
use talmox_pve_types::config::VmConfig;

use super::smbios_uuid::SmbiosUuid;

/// Prefix of the word with the SMBIOS UUID.
const UUID: &str = "uuid=";

/// Prefix of the word with the proof.
const PROOF: &str = "proof=";

/// The SMBIOS UUID of an adopted VM, with the proof that the VM was adopted for a node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoption {
    uuid: String,
    proof: String,
}

impl fmt::Display for Adoption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{UUID}{} {PROOF}{}", self.uuid, self.proof)
    }
}

impl Adoption {
    /// The record for the VM with this UUID, as the VM of the node `node`.
    pub fn of(cluster_id: &str, node: &str, uuid: &str) -> Self {
        let uuid = uuid.to_ascii_lowercase();
        let text = format!("talmox adoption {cluster_id} {node} {uuid}");
        let hash = digest::digest(&digest::SHA256, text.as_bytes());
        let proof = hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Self { uuid, proof }
    }

    /// The record in a line. None if the line lacks the UUID or the proof.
    pub(super) fn find(line: &str) -> Option<Self> {
        let word = |start: &str| {
            let mut words = line.split_ascii_whitespace();
            words.find_map(|word| word.strip_prefix(start)).map(str::to_owned)
        };
        Some(Self { uuid: word(UUID)?, proof: word(PROOF)? })
    }

    /// The SMBIOS UUID of a VM, if the notes of the VM prove that it was adopted with this UUID for the node `node`. A copy of
    /// the notes in another VM proves nothing, because that VM has another UUID.
    pub(crate) fn proven_uuid(
        cluster_id: &str,
        node: &str,
        config: &VmConfig,
    ) -> Option<SmbiosUuid> {
        let uuid = config.smbios().uuid?.to_ascii_lowercase();
        let expected = Some(Self::of(cluster_id, node, &uuid));
        let is_proven = config.description().lines().any(|line| Self::find(line) == expected);
        if is_proven { SmbiosUuid::parse(&uuid) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID_OF_VM: &str = "3c8e4b1a-0f6d-4a57-9b1e-2d7c5f60a1b2";
    const OTHER: &str = "11111111-2222-4333-8444-555555555555";

    fn vm(notes: &str, smbios: &str) -> VmConfig {
        let pairs = [("description", notes.to_owned()), ("smbios1", smbios.to_owned())];
        VmConfig::new(pairs.map(|(key, value)| (key.to_owned(), value)))
    }

    #[test]
    fn only_the_record_of_this_cluster_node_and_vm_is_a_proof() {
        let own = format!("uuid={UUID_OF_VM}");
        let proven = |notes: &str, smbios: &str| {
            Adoption::proven_uuid("id", "cp-1", &vm(notes, smbios)).map(|uuid| uuid.to_string())
        };
        let notes = format!("talmox/1 … {}", Adoption::of("id", "cp-1", UUID_OF_VM));
        assert_eq!(proven(&notes, &own).as_deref(), Some(UUID_OF_VM));
        assert_eq!(
            proven(&notes, &own.to_uppercase().replace("UUID", "uuid")),
            proven(&notes, &own)
        );
        // The notes of another VM, node or cluster.
        assert_eq!(proven(&notes, &format!("uuid={OTHER}")), None);
        for (cluster, node) in [("id", "cp-2"), ("other", "cp-1")] {
            let notes = Adoption::of(cluster, node, UUID_OF_VM).to_string();
            assert_eq!(proven(&notes, &own), None, "{cluster} {node}");
        }
        // A UUID without a proof, and a VM without a UUID.
        assert_eq!(proven(&own, &own), None);
        assert_eq!(proven("uuid=none", ""), None);
        assert_eq!(proven(&Adoption::of("id", "cp-1", "none").to_string(), ""), None);
    }
}
