//! Section `sdn` of a scenario: zones and vnets.

use talmox_lab_pve::pve_state::{Sdn, Vnet, Zone};

use super::section::{Read, Section};

const KINDS: [&str; 5] = ["simple", "vlan", "qinq", "vxlan", "evpn"];

pub(super) fn read(section: &Section<'_>) -> Read<Sdn> {
    let Some(node) = section.get("sdn") else { return Ok(Sdn::default()) };
    let section = Section::open(section.source, node, "`sdn`", &["zones", "vnets"])?;
    let mut sdn = Sdn::default();
    for node in section.list("zones")? {
        let zone = Section::open(section.source, node, "a zone", &["zone", "type", "nodes"])?;
        let kind = zone.text("type")?.unwrap_or_else(|| "simple".to_owned());
        if !KINDS.contains(&kind.as_str()) {
            let error = zone.error("type", format!("there is no zone type `{kind}`"));
            return Err(error.one_of(&kind, &KINDS));
        }
        let nodes = zone.words("nodes")?.into_iter().collect();
        sdn.zones.insert(zone.name("zone")?, Zone { kind, nodes });
    }
    for node in section.list("vnets")? {
        let keys = ["vnet", "zone", "alias", "tag", "vlanaware"];
        let vnet = Section::open(section.source, node, "a vnet", &keys)?;
        let zone = vnet.name("zone")?;
        if !sdn.zones.contains_key(&zone) {
            let error = vnet.error("zone", format!("there is no zone `{zone}`"));
            return Err(error.hint("define zones under `zones`"));
        }
        let made = Vnet {
            zone,
            alias: vnet.text("alias")?,
            tag: vnet.number("tag")?,
            vlan_aware: vnet.flag("vlanaware")?,
        };
        sdn.vnets.insert(vnet.name("vnet")?, made);
    }
    Ok(sdn)
}
