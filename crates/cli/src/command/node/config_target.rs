//! Comparison of a machine config with the node that it is sent to.

use talmox_model::Node as KnownNode;
use talmox_model::value::Role;
use talmox_talos_config::secret::SecretText;
use talmox_yaml::{Map, Node};

/// Host name and machine type that a machine config sets.
#[derive(Debug, Default, PartialEq, Eq)]
struct ConfigTarget {
    host_name: Option<String>,
    machine_type: Option<String>,
}

/// Reason why a config is not for this node. `None` if the config is for this node. Also `None` for a text that is not a
/// config, because the node rejects such a text.
pub(super) fn mismatch(config: &SecretText, node: &KnownNode) -> Option<String> {
    let ConfigTarget { host_name, machine_type } = ConfigTarget::of(config.expose());
    let name = node.name.value.as_str();
    let is_called =
        |full: &String| full.split('.').next().is_some_and(|host| host.eq_ignore_ascii_case(name));
    if let Some(other) = host_name.filter(|host| !is_called(host)) {
        return Some(format!("its host name is `{other}`"));
    }
    let is_plane = match machine_type.as_deref()? {
        "controlplane" | "init" => true,
        "worker" => false,
        _ => return None,
    };
    match (is_plane, node.role) {
        (true, Role::Worker) => {
            Some("it is a control plane's, and the node is a worker".to_owned())
        }
        (false, Role::ControlPlane) => {
            Some("it is a worker's, and the node is a control plane".to_owned())
        }
        _ => None,
    }
}

impl ConfigTarget {
    fn of(text: &str) -> Self {
        let mut found = Self::default();
        for document in talmox_yaml::read(text).unwrap_or_default() {
            let Some(root) = document.as_map() else { continue };
            match root.get("kind").and_then(Node::as_str) {
                None => {
                    found.machine_type = at(root, &["machine", "type"]);
                    let host_name = at(root, &["machine", "network", "hostname"]);
                    found.host_name = host_name.or(found.host_name);
                }
                Some("HostnameConfig") => {
                    found.host_name = at(root, &["hostname"]).or(found.host_name);
                }
                Some(_) => {}
            }
        }
        found
    }
}

/// Text at a path of keys. `None` if the text is missing or empty.
fn at(root: &Map, path: &[&str]) -> Option<String> {
    let (last, parents) = path.split_last()?;
    let map = parents.iter().try_fold(root, |map, key| map.get(key)?.as_map())?;
    let found = map.get(last).filter(|node| !node.is_null())?.as_str()?;
    Some(found.to_owned()).filter(|text| !text.is_empty())
}
