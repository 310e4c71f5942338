//! Connectivity of machines: whether bytes reach them.
//!
//! Bytes for a machine that is paused, or whose network card is disconnected, wait; they arrive when the
//! machine is resumed, or the card is connected again.

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

/// What does not pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cut {
    #[default]
    Nothing,
    /// What is meant for these addresses.
    Some(BTreeSet<IpAddr>),
    /// The machine stands still.
    All,
}

impl Cut {
    fn stops(&self, address: IpAddr) -> bool {
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
    /// Most are whole, most of the time: then nobody has to wait for the lock.
    is_cut: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cut: Cut,
    waiting: Vec<Waker>,
}

impl Connectivity {
    fn of(&self, vmid: u32) -> Arc<MachineConnectivity> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(vmid).or_default())
    }

    /// This does not pass from now on, and everything else does.
    pub(crate) fn set(&self, vmid: u32, cut: Cut) {
        let machine = self.of(vmid);
        let mut state = machine.state.lock().unwrap_or_else(PoisonError::into_inner);
        machine.is_cut.store(cut != Cut::Nothing, Ordering::Release);
        state.cut = cut;
        state.waiting.drain(..).for_each(Waker::wake);
    }

    pub(crate) fn passes(&self, vmid: u32, address: IpAddr) -> bool {
        self.of(vmid).passes(address)
    }

    /// A connection to a machine's address.
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
        !state.cut.stops(address)
    }

    /// The same; who cannot pass is woken when that changes.
    fn passes_or_wakes(&self, address: IpAddr, context: &Context<'_>) -> bool {
        if !self.is_cut.load(Ordering::Acquire) {
            return true;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let passes = !state.cut.stops(address);
        if !passes && !state.waiting.iter().any(|known| known.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        passes
    }
}

/// A connection to a node whose bytes wait while they cannot reach it.
#[derive(Debug)]
pub(crate) struct NodeConnection {
    socket: TcpStream,
    machine: Arc<MachineConnectivity>,
    /// The address that was connected to.
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
    /// Looks at what Proxmox did to a VM that runs: whether it stands still, and where its cards are.
    pub(super) fn update_connectivity(&self, vmid: u32) {
        let Some(RunningState { is_paused, cards }) = self.hypervisor.running_state(vmid) else {
            return;
        };
        let boot = self.change(|talos| {
            let node = talos.nodes.get_mut(&vmid)?;
            node.is_paused = is_paused;
            node.hardware.replug(cards);
            node.revision += 1;
            Some(node.boot)
        });
        if let Some(boot) = boot {
            self.refresh_network(vmid, boot);
        }
    }

    /// Waits for as long as `time` is for the machine: none passes while it stands still.
    pub(super) async fn sleep_with(&self, vmid: u32, time: Duration) {
        let is_paused =
            |talos: &TalosState| talos.nodes.get(&vmid).is_some_and(|node| node.is_paused);
        let (clock, mut left) = (self.clock(), time);
        loop {
            self.until(|talos| (!is_paused(talos)).then_some(())).await;
            let went_on = clock.moment();
            tokio::select! {
                biased;
                () = self.until(|talos| is_paused(talos).then_some(())) => {}
                () = clock.sleep(left) => return,
            }
            left = left.saturating_sub(clock.moment().since(went_on));
        }
    }

    /// Waits until a machine that stood still goes on with something that was to last only so long, and has
    /// learnt how late it is.
    pub(super) async fn until_outlived(&self, vmid: u32, made: Duration, lasts: Duration) {
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

    /// Lets pass what the node's machine lets pass now.
    pub(super) fn rewire(&self, vmid: u32) {
        let cut = self.look(|talos| talos.nodes.get(&vmid).map(Node::cut)).unwrap_or_default();
        self.wire.connectivity.set(vmid, cut);
    }
}

impl Hardware {
    /// The cards as they are now. Those that stay keep their names, and new ones get further ones.
    fn replug(&mut self, cards: Vec<Card>) {
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
    /// Whether anybody else hears this machine.
    fn is_heard(&self) -> bool {
        self.links.iter().any(|link| link.passes() && !link.addresses.is_empty())
    }
}

impl Node {
    fn cut(&self) -> Cut {
        if self.is_paused {
            return Cut::All;
        }
        let out = self.network.links.iter().filter(|link| !link.passes());
        let prefixes: Vec<_> =
            out.flat_map(|link| link.addresses.iter().map(|(prefix, _)| *prefix)).collect();
        if prefixes.is_empty() {
            return Cut::Nothing;
        }
        // A shared address is on the card whose network it is in.
        let is_out = |address: &IpAddr| prefixes.iter().any(|prefix| prefix.contains(*address));
        let shared = self.network.shared.iter().copied().filter(is_out);
        Cut::Some(prefixes.iter().map(|prefix| prefix.address()).chain(shared).collect())
    }
}

impl TalosState {
    /// Whether what this machine sends arrives anywhere. Of one that does not run, nobody says no.
    pub(super) fn is_plugged(&self, vmid: u32) -> bool {
        self.nodes.get(&vmid).is_none_or(|node| !node.is_paused && node.network.is_heard())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::bench::Bench;

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
        connectivity.set(11, Cut::Some([address].into()));
        assert!(!connectivity.passes(11, address));
        assert!(connectivity.passes(11, IpAddr::from([10, 0, 0, 12])));
        client.write_all(b"b").await.unwrap();
        {
            // It is asked for and does not come, however often it is looked for.
            let mut reading = std::pin::pin!(line.read_u8());
            for _ in 0..3 {
                tokio::select! {
                    biased;
                    _ = reading.as_mut() => panic!("it passed"),
                    () = tokio::task::yield_now() => {}
                }
            }
            connectivity.set(11, Cut::Nothing);
            assert_eq!(reading.await.unwrap(), b'b');
        }
        line.write_all(b"c").await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), b'c');
    }

    #[tokio::test]
    async fn no_time_passes_for_a_machine_that_stands_still() {
        let bench = Bench::new();
        let (boot, clock) = (bench.start_worker(11), bench.simulation.clock());
        let pause =
            |is_paused| bench.simulation.change_node(11, boot, |node| node.is_paused = is_paused);
        pause(true);
        let mut sleeping = std::pin::pin!(bench.simulation.sleep_with(11, Duration::from_secs(1)));
        tokio::select! {
            () = sleeping.as_mut() => panic!("it went on"),
            () = clock.sleep(Duration::from_mins(1)) => {}
        }
        pause(false);
        sleeping.await;
    }

    #[tokio::test]
    async fn what_a_machine_slept_through_is_outlived_once_it_goes_on() {
        let bench = Bench::new();
        let (boot, hour) = (bench.start_worker(11), Duration::from_hours(1));
        let pause =
            |is_paused| bench.simulation.change_node(11, boot, |node| node.is_paused = is_paused);
        let now = bench.simulation.now();
        let before = now.checked_sub(12 * hour).unwrap();
        let mut young = std::pin::pin!(bench.simulation.until_outlived(11, now, 12 * hour));
        let mut old = std::pin::pin!(bench.simulation.until_outlived(11, before, 12 * hour));
        for is_paused in [false, true] {
            pause(is_paused);
            // However often it is looked for, it waits.
            for _ in 0..20 {
                tokio::select! {
                    biased;
                    () = old.as_mut() => panic!("it went on too early"),
                    () = young.as_mut() => panic!("it is not that old"),
                    () = tokio::task::yield_now() => {}
                }
            }
        }
        pause(false);
        tokio::select! {
            () = old => {}
            () = young => panic!("it is not that old"),
        }
    }

    #[test]
    fn cards_keep_their_names_while_others_come_and_go() {
        let mut machine = Hardware {
            cards: vec![card("eth0", "a", "vmbr0"), card("eth1", "b", "vmbr0")],
            ..Hardware::default()
        };
        machine.replug(vec![card("eth0", "b", "vmbr1"), card("eth1", "c", "vmbr0")]);
        let seen: Vec<(&str, &str, bool)> = machine
            .cards
            .iter()
            .map(|card| (card.name.as_str(), card.mac.as_str(), card.is_elsewhere))
            .collect();
        assert_eq!(seen, [("eth1", "b", true), ("eth2", "c", false)]);
        machine.replug(vec![card("eth0", "b", "vmbr0")]);
        assert!(!machine.cards[0].is_elsewhere);
    }
}
