//! The SDN zone in which the privilege to use a bridge is granted.
//!
//! Proxmox checks `SDN.Use` on `/sdn/zones/ZONE/BRIDGE`. The bridges of hosts are in the built-in zone `localnetwork`. A vnet
//! is in the zone in which it was created. An inventory names bridges and vnets as `bridge:`. A token without a privilege on
//! a vnet cannot read the zone of that vnet. So if the zone is not known, the commands that grant the privilege look the zone
//! up on the host.

use std::collections::BTreeSet;

use talmox_pve_types::api::access::Permissions;

use crate::observed::Pve;

/// The built-in zone.
const LOCAL: &str = "localnetwork";

/// Name that no zone has. Only a privilege on all zones covers a path with this name.
const ANY: &str = "?";

/// Whether a name may be the name of a vnet: 2 to 8 letters and digits, but not `vmbrN`, the usual name of a bridge.
pub(crate) fn may_be_vnet(bridge: &str) -> bool {
    let is_id = (2..=8).contains(&bridge.len())
        && bridge.starts_with(|first: char| first.is_ascii_alphabetic())
        && bridge.chars().all(|one| one.is_ascii_alphanumeric());
    let number = bridge.strip_prefix("vmbr");
    let is_bridge = number.is_some_and(|number| {
        !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit())
    });
    is_id && !is_bridge
}

/// The path on which `SDN.Use` is granted if only the name of the bridge is known. If the bridge may be a vnet, the zone in
/// the path is a shell variable. [`lookup`] returns the command that sets the variable.
pub(crate) fn grant_path(bridge: &str) -> String {
    if may_be_vnet(bridge) {
        format!("/sdn/zones/${{zone_{bridge}:-{LOCAL}}}/{bridge}")
    } else {
        path(LOCAL, bridge)
    }
}

/// The shell command that sets the zone variable of a path from [`grant_path`]. None if the path has no variable.
pub(crate) fn lookup(grant_path: &str) -> Option<String> {
    let (_, rest) = grant_path.split_once("${zone_")?;
    let (bridge, _) = rest.split_once(":-")?;
    Some(format!(
        "zone_{bridge}=$(awk '$1 == \"vnet:\" {{ vnet = $2 }} $1 == \"zone\" && vnet == \"{bridge}\" {{ print $2 }}' \
         /etc/pve/sdn/vnets.cfg 2>/dev/null)"
    ))
}

/// A path from [`grant_path`] for messages, with the word `ZONE` in place of the variable.
pub(crate) fn shown(grant_path: &str) -> String {
    match (grant_path.find("${zone_"), grant_path.find('}')) {
        (Some(start), Some(end)) => {
            format!("{}ZONE{}", &grant_path[..start], &grant_path[end + 1..])
        }
        _ => grant_path.to_owned(),
    }
}

fn path(zone: &str, bridge: &str) -> String {
    format!("/sdn/zones/{zone}/{bridge}")
}

/// The zones in which a bridge may be, as far as the token can read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BridgeZones {
    bridge: String,
    zones: Vec<String>,
    /// Whether the bridge is certainly in the first of `zones`.
    is_known: bool,
}

impl BridgeZones {
    pub(crate) fn of(pve: &Pve, bridge: &str) -> Self {
        let listed = pve.bridges.values().filter_map(|listed| listed.as_ref().ok()).flatten();
        let mut listed = listed.filter(|one| one.name.as_str() == bridge);
        let kind = listed.next().map(|one| one.kind.as_str());
        let held = held(&pve.permissions, bridge);
        let (zones, is_known) = match kind {
            Some("vnet") if held.len() == 1 => (held, true),
            Some("vnet") => {
                let named = named(&pve.permissions).filter(|zone| *zone != LOCAL);
                let mut zones: Vec<String> = named.map(str::to_owned).collect();
                zones.push(ANY.to_owned());
                (zones, false)
            }
            Some(_) => (vec![LOCAL.to_owned()], true),
            None => {
                let is_known = !may_be_vnet(bridge);
                ([LOCAL.to_owned()].into_iter().chain(held).collect(), is_known)
            }
        };
        Self { bridge: bridge.to_owned(), zones, is_known }
    }

    /// The paths of the bridge in its possible zones. The privilege on any one of them is sufficient to use the bridge.
    pub(crate) fn paths(&self, vlan: Option<u16>) -> Vec<String> {
        let below = vlan.map(|vlan| format!("/{vlan}")).unwrap_or_default();
        let path = |zone: &String| format!("{}{below}", path(zone, &self.bridge));
        self.zones.iter().map(path).collect()
    }

    /// The path on which the privilege is granted.
    pub(crate) fn grant_path(&self) -> String {
        match self.zones.first() {
            Some(zone) if self.is_known => path(zone, &self.bridge),
            _ => grant_path(&self.bridge),
        }
    }
}

/// The zones, without the built-in one, in which the token has a privilege on a bridge of this name.
fn held(permissions: &Permissions, bridge: &str) -> Vec<String> {
    let zones: BTreeSet<&str> = permissions
        .0
        .keys()
        .filter_map(|path| {
            let mut parts = path.strip_prefix("/sdn/zones/")?.split('/');
            let zone = parts.next()?;
            (parts.next() == Some(bridge) && zone != LOCAL).then_some(zone)
        })
        .collect();
    zones.into_iter().map(str::to_owned).collect()
}

/// The zones in which the token has a privilege.
fn named(permissions: &Permissions) -> impl Iterator<Item = &str> {
    let zones: BTreeSet<&str> = permissions
        .0
        .keys()
        .filter_map(|path| path.strip_prefix("/sdn/zones/")?.split('/').next())
        .collect();
    zones.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_show_possible_vnets() {
        for bridge in ["vmbr0", "vmbr12", "lan-bridge", "v", "a.b", "0net", "longbridge"] {
            assert!(!may_be_vnet(bridge), "{bridge}");
            assert_eq!(grant_path(bridge), format!("/sdn/zones/localnetwork/{bridge}"));
            assert_eq!(lookup(&grant_path(bridge)), None);
        }
        for vnet in ["vnet0", "prod", "vmbr", "dmz12345"] {
            assert!(may_be_vnet(vnet), "{vnet}");
            let line = lookup(&grant_path(vnet)).unwrap();
            assert!(line.starts_with(&format!("zone_{vnet}=$(awk ")), "{line}");
        }
        assert_eq!(shown(&grant_path("vnet0")), "/sdn/zones/ZONE/vnet0");
        assert_eq!(shown("/pool/talos"), "/pool/talos");
    }
}
