//! Reach map: the address that talmox connects to, for the address or host name of a node or server.
//!
//! Clients of Talos, Kubernetes and web servers connect only through a reach map, so that one place decides which
//! addresses are reachable.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use talmox_values::Address;
use tokio::net::TcpStream;

use crate::connect::{ConnectError, connect};

/// Map from addresses and host names to the addresses that talmox connects to: through NAT, a jump host, or into a lab.
///
/// Each key and value is `host` or `host:port`. A value without a port keeps the port of the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Addresses without an entry are resolved and connected to directly.
    Open(BTreeMap<String, String>),
    /// Addresses without an entry are unreachable, except for loopback addresses. This is for labs: a real machine may
    /// have the same address as a node of the inventory, and must never be contacted.
    Closed(BTreeMap<String, String>),
}

impl Default for Reach {
    fn default() -> Self {
        Self::Open(BTreeMap::new())
    }
}

impl Reach {
    /// Map that does not change addresses without an entry.
    pub fn new<K: Into<String>, V: Into<String>>(map: impl IntoIterator<Item = (K, V)>) -> Self {
        Self::Open(texts(map))
    }

    /// Map with all reachable addresses. Loopback addresses are reachable without an entry.
    pub fn closed<K: Into<String>, V: Into<String>>(map: impl IntoIterator<Item = (K, V)>) -> Self {
        Self::Closed(texts(map))
    }

    /// Address that other programs, such as kubectl, must use for `address`. An address without an entry is not
    /// changed, even in a closed map.
    pub fn target(&self, address: &Address) -> Address {
        self.named(address).unwrap_or_else(|| address.clone())
    }

    /// Opens a TCP connection. `limit` applies to the resolution of the name, and to each of its addresses.
    pub async fn connect(
        &self,
        address: &Address,
        limit: Duration,
    ) -> Result<TcpStream, ConnectError> {
        connect(&self.route(address)?, limit).await
    }

    /// Whether the map has an entry for an address.
    pub fn has_entry(&self, address: &Address) -> bool {
        self.named(address).is_some()
    }

    /// Address to connect to for `address`. Only this function decides whether a connection may be opened.
    pub fn route(&self, address: &Address) -> Result<Address, ConnectError> {
        match (self.named(address), self) {
            (Some(target), _) => Ok(target),
            (None, Self::Open(_)) => Ok(address.clone()),
            (None, Self::Closed(_)) => match loopback(&address.host) {
                Some(ip) => Ok(Address { host: ip.to_string(), port: address.port }),
                None => Err(ConnectError::NoRoute { address: address.clone() }),
            },
        }
    }

    /// Entry of an address. An entry with a port takes precedence over an entry without one.
    fn named(&self, address: &Address) -> Option<Address> {
        let (Self::Open(map) | Self::Closed(map)) = self;
        let target = map.get(&address.to_string()).or_else(|| map.get(&address.host))?;
        Some(Address::parse(target, address.port))
    }
}

fn texts<K: Into<String>, V: Into<String>>(
    map: impl IntoIterator<Item = (K, V)>,
) -> BTreeMap<String, String> {
    map.into_iter().map(|(from, to)| (from.into(), to.into())).collect()
}

/// Loopback address of a host. `localhost` is recognized without a DNS query.
fn loopback(host: &str) -> Option<IpAddr> {
    if host.eq_ignore_ascii_case("localhost") {
        return Some(IpAddr::from([127, 0, 0, 1]));
    }
    host.parse().ok().filter(IpAddr::is_loopback)
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::net::TcpListener;

    use super::*;

    const PORT: u16 = 50000;
    const LIMIT: Duration = Duration::from_secs(5);

    fn map() -> [(&'static str, &'static str); 5] {
        [
            ("10.0.0.11", "127.3.4.11"),
            ("10.0.0.12:50000", "127.0.0.1:41000"),
            ("10.0.0.12", "jump.example"),
            ("fd00::1", "[::1]:4000"),
            ("fd00::2", "::1"),
        ]
    }

    fn at(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[test]
    fn addresses_are_mapped_to_their_targets() {
        for reach in [Reach::new(map()), Reach::closed(map())] {
            let target = |host: &str, port| reach.target(&at(host, port)).to_string();
            assert_eq!(target("10.0.0.11", PORT), "127.3.4.11:50000");
            assert_eq!(target("10.0.0.12", PORT), "127.0.0.1:41000");
            assert_eq!(target("10.0.0.12", 6443), "jump.example:6443");
            assert_eq!(target("fd00::1", PORT), "[::1]:4000");
            assert_eq!(target("fd00::2", PORT), "[::1]:50000");
            assert_eq!(target("10.0.0.13", PORT), "10.0.0.13:50000");
        }
    }

    #[test]
    fn only_a_closed_map_makes_other_addresses_unreachable() {
        let outside = ["10.0.0.13", "talos.example", "fd00::3", "8.8.8.8"];
        for host in outside {
            let address = at(host, PORT);
            assert_eq!(Reach::new(map()).route(&address).unwrap(), address);
            let error = Reach::closed(map()).route(&address).unwrap_err();
            assert!(matches!(error, ConnectError::NoRoute { .. }), "{host}: {error}");
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::NetworkUnreachable);
        }
        let closed = Reach::closed([("10.77.0.12", "10.77.0.12")]);
        // This is a real machine that was added to the map of a lab.
        assert_eq!(closed.route(&at("10.77.0.12", PORT)).unwrap(), at("10.77.0.12", PORT));
        for (host, found) in
            [("127.3.4.5", "127.3.4.5"), ("::1", "::1"), ("localhost", "127.0.0.1")]
        {
            assert_eq!(closed.route(&at(host, 1)).unwrap(), at(found, 1));
        }
    }

    #[tokio::test]
    async fn loopback_is_reachable_with_any_map() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost"] {
            Reach::closed(map()).connect(&at(host, port), LIMIT).await.unwrap();
        }
    }
}
