//! Connectivity of machines: whether bytes reach a machine.
//!
//! Bytes for a paused machine, or for a machine with a disconnected network card, are held back. They arrive when the machine
//! is resumed or the card is connected again.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use talmox_lab_environment::Work;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::hardware::{Card, Hardware};
use super::hypervisor::RunningState;
use super::network::Network;
use super::simulation::Simulation;
use super::talos_state::{Node, TalosState};

/// Traffic of a machine that is blocked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum BlockedTraffic {
    #[default]
    Nothing,
    /// Traffic to these addresses is blocked.
    Some(BTreeSet<IpAddr>),
    /// All traffic is blocked, because the machine is paused.
    All,
}

impl BlockedTraffic {
    fn blocks(&self, address: IpAddr) -> bool {
        match self {
            Self::Nothing => false,
            Self::Some(addresses) => addresses.contains(&address),
            Self::All => true,
        }
    }
}

/// Connectivity of all machines.
#[derive(Debug, Default)]
pub(crate) struct Connectivity(Mutex<HashMap<u32, Arc<MachineConnectivity>>>);

/// Connectivity of one machine.
#[derive(Debug, Default)]
struct MachineConnectivity {
    /// Whether any traffic is blocked. Most machines never have blocked traffic, so this flag avoids most uses of the lock.
    is_cut: AtomicBool,
    state: Mutex<ConnectivityState>,
}

#[derive(Debug, Default)]
struct ConnectivityState {
    blocked: BlockedTraffic,
    waiting: Vec<Waker>,
}

impl Connectivity {
    fn of(&self, vmid: u32) -> Arc<MachineConnectivity> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(vmid).or_default())
    }

    /// Sets the blocked traffic of a machine.
    pub(crate) fn set(&self, vmid: u32, blocked: BlockedTraffic) {
        let machine = self.of(vmid);
        let mut state = machine.state.lock().unwrap_or_else(PoisonError::into_inner);
        machine.is_cut.store(blocked != BlockedTraffic::Nothing, Ordering::Release);
        state.blocked = blocked;
        state.waiting.drain(..).for_each(Waker::wake);
    }

    pub(crate) fn passes(&self, vmid: u32, address: IpAddr) -> bool {
        self.of(vmid).passes(address)
    }

    /// Wraps a connection to an address of a machine.
    pub(crate) fn connect(&self, socket: TcpStream, vmid: u32, address: IpAddr) -> NodeConnection {
        NodeConnection { socket, machine: self.of(vmid), address }
    }
}

impl MachineConnectivity {
    fn passes(&self, address: IpAddr) -> bool {
        if !self.is_cut.load(Ordering::Acquire) {
            return true;
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        !state.blocked.blocks(address)
    }

    /// Whether traffic passes. If not, the task is woken when the blocked traffic changes.
    fn passes_or_wakes(&self, address: IpAddr, context: &Context<'_>) -> bool {
        if !self.is_cut.load(Ordering::Acquire) {
            return true;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let passes = !state.blocked.blocks(address);
        if !passes && !state.waiting.iter().any(|known| known.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        passes
    }
}

/// Connection to a node. It holds bytes back while they cannot reach the node.
#[derive(Debug)]
pub(crate) struct NodeConnection {
    socket: TcpStream,
    machine: Arc<MachineConnectivity>,
    /// Destination address of the connection.
    address: IpAddr,
}

impl NodeConnection {
    fn passes(&self, context: &Context<'_>) -> bool {
        self.machine.passes_or_wakes(self.address, context)
    }
}

impl AsyncRead for NodeConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.passes(context) {
            return Poll::Pending;
        }
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for NodeConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.passes(context) {
            return Poll::Pending;
        }
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.passes(context) {
            return Poll::Pending;
        }
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

impl Simulation {
    /// Reads from Proxmox whether a running VM is paused, and how its network cards are connected.
    pub(super) fn update_connectivity(&self, vmid: u32) {
        let Some(RunningState { is_paused, cards }) = self.hypervisor.running_state(vmid) else {
            return;
        };
        let boot = self.change(|talos| {
            let node = talos.nodes.get_mut(&vmid)?;
            node.is_paused = is_paused;
            node.hardware.replace_cards(cards);
            node.revision += 1;
            Some(node.boot)
        });
        if let Some(boot) = boot {
            self.refresh_network(vmid, boot);
        }
    }

    /// Waits for `time` in the time of the machine. No time passes while the machine is paused.
    pub(super) async fn sleep_in_guest(&self, vmid: u32, time: Duration) {
        let is_paused =
            |talos: &TalosState| talos.nodes.get(&vmid).is_some_and(|node| node.is_paused);
        let (clock, mut left) = (self.clock(), time);
        loop {
            self.until(|talos| (!is_paused(talos)).then_some(())).await;
            let resumed = clock.moment();
            tokio::select! {
                biased;
                () = self.until(|talos| is_paused(talos).then_some(())) => {}
                () = clock.sleep(left) => return,
            }
            left = left.saturating_sub(clock.moment().since(resumed));
        }
    }

    /// Waits until an item that the machine created at the time `made`, such as a certificate, has expired during a pause.
    /// `lasts` is the lifetime of the item. Completes after the machine is resumed and has corrected its clock.
    pub(super) async fn until_expired_in_pause(&self, vmid: u32, made: Duration, lasts: Duration) {
        let is_paused =
            |talos: &TalosState| talos.nodes.get(&vmid).is_some_and(|node| node.is_paused);
        loop {
            self.until(|talos| is_paused(talos).then_some(())).await;
            self.until(|talos| (!is_paused(talos)).then_some(())).await;
            self.environment.wait(Work::TimeSync, &format!("node/{vmid}")).await;
            if self.now().saturating_sub(made) >= lasts {
                return;
            }
        }
    }

    /// Applies the blocked traffic of a node to the connections of its machine.
    pub(super) fn apply_blocked_traffic(&self, vmid: u32) {
        let blocked =
            self.look(|talos| talos.nodes.get(&vmid).map(Node::blocked)).unwrap_or_default();
        self.loopback_network.connectivity.set(vmid, blocked);
    }
}

impl Hardware {
    /// Replaces the network cards. A card that remains keeps its name. A new card gets the next free name.
    fn replace_cards(&mut self, cards: Vec<Card>) {
        let before = std::mem::take(&mut self.cards);
        for card in cards {
            let known = before.iter().find(|known| known.mac == card.mac);
            let card = if let Some(known) = known {
                let is_same = known.bridge == card.bridge && known.vlan == card.vlan;
                let (is_connected, is_elsewhere) = (card.is_connected, !is_same);
                Card { is_connected, is_elsewhere, ..known.clone() }
            } else {
                let is_taken = |name: &String| {
                    before.iter().chain(&self.cards).any(|other| other.name == *name)
                };
                let mut names = (0..).map(|number: u32| format!("eth{number}"));
                let name = names.find(|name| !is_taken(name)).unwrap_or_default();
                Card { name, ..card }
            };
            self.cards.push(card);
        }
    }
}

impl Network {
    /// Whether at least one link of this machine can send.
    fn can_send(&self) -> bool {
        self.links.iter().any(|link| link.passes() && !link.addresses.is_empty())
    }
}

impl Node {
    fn blocked(&self) -> BlockedTraffic {
        if self.is_paused {
            return BlockedTraffic::All;
        }
        let out = self.network.links.iter().filter(|link| !link.passes());
        let prefixes: Vec<_> =
            out.flat_map(|link| link.addresses.iter().map(|(prefix, _)| *prefix)).collect();
        if prefixes.is_empty() {
            return BlockedTraffic::Nothing;
        }
        // A virtual IP is on the card whose network contains the virtual IP.
        let is_out = |address: &IpAddr| prefixes.iter().any(|prefix| prefix.contains(*address));
        let virtual_ips = self.network.virtual_ips.iter().copied().filter(is_out);
        BlockedTraffic::Some(
            prefixes.iter().map(|prefix| prefix.address()).chain(virtual_ips).collect(),
        )
    }
}

impl TalosState {
    /// Whether the machine can send packets. True for a machine that does not run.
    pub(super) fn is_online(&self, vmid: u32) -> bool {
        self.nodes.get(&vmid).is_none_or(|node| !node.is_paused && node.network.can_send())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::test_bench::Bench;

    fn card(name: &str, mac: &str, bridge: &str) -> Card {
        Card {
            name: name.to_owned(),
            mac: mac.to_owned(),
            bridge: bridge.to_owned(),
            is_connected: true,
            ..Card::default()
        }
    }

    #[tokio::test]
    async fn bytes_wait_until_the_card_is_connected_again() {
        let (connectivity, address) = (Connectivity::default(), IpAddr::from([10, 0, 0, 11]));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        let mut line = connectivity.connect(socket, 11, address);
        client.write_all(b"a").await.unwrap();
        assert_eq!(line.read_u8().await.unwrap(), b'a');
        connectivity.set(11, BlockedTraffic::Some([address].into()));
        assert!(!connectivity.passes(11, address));
        assert!(connectivity.passes(11, IpAddr::from([10, 0, 0, 12])));
        client.write_all(b"b").await.unwrap();
        {
            // No byte may arrive, even if the read is polled several times.
            let mut reading = std::pin::pin!(line.read_u8());
            for _ in 0..3 {
                tokio::select! {
                    biased;
                    _ = reading.as_mut() => panic!("it passed"),
                    () = tokio::task::yield_now() => {}
                }
            }
            connectivity.set(11, BlockedTraffic::Nothing);
            assert_eq!(reading.await.unwrap(), b'b');
        }
        line.write_all(b"c").await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), b'c');
    }

    #[tokio::test]
    async fn no_time_passes_for_a_paused_machine() {
        let bench = Bench::new();
        let (boot, clock) = (bench.start_worker(11), bench.simulation.clock());
        let pause =
            |is_paused| bench.simulation.change_node(11, boot, |node| node.is_paused = is_paused);
        pause(true);
        let mut sleeping =
            std::pin::pin!(bench.simulation.sleep_in_guest(11, Duration::from_secs(1)));
        tokio::select! {
            () = sleeping.as_mut() => panic!("the paused machine slept"),
            () = clock.sleep(Duration::from_mins(1)) => {}
        }
        pause(false);
        sleeping.await;
    }

    #[tokio::test]
    async fn a_lifetime_that_ends_during_a_pause_has_expired_after_it() {
        let bench = Bench::new();
        let (boot, hour) = (bench.start_worker(11), Duration::from_hours(1));
        let pause =
            |is_paused| bench.simulation.change_node(11, boot, |node| node.is_paused = is_paused);
        let now = bench.simulation.now();
        let before = now.checked_sub(12 * hour).unwrap();
        let mut young = std::pin::pin!(bench.simulation.until_expired_in_pause(11, now, 12 * hour));
        let mut old =
            std::pin::pin!(bench.simulation.until_expired_in_pause(11, before, 12 * hour));
        for is_paused in [false, true] {
            pause(is_paused);
            // Neither future may complete, even if it is polled several times.
            for _ in 0..20 {
                tokio::select! {
                    biased;
                    () = old.as_mut() => panic!("completed while the machine was paused"),
                    () = young.as_mut() => panic!("the certificate has not expired"),
                    () = tokio::task::yield_now() => {}
                }
            }
        }
        pause(false);
        tokio::select! {
            () = old => {}
            () = young => panic!("the certificate has not expired"),
        }
    }

    #[test]
    fn cards_keep_their_names_when_others_are_added_or_removed() {
        let mut machine = Hardware {
            cards: vec![card("eth0", "a", "vmbr0"), card("eth1", "b", "vmbr0")],
            ..Hardware::default()
        };
        machine.replace_cards(vec![card("eth0", "b", "vmbr1"), card("eth1", "c", "vmbr0")]);
        let seen: Vec<(&str, &str, bool)> = machine
            .cards
            .iter()
            .map(|card| (card.name.as_str(), card.mac.as_str(), card.is_elsewhere))
            .collect();
        assert_eq!(seen, [("eth1", "b", true), ("eth2", "c", false)]);
        machine.replace_cards(vec![card("eth0", "b", "vmbr0")]);
        assert!(!machine.cards[0].is_elsewhere);
    }
}
