//! Network cards of a VM: the options `net0`, `net1` and their property strings.

use crate::Release;
use crate::pve_state::Config;
use crate::schema::{self, FormatName};

/// Network card of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkCard {
    /// MAC address in lower case.
    pub mac: String,
    pub bridge: String,
    pub vlan: Option<u16>,
    /// Whether the link is up (`link_down` is not set).
    pub is_connected: bool,
}

/// Network cards of a VM, sorted by number.
pub fn network_cards(release: Release, config: &Config) -> Vec<NetworkCard> {
    let nets = (0..32).filter_map(|number| config.get(&format!("net{number}")));
    let parsed = nets.filter_map(|text| schema::format(release, FormatName::Net).parse(text).ok());
    parsed
        .map(|fields| NetworkCard {
            mac: fields.get("macaddr").unwrap_or_default().to_lowercase(),
            bridge: fields.get("bridge").unwrap_or_default().to_owned(),
            vlan: fields.get("tag").and_then(|tag| tag.parse().ok()),
            is_connected: fields.get("link_down").is_none_or(|down| down == "0"),
        })
        .collect()
}
