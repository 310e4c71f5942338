//! cidata volume, from which Talos on the platform nocloud reads its config. It is an ISO 9660 image with the label
//! `cidata` that contains `user-data`, `meta-data` and `network-config`.
//!
//! The same input produces the same bytes. The image contains the unchanged machine config, so it contains secrets.

mod iso;

use std::fmt;
use std::net::IpAddr;

use talmox_yaml::Node;
use zeroize::Zeroizing;

use crate::format::text as string;
use crate::network::{FirstLink, FirstNetwork};
use crate::secret::SecretText;
use crate::tree::{list, map_of, texts};

pub use iso::IsoError;

const LABEL: &str = "cidata";

/// Content of the cidata volume.
#[derive(Clone, Debug)]
pub struct Cidata<'a> {
    /// Machine config, or `#cloud-config` for systems other than Talos.
    pub user_data: &'a SecretText,
    /// Instance ID. If it changes, cloud-init runs again.
    pub instance_id: &'a str,
    pub network: &'a FirstNetwork,
}

/// Bytes of the image. `Debug` shows only the number of bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Image(Zeroizing<Vec<u8>>);

impl Image {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({} bytes)", self.0.len())
    }
}

impl Cidata<'_> {
    pub fn image(&self) -> Result<Image, IsoError> {
        let meta_data = self.meta_data();
        let network_config = network_config(self.network);
        let files = [
            ("meta-data", meta_data.as_bytes()),
            ("network-config", network_config.as_bytes()),
            ("user-data", self.user_data.expose().as_bytes()),
        ];
        volume(&files)
    }

    /// `meta-data`: the instance ID and the host name.
    pub fn meta_data(&self) -> String {
        let mut fields = vec![("instance-id", string(self.instance_id))];
        if !self.network.hostname.is_empty() {
            fields.push(("local-hostname", string(&self.network.hostname)));
        }
        talmox_yaml::emit(&map_of(fields), 4)
    }
}

/// cidata volume with the given files.
pub fn volume(files: &[(&str, &[u8])]) -> Result<Image, IsoError> {
    labelled(LABEL, files)
}

/// CD image with the given label and files.
pub fn labelled(label: &str, files: &[(&str, &[u8])]) -> Result<Image, IsoError> {
    iso::image(label, files).map(|bytes| Image(Zeroizing::new(bytes)))
}

/// `network-config` in version 1, which Talos and every version of cloud-init support. Network cards are matched by MAC
/// address, if it is known.
pub fn network_config(network: &FirstNetwork) -> String {
    let mut config: Vec<Node> = network.links.iter().flat_map(link_config).collect();
    if !network.nameservers.is_empty() || !network.search_domains.is_empty() {
        let mut nameserver = vec![("type", string("nameserver"))];
        nameserver
            .push(("address", list(network.nameservers.iter().map(|ip| string(ip.to_string())))));
        if !network.search_domains.is_empty() {
            nameserver.push(("search", texts(&network.search_domains)));
        }
        config.push(map_of(nameserver));
    }
    let root = map_of([("version", Node::plain("1")), ("config", list(config))]);
    talmox_yaml::emit(&root, 4)
}

fn link_config(link: &FirstLink) -> Vec<Node> {
    let mut physical = vec![("type", string("physical")), ("name", string(&link.name))];
    if let Some(mac) = link.mac {
        physical.push(("mac_address", string(mac.lower_case())));
    }
    let mtu = link.mtu.map(|mtu| ("mtu", Node::plain(mtu.to_string())));
    physical.extend(mtu.clone());
    let subnets = ("subnets", list(subnets(link)));
    let Some(vlan) = link.vlan else {
        physical.push(subnets);
        return vec![map_of(physical)];
    };
    let mut tagged = vec![
        ("type", string("vlan")),
        ("name", string(link.address_link())),
        ("vlan_link", string(&link.name)),
        ("vlan_id", Node::plain(vlan.to_string())),
    ];
    tagged.extend(mtu);
    tagged.push(subnets);
    vec![map_of(physical), map_of(tagged)]
}

/// One subnet per address. The first subnet of each address family contains the gateway.
fn subnets(link: &FirstLink) -> Vec<Node> {
    let mut gateways: Vec<IpAddr> = link.gateways.clone();
    let subnets = link.addresses.iter().map(|prefix| {
        let mut fields = match prefix.netmask() {
            Some(netmask) => vec![
                ("type", string("static")),
                ("address", string(prefix.address().to_string())),
                ("netmask", string(netmask.to_string())),
            ],
            None => vec![("type", string("static6")), ("address", string(prefix.to_string()))],
        };
        let is_v4 = prefix.address().is_ipv4();
        if let Some(own) = gateways.iter().position(|gateway| gateway.is_ipv4() == is_v4) {
            fields.push(("gateway", string(gateways.remove(own).to_string())));
        }
        map_of(fields)
    });
    subnets.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(vlan: Option<u16>) -> FirstNetwork {
        FirstNetwork {
            hostname: "talos-cp-01".to_owned(),
            links: vec![FirstLink {
                name: "eth0".to_owned(),
                mac: Some("12:34:56:12:34:56".parse().unwrap()),
                addresses: vec!["10.0.0.11/16".parse().unwrap(), "fd00::11/64".parse().unwrap()],
                gateways: vec!["10.0.0.1".parse().unwrap()],
                mtu: Some(1500),
                vlan,
            }],
            nameservers: vec!["1.1.1.1".parse().unwrap()],
            search_domains: vec!["lan".to_owned()],
        }
    }

    #[test]
    fn network_config_is_version_1() {
        // Some YAML parsers read a MAC address that consists of digits as a base-60 number, so it must be quoted.
        assert_eq!(
            network_config(&network(None)),
            "\
version: 1
config:
    - type: physical
      name: eth0
      mac_address: \"12:34:56:12:34:56\"
      mtu: 1500
      subnets:
        - type: static
          address: 10.0.0.11
          netmask: 255.255.0.0
          gateway: 10.0.0.1
        - type: static6
          address: fd00::11/64
    - type: nameserver
      address:
        - 1.1.1.1
      search:
        - lan
"
        );
    }

    #[test]
    fn the_addresses_are_on_the_vlan() {
        let text = network_config(&network(Some(40)));
        assert!(text.contains("      mtu: 1500\n    - type: vlan\n      name: eth0.40\n      vlan_link: eth0\n      vlan_id: 40\n      mtu: 1500\n      subnets:\n"));
    }

    #[test]
    fn meta_data_contains_the_instance_id() {
        let user_data = SecretText::new("machine: {}\n");
        let network = network(None);
        let cidata = Cidata { user_data: &user_data, instance_id: "1", network: &network };
        assert_eq!(cidata.meta_data(), "instance-id: \"1\"\nlocal-hostname: talos-cp-01\n");
        assert_eq!(cidata.image(), cidata.image());
        assert!(!format!("{cidata:?} {:?}", cidata.image()).contains("machine"));
    }
}
