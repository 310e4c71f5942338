//! Nodes of a running cluster, read through the Talos API.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use talmox_talos_api::client::{Resource, ResourceKind};
use talmox_talos_api::{
    Client, Credentials, EtcdState, Machine, Settings, TalosError, parse_node_address,
};
use talmox_talos_config::leaf::leaves;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::{Config, Release};
use talmox_yaml::Node;

use super::etcd_member;

/// Entries in the extension list of Talos that are not extensions: the schematic of the image, and a file of the kernel.
const NO_EXTENSIONS: [&str; 2] = ["schematic", "modules.dep"];

/// Node that answered through the Talos API.
#[derive(Clone, Debug)]
pub(super) struct RunningNode {
    /// Name of the node in Kubernetes.
    pub(super) name: String,
    /// Addresses at which the node answered.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) machine: Machine,
    /// Version of Talos, such as `v1.11.2`.
    pub(super) version: String,
    pub(super) schematic: Option<String>,
    /// Names of the system extensions, without `siderolabs/`.
    pub(super) extensions: Vec<String>,
    pub(super) config: SecretText,
    /// Names of the members of etcd, as the node reports them. `None` if etcd does not run on the node.
    pub(super) etcd_members: Option<Vec<String>>,
}

/// Nodes of a cluster, and the addresses at which no node could be read.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningNodes {
    pub(super) nodes: Vec<RunningNode>,
    /// Address and reason.
    pub(super) failures: Vec<(String, String)>,
}

impl RunningNode {
    pub(super) fn release(&self) -> Release {
        Release::of(&self.version).unwrap_or_default()
    }

    /// Values of the machine config by path, without secrets. Empty if the config cannot be parsed.
    pub(super) fn values(&self) -> BTreeMap<String, String> {
        let Ok(config) = Config::parse(self.config.expose(), self.release()) else {
            return BTreeMap::new();
        };
        let open = leaves(&config).into_iter();
        open.filter_map(|leaf| Some((leaf.path.clone(), leaf.shown()?.to_owned()))).collect()
    }

    pub(super) fn is_control_plane(&self) -> bool {
        matches!(
            self.values().get("machine.type").map(String::as_str),
            Some("controlplane" | "init")
        )
    }
}

/// Endpoints and nodes in a context of a talosconfig.
fn addresses_in(talosconfig: &SecretText, context: Option<&str>) -> Vec<String> {
    let root = talmox_yaml::read_first(talosconfig.expose()).ok().flatten();
    let get = |node: Option<&Node>, key: &str| node?.as_map()?.get(key).cloned();
    let current = get(root.as_ref(), "context");
    let name = context.or(current.as_ref().and_then(Node::as_str)).unwrap_or_default();
    let context = get(get(root.as_ref(), "contexts").as_ref(), name);
    let list = |key: &str| texts(get(context.as_ref(), key).as_ref());
    list("endpoints").into_iter().chain(list("nodes")).collect()
}

fn texts(list: Option<&Node>) -> Vec<String> {
    let items = list.and_then(Node::as_seq).map(|seq| seq.items.as_slice()).unwrap_or_default();
    items.iter().filter_map(|item| Some(item.as_str()?.to_owned())).collect()
}

/// Reads the nodes at the addresses of a talosconfig, and the cluster members that these nodes discovered.
pub(super) async fn read(
    talosconfig: &SecretText,
    context: Option<&str>,
    credentials: &Credentials,
    settings: &Settings,
) -> RunningNodes {
    let mut found = RunningNodes::default();
    let mut open: VecDeque<String> = addresses_in(talosconfig, context).into();
    let mut asked = BTreeSet::new();
    while let Some(host) = open.pop_front() {
        let address = parse_node_address(&host);
        if !asked.insert(address.to_string()) {
            continue;
        }
        let client = match Client::new(address, credentials, settings) {
            Ok(client) => client,
            Err(error) => {
                found.failures.push((host, error.to_string()));
                continue;
            }
        };
        match read_one(&client).await {
            Ok((node, members)) => {
                open.extend(members);
                add(&mut found.nodes, node);
            }
            Err(error) => found.failures.push((host, error.to_string())),
        }
    }
    found.nodes.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// Adds a node to the list. If the list contains the node already, only its addresses are added, because a node may
/// answer at several addresses, such as a VIP.
fn add(nodes: &mut Vec<RunningNode>, node: RunningNode) {
    let is_same =
        |known: &RunningNode| known.name == node.name && known.machine.uuid == node.machine.uuid;
    match nodes.iter().position(is_same) {
        Some(at) => nodes[at].addresses.extend(node.addresses),
        None => nodes.push(node),
    }
}

/// Reads a node. Also returns the first address of each cluster member that the node discovered.
async fn read_one(client: &Client) -> Result<(RunningNode, Vec<String>), TalosError> {
    let config = client.get(ResourceKind::MACHINE_CONFIG, "v1alpha1").await?;
    let machine = Machine::read(client).await?;
    let version = client.version().await?.tag;
    let extensions = client.list(ResourceKind::EXTENSION_STATUS).await?;
    // An error counts as an empty list, because discovery may be turned off.
    let members = client.list(ResourceKind::MEMBER).await.unwrap_or_default();
    let names = client.list(ResourceKind::NODENAME).await.unwrap_or_default();
    let name = match names.iter().find_map(|name| name.text("nodename")) {
        Some(name) => name,
        None => client.hostname().await?,
    };
    let schematic = extensions
        .iter()
        .find(|one| one.text("metadata.name").as_deref() == Some("schematic"))
        .and_then(|one| one.text("metadata.version"));
    let names = extensions.iter().filter_map(|one| one.text("metadata.name"));
    let first = |member: &Resource| {
        let tree = member.tree()?;
        texts(tree.as_map()?.get("addresses")).into_iter().next()
    };
    let node = RunningNode {
        name,
        addresses: client.node().host.parse::<IpAddr>().into_iter().collect(),
        machine,
        version,
        schematic,
        extensions: names.filter(|name| !NO_EXTENSIONS.contains(&name.as_str())).collect(),
        config: config.as_ref().map(Resource::config_text).unwrap_or_default(),
        etcd_members: match EtcdState::read(client).await {
            Ok(EtcdState::Member(members)) => Some(members.iter().map(etcd_member::name).collect()),
            Ok(_) | Err(_) => None,
        },
    };
    Ok((node, members.iter().filter_map(first).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_context() {
        let text = SecretText::new(
            "context: a\ncontexts:\n  a: {endpoints: [10.0.0.11], nodes: [10.0.0.11, 10.0.0.21]}\n  b: {endpoints: [10.0.1.11]}\n",
        );
        assert_eq!(addresses_in(&text, None), ["10.0.0.11", "10.0.0.11", "10.0.0.21"]);
        assert_eq!(addresses_in(&text, Some("b")), ["10.0.1.11"]);
        assert_eq!(addresses_in(&text, Some("c")), Vec::<String>::new());
    }
}
