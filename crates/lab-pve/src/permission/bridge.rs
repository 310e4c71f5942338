//! Permissions on bridges and vnets. Bridges are in the built-in zone `localnetwork`, vnets are in SDN zones.

use std::collections::BTreeSet;

use crate::ApiError;
use crate::pve_state::{Caller, LOCAL_ZONE, PveState};

impl PveState {
    /// Checks whether the caller may connect a network card to a bridge. If the card has a tag or trunks, the caller needs
    /// `SDN.Use` on each VLAN instead of on the bridge.
    pub(crate) fn check_bridge(
        &self,
        caller: &Caller,
        bridge: &str,
        tag: Option<u32>,
        trunks: Option<&str>,
    ) -> Result<(), ApiError> {
        let path = format!("/sdn/zones/{}/{bridge}", self.zone_of(bridge));
        // Tag 0 and empty trunks count as missing.
        let tag = tag.filter(|tag| *tag != 0).map(|tag| tag.to_string());
        let trunks = trunks.filter(|trunks| !matches!(*trunks, "" | "0"));
        if tag.is_none() && trunks.is_none() {
            return self.check(caller, &path, &["SDN.Use"]);
        }
        // The VLANs are sorted as strings, not as numbers. The order determines which VLAN the error names.
        let vlans = vlans(trunks.unwrap_or_default());
        for vlan in tag.into_iter().chain(vlans) {
            self.check(caller, &format!("{path}/{vlan}"), &["SDN.Use"])?;
        }
        Ok(())
    }

    /// Whether the caller may see a bridge: the caller has a privilege on the bridge or on one of its VLANs.
    pub(crate) fn can_see_bridge(&self, caller: &Caller, bridge: &str) -> bool {
        self.can_see_in_zone(caller, LOCAL_ZONE, bridge)
    }

    /// Whether the caller may see a bridge or vnet of this zone.
    pub(crate) fn can_see_in_zone(&self, caller: &Caller, zone: &str, bridge: &str) -> bool {
        let path = format!("/sdn/zones/{zone}/{bridge}");
        let below = format!("{path}/");
        let listed = self.access.acl.iter().map(|entry| entry.path.as_str());
        std::iter::once(path.as_str())
            .chain(listed.filter(|listed| listed.starts_with(&below)))
            .any(|path| self.allowed_any(caller, path, &["SDN.Audit", "SDN.Use"]))
    }
}

/// VLAN ids of a `trunks` list such as `2;10-12`.
fn vlans(trunks: &str) -> BTreeSet<String> {
    let mut vlans = BTreeSet::new();
    for part in trunks.split(';').filter(|part| !part.is_empty()) {
        match part.split_once('-') {
            Some((first, last)) => {
                let number = |text: &str| text.parse::<u16>().unwrap_or_default();
                vlans.extend((number(first)..=number(last)).map(|vlan| vlan.to_string()));
            }
            None => {
                vlans.insert(part.to_owned());
            }
        }
    }
    vlans
}
