//! Loopback network between the nodes and their clients.
//!
//! Every network of 256 addresses that contains nodes is mapped to a network 127.A.B.0/24. So the node 10.0.0.11 is reached at
//! 127.A.B.11. On a system where 127.0.0.1 is the only loopback address, every node address is mapped to ports of 127.0.0.1
//! instead.

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

/// Ports on which nodes serve: the Talos API and the Kubernetes API.
pub(crate) const PORTS: [u16; 2] = [50000, 6443];
/// Port on which a listener reserves a loopback /24 for this process.
const RESERVATION_PORT: u16 = 49_151;
/// Maximum number of loopback networks that are tried.
const ATTEMPTS: u64 = 512;
/// First vmid of impostors, which is greater than every vmid of a VM. Impostors take precedence over nodes.
pub(crate) const FIRST_IMPOSTOR: u32 = 0xf000_0000;
/// Maximum number of connections that wait until a node accepts them.
const MAX_WAITING: usize = 64;
/// Time between two attempts to listen, in real time.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct LoopbackNetwork {
    chance: Chance,
    /// Whether 127.0.0.1 is the only loopback address.
    has_one_loopback: bool,
    mappings: Mutex<BTreeMap<[u8; 3], NetworkMapping>>,
    shared_ports: Mutex<HashMap<(IpAddr, u16), SharedPort>>,
    /// Connectivity of the machines that serve on these addresses.
    pub(crate) connectivity: Connectivity,
}

/// Mapping of the addresses of one network to loopback addresses or ports.
enum NetworkMapping {
    /// First three octets of a loopback network, and the listener that reserves the network.
    Network(
        [u8; 3],
        #[expect(dead_code, reason = "held to reserve the network")] std::net::TcpListener,
    ),
    /// Listeners on ports of 127.0.0.1, by the last octet of the node address and the port of the node.
    Ports(BTreeMap<(u8, u16), std::net::TcpListener>),
}

/// Port of a node address, with the machines that serve on it.
struct SharedPort {
    claims: Vec<Claim>,
    /// Notified when no machine serves on this port any more.
    unused: Arc<Notify>,
}

struct Claim {
    number: u64,
    vmid: u32,
    connections: mpsc::Sender<NodeConnection>,
}

/// Accepted connections to an address. Dropping this value stops serving on the address.
pub(crate) struct Incoming {
    loopback_network: Arc<LoopbackNetwork>,
    at: (IpAddr, u16),
    number: u64,
    connections: mpsc::Receiver<NodeConnection>,
}

impl SharedPort {
    /// Machines that can receive a connection: all impostors, if there are any. Otherwise all reachable machines with the
    /// address. If no machine is reachable, all machines with the address, so that clients wait.
    fn receivers(&self, connectivity: &Connectivity, address: IpAddr) -> Vec<&Claim> {
        let impostors = self.claims.iter().filter(|claim| claim.vmid >= FIRST_IMPOSTOR);
        let impostors: Vec<&Claim> = impostors.collect();
        let reachable = self.claims.iter().filter(|claim| connectivity.passes(claim.vmid, address));
        let reachable: Vec<&Claim> = reachable.collect();
        match (impostors.is_empty(), reachable.is_empty()) {
            (false, _) => impostors,
            (true, false) => reachable,
            (true, true) => self.claims.iter().collect(),
        }
    }
}

impl LoopbackNetwork {
    pub(crate) fn new(chance: Chance, has_one_loopback: bool) -> Arc<Self> {
        let (mappings, shared_ports) = (Mutex::default(), Mutex::default());
        Arc::new(Self {
            chance,
            has_one_loopback,
            mappings,
            shared_ports,
            connectivity: Connectivity::default(),
        })
    }

    /// Makes a network of 256 addresses reachable for clients.
    pub(crate) fn add(&self, network: [u8; 3]) -> io::Result<()> {
        let mut mappings = locked(&self.mappings);
        if mappings.contains_key(&network) {
            return Ok(());
        }
        let place = self.reserve(network)?;
        mappings.insert(network, place);
        Ok(())
    }

    fn reserve(&self, network: [u8; 3]) -> io::Result<NetworkMapping> {
        if self.has_one_loopback {
            return ports_for_all();
        }
        let mut taken = io::Error::from(io::ErrorKind::AddrInUse);
        for attempt in 0..ATTEMPTS {
            let mut chance = self.chance.of(&format!("wire/{network:?}"), attempt);
            let number = |end| u8::try_from(end).unwrap_or(u8::MAX);
            let loopback = [127, number(1 + chance.below(254)), number(1 + chance.below(254))];
            let [a, b, c] = loopback;
            match std::net::TcpListener::bind((Ipv4Addr::new(a, b, c, 255), RESERVATION_PORT)) {
                Ok(lock) => return Ok(NetworkMapping::Network(loopback, lock)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => taken = error,
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                    return ports_for_all();
                }
                Err(error) => return Err(error),
            }
        }
        Err(taken)
    }

    /// Makes the network of an address reachable for clients.
    pub(crate) fn prepare(&self, address: IpAddr) -> io::Result<()> {
        let (network, _) = parts(address).ok_or(io::ErrorKind::Unsupported)?;
        self.add(network)
    }

    /// Loopback address, or loopback address with port, of each node address.
    pub(crate) fn reach(&self) -> BTreeMap<String, String> {
        let mut reach = BTreeMap::new();
        for ([a, b, c], place) in locked(&self.mappings).iter() {
            match place {
                NetworkMapping::Network([x, y, z], _) => reach
                    .extend((1..255_u8).map(|last| {
                        (format!("{a}.{b}.{c}.{last}"), format!("{x}.{y}.{z}.{last}"))
                    })),
                NetworkMapping::Ports(ports) => {
                    reach.extend(ports.iter().filter_map(|((last, port), at)| {
                        let at = at.local_addr().ok()?;
                        Some((format!("{a}.{b}.{c}.{last}:{port}"), at.to_string()))
                    }));
                }
            }
        }
        reach
    }

    /// Loopback address for a node address. Certificates contain it.
    pub(crate) fn loopback_address(&self, address: IpAddr) -> Option<IpAddr> {
        let (network, last) = parts(address)?;
        match locked(&self.mappings).get(&network)? {
            NetworkMapping::Network([a, b, c], _) => Some(Ipv4Addr::new(*a, *b, *c, last).into()),
            NetworkMapping::Ports(_) => Some(Ipv4Addr::LOCALHOST.into()),
        }
    }

    /// Serves on an address. If several machines have the same address, each connection reaches a random one of them.
    pub(crate) fn serve(
        self: &Arc<Self>,
        address: IpAddr,
        port: u16,
        vmid: u32,
    ) -> io::Result<Incoming> {
        self.prepare(address)?;
        let at = (address, port);
        let (sender, connections) = mpsc::channel(MAX_WAITING);
        let mut shared_ports = locked(&self.shared_ports);
        let shared_port = match shared_ports.entry(at) {
            Entry::Occupied(shared_port) => shared_port.into_mut(),
            Entry::Vacant(place) => {
                let listener = self.listen(address, port)?;
                let unused = Arc::new(Notify::new());
                tokio::spawn(accept(Arc::clone(self), at, listener, Arc::clone(&unused)));
                place.insert(SharedPort { claims: vec![], unused })
            }
        };
        let number =
            shared_port.claims.iter().map(|claim| claim.number + 1).max().unwrap_or_default();
        shared_port.claims.push(Claim { number, vmid, connections: sender });
        Ok(Incoming { loopback_network: Arc::clone(self), at, number, connections })
    }

    /// Serves on an address. Retries while the port is in use or no socket is available. Returns `None` if the address has no
    /// loopback address.
    pub(crate) async fn serve_with_retries(
        self: &Arc<Self>,
        address: IpAddr,
        port: u16,
        vmid: u32,
    ) -> Option<Incoming> {
        loop {
            match self.serve(address, port, vmid) {
                Ok(incoming) => return Some(incoming),
                Err(error) if is_permanent(&error) => return None,
                Err(_) => Clock::real().sleep(RETRY_INTERVAL).await,
            }
        }
    }

    fn listen(&self, address: IpAddr, port: u16) -> io::Result<TcpListener> {
        let (network, last) = parts(address).ok_or(io::ErrorKind::Unsupported)?;
        let mappings = locked(&self.mappings);
        let listener = match mappings.get(&network) {
            Some(NetworkMapping::Network([a, b, c], _)) => {
                let address = SocketAddr::from((Ipv4Addr::new(*a, *b, *c, last), port));
                let socket = tokio::net::TcpSocket::new_v4()?;
                socket.set_reuseaddr(true)?;
                socket.bind(address)?;
                return socket.listen(1024);
            }
            Some(NetworkMapping::Ports(ports)) => {
                ports.get(&(last, port)).ok_or(io::ErrorKind::NotFound)?.try_clone()?
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    }

    /// vmids of the machines that serve on an address and port.
    pub(crate) fn answering(&self, address: IpAddr, port: u16) -> Vec<u32> {
        let shared_ports = locked(&self.shared_ports);
        let shared_port = shared_ports.get(&(address, port));
        let claims = shared_port
            .map(|shared_port| shared_port.receivers(&self.connectivity, address))
            .unwrap_or_default();
        claims.iter().map(|claim| claim.vmid).collect()
    }
}

/// Distributes connections among the machines with the address, until no such machine is left.
///
/// Only this function closes the port. A machine that stops serving and soon serves again reuses the open listener. An example
/// is a node that just got its config. So no machine gets a port that is about to close.
async fn accept(
    loopback_network: Arc<LoopbackNetwork>,
    at: (IpAddr, u16),
    listener: TcpListener,
    unused: Arc<Notify>,
) {
    let mut count = 0;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = unused.notified() => {
                let mut shared_ports = locked(&loopback_network.shared_ports);
                if shared_ports.get(&at).is_none_or(|shared_port| shared_port.claims.is_empty()) {
                    shared_ports.remove(&at);
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
        let shared_ports = locked(&loopback_network.shared_ports);
        let shared_port = shared_ports.get(&at);
        let claims = shared_port
            .map(|shared_port| shared_port.receivers(&loopback_network.connectivity, at.0))
            .unwrap_or_default();
        let mut chance = loopback_network.chance.of(&format!("arp/{}:{}", at.0, at.1), count);
        let index = chance.below(claims.len() as u64);
        count += 1;
        if let Some(claim) = usize::try_from(index).ok().and_then(|index| claims.get(index)) {
            socket.set_nodelay(true).ok();
            // If the node accepts no more connections, the connection is reset.
            drop(
                claim
                    .connections
                    .try_send(loopback_network.connectivity.connect(socket, claim.vmid, at.0)),
            );
        }
    }
}

/// Whether retries cannot help, because the address has no loopback address.
fn is_permanent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::NotFound)
}

/// Ports of 127.0.0.1 for every address of a network.
fn ports_for_all() -> io::Result<NetworkMapping> {
    let mut ports = BTreeMap::new();
    for last in 1..255_u8 {
        for port in PORTS {
            ports.insert((last, port), std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
        }
    }
    Ok(NetworkMapping::Ports(ports))
}

/// Network of 256 addresses that contains an address, and the last octet of the address.
fn parts(address: IpAddr) -> Option<([u8; 3], u8)> {
    let IpAddr::V4(address) = address else { return None };
    let [a, b, c, last] = address.octets();
    Some(([a, b, c], last))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Incoming {
    /// Next connection; `None` after the network has stopped.
    pub(crate) async fn next(&mut self) -> Option<NodeConnection> {
        self.connections.recv().await
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let mut shared_ports = locked(&self.loopback_network.shared_ports);
        let Some(shared_port) = shared_ports.get_mut(&self.at) else { return };
        shared_port.claims.retain(|claim| claim.number != self.number);
        if shared_port.claims.is_empty() {
            shared_port.unused.notify_one();
        }
    }
}

impl std::fmt::Debug for LoopbackNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoopbackNetwork").finish_non_exhaustive()
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
    async fn a_port_in_use_is_served_once_it_is_free() {
        let loopback_network = LoopbackNetwork::new(Chance::new(7), false);
        let address = IpAddr::from([10, 0, 0, 11]);
        loopback_network.prepare(address).unwrap();
        let Some(loopback) =
            loopback_network.loopback_address(address).filter(|own| *own != Ipv4Addr::LOCALHOST)
        else {
            // On a system with one loopback address, another program cannot use these ports, so there is nothing to test.
            return;
        };
        let other = std::net::TcpListener::bind((loopback, 50000)).unwrap();
        assert!(loopback_network.serve(address, 50000, 111).is_err());
        let waiting = tokio::spawn({
            let loopback_network = Arc::clone(&loopback_network);
            async move { loopback_network.serve_with_retries(address, 50000, 111).await }
        });
        drop(other);
        let incoming = waiting.await.unwrap();
        assert!(incoming.is_some() && loopback_network.answering(address, 50000) == [111]);
        let nowhere = IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 11]);
        assert!(loopback_network.serve_with_retries(nowhere, 50000, 111).await.is_none());
    }
}
