use talmox_talos_config::{Config, Release};

use super::*;
use crate::dhcp::Dhcp;
use crate::hardware::{Card, Hardware};
use crate::platform::PlatformData;

const BASE: &str = "version: v1alpha1\nmachine: {type: worker}\ncluster: {}\n";

fn card(number: u8) -> Card {
    Card {
        name: format!("eth{number}"),
        mac: format!("bc:24:11:00:00:0{number}"),
        is_connected: true,
        ..Card::default()
    }
}

fn machine() -> Hardware {
    Hardware { cards: (0..3).map(card).collect(), ..Hardware::default() }
}

fn facts(documents: &str, release: &str) -> Facts {
    Facts::of(&Config::parse(documents, Release::of(release).unwrap()).unwrap())
}

/// Network of a machine in which every DHCP request is answered.
fn network(hardware: &Hardware, facts: &Facts, drive: &str) -> Network {
    let leases = (0..3).map(|n| (card(n).mac, prefix(&format!("10.9.0.{n}/24")).unwrap()));
    let dhcp = Dhcp { leases: leases.collect(), routers: vec![IpAddr::from([192, 0, 2, 1])] };
    Network::of(&NetworkInputs {
        hardware,
        platform: &PlatformData::from_network_config(drive),
        cached: &[],
        config: Some(facts),
        dhcp: Some(&dhcp),
        fallback: "talos-abc-def",
    })
}

/// Name, kind, state (up or down) and addresses of each link.
fn shown(network: &Network) -> Vec<String> {
    let line = |link: &Link| {
        let addresses = link.addresses.iter().map(|(prefix, _)| prefix.to_string());
        let up = if link.is_up { "up" } else { "down" };
        format!(
            "{} {} {up} {}",
            link.name,
            link.kind.name(),
            addresses.collect::<Vec<_>>().join(",")
        )
    };
    network.links.iter().map(line).collect()
}

#[test]
fn interfaces_have_vlans_and_bonds() {
    let text = "\
machine:
  type: worker
  network:
    interfaces:
      - deviceSelector: {hardwareAddr: 'BC:24:11:00:00:00'}
        vlans:
          - {vlanId: 20, addresses: [10.0.20.5/24], routes: [{network: 0.0.0.0/0, gateway: 10.0.20.1}], vip: {ip: 10.0.20.9}}
          - {vlanId: 30, dhcp: true}
      - interface: bond0
        addresses: [10.0.1.5/24]
        mtu: 9000
        bond: {mode: 802.3ad, interfaces: [eth1], deviceSelectors: [{permanentAddr: 'bc:24:11:00:00:02'}]}
        vlans: [{vlanId: 40, addresses: [10.0.40.5/24]}]
cluster: {}
";
    let (mut hardware, facts) = (machine(), facts(text, "v1.11.0"));
    let of = |hardware: &Hardware| network(hardware, &facts, "");
    let network = of(&hardware);
    assert_eq!(
        shown(&network),
        [
            "eth0  up ",
            "eth1  up ",
            "eth2  up ",
            "eth0.20 vlan up 10.0.20.5/24",
            "eth0.30 vlan up ",
            "bond0 bond up 10.0.1.5/24",
            "bond0.40 vlan up 10.0.40.5/24",
        ]
    );
    assert_eq!(network.gateways, ["10.0.20.1".parse::<IpAddr>().unwrap()]);
    let bond = &network.links[5];
    assert_eq!((bond.mtu, bond.mac.as_str()), (9000, "bc:24:11:00:00:01"));
    assert_eq!(network.links[2].master.as_deref(), Some("bond0"));
    let vip = facts.links.iter().find(|link| link.vip.is_some()).unwrap();
    assert_eq!(network.link(&vip.selector).unwrap().name, "eth0.20");
    assert!(network.has_link(&vip.selector));
    // If a card is disconnected, its VLANs are down. A bond is up as long as one of its members is up.
    hardware.cards[0].is_connected = false;
    hardware.cards[1].is_connected = false;
    let network = of(&hardware);
    assert!(!network.has_link(&vip.selector));
    let is_up = |name: &str| network.links.iter().any(|link| link.name == name && link.is_up);
    assert!(!is_up("eth0.20") && is_up("bond0") && is_up("bond0.40"));
    hardware.cards[2].is_elsewhere = true;
    assert!(!of(&hardware).links[6].passes());
}

#[test]
fn link_documents_create_links_and_disable_default_dhcp() {
    let text = "\
---
apiVersion: v1alpha1
kind: LinkAliasConfig
name: net0
selector: {match: 'mac(link.permanent_addr) == \"bc:24:11:00:00:00\"'}
---
apiVersion: v1alpha1
kind: VLANConfig
name: storage
vlanID: 20
vlanMode: 802.1ad
parent: net0
addresses: [{address: 10.0.20.5/24}]
---
apiVersion: v1alpha1
kind: Layer2VIPConfig
name: 10.0.20.9
link: storage
---
apiVersion: v1alpha1
kind: VLANConfig
name: nowhere
vlanID: 21
parent: eth7
---
apiVersion: v1alpha1
kind: BridgeConfig
name: br0
links: [bond1]
addresses: [{address: 10.0.2.5/24}]
---
apiVersion: v1alpha1
kind: BondConfig
name: bond1
links: [eth1]
bondMode: active-backup
";
    let text = format!("{BASE}{text}");
    let network = network(&machine(), &facts(&text, "v1.13.6"), "");
    assert_eq!(
        shown(&network),
        [
            "eth0  up ",
            "eth1  up ",
            "eth2  up ",
            "storage vlan up 10.0.20.5/24",
            "bond1 bond up ",
            "br0 bridge up 10.0.2.5/24",
        ]
    );
    assert_eq!(network.links[0].alias.as_deref(), Some("net0"));
    assert_eq!(network.links[4].master.as_deref(), Some("br0"));
    assert!(network.has_link(&LinkSelector::Name("storage".to_owned())));
    assert!(!network.has_link(&LinkSelector::Name("nowhere".to_owned())));
}

#[test]
fn cidata_volumes_describe_vlans_and_bonds() {
    let first = "\
version: 1
config:
  - {type: bond, name: bond0, bond_interfaces: [uplink], params: {bond-mode: 802.3ad}, subnets: [{type: static, address: 10.0.1.5/24}]}
  - {type: physical, name: uplink, mac_address: 'BC:24:11:00:00:01'}
  - {type: vlan, name: bond0.7, vlan_id: 7, vlan_link: bond0, subnets: [{type: static, address: 10.0.7.5/24, gateway: 10.0.7.1}]}
";
    let second = "\
network:
  version: 2
  ethernets: {uplink: {match: {macaddress: 'bc:24:11:00:00:01'}}}
  bonds: {bond0: {interfaces: [uplink], parameters: {mode: 802.3ad}, addresses: [10.0.1.5/24]}}
  vlans: {bond0.7: {id: 7, link: bond0, addresses: [10.0.7.5/24], gateway4: 10.0.7.1}}
";
    for drive in [first, second] {
        let network = network(&machine(), &facts(BASE, "v1.13.6"), drive);
        assert_eq!(
            shown(&network),
            [
                "eth0  up 10.9.0.0/24",
                "eth1  up ",
                "eth2  up 10.9.0.2/24",
                "bond0 bond up 10.0.1.5/24",
                "bond0.7 vlan up 10.0.7.5/24",
            ]
        );
        assert_eq!(network.links[1].master.as_deref(), Some("bond0"));
        assert_eq!(network.links[3].kind, LinkKind::Bond { mode: "802.3ad".to_owned() });
        assert_eq!(network.gateways, ["10.0.7.1".parse::<IpAddr>().unwrap()]);
    }
}

#[test]
fn a_vlan_name_is_shortened_for_a_long_parent_name() {
    assert_eq!(vlan_name("eth0", 4095), "eth0.4095");
    assert_eq!(vlan_name("enx12545f8c99cd", 25), "enx1ee6413.25");
}
