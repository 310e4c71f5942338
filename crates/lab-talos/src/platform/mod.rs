//! What a node knows before it has a config: from its drive, its SMBIOS serial, its META.

mod metal;
mod nocloud;

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_talos_config::network::Prefix;
use talmox_yaml::Node as Yaml;

use super::config::{LinkSelector, Made};
use super::hardware::Hardware;
use crate::image::{Platform, TalosImage};

/// The key of META that has a metal machine's network.
const METAL_NETWORK: u8 = 0x0a;

/// What the platform gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlatformData {
    /// `nocloud` or `metal`.
    pub(crate) name: String,
    /// With its domain, if one was given.
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
    /// What it is made of, where it is no card.
    pub(crate) made: Option<Made>,
    pub(crate) is_dhcp: bool,
    pub(crate) addresses: Vec<Prefix>,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) mtu: Option<u32>,
}

impl PlatformLink {
    /// Which link of the machine this is.
    pub(crate) fn selector(&self) -> LinkSelector {
        let by_name = || self.name.clone().map(LinkSelector::Name).unwrap_or_default();
        self.mac.clone().map_or_else(by_name, LinkSelector::Mac)
    }
}

impl PlatformData {
    /// What a drive with this network gives.
    #[cfg(test)]
    pub(crate) fn of_drive(network: &str) -> Self {
        let file = ("network-config".to_owned(), network.as_bytes().to_vec());
        nocloud::read("", Some(&[file].into()))
    }

    /// What the image's platform finds: `files` are those of a volume labelled cidata.
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
