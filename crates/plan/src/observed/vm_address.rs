//! Addresses of VMs, as their configs and guest agents report them.

use std::fmt;
use std::net::IpAddr;

use talmox_pve_types::config::VmConfig;
use talmox_pve_types::id::VmId;
use talmox_pve_types::property::{IpConfig, Ipv4Config, Ipv6Config};

/// An address of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmAddress {
    pub vmid: VmId,
    /// Name of the VM.
    pub name: Option<String>,
    pub address: IpAddr,
    pub source: AddressSource,
    /// Whether the VM runs.
    pub is_running: bool,
}

/// Source of an address of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressSource {
    /// The cloud-init options of the VM (`ipconfig0` and so on).
    Config,
    /// The guest agent.
    Agent,
}

impl VmAddress {
    /// The static addresses in the config of a VM.
    pub fn of_config(vmid: VmId, config: &VmConfig, is_running: bool) -> Vec<Self> {
        let cards = config.iter().filter(|(key, _)| key.starts_with("ipconfig"));
        let addresses = cards.flat_map(|(_, value)| {
            let card = IpConfig::parse(value);
            let v4 = match card.v4 {
                Some(Ipv4Config::Static { address, .. }) => Some(IpAddr::V4(address)),
                Some(Ipv4Config::Dhcp) | None => None,
            };
            let v6 = match card.v6 {
                Some(Ipv6Config::Static { address, .. }) => Some(IpAddr::V6(address)),
                Some(Ipv6Config::Dhcp | Ipv6Config::Auto) | None => None,
            };
            v4.into_iter().chain(v6)
        });
        let found = |address| Self {
            vmid,
            name: config.name().map(str::to_owned),
            address,
            source: AddressSource::Config,
            is_running,
        };
        addresses.map(found).collect()
    }
}

/// A clause about an address that the message named before, such as `VM 105 (mail) has it in its config`.
impl fmt::Display for VmAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let vm = format!("VM {}{name}", self.vmid);
        match self.source {
            AddressSource::Config => write!(f, "{vm} has it in its config"),
            AddressSource::Agent => write!(f, "the guest agent of {vm} reports it"),
        }
    }
}
