//! VMs of nodes that lost their marker, because a user replaced or deleted their notes.

use talmox_pve_types::config::VmConfig;
use talmox_pve_types::property::Tags;

use super::marker::{Marker, Stage};
use super::owner::Identity;
use crate::desired::TAG;

/// Start of marker lines of every format, also of formats of later releases.
const ANY_HEAD: &str = "talmox/";

impl Marker {
    /// Whether a line of the notes starts as a marker, even if it cannot be parsed, or if the notes have two such lines.
    fn is_indicated(description: &str) -> bool {
        description.lines().any(|line| line.trim_start().starts_with(ANY_HEAD))
    }

    /// The notes of a VM with a restored marker: the marker, followed by the notes that replaced it.
    pub fn restore(&self, notes: &str, cluster_name: &str) -> String {
        let marked = self.description(cluster_name);
        match notes.trim_end() {
            "" => marked,
            notes => format!("{marked}\n\n{notes}"),
        }
    }
}

impl Identity {
    /// Whether a VM is provably the VM of this node although its notes have no marker: it has the UUID and the name of the node,
    /// and the tags of talmox and of the cluster. A VM with a line that starts as a marker is none, because the line may say that
    /// the VM belongs to something else.
    pub fn has_lost_marker(&self, config: &VmConfig, cluster: &str) -> bool {
        let tags = config.tags();
        config.smbios().uuid == Some(self.uuid.to_string())
            && config.name() == Some(self.node.as_str())
            && tags.contains(TAG)
            && tags.contains(cluster)
            && !config.is_template()
            && config.lock().is_none()
            && !Marker::is_indicated(config.description())
    }

    /// The marker of this node for a VM that lost it. It has no first role, because the role of the VM before its notes were lost
    /// is not known.
    pub fn lost_marker(&self) -> Marker {
        Marker {
            cluster: self.cluster.clone(),
            node: self.node.clone(),
            stage: Stage::Made,
            data: None,
            are_tags_rejected: false,
            first_role: None,
            own_tags: Tags::default(),
            notes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::{ClusterMark, Owner, SmbiosUuid};

    fn identity() -> Identity {
        Identity {
            cluster: ClusterMark::of("id"),
            node: "wk-1".to_owned(),
            uuid: SmbiosUuid::of("id", "wk-1"),
        }
    }

    fn vm(changed: (&str, &str)) -> VmConfig {
        let uuid = format!("uuid={}", identity().uuid);
        let pairs = [("name", "wk-1"), ("tags", "talmox;home"), ("smbios1", &*uuid)];
        let kept = pairs.into_iter().filter(|(key, _)| *key != changed.0).chain([changed]);
        VmConfig::new(kept.map(|(key, value)| (key.to_owned(), value.to_owned())))
    }

    #[test]
    fn only_the_uuid_the_name_and_both_tags_together_prove_a_lost_marker() {
        let is_lost = |changed| identity().has_lost_marker(&vm(changed), "home");
        assert!(is_lost(("description", "")));
        assert!(is_lost(("description", "my own notes")));
        for changed in [
            ("name", "wk-2"),
            ("tags", "talmox"),
            ("tags", "home"),
            ("tags", "talmox;work"),
            ("smbios1", "uuid=11111111-2222-4333-8444-555555555555"),
            ("description", "talmox/1 cluster=ab node=wk-1 stage=made"),
            ("description", "a copy\ntalmox/2 something newer"),
            ("lock", "backup"),
            ("template", "1"),
        ] {
            assert!(!is_lost(changed), "{changed:?}");
        }
    }

    #[test]
    fn restored_notes_make_the_vm_an_owned_vm_and_keep_the_text_of_the_user() {
        let marker = identity().lost_marker();
        let notes = marker.restore("my own notes\n", "home");
        assert!(notes.ends_with("\n\nmy own notes"), "{notes}");
        assert_eq!(identity().judge(&vm(("description", notes.as_str()))), Owner::Owned(marker));
    }
}
