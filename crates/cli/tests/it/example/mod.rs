//! Creates each example in a lab, and compares the state of the lab with the inventory. Every expected value is written
//! by hand. Values that are derived from the cluster ID (marks, UUIDs, MACs) follow the documented rules.

mod em_dev;
mod home;
mod talos_cluster;
mod ubuntu_cluster;
mod vm_module;

use std::collections::BTreeMap;

use serde_json::Value as Json;
use talmox_talos_config::age::parse_identities;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::sops;

use crate::lab::{IN_FILE, ServedLab};
use crate::lab_state::{LabState, NodeState, VmState};
use crate::support::{Cluster, KEYS};

/// Cluster ID of all examples in these tests.
const CLUSTER_ID: &str = "ZXhhbXBsZXMtb2YtdGFsbW94LWluLWEtbGFiLTAwMSE=";
/// Cluster mark: the first eight bytes of the SHA-256 of `talmox mark ` and the cluster ID.
const MARK: &str = "0a03b68950e660f4";

/// Example cluster that `up` created in a lab.
struct Example {
    name: &'static str,
    cluster: Cluster,
    _lab: ServedLab,
    lab_state: LabState,
}

/// Values that are derived from the cluster ID and the name of a node. The UUID has version 5. Its namespace is the
/// version 5 UUID of the cluster ID. The MAC is 02, followed by the last five bytes of the UUID of `NAME/net0`.
struct Derived {
    uuid: &'static str,
    mac: &'static str,
}

impl Example {
    /// Runs the commands in `prepare`, then `plan` and `up`.
    fn up(name: &'static str, prepare: &[&str]) -> Self {
        let cluster = Cluster::example(name);
        let bundle = take_identity(&cluster, name);
        let lab = ServedLab::in_file(&cluster, "--inventory inventory --speed 50");
        let ready = serde_json::from_str(&cluster.folder.read("lab.json")).unwrap();
        let lab_state = LabState::new(&ready, bundle);
        let run = |command: &str, code: i32| {
            let run = cluster.run(&format!("{command} {IN_FILE}"));
            assert_eq!(run.code, code, "{command}: {}{}", run.stdout, run.stderr);
        };
        for command in prepare {
            run(command, 0);
        }
        run("plan --detailed-exitcode", 2);
        run("up --yes", 0);
        run("plan --detailed-exitcode", 0);
        Self { name, cluster, _lab: lab, lab_state }
    }

    fn output(&self, name: &str) -> String {
        let run = self.cluster.run(&format!("output {name} {IN_FILE}"));
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stdout
    }

    fn output_json(&self) -> Json {
        serde_json::from_str(&self.output("--format json")).unwrap()
    }

    /// Content of a file that `up` wrote beside the inventory.
    fn written(&self, file: &str) -> String {
        self.cluster.folder.read(&format!("inventory/{}/{file}", self.name))
    }
}

/// Replaces the cluster ID in the secrets of a cluster by [`CLUSTER_ID`], and returns the bundle.
fn take_identity(cluster: &Cluster, name: &str) -> Bundle {
    let secrets = format!("inventory/{name}/secrets.sops.yaml");
    let keys = parse_identities(&cluster.folder.read(KEYS)).unwrap();
    let document = sops::decrypt(&cluster.folder.read(&secrets), &keys).unwrap();
    let mut bundle = Bundle::from_node(&document.get("talos").unwrap()).unwrap();
    CLUSTER_ID.clone_into(&mut bundle.cluster.id);
    std::fs::remove_file(cluster.folder.path().join(&secrets)).unwrap();
    cluster.folder.write("bundle.yaml", bundle.to_yaml().expose());
    let run = cluster.run("secrets import bundle.yaml");
    assert_eq!(run.code, 0, "{}", run.stderr);
    bundle
}

/// Notes of a VM that `up` has completed.
fn notes(cluster: &str, node: &str) -> String {
    format!(
        "Node {node} of the cluster {cluster}. talmox knows the VM by the next line: keep it.\n\n\
         talmox/1 cluster={MARK} node={node} stage=made"
    )
}

/// Notes of a VM with Talos that `up` has completed. They include the role.
fn talos_notes(cluster: &str, node: &str) -> String {
    let is_control_plane = node.contains("cp-") || node.contains("control");
    let role = if is_control_plane { "controlplane" } else { "worker" };
    format!("{} role={role}", notes(cluster, node))
}

/// Asserts the notes and the config of a VM. Each line has the form `key: value`.
#[track_caller]
fn assert_vm(vm: &VmState, notes: &str, lines: &str) {
    let mut found = vm.config.clone();
    // The marker records the tags that talmox set.
    let notes = format!("{notes} own-tags={}", found["tags"]);
    assert_eq!(found.remove("description"), Some(notes));
    let expected: BTreeMap<String, String> = lines
        .lines()
        .map(|line| line.split_once(": ").unwrap())
        .map(|(key, value)| (key.trim().to_owned(), value.to_owned()))
        .collect();
    assert_eq!(found, expected);
    assert!(vm.is_running);
}

/// Value at a path of keys in the first document of the machine config of a node.
fn setting(node: &NodeState, path: &str) -> Option<String> {
    let root = talmox_yaml::read_first(&node.config).unwrap().unwrap();
    let found = path.split('/').try_fold(&root, |node, key| match key.parse::<usize>() {
        Ok(index) => node.as_seq()?.items.get(index),
        Err(_) => node.as_map()?.get(key),
    })?;
    Some(match found.as_str() {
        Some(text) => text.to_owned(),
        None => talmox_yaml::emit(found, 2),
    })
}
