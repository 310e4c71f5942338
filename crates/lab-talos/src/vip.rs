//! Addresses that several control planes share: one of them has it, and answers on it.
//!
//! Talos elects the holder through etcd, so that there is no such address before there is a
//! cluster. One that is left to kube-vip is there while a pod of kube-vip says so.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_lab_kube::object::{has_condition, list, text};
use tokio::sync::watch;

use super::kubernetes::{Behind, Listening};
use super::simulation::Simulation;
use super::talos_state::{Stage, TalosState};
use super::wire::PORTS;

/// How long a holder that says nothing still counts as one.
const LEASE: Duration = Duration::from_mins(1);
/// Between two looks at who should hold it.
const AGAIN: Duration = Duration::from_secs(2);
/// In real time: however fast the lab's time passes, looking takes some.
const SHORTEST: Duration = Duration::from_millis(5);

/// Takes part in the elections of a control plane, for as long as the node runs.
pub(super) async fn run(
    simulation: &Arc<Simulation>,
    vmid: u32,
    boot: u64,
    mut served: watch::Receiver<Option<Behind>>,
) {
    let candidate = Candidate { simulation, vmid, boot };
    let mut held: Vec<Held> = vec![];
    let mut silent = Silent::default();
    // Since when etcd does not answer.
    let mut alone: Option<Duration> = None;
    let mut news = simulation.news();
    let clock = simulation.clock();
    loop {
        news.borrow_and_update();
        match candidate.wanted() {
            Wanted::Some { cluster, addresses } => {
                alone = None;
                for held in held.iter_mut().filter(|held| !addresses.contains(&held.address)) {
                    held.is_given_up = true;
                }
                // While this node was away, another one may have taken it.
                held.retain(|held| !held.is_given_up && held.is_mine());
                silent.retain(|address, _| addresses.contains(address));
                for address in addresses {
                    if !held.iter().any(|held| held.address == address)
                        && candidate.may_take(cluster, address, &mut silent)
                    {
                        held.push(candidate.take(cluster, address));
                    }
                }
            }
            // Nobody can be told that they are free: the others learn it from the end of the lease.
            Wanted::Unknown => {
                let since = *alone.get_or_insert_with(|| simulation.now());
                if simulation.now().saturating_sub(since) >= LEASE {
                    held.clear();
                }
            }
            Wanted::Nothing => {
                for held in &mut held {
                    held.is_given_up = true;
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
            _ = news.changed() => {}
            () = clock.sleep(AGAIN) => {}
        }
        Clock::real().sleep(SHORTEST).await;
    }
}

/// Who holds each address and says nothing, and since when.
type Silent = BTreeMap<IpAddr, (u32, Duration)>;

struct Candidate<'r> {
    simulation: &'r Arc<Simulation>,
    vmid: u32,
    boot: u64,
}

/// What a node would hold.
enum Wanted {
    /// These, in the name of an etcd cluster that says so.
    Some { cluster: u64, addresses: BTreeSet<IpAddr> },
    /// etcd does not say: what is held stays so until the lease ends.
    Unknown,
    /// It is no candidate, or not any more.
    Nothing,
}

impl Candidate<'_> {
    /// The addresses that this node would hold now.
    fn wanted(&self) -> Wanted {
        let found = self.simulation.look(|talos| {
            let node = talos.nodes.get(&self.vmid).filter(|node| node.boot == self.boot)?;
            let stays = matches!(node.stage, Stage::Booting | Stage::Running);
            let membership = node.etcd.filter(|_| stays)?;
            let cluster = talos.etcds.get(&membership.cluster)?;
            let links = node.config.as_ref().map(|config| config.facts.links.as_slice());
            let links = links.unwrap_or_default().iter();
            let own = links.filter(|link| node.network.carries(&link.selector));
            let own: BTreeSet<IpAddr> = own.filter_map(|link| link.vip).collect();
            let store = talos.serves(membership).then(|| Arc::clone(&cluster.store));
            Some((membership.cluster, own, store, node.hostname().to_lowercase()))
        });
        let Some((cluster, own, store, name)) = found else { return Wanted::Nothing };
        let Some(store) = store else { return Wanted::Unknown };
        let mut addresses = own;
        for pod in store.list("pods") {
            if text(&pod, "/spec/nodeName") == name && has_condition(&pod, "Ready") {
                addresses.extend(kube_vip_address(&pod));
            }
        }
        Wanted::Some { cluster, addresses }
    }

    /// Whether nobody of the cluster holds it, or whoever does has said nothing for long enough.
    fn may_take(&self, cluster: u64, address: IpAddr, silent: &mut Silent) -> bool {
        let now = self.simulation.now();
        let holder = self.simulation.look(|talos| {
            let holder = *talos.vips.get(&(cluster, address))?;
            Some((holder, is_heard(talos, self.vmid, holder, address)))
        });
        match holder {
            None => true,
            Some((_, true)) => {
                silent.remove(&address);
                false
            }
            Some((holder, false)) => {
                let noticed = silent.entry(address).or_insert((holder, now));
                if noticed.0 != holder {
                    *noticed = (holder, now);
                }
                now.saturating_sub(noticed.1) >= LEASE
            }
        }
    }

    fn take(&self, cluster: u64, address: IpAddr) -> Held {
        let now = self.simulation.now();
        self.simulation.change(|talos| {
            talos.vips.insert((cluster, address), self.vmid);
            if let Some(node) = talos.of_boot(self.vmid, self.boot) {
                node.network.shared.push(address);
                node.revision += 1;
                node.dmesg(now, &format!("enabled shared IP {address}"));
            }
        });
        Held {
            simulation: Arc::clone(self.simulation),
            vmid: self.vmid,
            boot: self.boot,
            cluster,
            address,
            is_given_up: false,
            server: None,
        }
    }
}

/// Whether the holder is there, has the address, and can be heard.
fn is_heard(talos: &TalosState, vmid: u32, holder: u32, address: IpAddr) -> bool {
    let holds = talos.nodes.get(&holder).is_some_and(|node| node.network.shared.contains(&address));
    holds && talos.is_connected(vmid, holder)
}

/// The address that a pod of kube-vip is told to hold.
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

/// An address that is held. One that is given up on purpose is free at once; with a node that
/// loses its power, it stays taken until its lease is over.
struct Held {
    simulation: Arc<Simulation>,
    vmid: u32,
    boot: u64,
    /// The etcd cluster that knows of it.
    cluster: u64,
    address: IpAddr,
    is_given_up: bool,
    server: Option<Listening>,
}

impl Held {
    /// Whether etcd still has this node as the holder.
    fn is_mine(&self) -> bool {
        self.simulation
            .look(|talos| talos.vips.get(&(self.cluster, self.address)).copied() == Some(self.vmid))
    }

    /// Serves Kubernetes on the address while the node does.
    fn follow(&mut self, server: Option<Behind>, is_new: bool) {
        let [_, kubernetes] = PORTS;
        if is_new {
            self.server = None;
        }
        match (server, &self.server) {
            (Some(server), None) => {
                let incoming = self.simulation.wire.answer(self.address, kubernetes, self.vmid);
                self.server = incoming.ok().map(|incoming| server.listen(incoming));
            }
            (None, Some(_)) => self.server = None,
            _ => {}
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.simulation.change(|talos| {
            if let Some(node) = talos.of_boot(self.vmid, self.boot) {
                node.network.shared.retain(|address| *address != self.address);
                node.revision += 1;
            }
            let lease = (self.cluster, self.address);
            if self.is_given_up && talos.vips.get(&lease) == Some(&self.vmid) {
                talos.vips.remove(&lease);
            }
        });
    }
}
