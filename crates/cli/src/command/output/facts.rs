//! Facts about a cluster for other tools, read from the nodes, or else taken from the inventory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use talmox_engine::status::{
    Known, NodeRole, NodeRunning, Running, StatusSources, Subject, running,
};
use talmox_plan::desired::{Contact, Desired, DesiredNode};
use talmox_plan::observed::{Pve, VmSeen};
use talmox_plan::plan::OwnVm;
use talmox_pve::api::qemu::Vm;
use talmox_pve::property::Net;

use crate::printer::Printer;
use crate::session::Session;

/// Timeout for the answers of all nodes.
const LIMIT: Duration = Duration::from_secs(10);

/// JSON key of the list of fields that are taken from the inventory.
pub(super) const ASSUMED: &str = "from_inventory";
pub(super) const ADDRESS: &str = "ip_address";
pub(crate) const TALOS: &str = "talos_version";
pub(crate) const KUBERNETES: &str = "kubernetes_version";

/// Distinct versions that the nodes report. If no node reports one, the version of the inventory.
pub(crate) fn versions(nodes: &Map<String, Value>, field: &str) -> String {
    let is_assumed = |node: &Value| {
        node[ASSUMED].as_array().is_some_and(|fields| fields.iter().any(|one| one == field))
    };
    let (assumed, heard): (Vec<&Value>, Vec<&Value>) =
        nodes.values().filter(|node| node[field].is_string()).partition(|node| is_assumed(node));
    let chosen = if heard.is_empty() { assumed } else { heard };
    let versions: BTreeSet<&str> = chosen.iter().filter_map(|node| node[field].as_str()).collect();
    versions.into_iter().collect::<Vec<_>>().join(" and ")
}

/// Values about a cluster and its nodes.
pub(crate) struct Facts {
    pub(crate) nodes: Map<String, Value>,
    pub(super) cluster: Map<String, Value>,
    assumptions: Vec<Assumption>,
}

/// Values that were taken from the inventory, and the reason.
struct Assumption {
    /// Name of the node or of the cluster that has these values.
    of: String,
    fields: Vec<&'static str>,
    reason: String,
}

/// Nodes with their VMs.
type Places<'a> = [(&'a DesiredNode, Option<Vm>)];

impl Facts {
    /// Reads the facts from the running nodes. `places` contains the VMs that Proxmox reported, or that a run has just
    /// created.
    pub(crate) async fn look(session: &Session, places: &Places<'_>, pve: Option<&Pve>) -> Self {
        let subjects: Vec<Subject> =
            places.iter().map(|(node, vm)| subject(session, node, vm.as_ref(), pve)).collect();
        let cluster = session.cluster_access(Arc::new(|_| Ok(())));
        let sources = StatusSources { pve: session.pve.clone(), cluster, limit: LIMIT };
        let running = running(&subjects, &sources).await;
        Self::of(&session.desired, places, pve, Some(&running))
    }

    /// Combines the answers of the nodes with the inventory. `running` is `None` if the nodes were not queried.
    pub(super) fn of(
        desired: &Desired,
        places: &Places<'_>,
        pve: Option<&Pve>,
        running: Option<&Running>,
    ) -> Self {
        let mut facts = Self { nodes: Map::new(), cluster: Map::new(), assumptions: vec![] };
        for (at, (node, vm)) in places.iter().enumerate() {
            let running = running.and_then(|running| running.nodes.get(at));
            let seen = vm.as_ref().zip(pve).and_then(|(vm, pve)| pve.vms.get(&vm.vmid));
            facts.add_node(desired, node, vm.as_ref(), seen, running);
        }
        facts.add_cluster(desired, places, running);
        facts
    }

    fn add_node(
        &mut self,
        desired: &Desired,
        node: &DesiredNode,
        vm: Option<&Vm>,
        seen: Option<&VmSeen>,
        running: Option<&NodeRunning>,
    ) {
        let meant = node.addresses.first().copied().or(match node.contact {
            Contact::At(address) => Some(address),
            Contact::AskAgent => None,
        });
        let option = |key: &str| seen?.config.as_ref().ok()?.get(key).map(str::to_owned);
        let mac = option("net0").and_then(|net| Net::parse(&net).mac).map(|mac| mac.to_string());
        let mac = mac.or_else(|| node.identity.macs.first().map(ToString::to_string));
        let mut given = FactFields::default();
        let address = given.value(ADDRESS, running.map(|one| &one.address), meant);
        let talos = running.and_then(|one| one.talos.as_ref());
        let kubernetes = running.and_then(|one| one.kubernetes.as_ref());
        let meant = |version: &Option<String>| version.clone().filter(|_| node.is_talos);
        let talos = given.value(TALOS, talos, meant(&desired.talos_version));
        let kubernetes = given.value(KUBERNETES, kubernetes, meant(&desired.kubernetes_version));
        let fact = json!({
            "vmid": vm.map(|vm| vm.vmid.get()),
            "vm_name": option("name").unwrap_or_else(|| node.name.clone()),
            "node": vm.map(|vm| vm.node.to_string()),
            ADDRESS: address,
            "mac_address": mac,
            "role": if node.is_control_plane { "controlplane" } else { "worker" },
            TALOS: talos,
            KUBERNETES: kubernetes,
            ASSUMED: given.assumed,
        });
        self.nodes.insert(node.name.clone(), fact);
        self.assumptions.extend(given.assumption(&node.name));
    }

    /// Adds the facts about the cluster. The Kubernetes version is that of the Kubernetes API. The Talos version is that
    /// of the first control plane that answers.
    fn add_cluster(&mut self, desired: &Desired, places: &Places<'_>, running: Option<&Running>) {
        let each = places.iter().zip(running.map_or(&[][..], |running| &running.nodes));
        let planes: Vec<&Known<String>> = each
            .filter(|((node, _), _)| node.is_control_plane)
            .filter_map(|(_, one)| one.talos.as_ref())
            .collect();
        let heard = planes.iter().find(|seen| seen.get().is_some()).or(planes.first()).copied();
        let mut given = FactFields::default();
        let has_talos = desired.nodes.iter().any(|node| node.is_talos);
        let api = running.filter(|_| has_talos).map(|running| &running.kubernetes);
        self.cluster = Map::from_iter([
            ("cluster".to_owned(), json!(desired.cluster)),
            ("endpoint".to_owned(), json!(desired.endpoint)),
            ("vip".to_owned(), json!(desired.vip.map(|vip| vip.to_string()))),
            (TALOS.to_owned(), given.value(TALOS, heard, desired.talos_version.clone())),
            (
                KUBERNETES.to_owned(),
                given.value(KUBERNETES, api, desired.kubernetes_version.clone()),
            ),
        ]);
        self.cluster.insert(ASSUMED.to_owned(), json!(given.assumed));
        self.assumptions.extend(given.assumption(&desired.cluster));
    }

    /// Prints warnings about values that could not be read. `about` restricts the warnings to a node or the cluster, and
    /// to one field.
    pub(crate) fn warn(&self, about: Option<(&str, Option<&str>)>, printer: &Printer) {
        let mut groups: Vec<(&str, String, Vec<&str>)> = vec![];
        let is_of_a_node = |assumption: &Assumption| self.nodes.contains_key(&assumption.of);
        let has_nodes = self.assumptions.iter().any(is_of_a_node);
        for assumption in &self.assumptions {
            let Assumption { of, fields, reason } = assumption;
            let is_meant = match about {
                Some((name, field)) => {
                    name == of && field.is_none_or(|field| fields.contains(&field))
                }
                // The cluster usually has the same reason as its nodes, so only the reasons of the nodes are reported.
                None => is_of_a_node(assumption) || !has_nodes,
            };
            if !is_meant {
                continue;
            }
            let fields = match about {
                Some((_, Some(field))) => field.to_owned(),
                _ => fields.join(", "),
            };
            match groups.iter_mut().find(|(why, what, _)| why == reason && *what == fields) {
                Some((_, _, of_all)) => of_all.push(of),
                None => groups.push((reason, fields, vec![of])),
            }
        }
        for (reason, fields, of) in groups {
            printer.warn(&format!("{}: {reason}; from the inventory: {fields}", of.join(", ")));
        }
    }
}

/// Names of the fields whose values were taken from the inventory because they could not be read, and the reason.
#[derive(Default)]
struct FactFields {
    assumed: Vec<&'static str>,
    reason: Option<String>,
}

impl FactFields {
    fn value<T: ToString>(
        &mut self,
        field: &'static str,
        seen: Option<&Known<T>>,
        meant: Option<impl ToString>,
    ) -> Value {
        let reason = match seen {
            Some(Known::Is(found)) => return json!(found.to_string()),
            Some(Known::Unknown(reason)) => reason,
            None => return json!(meant.map(|meant| meant.to_string())),
        };
        let Some(meant) = meant else { return Value::Null };
        self.assumed.push(field);
        self.reason.get_or_insert_with(|| reason.clone());
        json!(meant.to_string())
    }

    fn assumption(self, of: &str) -> Option<Assumption> {
        Some(Assumption { of: of.to_owned(), fields: self.assumed, reason: self.reason? })
    }
}

/// Query target for a node. `own` is `None` if the VM of the node is missing or stopped.
fn subject(session: &Session, node: &DesiredNode, vm: Option<&Vm>, pve: Option<&Pve>) -> Subject {
    let is_stopped = |vm: &&Vm| {
        let seen = pve.and_then(|pve| pve.vms.get(&vm.vmid));
        seen.is_some_and(|seen| !seen.is_running)
    };
    let vm = vm.filter(|vm| !is_stopped(vm)).cloned();
    Subject {
        name: node.name.clone(),
        role: if node.is_control_plane { NodeRole::ControlPlane } else { NodeRole::Worker },
        is_talos: node.is_talos,
        own: vm.map(|vm| OwnVm { vm, identity: session.desired.identity_of(&node.name) }),
        foreign_vm: None,
        contact: node.contact,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_that_nodes_report() {
        let nodes = |all: Value| all.as_object().cloned().unwrap_or_default();
        let mixed = nodes(json!({
            "cp-1": {TALOS: "v1.13.6", ASSUMED: [TALOS]},
            "cp-2": {TALOS: "v1.12.4", ASSUMED: []},
            "wk-1": {TALOS: "v1.12.5", ASSUMED: []},
            "wk-2": {TALOS: "v1.12.4", ASSUMED: []},
            "web": {TALOS: null, ASSUMED: []},
        }));
        assert_eq!(versions(&mixed, TALOS), "v1.12.4 and v1.12.5");
        let silent = nodes(json!({"cp-1": {TALOS: "v1.13.6", ASSUMED: [TALOS]}}));
        assert_eq!(versions(&silent, TALOS), "v1.13.6");
    }
}
