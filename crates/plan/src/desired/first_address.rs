//! IP settings in the cloud-init drive of Proxmox.

use std::net::IpAddr;

use talmox_model::inventory::Nic;
use talmox_model::value::Boot;
use talmox_model::{Cluster, Node};
use talmox_pve_types::property::{IpConfig, Ipv4Config, Ipv6Config};

use super::error::DeriveError;
use super::network;

/// The IP settings of the first network card.
pub(super) fn first(cluster: &Cluster, node: &Node) -> Result<IpConfig, DeriveError> {
    if *node.settings().system.boot.required() == Boot::Dhcp {
        return Ok(dhcp());
    }
    let own = network::own_address(cluster, node)?;
    let gateway = node.settings().placement.gateway.get().copied();
    Ok(fixed(own.address(), own.length(), gateway))
}

/// The IP settings of another network card.
pub(super) fn further(nic: &Nic) -> Option<IpConfig> {
    let ip = nic.ip.get().copied();
    if nic.dhcp.get().copied().unwrap_or(ip.is_none()) {
        return Some(dhcp());
    }
    ip.map(|ip| fixed(ip.address, network::prefix_or_whole(ip), None))
}

fn dhcp() -> IpConfig {
    IpConfig { v4: Some(Ipv4Config::Dhcp), v6: None }
}

fn fixed(address: IpAddr, prefix: u8, gateway: Option<IpAddr>) -> IpConfig {
    match address {
        IpAddr::V4(address) => {
            let gateway = gateway.and_then(|gateway| match gateway {
                IpAddr::V4(gateway) => Some(gateway),
                IpAddr::V6(_) => None,
            });
            IpConfig { v4: Some(Ipv4Config::Static { address, prefix, gateway }), v6: None }
        }
        IpAddr::V6(address) => {
            let gateway = gateway.and_then(|gateway| match gateway {
                IpAddr::V6(gateway) => Some(gateway),
                IpAddr::V4(_) => None,
            });
            IpConfig { v4: None, v6: Some(Ipv6Config::Static { address, prefix, gateway }) }
        }
    }
}
