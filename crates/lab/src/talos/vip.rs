//! Addresses that several control planes share: one of them has it, and answers on it.
//!
//! Talos elects the holder through etcd, so that there is no such address before there is a
//! cluster. One that is left to kube-vip is there while a pod of kube-vip says so.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use tokio::sync::watch;

use super::kubernetes::{Behind, Listening};
use super::land::{Land, Membership, Stage};
use super::realm::Realm;
use super::wire::PORTS;
use crate::kube::object::{has_condition, list, text};

/// How long a holder that says nothing still counts as one.
const LEASE: Duration = Duration::from_mins(1);
/// Between two looks at who should hold it.
const AGAIN: Duration = Duration::from_secs(2);
/// In real time: however fast the lab's time passes, looking takes some.
const SHORTEST: Duration = Duration::from_millis(5);

/// Takes part in the elections of a control plane, for as long as the node runs.
pub(super) async fn run(
    realm: &Arc<Realm>,
    vmid: u32,
    boot: u64,
    mut served: watch::Receiver<Option<Behind>>,
) {
    let candidate = Candidate { realm, vmid, boot };
    let mut held: Vec<Held> = vec![];
    let mut silent: Option<(IpAddr, u32, Duration)> = None;
    let mut news = realm.news();
    let clock = realm.clock();
    loop {
        news.borrow_and_update();
        let wanted = candidate.wanted();
        for held in held.iter_mut().filter(|held| !wanted.contains(&held.address)) {
            held.is_given_up = true;
        }
        held.retain(|held| !held.is_given_up);
        let is_new = served.has_changed().unwrap_or_default();
        let server = served.borrow_and_update().clone();
        for held in &mut held {
            held.follow(server.clone(), is_new);
        }
        for address in wanted {
            if held.iter().any(|held| held.address == address) {
                continue;
            }
            if candidate.may_take(address, &mut silent) {
                held.push(candidate.take(address, server.clone()));
            }
        }
        tokio::select! {
            _ = news.changed() => {}
            () = clock.sleep(AGAIN) => {}
        }
        Clock::real().sleep(SHORTEST).await;
    }
}

struct Candidate<'r> {
    realm: &'r Arc<Realm>,
    vmid: u32,
    boot: u64,
}

impl Candidate<'_> {
    /// The addresses that this node would hold now.
    fn wanted(&self) -> BTreeSet<IpAddr> {
        let found = self.realm.look(|land| {
            let node = land.nodes.get(&self.vmid).filter(|node| node.boot == self.boot)?;
            let stays = matches!(node.stage, Stage::Booting | Stage::Running);
            let membership = node.etcd.filter(|membership| stays && land.serves(*membership))?;
            let cluster = land.etcds.get(&membership.cluster)?;
            let own = node.config.as_ref().and_then(|config| config.facts.vip());
            Some((own, Arc::clone(&cluster.store), node.hostname().to_lowercase()))
        });
        let Some((own, store, name)) = found else { return BTreeSet::new() };
        let mut wanted: BTreeSet<IpAddr> = own.into_iter().collect();
        for pod in store.list("pods") {
            if text(&pod, "/spec/nodeName") == name && has_condition(&pod, "Ready") {
                wanted.extend(kube_vip_address(&pod));
            }
        }
        wanted
    }

    /// Whether nobody holds it, or whoever does has said nothing for long enough.
    fn may_take(&self, address: IpAddr, silent: &mut Option<(IpAddr, u32, Duration)>) -> bool {
        let now = self.realm.now();
        let holder = self.realm.look(|land| {
            let holder = *land.vips.get(&address)?;
            Some((holder, is_heard(land, self.vmid, holder, address)))
        });
        match (holder, *silent) {
            (None, _) => true,
            (Some((_, true)), _) => {
                *silent = None;
                false
            }
            (Some((holder, false)), Some((which, who, since)))
                if which == address && who == holder =>
            {
                now.saturating_sub(since) >= LEASE
            }
            (Some((holder, false)), _) => {
                *silent = Some((address, holder, now));
                false
            }
        }
    }

    fn take(&self, address: IpAddr, server: Option<Behind>) -> Held {
        let now = self.realm.now();
        self.realm.change(|land| {
            land.vips.insert(address, self.vmid);
            if let Some(node) = land.of_boot(self.vmid, self.boot) {
                node.network.shared.push(address);
                node.revision += 1;
                node.dmesg(now, &format!("enabled shared IP {address}"));
            }
        });
        let mut held = Held {
            realm: Arc::clone(self.realm),
            vmid: self.vmid,
            boot: self.boot,
            address,
            is_given_up: false,
            server: None,
        };
        held.follow(server, false);
        held
    }
}

/// Whether the holder is there, has the address, and is of the same cluster: another's is not heard.
fn is_heard(land: &Land, vmid: u32, holder: u32, address: IpAddr) -> bool {
    let cluster = |vmid: u32| {
        let node = land.nodes.get(&vmid)?;
        node.etcd.map(|Membership { cluster, .. }| cluster)
    };
    let holds = land.nodes.get(&holder).is_some_and(|node| node.network.shared.contains(&address));
    holds && cluster(vmid) == cluster(holder) && land.is_connected(vmid, holder)
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
    realm: Arc<Realm>,
    vmid: u32,
    boot: u64,
    address: IpAddr,
    is_given_up: bool,
    server: Option<Listening>,
}

impl Held {
    /// Serves Kubernetes on the address while the node does.
    fn follow(&mut self, server: Option<Behind>, is_new: bool) {
        let [_, kubernetes] = PORTS;
        if is_new {
            self.server = None;
        }
        match (server, &self.server) {
            (Some(server), None) => {
                let incoming = self.realm.wire.answer(self.address, kubernetes, self.vmid);
                self.server = incoming.ok().map(|incoming| server.listen(incoming));
            }
            (None, Some(_)) => self.server = None,
            _ => {}
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.realm.change(|land| {
            if let Some(node) = land.of_boot(self.vmid, self.boot) {
                node.network.shared.retain(|address| *address != self.address);
                node.revision += 1;
            }
            if self.is_given_up && land.vips.get(&self.address) == Some(&self.vmid) {
                land.vips.remove(&self.address);
            }
        });
    }
}
