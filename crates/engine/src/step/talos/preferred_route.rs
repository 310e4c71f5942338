//! Config of a trial, in which the default routes of the config are preferred.
//!
//! Talos keeps the default route of the cloud-init drive or the config volume in addition to that of the config. So a wrong gateway
//! in the config would have no effect during the trial. With a lower metric, the node uses the routes of the config.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use talmox_talos_config::secret::SecretText;
use talmox_yaml::{Entry, Node, Value, emit_all};

/// Metric of a preferred route. Talos gives other routes the metric 1024.
const METRIC: &str = "512";

/// A config whose default routes are preferred.
#[derive(Debug)]
pub(super) struct PreferredRoutes {
    pub(super) config: SecretText,
    /// The gateways of the preferred routes.
    pub(super) gateways: BTreeSet<Ipv4Addr>,
}

impl PreferredRoutes {
    /// None if the config has no IPv4 default route without a metric.
    pub(super) fn of(config: &SecretText) -> Option<Self> {
        let mut documents = talmox_yaml::read(config.expose()).ok()?;
        let mut gateways = BTreeSet::new();
        for document in &mut documents {
            let is_v1alpha1 = document.as_map().is_some_and(|map| map.get("kind").is_none());
            if !is_v1alpha1 {
                prefer(document, "destination", &mut gateways);
                continue;
            }
            let network = value(document, "machine").and_then(|machine| value(machine, "network"));
            let Some(interfaces) = network.and_then(|network| value(network, "interfaces")) else {
                continue;
            };
            for interface in items(interfaces) {
                prefer(interface, "network", &mut gateways);
                for vlan in value(interface, "vlans").map(items).into_iter().flatten() {
                    prefer(vlan, "network", &mut gateways);
                }
            }
        }
        if gateways.is_empty() {
            return None;
        }
        Some(Self { config: SecretText::new(emit_all(&documents, 4)), gateways })
    }
}

/// Sets the metric of the default routes of a link. `destination` is the key of the destination of a route.
fn prefer(link: &mut Node, destination: &str, gateways: &mut BTreeSet<Ipv4Addr>) {
    let Some(routes) = value(link, "routes") else { return };
    for route in items(routes) {
        let Value::Map(map) = &mut route.value else { continue };
        let text = |key: &str| map.get(key).and_then(Node::as_str);
        let is_default = text(destination).is_none_or(|to| to.is_empty() || to == "0.0.0.0/0");
        let has_metric = text("metric").is_some();
        let gateway: Option<Ipv4Addr> = text("gateway").and_then(|gateway| gateway.parse().ok());
        let Some(gateway) = gateway.filter(|_| is_default && !has_metric) else { continue };
        map.entries.push(Entry { key: Node::plain("metric"), value: Node::plain(METRIC) });
        gateways.insert(gateway);
    }
}

fn value<'a>(node: &'a mut Node, key: &str) -> Option<&'a mut Node> {
    let Value::Map(map) = &mut node.value else { return None };
    let entry = map.entries.iter_mut().find(|entry| entry.key.as_str() == Some(key))?;
    Some(&mut entry.value)
}

fn items(node: &mut Node) -> &mut [Node] {
    match &mut node.value {
        Value::Seq(seq) => &mut seq.items,
        Value::Map(_) | Value::Scalar(_) => &mut [],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preferred(text: &str) -> Option<(String, Vec<String>)> {
        let routes = PreferredRoutes::of(&SecretText::new(text))?;
        let gateways = routes.gateways.iter().map(ToString::to_string).collect();
        Some((routes.config.expose().to_owned(), gateways))
    }

    #[test]
    fn default_routes_get_a_lower_metric() {
        let v1alpha1 = "version: v1alpha1\nmachine:\n    network:\n        interfaces:\n            - interface: eth0\n              \
                        routes:\n                - network: 0.0.0.0/0\n                  gateway: 10.0.0.1\n                - \
                        network: 10.9.0.0/16\n                  gateway: 10.0.0.2\n";
        let (text, gateways) = preferred(v1alpha1).unwrap();
        assert_eq!(gateways, ["10.0.0.1"]);
        assert_eq!(text.matches("metric: 512").count(), 1, "{text}");
        let document = "version: v1alpha1\nmachine: {}\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\nroutes:\n    \
                        - gateway: 10.0.0.3\n";
        let (text, gateways) = preferred(document).unwrap();
        assert_eq!(gateways, ["10.0.0.3"]);
        assert!(text.contains("gateway: 10.0.0.3") && text.contains("metric: 512"), "{text}");
    }

    #[test]
    fn a_metric_of_the_user_is_kept() {
        let text =
            "kind: LinkConfig\nname: eth0\nroutes:\n    - gateway: 10.0.0.3\n      metric: 100\n";
        assert_eq!(preferred(text), None);
        assert_eq!(preferred("version: v1alpha1\nmachine: {}\n"), None);
    }
}
