//! Raw user-data that overlays the generated user-data.

use std::collections::BTreeMap;

use talmox_plan::desired::{DeriveError, Desired, Inputs, Login, Phase, needed_files};

use crate::support::{bundle, inventory};

const UBUNTU: &str = "
cluster_name: lab
talos_version: v1.12.4
network: {subnet: 10.0.0.0/24, gateway: 10.0.0.1}
proxmox: {endpoint: 'https://pve1:8006', node: pve1}
controlplane:
  - name: cp-1
    ip: 10.0.0.21
    os: ubuntu
    image: {url: 'https://example.com/noble.img'}
    cloud_init: {packages: [qemu-guest-agent], overlay: overlay.yaml}
";

/// The desired state of the inventory with this text in the overlay file.
fn with_overlay(text: &str) -> Result<Desired, DeriveError> {
    let inventory = inventory(UBUNTU);
    let cluster = &inventory.clusters[0];
    let files = needed_files(cluster).into_keys().map(|span| (span, text.to_owned())).collect();
    let secrets = BTreeMap::new();
    let phase = Phase::Final;
    let inputs = Inputs { cluster, bundle: bundle(), secrets: &secrets, files: &files, phase };
    let login = Login { user: "talmox@pve".to_owned(), token: None };
    Desired::of(&inputs, &BTreeMap::new(), login)
}

#[test]
fn a_machine_has_a_guest_agent_if_its_user_data_installs_it() {
    for (overlay, has_agent) in [
        ("timezone: UTC", true),
        ("packages: [htop]", false),
        ("packages: [htop, [qemu-guest-agent, '1:8.2']]", true),
        ("packages: [{apt: [qemu-guest-agent]}]", true),
        ("packages: []", false),
    ] {
        let vm = with_overlay(overlay).unwrap().nodes.remove(0).vm;
        assert_eq!(vm.has_agent, has_agent, "{overlay}");
        assert_eq!(vm.options.get("agent").is_some(), has_agent, "{overlay}");
    }
}

#[test]
fn an_invalid_overlay_is_an_error() {
    for overlay in ["packages: [htop", "#!/bin/sh\necho hi", "- htop", "a: 1\n---\nb: 2", ""] {
        let Err(DeriveError::Node { source, .. }) = with_overlay(overlay) else {
            panic!("{overlay} was taken")
        };
        assert!(matches!(*source, DeriveError::Overlay { .. }), "{overlay}: {source:?}");
    }
}
