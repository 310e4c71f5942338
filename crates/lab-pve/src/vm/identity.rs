//! Values that are unique to a VM: MAC addresses, SMBIOS UUID and generation id. A value that the config does not set is
//! random.

use talmox_clock::Chance;

use crate::pve_state::{Config, PveState};
use crate::schema::{self, FormatName};

/// Prefix of generated MAC addresses, unless the datacenter config sets another one.
const MAC_PREFIX: &str = "BC:24:11";

pub(crate) fn uuid(chance: &mut Chance) -> String {
    let mut bytes = [0_u8; 16];
    chance.fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn mac(pve_state: &PveState, chance: &mut Chance) -> String {
    let prefix = pve_state.datacenter.get("mac_prefix").map_or(MAC_PREFIX, String::as_str);
    let mut mac = prefix.to_owned();
    while mac.len() < 17 {
        mac.push_str(&format!(":{:02X}", chance.below(256)));
    }
    mac
}

/// Normalized property string of a network card. A card without a MAC address gets a new one.
pub(crate) fn net(pve_state: &PveState, chance: &mut Chance, text: &str) -> String {
    let format = schema::format(pve_state.release, FormatName::Net);
    let Ok(mut fields) = format.parse(text) else { return text.to_owned() };
    if fields.get("macaddr").is_none() {
        fields.set("macaddr", mac(pve_state, chance));
    }
    format.print(&fields)
}

/// Property string of a network card with a new MAC address.
pub(crate) fn net_with_new_mac(pve_state: &PveState, chance: &mut Chance, text: &str) -> String {
    let format = schema::format(pve_state.release, FormatName::Net);
    let Ok(mut fields) = format.parse(text) else { return text.to_owned() };
    fields.set("macaddr", mac(pve_state, chance));
    format.print(&fields)
}

/// Normalizes all network cards of a config, and adds missing MAC addresses.
pub(crate) fn complete_nets(pve_state: &PveState, chance: &mut Chance, config: &mut Config) {
    for (_, value) in config.iter_mut().filter(|(key, _)| is_net(key)) {
        *value = net(pve_state, chance, value);
    }
}

pub(crate) fn is_net(key: &str) -> bool {
    key.strip_prefix("net").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// SMBIOS settings with a new UUID. All other settings stay unchanged.
pub(crate) fn smbios_with_new_uuid(
    pve_state: &PveState,
    chance: &mut Chance,
    text: Option<&String>,
) -> String {
    let format = schema::format(pve_state.release, FormatName::Smbios1);
    let mut fields = text.and_then(|text| format.parse(text).ok()).unwrap_or_default();
    fields.set("uuid", uuid(chance));
    format.print(&fields)
}
