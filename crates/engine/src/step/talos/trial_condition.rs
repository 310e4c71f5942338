//! Conditions of a node that a changed network can break although the node still answers: its routes, its gateway and, on a
//! control plane, etcd and the API server.
//!
//! The conditions are compared with those before the change. A condition that was not met before is not required afterwards: the
//! network may have no gateway, and the change may be the first part of a repair.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use talmox_plan::plan::TalosNode;
use talmox_talos_api::client::{Resource, ResourceKind};
use talmox_talos_api::etcd_state::ETCD;
use talmox_talos_api::{Client, Code, Look, TalosError, wait};

use super::{api_server, unanswered};
use crate::kube::KubeClient;

/// Fields of the network status of Talos, with the reasons if they are false.
const NETWORK: [(&str, &str); 4] = [
    ("addressReady", "it has no address"),
    ("connectivityReady", "it has no default route"),
    ("hostnameReady", "it has no hostname"),
    ("etcFilesReady", "its resolver is not configured"),
];

/// The ARP table of the kernel.
const ARP: &str = "/proc/net/arp";

/// State of the conditions at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TrialConditions {
    /// The conditions that are not met, with the reasons.
    unmet: BTreeMap<&'static str, String>,
    gateways: BTreeMap<Ipv4Addr, Gateway>,
}

/// Whether the gateway of a default route answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gateway {
    Answers,
    /// It does not answer ARP requests.
    Silent,
    /// The node has sent no packet to it.
    Unused,
}

impl TrialConditions {
    /// Reads the conditions of a node. A condition that the node cannot report counts as met.
    pub(super) async fn read(
        client: &Client,
        node: &TalosNode,
        kube: &KubeClient,
    ) -> Result<Self, TalosError> {
        let mut unmet = BTreeMap::new();
        if let Some(status) =
            reported(client.get(ResourceKind::NETWORK_STATUS, "status").await)?.flatten()
        {
            for (field, reason) in NETWORK {
                if status.text(field).as_deref() == Some("false") {
                    unmet.insert(field, reason.to_owned());
                }
            }
        }
        if node.is_control_plane {
            let etcd = match wait::service(client, ETCD).await {
                Ok(Look::Done(())) => None,
                Ok(Look::NotYet(reason)) => Some(reason),
                Err(error) => Some(unanswered(&error)),
            };
            unmet.extend(etcd.map(|reason| ("etcd", reason)));
            let server = Box::pin(api_server::obstacle(client, kube, node)).await;
            unmet.extend(server.map(|reason| ("api-server", reason)));
        }
        let routes = reported(client.list(ResourceKind::ROUTE_STATUS).await)?.unwrap_or_default();
        let table = reported(client.read(ARP).await)?;
        let table = table.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let gateways = match table {
            Some(table) => gateways(&default_gateways(&routes), &table),
            None => BTreeMap::new(),
        };
        Ok(Self { unmet, gateways })
    }

    /// Whether the node has default routes through these gateways.
    pub(super) fn has_gateways(&self, desired: &BTreeSet<Ipv4Addr>) -> bool {
        desired.iter().all(|ip| self.gateways.contains_key(ip))
    }

    /// The first condition that is not met and was met before. `has_waited` is true if the node had time to send packets to its
    /// gateway.
    pub(super) fn worse_than(&self, before: &Self, has_waited: bool) -> Option<String> {
        for (key, reason) in &self.unmet {
            if !before.unmet.contains_key(key) {
                return Some(reason.clone());
            }
        }
        if !before.gateways.values().any(|gateway| *gateway == Gateway::Answers) {
            return None;
        }
        for (ip, gateway) in &self.gateways {
            let is_new = !before.gateways.contains_key(ip);
            match gateway {
                Gateway::Silent => return Some(format!("its gateway {ip} does not answer")),
                Gateway::Unused if is_new && !has_waited => {
                    return Some(format!("waiting for packets to its gateway {ip}"));
                }
                Gateway::Answers | Gateway::Unused => {}
            }
        }
        None
    }
}

/// The answer of a node. None if the node does not have the resource or file, or does not allow reading it.
fn reported<T>(answer: Result<T, TalosError>) -> Result<Option<T>, TalosError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(TalosError::No {
            code: Code::PermissionDenied | Code::NotFound | Code::Unknown,
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The IPv4 gateways of the default routes.
fn default_gateways(routes: &[Resource]) -> BTreeSet<Ipv4Addr> {
    let gateway = |route: &Resource| -> Option<Ipv4Addr> {
        let is_default = route.text("dst").is_none_or(|dst| dst.is_empty() || dst == "0.0.0.0/0");
        let gateway: IpAddr = route.text("gateway")?.parse().ok()?;
        match gateway {
            IpAddr::V4(ip) if is_default => Some(ip),
            IpAddr::V4(_) | IpAddr::V6(_) => None,
        }
    };
    routes.iter().filter_map(gateway).collect()
}

/// The state of these gateways according to the ARP table. Each line starts with an address, the type and the flags. Bit 1 of the
/// flags is set if the hardware address is known.
fn gateways(desired: &BTreeSet<Ipv4Addr>, table: &str) -> BTreeMap<Ipv4Addr, Gateway> {
    let mut found: BTreeMap<Ipv4Addr, Gateway> =
        desired.iter().map(|ip| (*ip, Gateway::Unused)).collect();
    for line in table.lines() {
        let mut columns = line.split_whitespace();
        let (ip, flags) = (columns.next(), columns.nth(1));
        let ip: Option<Ipv4Addr> = ip.and_then(|ip| ip.parse().ok());
        let Some(gateway) = ip.and_then(|ip| found.get_mut(&ip)) else { continue };
        let flags = flags.and_then(|flags| flags.strip_prefix("0x"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags, 16).ok()).unwrap_or_default();
        let is_known = flags & 2 != 0;
        // The gateway may have an entry for each network card.
        if is_known || *gateway == Gateway::Unused {
            *gateway = if is_known { Gateway::Answers } else { Gateway::Silent };
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "IP address       HW type     Flags       HW address            Mask     Device\n\
                         10.0.0.1         0x1         0x2         02:00:00:00:00:01     *        eth0\n\
                         10.0.0.99        0x1         0x0         00:00:00:00:00:00     *        eth0\n";

    fn of(addresses: &[&str]) -> TrialConditions {
        let desired: BTreeSet<Ipv4Addr> = addresses.iter().map(|ip| ip.parse().unwrap()).collect();
        TrialConditions { unmet: BTreeMap::new(), gateways: gateways(&desired, TABLE) }
    }

    #[test]
    fn a_gateway_without_a_hardware_address_is_worse() {
        let before = of(&["10.0.0.1"]);
        assert_eq!(of(&["10.0.0.1"]).worse_than(&before, false), None);
        let silent = "its gateway 10.0.0.99 does not answer".to_owned();
        assert_eq!(of(&["10.0.0.99"]).worse_than(&before, true), Some(silent));
        let unused = of(&["10.0.0.2"]);
        assert!(unused.worse_than(&before, false).is_some());
        assert_eq!(unused.worse_than(&before, true), None, "the node sends no packets to it");
        // A node whose gateway did not answer before cannot get worse.
        assert_eq!(of(&["10.0.0.99"]).worse_than(&of(&["10.0.0.99"]), true), None);
        assert_eq!(of(&["10.0.0.99"]).worse_than(&of(&[]), true), None);
    }

    #[test]
    fn a_condition_is_required_if_it_was_met_before() {
        let met = TrialConditions::default();
        let unmet = BTreeMap::from([("etcd", "etcd does not run".to_owned())]);
        let unmet = TrialConditions { unmet, ..TrialConditions::default() };
        assert_eq!(unmet.worse_than(&met, true), Some("etcd does not run".to_owned()));
        assert_eq!(unmet.worse_than(&unmet, true), None);
        assert_eq!(met.worse_than(&unmet, true), None);
    }
}
