use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Properties, join};

/// Addresses of one NIC in the cloud-init drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpConfig {
    pub v4: Option<Ipv4Config>,
    pub v6: Option<Ipv6Config>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv4Config {
    Dhcp,
    Static { address: Ipv4Addr, prefix: u8, gateway: Option<Ipv4Addr> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv6Config {
    Dhcp,
    /// Address from router advertisements (SLAAC).
    Auto,
    Static {
        address: Ipv6Addr,
        prefix: u8,
        gateway: Option<Ipv6Addr>,
    },
}

impl IpConfig {
    /// Parses any notation of Proxmox. Invalid addresses are omitted.
    pub fn parse(text: &str) -> Self {
        let properties = Properties::parse(text, None);
        let v4 = properties.get("ip").and_then(|ip| match ip {
            "dhcp" => Some(Ipv4Config::Dhcp),
            ip => {
                let (address, prefix) = cidr(ip)?;
                let gateway = properties.get("gw").and_then(|gateway| gateway.parse().ok());
                Some(Ipv4Config::Static { address, prefix, gateway })
            }
        });
        let v6 = properties.get("ip6").and_then(|ip| match ip {
            "dhcp" => Some(Ipv6Config::Dhcp),
            "auto" => Some(Ipv6Config::Auto),
            ip => {
                let (address, prefix) = cidr(ip)?;
                let gateway = properties.get("gw6").and_then(|gateway| gateway.parse().ok());
                Some(Ipv6Config::Static { address, prefix, gateway })
            }
        });
        Self { v4, v6 }
    }
}

fn cidr<A: std::str::FromStr>(text: &str) -> Option<(A, u8)> {
    let (address, prefix) = text.split_once('/')?;
    Some((address.parse().ok()?, prefix.parse().ok()?))
}

impl fmt::Display for IpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v4 = self.v4.map(|v4| match v4 {
            Ipv4Config::Dhcp => "ip=dhcp".to_owned(),
            Ipv4Config::Static { address, prefix, gateway } => join([
                Some(format!("ip={address}/{prefix}")),
                gateway.map(|gateway| format!("gw={gateway}")),
            ]),
        });
        let v6 = self.v6.map(|v6| match v6 {
            Ipv6Config::Dhcp => "ip6=dhcp".to_owned(),
            Ipv6Config::Auto => "ip6=auto".to_owned(),
            Ipv6Config::Static { address, prefix, gateway } => join([
                Some(format!("ip6={address}/{prefix}")),
                gateway.map(|gateway| format!("gw6={gateway}")),
            ]),
        });
        f.write_str(&join([v4, v6]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_configs_round_trip() {
        for text in [
            "ip=10.0.0.11/16,gw=10.0.0.1",
            "ip=dhcp",
            "ip=10.0.0.11/16,ip6=auto",
            "ip6=fd00::11/64,gw6=fd00::1",
            "ip6=dhcp",
            "",
        ] {
            assert_eq!(IpConfig::parse(text).to_string(), text);
        }
        let sorted = IpConfig::parse("gw=10.0.0.1,ip=10.0.0.11/16");
        assert_eq!(sorted.to_string(), "ip=10.0.0.11/16,gw=10.0.0.1");
    }
}
