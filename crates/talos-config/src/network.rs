//! Network of a machine before it has a machine config. It is the input of [`meta`](crate::meta) and
//! [`cidata`](crate::cidata).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use talmox_values::MacAddress;

/// Network settings of a machine at first boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstNetwork {
    /// Host name, optionally with a domain after the first dot.
    pub hostname: String,
    pub links: Vec<FirstLink>,
    pub nameservers: Vec<IpAddr>,
    pub search_domains: Vec<String>,
}

/// Network card with its static addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstLink {
    /// Name, such as `eth0`.
    pub name: String,
    pub mac: Option<MacAddress>,
    pub addresses: Vec<Prefix>,
    /// Gateways, at most one per address family.
    pub gateways: Vec<IpAddr>,
    pub mtu: Option<u32>,
    /// VLAN on this card. If it is set, the VLAN has the addresses.
    pub vlan: Option<u16>,
}

/// Address with prefix length: `10.0.0.11/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Error for a text that is not a network address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct AddressError {
    text: String,
    expected: &'static str,
}

impl Prefix {
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let most = if address.is_ipv4() { 32 } else { 128 };
        (length <= most).then_some(Self { address, length })
    }

    pub fn address(self) -> IpAddr {
        self.address
    }

    pub fn length(self) -> u8 {
        self.length
    }

    /// Whether an address is in this network.
    pub fn contains(self, other: IpAddr) -> bool {
        let shared = |one: u128, two: u128, width: u32| {
            let host_bits = width - u32::from(self.length);
            one.checked_shr(host_bits) == two.checked_shr(host_bits)
        };
        match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                shared(own.to_bits().into(), other.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => shared(own.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }

    /// Netmask of an IPv4 network.
    pub(crate) fn netmask(self) -> Option<std::net::Ipv4Addr> {
        let host_bits = 32_u32.checked_sub(u32::from(self.length))?;
        let bits = u32::MAX.checked_shl(host_bits).unwrap_or(0);
        self.address.is_ipv4().then(|| bits.into())
    }
}

impl FirstLink {
    /// Name of the link that has the addresses: the card or its VLAN.
    pub(crate) fn address_link(&self) -> String {
        match self.vlan {
            None => self.name.clone(),
            Some(vlan) => format!("{}.{vlan}", self.name),
        }
    }
}

impl FromStr for Prefix {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let parsed = text
            .split_once('/')
            .and_then(|(address, length)| Self::new(address.parse().ok()?, length.parse().ok()?));
        parsed.ok_or_else(|| AddressError {
            text: text.to_owned(),
            expected: "an address with a prefix length",
        })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// Implements the JSON form of an address: its text.
macro_rules! json_text {
    ($address:ty) => {
        impl Serialize for $address {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $address {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse::<Self>().map_err(de::Error::custom)
            }
        }
    };
}

json_text!(Prefix);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_strictly() {
        let prefix: Prefix = "10.0.0.11/16".parse().unwrap();
        assert_eq!(prefix.to_string(), "10.0.0.11/16");
        assert_eq!(prefix.netmask().unwrap().to_string(), "255.255.0.0");
        assert_eq!(
            "10.0.0.1/0".parse::<Prefix>().unwrap().netmask().unwrap().to_string(),
            "0.0.0.0"
        );
        assert_eq!("fd00::1/64".parse::<Prefix>().unwrap().netmask(), None);
        for text in ["10.0.0.1", "10.0.0.1/33", "x/8"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }
}
