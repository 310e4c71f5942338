//! Values of Talos's META partition in an image. For example, the network config of the metal platform (key 0xa) gives
//! a machine its address before it has a config.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use talmox_yaml::Node;

use crate::format::text as string;
use crate::network::{FirstLink, FirstNetwork};
use crate::tree::{list, map_of, texts};

/// Number of a META value. Displays as `0xa`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetaKey(pub u8);

/// META value with its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaValue {
    pub key: MetaKey,
    pub value: String,
}

/// Error for a text that is not a META key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a META key: it must be a number below 256")]
pub struct BadMetaKey(String);

impl MetaKey {
    /// Network config of the metal platform.
    pub const METAL_NETWORK: Self = Self(0x0a);
    /// Value of `${code}` in a `talos.config` URL.
    pub const DOWNLOAD_CODE: Self = Self(0x0b);
    pub const USER_RESERVED_1: Self = Self(0x0c);
    pub const USER_RESERVED_2: Self = Self(0x0d);
    pub const USER_RESERVED_3: Self = Self(0x0e);
    pub const UUID_OVERRIDE: Self = Self(0x0f);
    pub const UNIQUE_MACHINE_TOKEN: Self = Self(0x10);
    pub const DISK_IMAGE_BOOTLOADER: Self = Self(0x11);
}

impl fmt::Display for MetaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl FromStr for MetaKey {
    type Err = BadMetaKey;

    /// Parses `10` and `0xa`.
    fn from_str(text: &str) -> Result<Self, BadMetaKey> {
        let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u8::from_str_radix(digits, 16),
            None => text.parse(),
        };
        number.map(Self).map_err(|_| BadMetaKey(text.to_owned()))
    }
}

impl MetaValue {
    /// Network config of the metal platform. The platform nocloud loads this value but does not apply it.
    pub fn metal_network(network: &FirstNetwork) -> Self {
        Self { key: MetaKey::METAL_NETWORK, value: talmox_yaml::emit(&platform_config(network), 4) }
    }
}

const LAYER: (&str, &str) = ("layer", "platform");

fn layer() -> (&'static str, Node) {
    (LAYER.0, string(LAYER.1))
}

/// PlatformNetworkConfig in the notation of Talos, with keys in the order of Talos.
fn platform_config(network: &FirstNetwork) -> Node {
    let mut fields = vec![
        ("addresses", list(network.links.iter().flat_map(addresses))),
        ("links", list(network.links.iter().flat_map(links))),
        ("routes", list(network.links.iter().flat_map(routes))),
    ];
    if !network.hostname.is_empty() {
        let name = network.hostname.as_str();
        let (host, domain) = name.split_once('.').unwrap_or((name, ""));
        let hostname =
            map_of([("hostname", string(host)), ("domainname", string(domain)), layer()]);
        fields.push(("hostnames", list([hostname])));
    }
    if !network.nameservers.is_empty() {
        let mut resolver = vec![
            ("dnsServers", list(network.nameservers.iter().map(|ip| string(ip.to_string())))),
            layer(),
        ];
        if !network.search_domains.is_empty() {
            resolver.push(("searchDomains", texts(&network.search_domains)));
        }
        fields.push(("resolvers", list([map_of(resolver)])));
    }
    map_of(fields)
}

fn family(address: IpAddr) -> Node {
    string(if address.is_ipv4() { "inet4" } else { "inet6" })
}

fn addresses(link: &FirstLink) -> impl Iterator<Item = Node> {
    link.addresses.iter().map(|prefix| {
        map_of([
            ("address", string(prefix.to_string())),
            ("linkName", string(link.address_link())),
            ("family", family(prefix.address())),
            ("scope", string("global")),
            ("flags", string("permanent")),
            layer(),
        ])
    })
}

fn links(link: &FirstLink) -> Vec<Node> {
    let mtu = Node::plain(link.mtu.unwrap_or_default().to_string());
    let flag = |value: bool| Node::plain(value.to_string());
    let mut found = vec![map_of([
        ("name", string(&link.name)),
        ("logical", flag(false)),
        ("up", flag(true)),
        ("mtu", mtu.clone()),
        ("kind", string("")),
        // Talos writes this zero value, because the type of a physical link is not set.
        ("type", string("netrom")),
        layer(),
    ])];
    if let Some(vlan) = link.vlan {
        found.push(map_of([
            ("name", string(link.address_link())),
            ("logical", flag(true)),
            ("up", flag(true)),
            ("mtu", mtu),
            ("kind", string("vlan")),
            ("type", string("ether")),
            ("parentName", string(&link.name)),
            (
                "vlan",
                map_of([
                    ("vlanID", Node::plain(vlan.to_string())),
                    ("vlanProtocol", string("802.1q")),
                ]),
            ),
            layer(),
        ]));
    }
    found
}

/// One default route per gateway, with the priorities of Talos.
fn routes(link: &FirstLink) -> impl Iterator<Item = Node> {
    link.gateways.iter().map(|gateway| {
        let priority = if gateway.is_ipv4() { 1024 } else { 2048 };
        map_of([
            ("family", family(*gateway)),
            ("dst", string("")),
            ("src", string("")),
            ("gateway", string(gateway.to_string())),
            ("outLinkName", string(link.address_link())),
            ("table", string("main")),
            ("priority", Node::plain(priority.to_string())),
            ("scope", string("global")),
            ("type", string("unicast")),
            ("flags", string("")),
            ("protocol", string("static")),
            layer(),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_address_becomes_a_platform_config() {
        let network = FirstNetwork {
            hostname: "talos-cp-01.lan".to_owned(),
            links: vec![FirstLink {
                name: "eth0".to_owned(),
                addresses: vec!["10.0.0.11/16".parse().unwrap()],
                gateways: vec!["10.0.0.1".parse().unwrap()],
                mtu: Some(1400),
                ..FirstLink::default()
            }],
            nameservers: vec!["1.1.1.1".parse().unwrap(), "8.8.8.8".parse().unwrap()],
            search_domains: vec![],
        };
        let meta = MetaValue::metal_network(&network);
        assert_eq!(meta.key.to_string(), "0xa");
        assert_eq!(
            meta.value,
            "\
addresses:
    - address: 10.0.0.11/16
      linkName: eth0
      family: inet4
      scope: global
      flags: permanent
      layer: platform
links:
    - name: eth0
      logical: false
      up: true
      mtu: 1400
      kind: \"\"
      type: netrom
      layer: platform
routes:
    - family: inet4
      dst: \"\"
      src: \"\"
      gateway: 10.0.0.1
      outLinkName: eth0
      table: main
      priority: 1024
      scope: global
      type: unicast
      flags: \"\"
      protocol: static
      layer: platform
hostnames:
    - hostname: talos-cp-01
      domainname: lan
      layer: platform
resolvers:
    - dnsServers:
        - 1.1.1.1
        - 8.8.8.8
      layer: platform
"
        );
    }

    #[test]
    fn a_vlan_is_a_separate_link() {
        let network = FirstNetwork {
            links: vec![FirstLink {
                name: "eth0".to_owned(),
                addresses: vec!["fd00::11/64".parse().unwrap()],
                gateways: vec!["fe80::1".parse().unwrap()],
                vlan: Some(40),
                ..FirstLink::default()
            }],
            ..FirstNetwork::default()
        };
        let value = MetaValue::metal_network(&network).value;
        for line in [
            "      linkName: eth0.40\n",
            "      parentName: eth0\n      vlan:\n        vlanID: 40\n        vlanProtocol: 802.1q\n",
            "      outLinkName: eth0.40\n      table: main\n      priority: 2048\n",
        ] {
            assert!(value.contains(line), "{line}{value}");
        }
        assert!(!value.contains("hostnames") && !value.contains("resolvers"));
    }

    #[test]
    fn meta_keys_are_parsed_in_decimal_and_hexadecimal() {
        assert_eq!("0xa".parse(), Ok(MetaKey::METAL_NETWORK));
        assert_eq!("10".parse(), Ok(MetaKey::METAL_NETWORK));
        assert!("256".parse::<MetaKey>().is_err());
    }
}
