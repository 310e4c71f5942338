//! `talmox adopt`.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value as Json;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::id::VmId;
use talmox_talos_config::age::parse_identities;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::sops;

use crate::lab::{IN_FILE, Served};
use crate::lab_state::{LabState, VmState};
use crate::support::{Cluster, KEYS, SECRETS};

const ADOPT: &str = "adopt --endpoint https://pve:8006 --talosconfig access --lab-at lab.json";

/// Cluster that runs in a lab. Its inventory, secrets and markers were deleted.
struct Orphaned {
    cluster: Cluster,
    _lab: Served,
    lab_state: LabState,
    bundle: Bundle,
}

fn bundle(cluster: &Cluster) -> Bundle {
    let keys = parse_identities(&cluster.folder.read(KEYS)).unwrap();
    let document = sops::decrypt(&cluster.folder.read(SECRETS), &keys).unwrap();
    Bundle::from_node(&document.get("talos").unwrap()).unwrap()
}

impl Orphaned {
    /// Creates a cluster with these lines added to its inventory. Then deletes the inventory, the secrets and the
    /// markers.
    fn new(lines: &str) -> Self {
        let cluster = Cluster::with_secrets();
        let path = "inventory/dev/cluster.yaml";
        let text = format!("{}{lines}", cluster.folder.read(path));
        cluster.folder.write(path, &text);
        let lab = Served::in_file(&cluster, "--inventory inventory --speed 50");
        let ready = serde_json::from_str(&cluster.folder.read("lab.json")).unwrap();
        let bundle = bundle(&cluster);
        let lab_state = LabState::new(&ready, bundle.clone());
        for command in [format!("up --yes {IN_FILE}"), "talosconfig --output access".to_owned()] {
            let run = cluster.run(&command);
            assert_eq!(run.code, 0, "{command}: {}{}", run.stdout, run.stderr);
        }
        fs::remove_dir_all(cluster.folder.path().join("inventory")).unwrap();
        for (vmid, vm) in lab_state.vms() {
            let target = Vm::new(&vm.host.parse().unwrap(), VmId::new(vmid).unwrap());
            let set = VmOptions::new().description("made by Terraform");
            let change = VmChange { set, ..VmChange::default() };
            let request = qemu::set_config(&target, &change);
            lab_state.runtime.block_on(lab_state.pve.send(&request)).unwrap();
        }
        Self { cluster, _lab: lab, lab_state, bundle }
    }

    /// VMs without their notes, and the notes of all VMs.
    fn vms(&self) -> (BTreeMap<u32, VmState>, Vec<String>) {
        let mut vms = self.lab_state.vms();
        let notes = vms.values_mut().map(|vm| vm.config.remove("description").unwrap()).collect();
        (vms, notes)
    }

    fn assert_empty_plan(&self) {
        let run = self.cluster.run(&format!("plan --detailed-exitcode {IN_FILE}"));
        assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    }
}

#[test]
fn a_cluster_without_an_inventory_is_adopted_and_its_plan_is_empty() {
    let orphaned = Orphaned::new("");
    let cluster = &orphaned.cluster;
    let (before, _) = orphaned.vms();

    // Without consent, no file is written and no VM is changed.
    let run = cluster.run(ADOPT);
    assert_eq!(run.code, 64, "{}{}", run.stdout, run.stderr);
    assert!(!cluster.folder.path().join("inventory").exists());
    let (unchanged, notes) = orphaned.vms();
    assert_eq!((&unchanged, notes), (&before, vec!["made by Terraform".to_owned(); 2]));

    let run = cluster.run(&format!("{ADOPT} --yes --format json"));
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let result: Json = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(result["is_plan_empty"], true, "{result:#}");
    assert_eq!(result["left"], serde_json::json!([]), "{result:#}");
    let names: Vec<&str> = result["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["cp-1", "wk-1"]);

    // Only the notes are changed, and the notes of the user are kept.
    let (after, notes) = orphaned.vms();
    assert_eq!(after, before);
    for text in &notes {
        assert!(
            text.contains("talmox/1 cluster=") && text.ends_with("made by Terraform"),
            "{text}"
        );
    }
    assert_eq!(bundle(cluster), orphaned.bundle);
    assert_eq!(cluster.mode(SECRETS), 0o600);
    let inventory = cluster.folder.read("inventory/dev/cluster.yaml");
    assert!(!inventory.contains("patches:"), "{inventory}");
    orphaned.assert_empty_plan();

    // A second `adopt` overwrites no file.
    let run = cluster.run(&format!("{ADOPT} --yes"));
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("exists already"), "{}", run.stderr);
    assert_eq!(cluster.folder.read("inventory/dev/cluster.yaml"), inventory);
}

/// Another tool may have applied its own patches to the machine configs. `adopt` turns the resulting settings into
/// patches of the inventory.
#[test]
fn differences_of_machine_configs_become_patches() {
    let lines = "\
patches:
  all:
    - machine: {sysctls: {vm.swappiness: '10'}, certSANs: [api.example]}
  workers:
    - machine: {nodeLabels: {tier: back}}
";
    let orphaned = Orphaned::new(lines);
    let cluster = &orphaned.cluster;
    let run = cluster.run(&format!("{ADOPT} --yes"));
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("2 nodes adopted; the plan is empty"), "{}", run.stdout);
    let inventory = cluster.folder.read("inventory/dev/cluster.yaml");
    for text in ["vm.swappiness", "api.example", "tier: back"] {
        assert!(inventory.contains(text), "{text} is not in\n{inventory}");
    }
    orphaned.assert_empty_plan();
}

#[test]
fn a_cluster_whose_vms_are_elsewhere_is_not_adopted() {
    let orphaned = Orphaned::new("");
    let cluster = &orphaned.cluster;
    let mut ready: Json = serde_json::from_str(&cluster.folder.read("lab.json")).unwrap();
    // This Proxmox has none of the VMs.
    cluster.folder.write("other.yaml", "nodes: [{name: pve}]\n");
    let _other = Served::in_file(cluster, "--scenario other.yaml");
    let other: Json = serde_json::from_str(&cluster.folder.read("lab.json")).unwrap();
    ready["pve"] = other["pve"].clone();
    cluster.folder.write("lab.json", &ready.to_string());
    let run = cluster.run(&format!("{ADOPT} --yes"));
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    let why = "no control plane can be adopted: cp-1: no running VM has its UUID";
    assert!(run.stderr.contains(why), "{}", run.stderr);
    assert!(!cluster.folder.path().join("inventory").exists());
}
