//! Addresses and networks.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value as Json, json};
use talmox_yaml::Scalar;

use crate::language::Leaf;

impl Leaf for IpAddr {
    const EXPECTED: &'static str = "an address such as `10.0.0.11`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        let text = &scalar.text;
        text.parse().map_err(|_| {
            text.parse::<IpNet>()
                .is_ok()
                .then(|| "the address must not have a prefix length".to_owned())
        })
    }

    fn schema() -> Json {
        json!({ "type": "string", "anyOf": [{ "format": "ipv4" }, { "format": "ipv6" }] })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Network such as `10.0.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cidr(IpNet);

impl Cidr {
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    pub fn prefix_len(self) -> u8 {
        self.0.prefix_len()
    }

    pub fn overlaps(self, other: Self) -> bool {
        self.0.contains(&other.0.network()) || other.0.contains(&self.0.network())
    }

    /// Network address. A machine cannot use it.
    pub fn network(self) -> IpAddr {
        self.0.network()
    }

    /// Broadcast address. A machine cannot use it. Point-to-point networks and IPv6 networks have none.
    pub fn broadcast(self) -> Option<IpAddr> {
        match self.0 {
            IpNet::V4(net) if net.prefix_len() < 31 => Some(net.broadcast().into()),
            _ => None,
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Leaf for Cidr {
    const EXPECTED: &'static str = "a network such as `10.0.0.0/16`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        let text = &scalar.text;
        let Ok(net) = text.parse::<IpNet>() else {
            let is_address = text.parse::<IpAddr>().is_ok();
            return Err(is_address.then(|| "the prefix length is missing".to_owned()));
        };
        if net.addr() != net.network() {
            return Err(Some(format!(
                "`{net}` has bits set after the prefix: the network is `{}`",
                net.trunc()
            )));
        }
        Ok(Self(net))
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]{1,3}$" })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Address of a machine, optionally with the prefix length of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostAddress {
    pub address: IpAddr,
    pub prefix_len: Option<u8>,
}

impl HostAddress {
    /// Network of the address; `None` if the address has no prefix length.
    pub fn network(self) -> Option<Cidr> {
        let net = IpNet::new(self.address, self.prefix_len?).ok()?;
        Some(Cidr(net.trunc()))
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix_len {
            Some(prefix_len) => write!(f, "{}/{prefix_len}", self.address),
            None => self.address.fmt(f),
        }
    }
}

impl Leaf for HostAddress {
    const EXPECTED: &'static str = "an address such as `10.0.0.11` or `10.0.0.11/16`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        if let Ok(address) = scalar.text.parse() {
            return Ok(Self { address, prefix_len: None });
        }
        let net: IpNet = scalar.text.parse().map_err(|_| None)?;
        Ok(Self { address: net.addr(), prefix_len: Some(net.prefix_len()) })
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^[0-9a-fA-F.:]+(/[0-9]{1,3})?$" })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        Cidr(text.parse().unwrap())
    }

    #[test]
    fn networks_overlap_when_one_contains_the_other() {
        assert!(cidr("10.0.0.0/8").overlaps(cidr("10.244.0.0/16")));
        assert!(cidr("10.244.0.0/16").overlaps(cidr("10.0.0.0/8")));
        assert!(!cidr("10.244.0.0/16").overlaps(cidr("10.96.0.0/12")));
        assert!(!cidr("10.0.0.0/8").overlaps(cidr("fd00::/8")));
    }

    #[test]
    fn a_host_address_may_have_a_prefix_length() {
        let scalar = |text: &str| Scalar { text: text.to_owned(), ..Scalar::default() };
        let address = HostAddress::parse(&scalar("10.0.3.7/16")).unwrap();
        assert_eq!(address.network(), Some(cidr("10.0.0.0/16")));
        assert_eq!(HostAddress::parse(&scalar("10.0.3.7")).unwrap().network(), None);
        assert!(HostAddress::parse(&scalar("10.0.3")).is_err());
        assert!(Cidr::parse(&scalar("10.0.3.7/16")).is_err());
    }
}
