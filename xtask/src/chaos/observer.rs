//! Check of the invariants. It reads the saved state of the lab (VMs, tasks and etcd clusters) and the secrets files, and
//! uses no code of talmox.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::statistics::Statistics;

/// Tasks that stop, reset or delete a VM.
const HARMFUL_TASKS: [&str; 5] = ["qmreset", "qmstop", "qmshutdown", "qmreboot", "qmdestroy"];

/// Commands that ran since the last check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandsRun {
    /// Only commands that must not stop a VM or delete a cluster.
    Up,
    /// `destroy`, with or without `up`. VMs may be deleted. After all data is deleted, a new cluster may exist.
    Destroy,
}

pub(super) struct Observer {
    state: PathBuf,
    /// Secrets files, with their content at the start.
    secrets: BTreeMap<PathBuf, Vec<u8>>,
    foreign_cluster: ForeignCluster,
    /// etcd clusters with data on a disk at the last check, without the etcd cluster of the foreign cluster.
    with_data: BTreeSet<String>,
    /// VMs with data of these etcd clusters at the last check.
    members: BTreeSet<String>,
    /// Tasks in [`HARMFUL_TASKS`] that were already checked.
    harmful: BTreeSet<String>,
    /// All etcd clusters that ever had data.
    seen: BTreeSet<String>,
    ended: u64,
    observations: u64,
}

/// Cluster on the same hosts that no run may change.
#[derive(Default)]
struct ForeignCluster {
    /// Configs of the VMs of the foreign cluster, by vmid.
    vms: BTreeMap<String, Value>,
    tasks: BTreeSet<String>,
    etcds: BTreeSet<String>,
}

impl Observer {
    pub(super) fn new(state: &Path) -> Self {
        Self {
            state: state.to_owned(),
            secrets: BTreeMap::new(),
            foreign_cluster: ForeignCluster::default(),
            with_data: BTreeSet::new(),
            members: BTreeSet::new(),
            harmful: BTreeSet::new(),
            seen: BTreeSet::new(),
            ended: 0,
            observations: 0,
        }
    }

    pub(super) fn remember_secrets(&mut self, path: &Path) -> io::Result<()> {
        self.secrets.insert(path.to_owned(), fs::read(path)?);
        Ok(())
    }

    pub(super) fn remember_foreign_cluster(&mut self, vmids: &[u64]) -> io::Result<()> {
        let pve_state = self.read("world.json")?;
        let (pve_state, etcds) = (&pve_state["world"], self.read("etcd.json")?);
        let vmids: BTreeSet<String> = vmids.iter().map(ToString::to_string).collect();
        for (vmid, vm) in entries(&pve_state["vms"]).filter(|(vmid, _)| vmids.contains(*vmid)) {
            self.foreign_cluster.vms.insert(vmid.clone(), vm["config"].clone());
        }
        self.foreign_cluster.tasks = tasks_of(pve_state, &vmids);
        self.foreign_cluster.etcds = list(&etcds).map(|etcd| text(&etcd["id"])).collect();
        if self.foreign_cluster.vms.len() != vmids.len() || self.foreign_cluster.etcds.len() != 1 {
            return Err(io::Error::other("the foreign cluster is incomplete"));
        }
        // The observer must find this data. Otherwise it would not find the data of other clusters either.
        let on_disks: BTreeSet<String> = etcd_data(pve_state).map(|(etcd, _)| etcd).collect();
        if on_disks != self.foreign_cluster.etcds {
            return Err(io::Error::other("the etcd data of the foreign cluster is on no disk"));
        }
        Ok(())
    }

    pub(super) fn count(&self, statistics: &mut Statistics) {
        let made = u64::try_from(self.seen.len()).unwrap_or(u64::MAX);
        statistics.observations += self.observations;
        statistics.bootstrapped += u64::from(made > 0);
        statistics.ended += self.ended;
        statistics.recreated += made.saturating_sub(1);
    }

    /// Whether a task in [`HARMFUL_TASKS`] is still running.
    pub(super) fn has_running_harmful_task(&self) -> io::Result<bool> {
        let saved = self.read("world.json")?;
        let mut tasks = entries(&saved["world"]["tasks"]["by_upid"]);
        Ok(tasks.any(|(_, task)| is_harmful(task) && !task["state"]["Running"].is_null()))
    }

    /// Returns the violated invariants. The lab saves its state every two seconds and when it stops. A violation that is
    /// not saved yet is found by the next check, because violations do not disappear.
    pub(super) fn check(&mut self, since: CommandsRun) -> Vec<String> {
        let (pve_state, etcds) = match (self.read("world.json"), self.read("etcd.json")) {
            (Ok(pve_state), Ok(etcds)) => (pve_state, etcds),
            (pve_state, etcds) => {
                return vec![format!(
                    "the lab's state cannot be read: {:?} {:?}",
                    pve_state.err(),
                    etcds.err()
                )];
            }
        };
        self.observations += 1;
        let pve_state = &pve_state["world"];
        let mut violations = self.check_etcds(pve_state, since);
        violations.extend(duplicate_identities(&pve_state["vms"]));
        violations.extend(self.changed_foreign_cluster(pve_state, &etcds));
        violations.extend(self.changed_secrets());
        violations
    }

    /// Checks the etcd clusters by their data on disks. An etcd cluster exists until all its data is deleted.
    fn check_etcds(&mut self, pve_state: &Value, since: CommandsRun) -> Vec<String> {
        let is_own = |(etcd, _): &(String, String)| !self.foreign_cluster.etcds.contains(etcd);
        let (with_data, members): (BTreeSet<String>, BTreeSet<String>) =
            etcd_data(pve_state).filter(is_own).unzip();
        let mut violations = Vec::new();
        if with_data.len() > 1 {
            violations.push(format!(
                "{} etcd clusters of one inventory have data at the same time: {with_data:?}",
                with_data.len()
            ));
        }
        for ended in self.with_data.difference(&with_data) {
            match since {
                CommandsRun::Destroy => self.ended += 1,
                CommandsRun::Up => violations.push(format!(
                    "all data of the etcd cluster {ended} was deleted without `destroy`"
                )),
            }
        }
        violations.extend(self.harmed_members(pve_state, &members, since));
        self.seen.extend(with_data.iter().cloned());
        (self.with_data, self.members) = (with_data, members);
        violations
    }

    /// Violations by tasks that stopped, reset or deleted a member of etcd. `up` must never do that.
    fn harmed_members(
        &mut self,
        pve_state: &Value,
        members: &BTreeSet<String>,
        since: CommandsRun,
    ) -> Vec<String> {
        let tasks = entries(&pve_state["tasks"]["by_upid"]);
        let is_new = |upid: &String| !self.harmful.contains(upid);
        let harmful: Vec<(&String, &Value)> =
            tasks.filter(|(upid, task)| is_harmful(task) && is_new(upid)).collect();
        let is_member = |task: &Value| {
            let vmid = text(&task["id"]);
            self.members.contains(&vmid) || members.contains(&vmid)
        };
        let violations = harmful
            .iter()
            .filter(|(_, task)| since == CommandsRun::Up && is_member(task))
            .map(|(upid, _)| format!("a member of etcd was interrupted: {upid}"))
            .collect();
        self.harmful.extend(harmful.into_iter().map(|(upid, _)| upid.clone()));
        violations
    }

    fn changed_foreign_cluster(&self, pve_state: &Value, etcds: &Value) -> Vec<String> {
        let mut violations = Vec::new();
        for (vmid, config) in &self.foreign_cluster.vms {
            if pve_state["vms"][vmid]["config"] != *config {
                violations.push(format!("VM {vmid} of another cluster was changed or deleted"));
            }
        }
        let tasks = tasks_of(pve_state, &self.foreign_cluster.vms.keys().cloned().collect());
        for task in tasks.difference(&self.foreign_cluster.tasks) {
            violations.push(format!("a task ran on a VM of another cluster: {task}"));
        }
        let left: BTreeSet<String> = list(etcds).map(|etcd| text(&etcd["id"])).collect();
        if !self.foreign_cluster.etcds.is_subset(&left) {
            violations.push("the etcd data of another cluster is deleted".to_owned());
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

fn is_harmful(task: &Value) -> bool {
    HARMFUL_TASKS.contains(&text(&task["kind"]).as_str())
}

/// etcd clusters with data on disks, each with the vmid of the VM that has the disk.
fn etcd_data(pve_state: &Value) -> impl Iterator<Item = (String, String)> {
    let storages = entries(&pve_state["storages"]);
    let places = storages.flat_map(|(_, storage)| entries(&storage["volumes"]));
    let volumes = places.flat_map(|(_, volumes)| entries(volumes));
    volumes.filter_map(|(name, volume)| {
        let etcd = &volume["written"]["ephemeral"]["etcd"]["cluster"];
        let (_, rest) = name.rsplit_once("vm-")?;
        let vmid = rest.split('-').next()?;
        (!etcd.is_null()).then(|| (text(etcd), vmid.to_owned()))
    })
}

/// Violations by VMs that have the same UUID, MAC address, IP address, or node name in their notes.
fn duplicate_identities(vms: &Value) -> Vec<String> {
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
            let is_identity = |word: &&str| {
                !word.contains('=') || ["cluster=", "node="].iter().any(|key| word.starts_with(key))
            };
            let words = marker.split(' ').filter(is_identity);
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

/// All tasks that were started for these VMs.
fn tasks_of(pve_state: &Value, vmids: &BTreeSet<String>) -> BTreeSet<String> {
    let tasks = entries(&pve_state["tasks"]["by_upid"]);
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

/// Text of a string or a number.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// State of a lab with this etcd data on the disks of VMs, and with these tasks.
    fn pve_state(data: &[(u32, u64)], tasks: &[(&str, u32)]) -> Value {
        let volume = |(vmid, etcd): &(u32, u64)| {
            let written = json!({"ephemeral": {"etcd": {"cluster": etcd, "member": 1}}});
            (format!("vm-{vmid}-disk-1"), json!({"written": written}))
        };
        let mut volumes: Map<String, Value> = data.iter().map(volume).collect();
        volumes.insert("iso/talos.iso".to_owned(), json!({"written": null}));
        let task = |(kind, vmid): &(&str, u32)| {
            (format!("UPID:{kind}:{vmid}"), json!({"kind": kind, "id": vmid.to_string()}))
        };
        let tasks: Map<String, Value> = tasks.iter().map(task).collect();
        json!({
            "storages": {"local-lvm": {"volumes": {"pve1": volumes}}},
            "tasks": {"by_upid": tasks},
        })
    }

    fn observer() -> Observer {
        Observer::new(Path::new("state"))
    }

    #[test]
    fn two_etcd_clusters_at_the_same_time_are_a_violation_even_after_destroy() {
        let mut observer = observer();
        let one = pve_state(&[(311, 7), (312, 7)], &[]);
        assert!(observer.check_etcds(&one, CommandsRun::Up).is_empty());
        for since in [CommandsRun::Up, CommandsRun::Destroy] {
            let two = pve_state(&[(312, 7), (313, 8)], &[]);
            let found = observer.check_etcds(&two, since);
            assert!(found[0].starts_with("2 etcd clusters of one inventory"), "{found:?}");
        }
    }

    #[test]
    fn a_new_etcd_cluster_is_allowed_after_destroy_deleted_the_old_one() {
        let mut observer = observer();
        let gone = [("qmstop", 311), ("qmdestroy", 311)];
        assert!(observer.check_etcds(&pve_state(&[(311, 7)], &[]), CommandsRun::Up).is_empty());
        assert!(observer.check_etcds(&pve_state(&[], &gone), CommandsRun::Destroy).is_empty());
        assert!(observer.check_etcds(&pve_state(&[(311, 8)], &gone), CommandsRun::Up).is_empty());
        let mut statistics = Statistics::default();
        observer.count(&mut statistics);
        assert_eq!((statistics.bootstrapped, statistics.ended, statistics.recreated), (1, 1, 1));
        // The tasks of that `destroy` are not reported again, but new tasks are.
        let more = [gone[0], gone[1], ("qmreset", 311)];
        let found = observer.check_etcds(&pve_state(&[(311, 8)], &more), CommandsRun::Up);
        assert_eq!(found, ["a member of etcd was interrupted: UPID:qmreset:311"]);
    }

    #[test]
    fn deletions_and_interruptions_by_up_are_violations() {
        let mut observer = observer();
        assert!(observer.check_etcds(&pve_state(&[(311, 7)], &[]), CommandsRun::Up).is_empty());
        let found = observer.check_etcds(&pve_state(&[], &[("qmdestroy", 311)]), CommandsRun::Up);
        assert_eq!(
            found,
            [
                "all data of the etcd cluster 7 was deleted without `destroy`",
                "a member of etcd was interrupted: UPID:qmdestroy:311",
            ]
        );
    }

    #[test]
    fn vms_with_the_same_identity_are_violations() {
        let vm = |more: &str| {
            let description = format!("Node cp-1\n\ntalmox/1 cluster=ab node=cp-1 {more}");
            json!({"config": {"description": description}})
        };
        let vms = json!({"300": vm("stage=made role=controlplane"), "301": vm("stage=create")});
        assert_eq!(duplicate_identities(&vms).len(), 1);
        assert_eq!(duplicate_identities(&json!({"300": vm("stage=made")})), Vec::<String>::new());
    }
}
