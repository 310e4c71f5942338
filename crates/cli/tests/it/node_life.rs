//! `talmox node reboot | shutdown | start | drain | uncordon | replace`, compared with the state of the lab.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::id::VmId;
use talmox_talos_config::age::parse_identities;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::sops;

use crate::lab::{IN_FILE, ServedLab};
use crate::lab_state::LabState;
use crate::support::{Cluster, KEYS, Run, SECRETS};

const INVENTORY: &str = "inventory/dev/cluster.yaml";
const API: &str = "10.0.0.11";

/// Cluster that `up` created in a lab.
pub(crate) struct CreatedCluster {
    pub(crate) cluster: Cluster,
    pub(crate) state: LabState,
    _lab: ServedLab,
}

impl CreatedCluster {
    /// Creates the usual cluster with further nodes. The arguments are lines for `controlplane:` and `workers:`.
    pub(crate) fn up(control_planes: &str, workers: &str) -> Self {
        Self::with_faults(control_planes, workers, "faults: []\n")
    }

    /// Creates a cluster in a lab with faults.
    pub(crate) fn with_faults(control_planes: &str, workers: &str, faults: &str) -> Self {
        let cluster = Cluster::with_secrets();
        let text = cluster.folder.read(INVENTORY);
        let text = text.replace("workers:\n", &format!("{control_planes}workers:\n"));
        cluster.folder.write(INVENTORY, &format!("{text}{workers}"));
        cluster.folder.write("faults.yaml", faults);
        let args = "--inventory inventory/dev --speed 50 --faults faults.yaml";
        let lab = ServedLab::in_file(&cluster, args);
        let created = Self { state: lab_state(&cluster), cluster, _lab: lab };
        created.fine("up --yes");
        created
    }

    pub(crate) fn run(&self, command: &str) -> Run {
        self.cluster.run(&format!("{command} {IN_FILE}"))
    }

    #[track_caller]
    pub(crate) fn fine(&self, command: &str) -> Run {
        let run = self.run(command);
        assert_eq!(run.code, 0, "{command}: {}{}", run.stdout, run.stderr);
        run
    }

    #[track_caller]
    pub(crate) fn fails(&self, command: &str, code: i32, words: &[&str]) {
        let run = self.run(command);
        assert_eq!(run.code, code, "{command}: {}{}", run.stdout, run.stderr);
        for words in words {
            assert!(run.stderr.contains(words), "{command}: {words}: {}", run.stderr);
        }
    }

    /// Vmid of each VM, and whether the VM runs, by name.
    fn vms(&self) -> BTreeMap<String, (u32, bool)> {
        let vms = self.state.vms().into_iter();
        vms.map(|(vmid, vm)| (vm.config["name"].clone(), (vmid, vm.is_running))).collect()
    }

    fn running(&self) -> Vec<String> {
        let vms = self.vms().into_iter().filter(|(_, (_, is_running))| *is_running);
        vms.map(|(name, _)| name).collect()
    }

    /// Resets a VM in Proxmox.
    pub(crate) fn reset(&self, name: &str) {
        let (vmid, _) = self.vms()[name];
        let vm = Vm::new(&"pve".parse().unwrap(), VmId::new(vmid).unwrap());
        self.state.runtime.block_on(self.state.pve.send(&qemu::reset(&vm))).unwrap();
    }

    /// Nodes that are ready and on which Kubernetes schedules pods.
    fn schedulable(&self) -> Vec<String> {
        let nodes = self.state.kubernetes(API).into_iter();
        nodes.filter(|node| node.is_schedulable && node.is_ready).map(|node| node.name).collect()
    }
}

fn lab_state(cluster: &Cluster) -> LabState {
    let keys = parse_identities(&cluster.folder.read(KEYS)).unwrap();
    let document = sops::decrypt(&cluster.folder.read(SECRETS), &keys).unwrap();
    let bundle = Bundle::from_node(&document.get("talos").unwrap()).unwrap();
    let ready = serde_json::from_str(&cluster.folder.read("lab.json")).unwrap();
    LabState::new(&ready, bundle)
}

#[test]
fn nodes_are_rebooted_shut_down_started_and_drained() {
    let created = CreatedCluster::up("", "  - {name: wk-2, ip: 10.0.0.22}\n");
    let all = ["cp-1", "wk-1", "wk-2"];
    assert_eq!(created.running(), all);

    // A command with wrong usage or a rejected plan changes nothing.
    created.fails("node reboot wk1 --yes", 64, &["did you mean `wk-1`?"]);
    created.fails("node reboot", 64, &["NODE"]);
    created.fails("node reboot wk-1 --all", 64, &["--all"]);
    created.fails("node shutdown wk-1", 64, &["--yes"]);
    created.fails(
        "node shutdown cp-1 --yes",
        1,
        &["error[control-plane-needed]: cp-1: ", "talmox node shutdown --all"],
    );
    assert_eq!(
        (created.running(), created.schedulable().len()),
        (all.map(str::to_owned).into(), 3)
    );

    let shut = created.fine("node shutdown wk-1 --yes").stderr;
    assert!(shut.contains("~ vm wk-1  (shutdown)\n") && shut.contains("node/wk-1/drain"), "{shut}");
    assert!(shut.contains("dev: 1 to shut down, in 2 steps\n"), "{shut}");
    assert_eq!(created.running(), ["cp-1", "wk-2"]);
    assert!(!created.schedulable().contains(&"wk-1".to_owned()));
    let again = created.fine("node shutdown wk-1 --yes").stdout;
    assert!(again.contains("Nothing to do: the nodes do not run."), "{again}");
    created.fails("node reboot wk-1 --yes", 1, &["error[vm-stopped]: wk-1: "]);
    let started = created.fine("node start wk-1 --yes").stderr;
    assert!(started.contains("~ vm wk-1  (start)\n"), "{started}");
    assert_eq!(created.running(), all);
    assert_eq!(created.schedulable(), all);

    let drained = created.fine("node drain wk-2 --yes --format json").stdout;
    let last: Json = serde_json::from_str(drained.lines().last().unwrap()).unwrap();
    assert_eq!((&last["cluster"], &last["changed"]), (&"dev".into(), &true.into()));
    assert_eq!(created.schedulable(), ["cp-1", "wk-1"]);
    created.fine("node uncordon --all --yes");
    assert_eq!(created.schedulable(), all);
    let again = created.fine("node uncordon --all --yes --format json").stdout;
    let last: Json = serde_json::from_str(&again).unwrap();
    assert_eq!(last["changed"], false);

    created.fine("node reboot --role worker --max-unavailable 2 --yes");
    assert_eq!(created.schedulable(), all);

    let down = created.fine("node shutdown --all --yes").stderr;
    assert!(!down.contains("/drain"), "{down}");
    assert_eq!(created.running(), [""; 0]);
    created.fine("node start --all --yes");
    assert_eq!(created.running(), all);
    assert_eq!(created.schedulable(), all);

    let runs: Json =
        serde_json::from_str(&created.cluster.run("runs --format json").stdout).unwrap();
    let commands: Vec<&str> = runs
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|run| run["header"]["command"].as_str())
        .collect();
    for command in ["node shutdown", "node start", "node drain", "node uncordon", "node reboot"] {
        assert!(commands.contains(&command), "{commands:?}");
    }
}

#[test]
fn a_node_is_replaced_only_with_consent_to_lose_its_disks() {
    let created = CreatedCluster::up("", "");
    let before = created.vms();
    created.fails("node replace wk-1 --yes", 64, &["--allow-removal"]);
    created.fails("node replace wk-1 --allow-removal", 64, &["--yes"]);
    created.fails("node replace wk1 --allow-removal --yes", 64, &["did you mean `wk-1`?"]);
    let command = format!("node replace wk-1 {IN_FILE}");
    if let Some((code, shown)) = created.cluster.folder.typed(&command, "wk-9\n") {
        assert_eq!(code, Some(1), "{shown}");
        assert!(shown.contains("the answer was not `wk-1`"), "{shown}");
    }
    // The only control plane cannot be replaced, because it has the only copy of the etcd data.
    created.fails("node replace cp-1 --allow-removal --yes", 1, &["cp-1"]);
    assert_eq!(created.vms(), before);

    let replaced = created.fine("node replace wk-1 --allow-removal --yes").stderr;
    assert!(replaced.contains("vm/wk-1/destroy"), "{replaced}");
    assert!(!replaced.contains("image local:import/"), "the image exists: {replaced}");
    assert_eq!(created.vms(), before, "the node keeps its vmid");
    assert_eq!(created.schedulable(), ["cp-1", "wk-1"]);
    let plan = created.run("plan --detailed-exitcode");
    assert_eq!(plan.code, 0, "{}", plan.stdout);
}
