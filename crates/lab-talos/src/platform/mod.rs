//! Platform data: settings of a node from its cidata volume, its SMBIOS serial number and META.

mod metal;
mod nocloud;

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_talos_config::network::Prefix;
use talmox_yaml::Node as Yaml;

use super::config::{LinkSelector, VirtualLink};
use super::hardware::Hardware;
use crate::image::{Platform, TalosImage};

/// META key that contains the network settings on the platform metal.
const METAL_NETWORK: u8 = 0x0a;

/// Settings that the platform provides.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlatformData {
    /// Platform name: `nocloud` or `metal`.
    pub(crate) name: String,
    /// Host name, with its domain if the platform provides one.
    pub(crate) hostname: Option<String>,
    pub(crate) instance_id: Option<String>,
    /// Machine config or a part of one; `None` if the user data is `#cloud-config`.
    pub(crate) user_data: Option<String>,
    pub(crate) links: Vec<PlatformLink>,
    pub(crate) nameservers: Vec<IpAddr>,
}

/// Network link in the description of the platform.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlatformLink {
    /// Name of the network card, if the platform provides it. The platform may identify the card by its MAC address instead.
    pub(crate) name: Option<String>,
    pub(crate) mac: Option<String>,
    /// Parameters to create a virtual link; `None` for a network card.
    pub(crate) virtual_link: Option<VirtualLink>,
    pub(crate) is_dhcp: bool,
    pub(crate) addresses: Vec<Prefix>,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) mtu: Option<u32>,
}

impl PlatformLink {
    /// Selector that finds this link on the machine.
    pub(crate) fn selector(&self) -> LinkSelector {
        let by_name = || self.name.clone().map(LinkSelector::Name).unwrap_or_default();
        self.mac.clone().map_or_else(by_name, LinkSelector::Mac)
    }
}

impl PlatformData {
    /// Platform data of a cidata volume that contains only this network config.
    #[cfg(test)]
    pub(crate) fn from_network_config(network: &str) -> Self {
        let file = ("network-config".to_owned(), network.as_bytes().to_vec());
        nocloud::read("", Some(&[file].into()))
    }

    /// Platform data for an image. `files` are the files of the cidata volume.
    pub(crate) fn find(
        image: &TalosImage,
        hardware: &Hardware,
        meta: &BTreeMap<u8, String>,
        files: Option<&BTreeMap<String, Vec<u8>>>,
    ) -> Self {
        match image.platform {
            Platform::Metal => {
                let none = || Self { name: "metal".to_owned(), ..Self::default() };
                meta.get(&METAL_NETWORK).map_or_else(none, |text| metal::read(text))
            }
            Platform::Nocloud => nocloud::read(&hardware.serial, files),
        }
    }
}

fn first(text: &str) -> Option<Yaml> {
    talmox_yaml::read_first(text).ok().flatten()
}

fn at<'y>(node: &'y Yaml, key: &str) -> Option<&'y Yaml> {
    node.as_map()?.get(key)
}

fn text(node: &Yaml, key: &str) -> Option<String> {
    at(node, key)?.as_str().map(str::to_owned).filter(|text| !text.is_empty())
}

fn items<'y>(node: &'y Yaml, key: &str) -> impl Iterator<Item = &'y Yaml> + use<'y> {
    at(node, key).and_then(Yaml::as_seq).into_iter().flat_map(|list| &list.items)
}

fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}
