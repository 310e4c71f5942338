//! Parser for `nodes.json`. An unknown key is an error, because its content would be lost.

use std::net::IpAddr;

use serde_json::{Map, Value as Json};

use super::is_name;

/// Content of a nodes.json.
#[derive(Debug, Default)]
pub(super) struct NodesJson {
    pub(super) vip: Option<IpAddr>,
    /// `control_plane_vip` as written in the file.
    written_vip: Option<String>,
    /// Endpoint of the cluster, if `control_plane_vip` in the file is the address of a node.
    pub(super) endpoint: Option<IpAddr>,
    pub(super) login_server: Option<String>,
    pub(super) controlplanes: Vec<Node>,
    pub(super) workers: Vec<Node>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    /// DHCP lease.
    pub(super) dhcp: Option<IpAddr>,
    /// Static address, optionally with a prefix length.
    pub(super) address: Option<String>,
}

/// Error in a nodes.json.
#[derive(Debug)]
pub(super) struct NodesJsonError {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

fn problem<T>(message: impl Into<String>, hint: &str) -> Result<T, NodesJsonError> {
    let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
    Err(NodesJsonError { message: message.into(), hint })
}

const KEYS: [&str; 4] = ["control_plane_vip", "headscale_login_server", "controlplanes", "workers"];
const NODE_KEYS: [&str; 3] = ["name", "dhcp", "address"];

pub(super) fn read(text: &str) -> Result<NodesJson, NodesJsonError> {
    let root: Json = match serde_json::from_str(text) {
        Ok(root) => root,
        Err(error) => return problem(format!("this is not JSON: {error}"), ""),
    };
    let root = object(&root, "the file", &KEYS)?;
    Ok(NodesJson {
        vip: None,
        written_vip: text_of(root, "control_plane_vip", "the file")?,
        endpoint: None,
        login_server: text_of(root, "headscale_login_server", "the file")?,
        controlplanes: nodes(root, "controlplanes")?,
        workers: nodes(root, "workers")?,
    })
}

impl NodesJson {
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.controlplanes.iter().chain(&self.workers)
    }

    /// Whether every node has a static address.
    pub(super) fn is_static(&self) -> bool {
        self.nodes().all(|node| node.address.is_some())
    }

    /// Uses `control_plane_vip` as the VIP, or as the endpoint if it is the address of a node. Returns warnings.
    pub(super) fn settle(&mut self) -> Vec<String> {
        let Some(written) = self.written_vip.take().filter(|vip| !vip.is_empty()) else {
            return vec![];
        };
        let Ok(vip) = written.parse::<IpAddr>() else {
            return vec![format!("`control_plane_vip` is ignored: `{written}` is not an address")];
        };
        let holder = self.nodes().find(|node| node.has(vip)).map(|node| node.name.clone());
        match holder {
            None => {
                self.vip = Some(vip);
                vec![]
            }
            Some(name) => {
                self.endpoint = Some(vip);
                vec![format!(
                    "`control_plane_vip` is used as the endpoint: {vip} is the address of `{name}`"
                )]
            }
        }
    }
}

impl Node {
    fn has(&self, address: IpAddr) -> bool {
        let own = self.address.as_deref().map(without_prefix);
        self.dhcp == Some(address) || own == Some(&address.to_string())
    }
}

fn without_prefix(address: &str) -> &str {
    address.split_once('/').map_or(address, |(address, _)| address)
}

fn object<'a>(
    value: &'a Json,
    place: &str,
    known: &[&str],
) -> Result<&'a Map<String, Json>, NodesJsonError> {
    let Some(map) = value.as_object() else {
        return problem(format!("{place} is not an object"), "");
    };
    if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
        let hint = format!("known keys: {}", known.join(", "));
        return problem(format!("unknown key `{key}` in {place}"), &hint);
    }
    Ok(map)
}

/// Text of a key. `None` if the key is missing or null.
fn text_of(
    map: &Map<String, Json>,
    key: &str,
    place: &str,
) -> Result<Option<String>, NodesJsonError> {
    match map.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(_) => problem(format!("`{key}` of {place} is not a string"), ""),
    }
}

fn nodes(root: &Map<String, Json>, key: &str) -> Result<Vec<Node>, NodesJsonError> {
    match root.get(key) {
        None | Some(Json::Null) => Ok(vec![]),
        Some(Json::Array(items)) => items
            .iter()
            .enumerate()
            .map(|(index, item)| node(item, &format!("{key}[{index}]")))
            .collect(),
        Some(_) => problem(format!("`{key}` is not a list"), ""),
    }
}

fn node(value: &Json, place: &str) -> Result<Node, NodesJsonError> {
    let map = object(value, place, &NODE_KEYS)?;
    let name = match text_of(map, "name", place)? {
        Some(name) if is_name(&name) => name,
        Some(name) => {
            let hint = "use lower-case letters, digits and `-`";
            return problem(format!("`{name}` in {place} is not the name of a node"), hint);
        }
        None => return problem(format!("{place} has no name"), ""),
    };
    let dhcp = match text_of(map, "dhcp", place)? {
        None => None,
        Some(text) => match text.parse() {
            Ok(address) => Some(address),
            Err(_) => {
                return problem(format!("`dhcp` of `{name}`: `{text}` is not an address"), "");
            }
        },
    };
    let address = text_of(map, "address", place)?;
    if let Some(text) = &address {
        let prefix = text.split_once('/').map(|(_, prefix)| prefix);
        let is_good = without_prefix(text).parse::<IpAddr>().is_ok()
            && prefix.is_none_or(|prefix| prefix.parse::<u8>().is_ok());
        if !is_good {
            return problem(format!("`address` of `{name}`: `{text}` is not an address"), "");
        }
    }
    Ok(Node { name, dhcp, address })
}
