//! Files that Talos writes below `/etc`.

use serde_json::{Value, json};

use super::cluster::identity;
use super::proto::{Field, Form};
use super::resolver::{HOST_DNS, has_host_dns, search_domains, servers};
use super::{Item, Kind, View};

const SPEC: &[Field] =
    &[("contents", 1, Form::Text), ("mode", 2, Form::Number), ("selinux_label", 3, Form::Text)];
const LABEL: &str = "system_u:object_r:etc_t:s0";
/// The most name servers that a resolver reads.
const MOST_SERVERS: usize = 3;
const READABLE: u32 = 0o644;
const READ_ONLY: u32 = 0o444;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "EtcFileSpecs.files.talos.dev",
        proto: SPEC,
        list: |view| files(view).into_iter().map(|file| file.to_item(view)).collect(),
    },
    Kind {
        name: "EtcFileStatuses.files.talos.dev",
        proto: &[("specVersion", 1, Form::Text)],
        list: |view| {
            let files = files(view).into_iter();
            files.map(|file| Item::new(file.path, json!({ "specVersion": "1" }))).collect()
        },
    },
];

struct File {
    /// Below `/etc`.
    path: &'static str,
    contents: String,
    mode: u32,
    owner: &'static str,
}

impl File {
    fn to_item(&self, view: &View<'_>) -> Item {
        let mut spec: Value = json!({ "contents": self.contents, "mode": self.mode });
        if view.node.version.is_at_least(9) {
            spec["selinux_label"] = LABEL.into();
        }
        Item::new(self.path, spec).owned_by(self.owner)
    }
}

fn files(view: &View<'_>) -> Vec<File> {
    let network = "network.EtcFileController";
    let mut files = vec![File {
        path: "resolv.conf",
        contents: resolv_conf(view),
        mode: READABLE,
        owner: network,
    }];
    let hosts = hosts(view);
    files.extend(hosts.map(|contents| File {
        path: "hosts",
        contents,
        mode: READABLE,
        owner: network,
    }));
    if view.node.config.is_none() {
        return files;
    }
    let id = machine_id(view);
    let owner = "cluster.NodeIdentityController";
    files.push(File { path: "machine-id", contents: id.clone(), mode: READ_ONLY, owner });
    if view.node.version.is_at_least(11) {
        let contents = format!("InitiatorName=iqn.2017-11.dev.talos:{id}\n");
        let owner = "files.IQNController";
        files.push(File { path: "iscsi/initiatorname.iscsi", contents, mode: READABLE, owner });
    }
    files
}

fn resolv_conf(view: &View<'_>) -> String {
    let has_own = view.node.config.as_ref().is_some_and(|config| has_host_dns(config));
    let servers = if has_own { vec![HOST_DNS.to_owned()] } else { servers(view) };
    let mut text = String::new();
    for server in servers.iter().take(MOST_SERVERS) {
        text.push_str(&format!("nameserver {server}\n"));
    }
    let domains = search_domains(view);
    if !domains.is_empty() {
        text.push_str(&format!("\nsearch {}\n", domains.join(" ")));
    }
    text
}

/// Without an address there is no such file yet.
fn hosts(view: &View<'_>) -> Option<String> {
    let address = view.node.network.addresses().next()?.to_string();
    let network = &view.node.network;
    let mut names = network.full_name();
    if names != network.hostname {
        names = format!("{names} {}", network.hostname);
    }
    let mut lines = vec![
        ("127.0.0.1".to_owned(), "localhost".to_owned()),
        (address, names),
        ("::1".to_owned(), "localhost ip6-localhost ip6-loopback".to_owned()),
        ("ff02::1".to_owned(), "ip6-allnodes".to_owned()),
        ("ff02::2".to_owned(), "ip6-allrouters".to_owned()),
    ];
    let extra = view.node.config.as_ref().map(|c| c.value("machine.network.extraHostEntries"));
    for entry in extra.iter().filter_map(Value::as_array).flatten() {
        let aliases = entry["aliases"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let aliases: Vec<&str> = aliases.collect();
        let ip = entry["ip"].as_str().unwrap_or_default();
        lines.push((ip.to_owned(), aliases.join(" ")));
    }
    let width = lines.iter().map(|(address, _)| address.len()).max().unwrap_or_default();
    Some(lines.iter().map(|(address, names)| format!("{address:width$} {names}\n")).collect())
}

/// The first half of the node's identity, in hexadecimal.
fn machine_id(view: &View<'_>) -> String {
    identity(view.node).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
