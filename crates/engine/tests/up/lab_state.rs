//! State of a cluster after a run, from the three APIs, read with administrator rights.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use talmox_engine::kube::{KubeClient, NodeFacts};
use talmox_plan::desired::Contact;
use talmox_plan::ownership::{Marker, Stage};
use talmox_pve::Request;
use talmox_pve::api::cluster::{self, Guest};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::api::storage;
use talmox_pve::id::Upid;
use talmox_talos_api::client::ResourceKind;
use talmox_talos_api::{Client, node_address};

use super::rig::{ADMIN, Rig};

/// Host, state and config of a VM, without options that are random.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VmState {
    pub(crate) host: String,
    pub(crate) status: String,
    pub(crate) pool: Option<String>,
    pub(crate) config: BTreeMap<String, String>,
}

/// State of a node, as the node reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeState {
    pub(crate) version: String,
    pub(crate) hostname: String,
    /// The machine config, with its secrets.
    pub(crate) config: String,
    /// Names of the etcd members. Empty for workers.
    pub(crate) etcd: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabState {
    pub(crate) vms: BTreeMap<u32, VmState>,
    pub(crate) nodes: BTreeMap<String, NodeState>,
    pub(crate) kubernetes: Vec<NodeFacts>,
    /// All volumes with their sizes: images, uploads, and disks of VMs.
    pub(crate) volumes: BTreeMap<String, Option<u64>>,
}

/// Options of VMs that differ between runs.
const RANDOM_OPTIONS: [&str; 3] = ["digest", "vmgenid", "meta"];

impl Rig {
    pub(crate) async fn guests(&self) -> Vec<Guest> {
        self.client(ADMIN).send(&cluster::resources()).await.unwrap().guests
    }

    pub(crate) async fn vms(&self) -> BTreeMap<u32, VmState> {
        let client = self.client(ADMIN);
        let mut vms = BTreeMap::new();
        for guest in self.guests().await {
            let vm = Vm::new(&guest.node, guest.vmid);
            let config = client.send(&qemu::config(&vm)).await.unwrap();
            let is_running = client.send(&qemu::current(&vm)).await.unwrap().running;
            let kept = config.iter().filter(|(key, _)| !RANDOM_OPTIONS.contains(key));
            let vm_state = VmState {
                host: guest.node.to_string(),
                status: if is_running { "running" } else { "stopped" }.to_owned(),
                pool: guest.pool.map(|pool| pool.to_string()),
                config: kept.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            };
            vms.insert(guest.vmid.get(), vm_state);
        }
        vms
    }

    /// Stops a VM. The list of all VMs may still show it as running.
    pub(crate) async fn stop_vm_now(&self, vmid: u32) {
        self.change(vmid, |vm| qemu::stop(vm, false)).await;
    }

    /// Stops a VM, and waits until the list of all VMs shows it as stopped.
    pub(crate) async fn stop_vm(&self, vmid: u32) {
        self.stop_vm_now(vmid).await;
        let is_it = |guest: &Guest| guest.vmid.get() == vmid && guest.status == "running";
        while self.guests().await.iter().any(is_it) {
            self.lab.clock().sleep(Duration::from_secs(1)).await;
        }
    }

    /// Stops and deletes a VM, as a user does.
    pub(crate) async fn delete_vm(&self, vmid: u32) {
        self.stop_vm(vmid).await;
        self.change(vmid, |vm| qemu::delete(vm, true)).await;
    }

    async fn change(&self, vmid: u32, request: impl Fn(&Vm) -> Request<Upid>) {
        let guest = self.guests().await.into_iter().find(|guest| guest.vmid.get() == vmid).unwrap();
        let request = request(&Vm::new(&guest.node, guest.vmid));
        let client = self.client(ADMIN);
        let running = client.start(&request).await.unwrap();
        client.finish(running, Duration::from_mins(10)).await.unwrap();
    }

    pub(crate) fn talos(&self, address: IpAddr) -> Client {
        let access = self.access();
        let address = node_address(address.to_string());
        Client::new(address, &access.credentials, &access.settings).unwrap()
    }

    pub(crate) fn kube(&self, text: &str) -> KubeClient {
        self.kube_of(&self.desired(text))
    }

    pub(crate) async fn node(&self, address: IpAddr, is_control_plane: bool) -> NodeState {
        let talos = self.talos(address);
        let config = talos.get(ResourceKind::MACHINE_CONFIG, "v1alpha1").await.unwrap().unwrap();
        let members = if is_control_plane { talos.etcd_members().await.unwrap() } else { vec![] };
        NodeState {
            version: talos.version().await.unwrap().tag,
            hostname: talos.hostname().await.unwrap(),
            config: config.config_text().expose().to_owned(),
            etcd: members.into_iter().map(|member| member.hostname).collect(),
        }
    }

    /// Reads the state of the whole cluster.
    pub(crate) async fn lab_state(&self, text: &str) -> LabState {
        let desired = self.desired(text);
        let kubernetes = self.kube(text).nodes().await.unwrap();
        let mut nodes = BTreeMap::new();
        for node in desired.nodes.iter().filter(|node| node.is_talos) {
            let address = match node.contact {
                Contact::At(address) => address,
                Contact::AskAgent => {
                    let known = kubernetes.iter().find(|known| known.name == node.name);
                    known.unwrap_or_else(|| panic!("{} is unknown", node.name)).internal_addresses
                        [0]
                }
            };
            let found = self.node(address, node.is_control_plane).await;
            nodes.insert(node.name.clone(), found);
        }
        LabState { vms: self.vms().await, nodes, kubernetes, volumes: self.volumes().await }
    }

    async fn volumes(&self) -> BTreeMap<String, Option<u64>> {
        let client = self.client(ADMIN);
        let mut volumes = BTreeMap::new();
        for storage in ["local", "local-lvm"] {
            let (host, storage) = ("pve1".parse().unwrap(), storage.parse().unwrap());
            let list = storage::content(&host, &storage, None, None);
            let found = client.send(&list).await.unwrap();
            volumes.extend(found.into_iter().map(|one| (one.volid.to_string(), one.size)));
        }
        volumes
    }
}

impl LabState {
    /// Checks that every node has one owned VM, which is finished and running, and that no other owned VMs exist. Also checks
    /// that etcd is one cluster and that all nodes are ready.
    #[track_caller]
    pub(crate) fn assert_complete(&self, control_planes: &[&str], workers: &[&str]) {
        self.assert_complete_with_others(control_planes, workers, &[]);
    }

    /// The same check, with machines of another system in addition to the cluster.
    #[track_caller]
    pub(crate) fn assert_complete_with_others(
        &self,
        control_planes: &[&str],
        workers: &[&str],
        others: &[&str],
    ) {
        let all: BTreeSet<&str> = control_planes.iter().chain(workers).copied().collect();
        self.assert_owned(&all.iter().chain(others).copied().collect());
        let members: BTreeSet<String> = control_planes.iter().map(ToString::to_string).collect();
        for name in control_planes {
            assert_eq!(self.nodes[*name].etcd, members, "the members that {name} knows");
        }
        let ready: BTreeSet<&str> = self
            .kubernetes
            .iter()
            .filter(|node| node.is_ready)
            .map(|node| node.name.as_str())
            .collect();
        assert_eq!(ready, all, "{:#?}", self.kubernetes);
    }

    /// Checks that each of these nodes has one owned VM, which is finished and running, and that no other owned VMs exist.
    #[track_caller]
    fn assert_owned(&self, all: &BTreeSet<&str>) {
        let mut owned = vec![];
        for (vmid, vm) in self.vms.iter().filter(|(vmid, _)| **vmid >= 300) {
            let description = vm.config.get("description").map_or("", String::as_str);
            let marker = Marker::find(description);
            let marker = marker.unwrap_or_else(|| panic!("{vmid} has no owner: {vm:#?}"));
            assert_eq!(marker.stage, Stage::Made, "{vmid}");
            assert_eq!(vm.status, "running", "{vmid}");
            assert_eq!(vm.config["name"], marker.node);
            owned.push(marker.node);
        }
        let distinct: BTreeSet<&str> = owned.iter().map(String::as_str).collect();
        assert_eq!((&distinct, owned.len()), (all, all.len()));
    }
}
