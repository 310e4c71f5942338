//! Virtual IPs. One of several control planes holds the address and serves on it.
//!
//! Talos elects the holder through etcd, so the address does not exist before the etcd cluster. A virtual IP of kube-vip exists
//! while a kube-vip pod is ready.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_lab_kube::object::{has_condition, list, text};
use tokio::sync::watch;

use super::kubernetes::{ApiBackend, BackendListener};
use super::loopback_network::PORTS;
use super::simulation::Simulation;
use super::talos_state::{Stage, TalosState};

/// Time for which a holder may be unreachable before it loses the address.
const LEASE: Duration = Duration::from_mins(1);
/// Time between two checks of the holder.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Minimum of [`CHECK_INTERVAL`] in real time. It limits the load if lab time is fast.
const MIN_INTERVAL: Duration = Duration::from_millis(5);

/// Takes part in the elections for the virtual IPs of a control plane, until the node stops.
pub(super) async fn run(
    simulation: &Arc<Simulation>,
    vmid: u32,
    boot: u64,
    mut served: watch::Receiver<Option<ApiBackend>>,
) {
    let candidate = VipCandidate { simulation, vmid, boot };
    let mut held: Vec<HeldAddress> = vec![];
    let mut unreachable = UnreachableHolders::default();
    // Time at which etcd stopped answering.
    let mut no_quorum_since: Option<Duration> = None;
    let mut state_changes = simulation.state_changes();
    let clock = simulation.clock();
    loop {
        state_changes.borrow_and_update();
        match candidate.desired() {
            DesiredAddresses::Some { cluster, addresses } => {
                no_quorum_since = None;
                for held in held.iter_mut().filter(|held| !addresses.contains(&held.address)) {
                    held.is_released = true;
                }
                // While this node was paused or disconnected, another node may have taken the address.
                held.retain(|held| !held.is_released && held.is_holder());
                unreachable.retain(|address, _| addresses.contains(address));
                for address in addresses {
                    if !held.iter().any(|held| held.address == address)
                        && candidate.may_take(cluster, address, &mut unreachable)
                    {
                        held.push(candidate.take(cluster, address));
                    }
                }
            }
            // Without etcd, the node cannot release the addresses. Other nodes take them when the lease ends.
            DesiredAddresses::Unknown => {
                let since = *no_quorum_since.get_or_insert_with(|| simulation.now());
                if simulation.now().saturating_sub(since) >= LEASE {
                    held.clear();
                }
            }
            DesiredAddresses::Nothing => {
                for held in &mut held {
                    held.is_released = true;
                }
                held.clear();
            }
        }
        let is_new = served.has_changed().unwrap_or_default();
        let server = served.borrow_and_update().clone();
        for held in &mut held {
            held.follow(server.clone(), is_new);
        }
        tokio::select! {
            _ = state_changes.changed() => {}
            () = clock.sleep(CHECK_INTERVAL) => {}
        }
        Clock::real().sleep(MIN_INTERVAL).await;
    }
}

/// Unreachable holder of each address, and the time on the clock of the simulation at which this was noticed.
type UnreachableHolders = BTreeMap<IpAddr, (u32, Duration)>;

struct VipCandidate<'r> {
    simulation: &'r Arc<Simulation>,
    vmid: u32,
    boot: u64,
}

/// Addresses that a node should hold.
enum DesiredAddresses {
    /// Addresses that an etcd cluster assigned to the node.
    Some { cluster: u64, addresses: BTreeSet<IpAddr> },
    /// etcd does not answer. The node keeps the addresses that it holds, until the lease ends.
    Unknown,
    /// The node is not a candidate for a virtual IP.
    Nothing,
}

impl VipCandidate<'_> {
    /// Addresses that this node should hold now.
    fn desired(&self) -> DesiredAddresses {
        let found = self.simulation.look(|talos| {
            let node = talos.nodes.get(&self.vmid).filter(|node| node.boot == self.boot)?;
            let stays = matches!(node.stage, Stage::Booting | Stage::Running);
            let membership = node.etcd.filter(|_| stays)?;
            let cluster = talos.etcds.get(&membership.cluster)?;
            let links = node.config.as_ref().map(|config| config.facts.links.as_slice());
            let links = links.unwrap_or_default().iter();
            let own = links.filter(|link| node.network.has_link(&link.selector));
            let own: BTreeSet<IpAddr> = own.filter_map(|link| link.vip).collect();
            let store = talos.serves(membership).then(|| Arc::clone(&cluster.store));
            Some((membership.cluster, own, store, node.hostname().to_lowercase()))
        });
        let Some((cluster, own, store, name)) = found else { return DesiredAddresses::Nothing };
        let Some(store) = store else { return DesiredAddresses::Unknown };
        let mut addresses = own;
        for pod in store.list("pods") {
            if text(&pod, "/spec/nodeName") == name && has_condition(&pod, "Ready") {
                addresses.extend(kube_vip_address(&pod));
            }
        }
        DesiredAddresses::Some { cluster, addresses }
    }

    /// Whether this node may take the address: the address is free, or its holder has been unreachable for the time of a lease.
    fn may_take(
        &self,
        cluster: u64,
        address: IpAddr,
        unreachable: &mut UnreachableHolders,
    ) -> bool {
        let now = self.simulation.now();
        let holder = self.simulation.look(|talos| {
            let holder = *talos.vips.get(&(cluster, address))?;
            Some((holder, is_reachable(talos, self.vmid, holder, address)))
        });
        match holder {
            None => true,
            Some((_, true)) => {
                unreachable.remove(&address);
                false
            }
            Some((holder, false)) => {
                let noticed = unreachable.entry(address).or_insert((holder, now));
                if noticed.0 != holder {
                    *noticed = (holder, now);
                }
                now.saturating_sub(noticed.1) >= LEASE
            }
        }
    }

    fn take(&self, cluster: u64, address: IpAddr) -> HeldAddress {
        let now = self.simulation.now();
        self.simulation.change(|talos| {
            talos.vips.insert((cluster, address), self.vmid);
            if let Some(node) = talos.of_boot(self.vmid, self.boot) {
                node.network.virtual_ips.push(address);
                node.revision += 1;
                node.dmesg(now, &format!("enabled shared IP {address}"));
            }
        });
        HeldAddress {
            simulation: Arc::clone(self.simulation),
            vmid: self.vmid,
            boot: self.boot,
            cluster,
            address,
            is_released: false,
            server: None,
        }
    }
}

/// Whether the holder runs, has the address, and can be reached from this node.
fn is_reachable(talos: &TalosState, vmid: u32, holder: u32, address: IpAddr) -> bool {
    let holds =
        talos.nodes.get(&holder).is_some_and(|node| node.network.virtual_ips.contains(&address));
    holds && talos.is_connected(vmid, holder)
}

/// Virtual IP that a kube-vip pod is configured with.
fn kube_vip_address(pod: &serde_json::Value) -> Option<IpAddr> {
    list(pod, "/spec/containers").iter().find_map(|container| {
        if !text(container, "/image").contains("kube-vip") {
            return None;
        }
        let named = list(container, "/env")
            .iter()
            .find(|variable| matches!(text(variable, "/name"), "address" | "vip_address"));
        let from_env = named.and_then(|variable| text(variable, "/value").parse().ok());
        let args: Vec<&str> =
            list(container, "/args").iter().filter_map(serde_json::Value::as_str).collect();
        let after = |flag: &str| {
            let at = args.iter().position(|arg| *arg == flag)?;
            args.get(at + 1)?.parse().ok()
        };
        from_env.or_else(|| after("--address")).or_else(|| after("--vip"))
    })
}

/// Virtual IP that a node holds. If the node releases it on purpose, the address is free at once. After a power loss, the
/// address stays taken until its lease ends.
struct HeldAddress {
    simulation: Arc<Simulation>,
    vmid: u32,
    boot: u64,
    /// Id of the etcd cluster that records the holder.
    cluster: u64,
    address: IpAddr,
    is_released: bool,
    server: Option<BackendListener>,
}

impl HeldAddress {
    /// Whether etcd still has this node as the holder.
    fn is_holder(&self) -> bool {
        self.simulation
            .look(|talos| talos.vips.get(&(self.cluster, self.address)).copied() == Some(self.vmid))
    }

    /// Serves the Kubernetes API on the address, while the API server of the node runs.
    fn follow(&mut self, server: Option<ApiBackend>, is_new: bool) {
        let [_, kubernetes] = PORTS;
        if is_new {
            self.server = None;
        }
        match (server, &self.server) {
            (Some(server), None) => {
                let incoming =
                    self.simulation.loopback_network.serve(self.address, kubernetes, self.vmid);
                self.server = incoming.ok().map(|incoming| server.listen(incoming));
            }
            (None, Some(_)) => self.server = None,
            _ => {}
        }
    }
}

impl Drop for HeldAddress {
    fn drop(&mut self) {
        self.simulation.change(|talos| {
            if let Some(node) = talos.of_boot(self.vmid, self.boot) {
                node.network.virtual_ips.retain(|address| *address != self.address);
                node.revision += 1;
            }
            let lease = (self.cluster, self.address);
            if self.is_released && talos.vips.get(&lease) == Some(&self.vmid) {
                talos.vips.remove(&lease);
            }
        });
    }
}
