//! Where a node is: by its own name, and where that name really leads.

use std::collections::BTreeMap;
use std::fmt;

/// The port of the Talos API.
pub const PORT: u16 = 50000;

/// A node by its own address, which is also the name its certificate must bear.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// A name or an IP address, the latter without brackets.
    pub host: String,
    pub port: u16,
}

impl Address {
    pub fn new(host: impl Into<String>) -> Self {
        Self { host: host.into(), port: PORT }
    }

    /// Reads `host`, `host:port`, `fd00::1` or `[fd00::1]:port`.
    pub fn parse(text: &str) -> Self {
        let (host, port) = split(text);
        Self { host: host.to_owned(), port: port.unwrap_or(PORT) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Addresses that lead elsewhere: through NAT, a jump host, or into a lab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach(BTreeMap<String, String>);

impl Reach {
    /// Each key is a host, or host:port, and so is each value; where a value names no port, the
    /// port stays.
    pub fn new<K: Into<String>, V: Into<String>>(map: impl IntoIterator<Item = (K, V)>) -> Self {
        Self(map.into_iter().map(|(from, to)| (from.into(), to.into())).collect())
    }

    /// Where to connect for `address`. The more exact entry wins.
    pub fn target(&self, address: &Address) -> Address {
        let exact = self.0.get(&address.to_string());
        let Some(target) = exact.or_else(|| self.0.get(&address.host)) else {
            return address.clone();
        };
        let (host, port) = split(target);
        Address { host: host.to_owned(), port: port.unwrap_or(address.port) }
    }
}

/// `host`, `host:port`, `fd00::1` or `[fd00::1]:port`.
fn split(text: &str) -> (&str, Option<u16>) {
    if let Some((host, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        return (host, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, port.parse().ok()),
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_where_the_map_says() {
        let reach = Reach::new([
            ("10.0.0.11", "127.3.4.11"),
            ("10.0.0.12:50000", "127.0.0.1:41000"),
            ("10.0.0.12", "jump.example"),
            ("fd00::1", "[::1]:4000"),
            ("fd00::2", "::1"),
        ]);
        let target =
            |host: &str, port| reach.target(&Address { host: host.to_owned(), port }).to_string();
        assert_eq!(target("10.0.0.11", PORT), "127.3.4.11:50000");
        assert_eq!(target("10.0.0.12", PORT), "127.0.0.1:41000");
        assert_eq!(target("10.0.0.12", 6443), "jump.example:6443");
        assert_eq!(target("fd00::1", PORT), "[::1]:4000");
        assert_eq!(target("fd00::2", PORT), "[::1]:50000");
        assert_eq!(target("10.0.0.13", PORT), "10.0.0.13:50000");
    }

    #[test]
    fn a_port_may_be_named() {
        for (text, shown) in [
            ("10.0.0.11", "10.0.0.11:50000"),
            ("cp-1.example:4000", "cp-1.example:4000"),
            ("fd00::1", "[fd00::1]:50000"),
            ("[fd00::1]:7", "[fd00::1]:7"),
        ] {
            assert_eq!(Address::parse(text).to_string(), shown);
        }
    }
}
