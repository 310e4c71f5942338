//! Looks at what the lab writes down about itself, and knows nothing of the program: VMs, tasks and etcd clusters, and
//! the files with secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// Tasks that end or interrupt a machine.
const HARMFUL_TASKS: [&str; 5] = ["qmreset", "qmstop", "qmshutdown", "qmreboot", "qmdestroy"];

pub(super) struct Observer {
    state: PathBuf,
    /// Secrets files with what they held at first.
    secrets: BTreeMap<PathBuf, Vec<u8>>,
    bystander: Bystander,
    /// Every etcd cluster that was ever seen, but for the bystander's.
    etcds: BTreeSet<String>,
    /// Every VM that was ever a member of one.
    members: BTreeSet<String>,
    observations: u64,
}

/// A cluster that no run may touch.
#[derive(Default)]
struct Bystander {
    /// Numbers and configs of its VMs.
    vms: BTreeMap<String, Value>,
    tasks: BTreeSet<String>,
    etcds: BTreeSet<String>,
}

impl Observer {
    pub(super) fn new(state: &Path) -> Self {
        Self {
            state: state.to_owned(),
            secrets: BTreeMap::new(),
            bystander: Bystander::default(),
            etcds: BTreeSet::new(),
            members: BTreeSet::new(),
            observations: 0,
        }
    }

    pub(super) fn remember_secrets(&mut self, path: &Path) -> io::Result<()> {
        self.secrets.insert(path.to_owned(), fs::read(path)?);
        Ok(())
    }

    pub(super) fn remember_bystander(&mut self, vmids: &[u64]) -> io::Result<()> {
        let world = self.read("world.json")?;
        let (world, etcds) = (&world["world"], self.read("etcd.json")?);
        let vmids: BTreeSet<String> = vmids.iter().map(ToString::to_string).collect();
        for (vmid, vm) in entries(&world["vms"]).filter(|(vmid, _)| vmids.contains(*vmid)) {
            self.bystander.vms.insert(vmid.clone(), vm["config"].clone());
        }
        self.bystander.tasks = tasks_of(world, &vmids);
        self.bystander.etcds = list(&etcds).map(|etcd| text(&etcd["id"])).collect();
        if self.bystander.vms.len() != vmids.len() || self.bystander.etcds.len() != 1 {
            return Err(io::Error::other("the cluster beside is not complete"));
        }
        Ok(())
    }

    pub(super) fn observations(&self) -> u64 {
        self.observations
    }

    pub(super) fn has_etcd(&self) -> bool {
        !self.etcds.is_empty()
    }

    /// What must never be, and is. The lab writes every two seconds and when it stops: what is not seen at once is seen at
    /// the next look, since nothing of what is looked for goes away by itself.
    pub(super) fn look(&mut self) -> Vec<String> {
        let (world, etcds) = match (self.read("world.json"), self.read("etcd.json")) {
            (Ok(world), Ok(etcds)) => (world, etcds),
            (world, etcds) => {
                return vec![format!(
                    "the lab's state cannot be read: {:?} {:?}",
                    world.err(),
                    etcds.err()
                )];
            }
        };
        self.observations += 1;
        let world = &world["world"];
        let mut violations = self.count_etcds(&etcds);
        violations.extend(doubled_identities(&world["vms"]));
        violations.extend(self.harmed_members(world));
        violations.extend(self.touched_bystander(world, &etcds));
        violations.extend(self.changed_secrets());
        violations
    }

    fn count_etcds(&mut self, etcds: &Value) -> Vec<String> {
        for etcd in list(etcds).filter(|etcd| !self.bystander.etcds.contains(&text(&etcd["id"]))) {
            self.etcds.insert(text(&etcd["id"]));
            self.members.extend(entries(&etcd["members"]).map(|(_, member)| text(&member["vmid"])));
        }
        if self.etcds.len() < 2 {
            return vec![];
        }
        vec![format!(
            "{} etcd clusters were made for one inventory: {:?}",
            self.etcds.len(),
            self.etcds
        )]
    }

    /// Members of etcd that were stopped, reset or destroyed: `up` has no business doing that.
    fn harmed_members(&self, world: &Value) -> Vec<String> {
        let tasks = entries(&world["tasks"]["by_upid"]);
        let harmful =
            tasks.filter(|(_, task)| HARMFUL_TASKS.contains(&text(&task["kind"]).as_str()));
        let harmful = harmful.filter(|(_, task)| self.members.contains(&text(&task["id"])));
        harmful.map(|(upid, _)| format!("a member of etcd was interrupted: {upid}")).collect()
    }

    fn touched_bystander(&self, world: &Value, etcds: &Value) -> Vec<String> {
        let mut violations = Vec::new();
        for (vmid, config) in &self.bystander.vms {
            if world["vms"][vmid]["config"] != *config {
                violations.push(format!("VM {vmid} of another cluster was changed or is gone"));
            }
        }
        let tasks = tasks_of(world, &self.bystander.vms.keys().cloned().collect());
        for task in tasks.difference(&self.bystander.tasks) {
            violations.push(format!("a VM of another cluster was worked on: {task}"));
        }
        let left: BTreeSet<String> = list(etcds).map(|etcd| text(&etcd["id"])).collect();
        if !self.bystander.etcds.is_subset(&left) {
            violations.push("the etcd of another cluster is gone".to_owned());
        }
        violations
    }

    fn changed_secrets(&self) -> Vec<String> {
        let is_changed =
            |(path, before): &(&PathBuf, &Vec<u8>)| fs::read(path).ok().as_ref() != Some(*before);
        let changed = self.secrets.iter().filter(is_changed);
        changed.map(|(path, _)| format!("{} was changed", path.display())).collect()
    }

    fn read(&self, file: &str) -> io::Result<Value> {
        Ok(serde_json::from_slice(&fs::read(self.state.join(file))?)?)
    }
}

/// Machines that claim to be the same: by their UUID, hardware address, address, or the node that their notes name.
fn doubled_identities(vms: &Value) -> Vec<String> {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut violations = Vec::new();
    for (vmid, vm) in entries(vms) {
        let config = &vm["config"];
        let part = |key: &str, start: &str| {
            let value = text(&config[key]);
            let mut parts = value.split([',', '\n']).map(str::to_owned);
            parts.find(|part| part.starts_with(start))
        };
        let node = part("description", "talmox/1 ").map(|marker| {
            let words = marker.split(' ').filter(|word| !word.starts_with("stage="));
            words.collect::<Vec<_>>().join(" ")
        });
        let identities =
            [part("smbios1", "uuid="), part("net0", "virtio="), part("ipconfig0", "ip=1"), node];
        for identity in identities.into_iter().flatten() {
            if let Some(other) = seen.insert(identity.clone(), vmid.clone()) {
                violations
                    .push(format!("VMs {other} and {vmid} have the same identity: {identity}"));
            }
        }
    }
    violations
}

/// The tasks that were ever started for these VMs.
fn tasks_of(world: &Value, vmids: &BTreeSet<String>) -> BTreeSet<String> {
    let tasks = entries(&world["tasks"]["by_upid"]);
    tasks
        .filter(|(_, task)| vmids.contains(&text(&task["id"])))
        .map(|(upid, _)| upid.clone())
        .collect()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Texts and numbers alike.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
