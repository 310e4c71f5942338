//! `talmox adopt`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::Value as Json;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::id::VmId;
use talmox_talos_config::age::parse_identities;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::sops;

use crate::lab::{IN_FILE, ServedLab};
use crate::lab_state::{LabState, VmState};
use crate::secrets::private_values;
use crate::support::{Cluster, KEYS, SECRETS};
use crate::trace::assert_no_secret;

const ADOPT: &str = "adopt --endpoint https://pve:8006 --talosconfig access --lab-at lab.json";

/// Cluster that runs in a lab. Its inventory, secrets and markers were deleted.
struct Orphaned {
    cluster: Cluster,
    _lab: ServedLab,
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
        Self::of(|text| format!("{text}{lines}"))
    }

    /// Like [`Orphaned::new`], with an edited inventory.
    fn of(edit: impl FnOnce(String) -> String) -> Self {
        let cluster = Cluster::with_secrets();
        let path = "inventory/dev/cluster.yaml";
        let text = edit(cluster.folder.read(path));
        cluster.folder.write(path, &text);
        let lab = ServedLab::in_file(&cluster, "--inventory inventory --speed 50");
        let ready = serde_json::from_str(&cluster.folder.read("lab.json")).unwrap();
        let bundle = bundle(&cluster);
        let lab_state = LabState::new(&ready, bundle.clone());
        for command in [format!("up --yes {IN_FILE}"), "talosconfig --output access".to_owned()] {
            let run = cluster.run(&command);
            assert_eq!(run.code, 0, "{command}: {}{}", run.stdout, run.stderr);
        }
        fs::remove_dir_all(cluster.folder.path().join("inventory")).unwrap();
        let orphaned = Self { cluster, _lab: lab, lab_state, bundle };
        orphaned.remove_markers();
        orphaned
    }

    /// Replaces the notes of all VMs.
    fn remove_markers(&self) {
        let lab_state = &self.lab_state;
        for (vmid, vm) in lab_state.vms() {
            let target = Vm::new(&vm.host.parse().unwrap(), VmId::new(vmid).unwrap());
            let set = VmOptions::new().description("made by Terraform");
            let change = VmChange { set, ..VmChange::default() };
            let request = qemu::set_config(&target, &change);
            lab_state.runtime.block_on(lab_state.pve.send(&request)).unwrap();
        }
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

    let run = cluster.run(&format!("-vv {ADOPT} --yes --format json"));
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("  pve   GET /version: 200 ("), "{}", run.stderr);
    assert_no_secret(&private_values(cluster), &[("stderr", run.stderr.as_str())]);
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

    // A second `adopt` keeps the files that it would write, and overwrites no other file.
    let secrets = cluster.folder.read(SECRETS);
    let run = cluster.run(&format!("{ADOPT} --yes"));
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert_eq!(cluster.folder.read("inventory/dev/cluster.yaml"), inventory);
    assert_eq!(cluster.folder.read(SECRETS), secrets);
    let edited = format!("{inventory}# mine\n");
    cluster.folder.write("inventory/dev/cluster.yaml", &edited);
    let run = cluster.run(&format!("{ADOPT} --yes"));
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("exists already"), "{}", run.stderr);
    assert_eq!(cluster.folder.read("inventory/dev/cluster.yaml"), edited);
    let (after, again) = orphaned.vms();
    assert_eq!((after, again), (before, notes));
}

/// The first run wrote its files, and was interrupted before it marked the VMs.
#[test]
fn a_run_that_ended_before_it_was_done_is_resumed() {
    let orphaned = Orphaned::new("");
    let cluster = &orphaned.cluster;
    assert_eq!(cluster.run(&format!("{ADOPT} --yes")).code, 0);
    let files = [cluster.folder.read("inventory/dev/cluster.yaml"), cluster.folder.read(SECRETS)];
    orphaned.remove_markers();
    let run = cluster.run(&format!("{ADOPT} --yes"));
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let kept = [cluster.folder.read("inventory/dev/cluster.yaml"), cluster.folder.read(SECRETS)];
    assert_eq!(kept, files);
    let (_, notes) = orphaned.vms();
    assert!(notes.iter().all(|text| text.contains("talmox/1 cluster=")), "{notes:?}");
    orphaned.assert_empty_plan();
}

/// The VM of a control plane is off, and etcd still lists its member.
#[test]
fn a_member_of_etcd_without_an_adopted_node_is_listed() {
    let planes = "  - {name: cp-2, ip: 10.0.0.12}\n  - {name: cp-3, ip: 10.0.0.13}\nworkers:\n";
    let orphaned = Orphaned::of(|text| text.replace("workers:\n", planes));
    let (cluster, lab) = (&orphaned.cluster, &orphaned.lab_state);
    let is_third = |vm: &VmState| vm.config.get("name").is_some_and(|name| name == "cp-3");
    let (vmid, vm) = lab.vms().into_iter().find(|(_, vm)| is_third(vm)).unwrap();
    let target = Vm::new(&vm.host.parse().unwrap(), VmId::new(vmid).unwrap());
    lab.runtime.block_on(async {
        let running = lab.pve.start(&qemu::stop(&target, false)).await.unwrap();
        lab.pve.finish(running, Duration::from_mins(10)).await.unwrap();
    });
    let run = cluster.run(&format!("{ADOPT} --yes --format json"));
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    let result: Json = serde_json::from_str(&run.stdout).unwrap();
    let left = result["left"].as_array().unwrap();
    let is_member = |left: &&Json| {
        left["node"] == "cp-3" && left["reason"].as_str().unwrap().contains("etcd lists it")
    };
    assert_eq!(left.iter().filter(is_member).count(), 1, "{result:#}");
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
    let _other = ServedLab::in_file(cluster, "--scenario other.yaml");
    let other: Json = serde_json::from_str(&cluster.folder.read("lab.json")).unwrap();
    ready["pve"] = other["pve"].clone();
    cluster.folder.write("lab.json", &ready.to_string());
    let run = cluster.run(&format!("{ADOPT} --yes"));
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    let why = "no control plane can be adopted: cp-1: no running VM has its UUID";
    assert!(run.stderr.contains(why), "{}", run.stderr);
    assert!(!cluster.folder.path().join("inventory").exists());
}
