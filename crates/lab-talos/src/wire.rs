//! The network between nodes and their clients, on loopback.
//!
//! Every network of 256 addresses that nodes are in has a 127.A.B.0/24 of its own: the node at
//! 10.0.0.11 is reached at 127.A.B.11. Where a system has no loopback addresses but 127.0.0.1,
//! every address has ports there instead.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use talmox_clock::{Chance, Clock};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};

use super::connectivity::{Connectivity, NodeConnection};

/// The ports that nodes answer on: the Talos API and Kubernetes.
pub(crate) const PORTS: [u16; 2] = [50000, 6443];
/// Whoever listens here has the /24 for itself.
const RESERVED: u16 = 49_151;
/// How many networks are tried before giving up.
const ATTEMPTS: u64 = 512;
/// Ids from here on are no VM's: whoever has one answers before all others.
pub(crate) const FIRST_STRANGER: u32 = 0xf000_0000;
/// Connections that wait for a node to take them.
const WAITING: usize = 64;
/// Between two attempts to listen, in real time.
const AGAIN: Duration = Duration::from_millis(100);

pub(crate) struct Wire {
    chance: Chance,
    /// There is 127.0.0.1 and nothing else.
    has_one_loopback: bool,
    places: Mutex<BTreeMap<[u8; 3], Place>>,
    desks: Mutex<HashMap<(IpAddr, u16), Desk>>,
    /// Between the addresses and those who answer on them.
    pub(crate) connectivity: Connectivity,
}

/// Where the addresses of one network are.
enum Place {
    /// The first three numbers of a loopback network, and what keeps it ours.
    Network(
        [u8; 3],
        #[expect(dead_code, reason = "held, so that nobody else takes it")] std::net::TcpListener,
    ),
    /// Ports of 127.0.0.1, by address and port; the listeners wait for who takes them.
    Ports(BTreeMap<(u8, u16), std::net::TcpListener>),
}

/// One address and port that somebody answers on.
struct Desk {
    claims: Vec<Claim>,
    /// Told when nobody claims it any more.
    deserted: Arc<Notify>,
}

struct Claim {
    number: u64,
    vmid: u32,
    connections: mpsc::Sender<NodeConnection>,
}

/// Connections to an address, as long as it is held.
pub(crate) struct Incoming {
    wire: Arc<Wire>,
    at: (IpAddr, u16),
    number: u64,
    connections: mpsc::Receiver<NodeConnection>,
}

impl Desk {
    /// Those that connections come to: strangers, and if there are none, all who claim the address and
    /// that bytes reach. Where there are none either, clients wait.
    fn winners(&self, connectivity: &Connectivity, address: IpAddr) -> Vec<&Claim> {
        let strangers = self.claims.iter().filter(|claim| claim.vmid >= FIRST_STRANGER);
        let strangers: Vec<&Claim> = strangers.collect();
        let heard = self.claims.iter().filter(|claim| connectivity.passes(claim.vmid, address));
        let heard: Vec<&Claim> = heard.collect();
        match (strangers.is_empty(), heard.is_empty()) {
            (false, _) => strangers,
            (true, false) => heard,
            (true, true) => self.claims.iter().collect(),
        }
    }
}

impl Wire {
    pub(crate) fn new(chance: Chance, has_one_loopback: bool) -> Arc<Self> {
        let (places, desks) = (Mutex::default(), Mutex::default());
        Arc::new(Self {
            chance,
            has_one_loopback,
            places,
            desks,
            connectivity: Connectivity::default(),
        })
    }

    /// Makes a network of 256 addresses reachable.
    pub(crate) fn add(&self, network: [u8; 3]) -> io::Result<()> {
        let mut places = locked(&self.places);
        if places.contains_key(&network) {
            return Ok(());
        }
        let place = self.reserve(network)?;
        places.insert(network, place);
        Ok(())
    }

    fn reserve(&self, network: [u8; 3]) -> io::Result<Place> {
        if self.has_one_loopback {
            return ports_for_all();
        }
        let mut taken = io::Error::from(io::ErrorKind::AddrInUse);
        for attempt in 0..ATTEMPTS {
            let mut chance = self.chance.of(&format!("wire/{network:?}"), attempt);
            let number = |end| u8::try_from(end).unwrap_or(u8::MAX);
            let loopback = [127, number(1 + chance.below(254)), number(1 + chance.below(254))];
            let [a, b, c] = loopback;
            match std::net::TcpListener::bind((Ipv4Addr::new(a, b, c, 255), RESERVED)) {
                Ok(lock) => return Ok(Place::Network(loopback, lock)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => taken = error,
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                    return ports_for_all();
                }
                Err(error) => return Err(error),
            }
        }
        Err(taken)
    }

    /// Makes the network that an address is in reachable.
    pub(crate) fn prepare(&self, address: IpAddr) -> io::Result<()> {
        let (network, _) = parts(address).ok_or(io::ErrorKind::Unsupported)?;
        self.add(network)
    }

    /// Where clients find each address: itself, or itself and a port.
    pub(crate) fn reach(&self) -> BTreeMap<String, String> {
        let mut reach = BTreeMap::new();
        for ([a, b, c], place) in locked(&self.places).iter() {
            match place {
                Place::Network([x, y, z], _) => reach
                    .extend((1..255_u8).map(|last| {
                        (format!("{a}.{b}.{c}.{last}"), format!("{x}.{y}.{z}.{last}"))
                    })),
                Place::Ports(ports) => {
                    reach.extend(ports.iter().filter_map(|((last, port), at)| {
                        let at = at.local_addr().ok()?;
                        Some((format!("{a}.{b}.{c}.{last}:{port}"), at.to_string()))
                    }));
                }
            }
        }
        reach
    }

    /// The loopback address that stands for an address, to be named in certificates.
    pub(crate) fn loopback(&self, address: IpAddr) -> Option<IpAddr> {
        let (network, last) = parts(address)?;
        match locked(&self.places).get(&network)? {
            Place::Network([a, b, c], _) => Some(Ipv4Addr::new(*a, *b, *c, last).into()),
            Place::Ports(_) => Some(Ipv4Addr::LOCALHOST.into()),
        }
    }

    /// Answers on an address from now on. Where two nodes have the same one, each connection
    /// reaches one of them, and nobody knows which.
    pub(crate) fn answer(
        self: &Arc<Self>,
        address: IpAddr,
        port: u16,
        vmid: u32,
    ) -> io::Result<Incoming> {
        self.prepare(address)?;
        let at = (address, port);
        let (sender, connections) = mpsc::channel(WAITING);
        let mut desks = locked(&self.desks);
        let desk = match desks.entry(at) {
            Entry::Occupied(desk) => desk.into_mut(),
            Entry::Vacant(place) => {
                let listener = self.listen(address, port)?;
                let deserted = Arc::new(Notify::new());
                tokio::spawn(accept(Arc::clone(self), at, listener, Arc::clone(&deserted)));
                place.insert(Desk { claims: vec![], deserted })
            }
        };
        let number = desk.claims.iter().map(|claim| claim.number + 1).max().unwrap_or_default();
        desk.claims.push(Claim { number, vmid, connections: sender });
        Ok(Incoming { wire: Arc::clone(self), at, number, connections })
    }

    /// The same, as soon as this system lets it: what somebody else listens on, or that there are no more sockets,
    /// passes. None where nothing on loopback can stand for the address.
    pub(crate) async fn answer_soon(
        self: &Arc<Self>,
        address: IpAddr,
        port: u16,
        vmid: u32,
    ) -> Option<Incoming> {
        loop {
            match self.answer(address, port, vmid) {
                Ok(incoming) => return Some(incoming),
                Err(error) if is_for_good(&error) => return None,
                Err(_) => Clock::real().sleep(AGAIN).await,
            }
        }
    }

    fn listen(&self, address: IpAddr, port: u16) -> io::Result<TcpListener> {
        let (network, last) = parts(address).ok_or(io::ErrorKind::Unsupported)?;
        let places = locked(&self.places);
        let listener = match places.get(&network) {
            Some(Place::Network([a, b, c], _)) => {
                let address = SocketAddr::from((Ipv4Addr::new(*a, *b, *c, last), port));
                let socket = tokio::net::TcpSocket::new_v4()?;
                socket.set_reuseaddr(true)?;
                socket.bind(address)?;
                return socket.listen(1024);
            }
            Some(Place::Ports(ports)) => {
                ports.get(&(last, port)).ok_or(io::ErrorKind::NotFound)?.try_clone()?
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    }

    /// Who answers on an address and port now.
    pub(crate) fn answering(&self, address: IpAddr, port: u16) -> Vec<u32> {
        let desks = locked(&self.desks);
        let desk = desks.get(&(address, port));
        let claims = desk.map(|desk| desk.winners(&self.connectivity, address)).unwrap_or_default();
        claims.iter().map(|claim| claim.vmid).collect()
    }
}

/// Hands each connection to one of those who claim the address, until there is none.
///
/// The port is closed here and nowhere else: who comes back to an address at once, such as a node that has
/// just got its config, finds the desk as it was, and never a port that is about to be closed.
async fn accept(wire: Arc<Wire>, at: (IpAddr, u16), listener: TcpListener, deserted: Arc<Notify>) {
    let mut count = 0;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = deserted.notified() => {
                let mut desks = locked(&wire.desks);
                if desks.get(&at).is_none_or(|desk| desk.claims.is_empty()) {
                    desks.remove(&at);
                    drop(listener);
                    return;
                }
                continue;
            }
        };
        let Ok((socket, _)) = accepted else {
            tokio::task::yield_now().await;
            continue;
        };
        let desks = locked(&wire.desks);
        let desk = desks.get(&at);
        let claims = desk.map(|desk| desk.winners(&wire.connectivity, at.0)).unwrap_or_default();
        let mut chance = wire.chance.of(&format!("arp/{}:{}", at.0, at.1), count);
        let index = chance.below(claims.len() as u64);
        count += 1;
        if let Some(claim) = usize::try_from(index).ok().and_then(|index| claims.get(index)) {
            socket.set_nodelay(true).ok();
            // A node that takes no more connections resets them.
            drop(claim.connections.try_send(wire.connectivity.connect(socket, claim.vmid, at.0)));
        }
    }
}

/// Whether there is no such place on loopback, and never will be.
fn is_for_good(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::NotFound)
}

/// Every address of the network gets its ports on 127.0.0.1.
fn ports_for_all() -> io::Result<Place> {
    let mut ports = BTreeMap::new();
    for last in 1..255_u8 {
        for port in PORTS {
            ports.insert((last, port), std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
        }
    }
    Ok(Place::Ports(ports))
}

/// The network of 256 addresses that an address is in, and its number there.
fn parts(address: IpAddr) -> Option<([u8; 3], u8)> {
    let IpAddr::V4(address) = address else { return None };
    let [a, b, c, last] = address.octets();
    Some(([a, b, c], last))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Incoming {
    /// The next connection; none once the wire is gone.
    pub(crate) async fn next(&mut self) -> Option<NodeConnection> {
        self.connections.recv().await
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let mut desks = locked(&self.wire.desks);
        let Some(desk) = desks.get_mut(&self.at) else { return };
        desk.claims.retain(|claim| claim.number != self.number);
        if desk.claims.is_empty() {
            desk.deserted.notify_one();
        }
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming").field("at", &self.at).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_somebody_else_has_is_answered_on_once_it_is_free() {
        let wire = Wire::new(Chance::new(7), false);
        let address = IpAddr::from([10, 0, 0, 11]);
        wire.prepare(address).unwrap();
        let Some(loopback) = wire.loopback(address).filter(|own| *own != Ipv4Addr::LOCALHOST)
        else {
            // A system with one loopback address has ports that nobody else can take.
            return;
        };
        let other = std::net::TcpListener::bind((loopback, 50000)).unwrap();
        assert!(wire.answer(address, 50000, 111).is_err());
        let waiting = tokio::spawn({
            let wire = Arc::clone(&wire);
            async move { wire.answer_soon(address, 50000, 111).await }
        });
        drop(other);
        let incoming = waiting.await.unwrap();
        assert!(incoming.is_some() && wire.answering(address, 50000) == [111]);
        let nowhere = IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 11]);
        assert!(wire.answer_soon(nowhere, 50000, 111).await.is_none());
    }
}
