//! What a node knows before it has a config: from its drive, its SMBIOS serial, its META.

use std::net::IpAddr;
use talmox_talos_config::network::Prefix;

/// What the platform gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlatformData {
    /// `nocloud` or `metal`.
    pub(crate) name: String,
    pub(crate) hostname: Option<String>,
    pub(crate) instance_id: Option<String>,
    /// A machine config, or part of one; none for `#cloud-config`.
    pub(crate) user_data: Option<String>,
    pub(crate) links: Vec<PlatformLink>,
    pub(crate) nameservers: Vec<IpAddr>,
}

/// A link as the platform describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlatformLink {
    /// Which card: by name or MAC, whichever is given; the MAC in lower case.
    pub(crate) name: Option<String>,
    pub(crate) mac: Option<String>,
    pub(crate) is_dhcp: bool,
    pub(crate) addresses: Vec<Prefix>,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) mtu: Option<u32>,
}
