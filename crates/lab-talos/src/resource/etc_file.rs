//! Files that Talos writes below `/etc`.

use serde_json::{Value, json};

use super::cluster::identity;
use super::proto::{Field, Form};
use super::resolver::{HOST_DNS, has_host_dns, search_domains, servers};
use super::{Item, ResourceContext, ResourceSource};

const SPEC: &[Field] =
    &[("contents", 1, Form::Text), ("mode", 2, Form::Number), ("selinux_label", 3, Form::Text)];
const LABEL: &str = "system_u:object_r:etc_t:s0";
/// Maximum number of name servers that a resolver reads.
const MOST_SERVERS: usize = 3;
const READABLE: u32 = 0o644;
const READ_ONLY: u32 = 0o444;

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource {
        name: "EtcFileSpecs.files.talos.dev",
        proto: SPEC,
        list: |context| files(context).into_iter().map(|file| file.to_item(context)).collect(),
    },
    ResourceSource {
        name: "EtcFileStatuses.files.talos.dev",
        proto: &[("specVersion", 1, Form::Text)],
        list: |context| {
            let files = files(context).into_iter();
            files.map(|file| Item::new(file.path, json!({ "specVersion": "1" }))).collect()
        },
    },
];

struct EtcFile {
    /// Path of the file, relative to `/etc`.
    path: &'static str,
    contents: String,
    mode: u32,
    owner: &'static str,
}

impl EtcFile {
    fn to_item(&self, context: &ResourceContext<'_>) -> Item {
        let mut spec: Value = json!({ "contents": self.contents, "mode": self.mode });
        if context.node.version.is_at_least(9) {
            spec["selinux_label"] = LABEL.into();
        }
        Item::new(self.path, spec).owned_by(self.owner)
    }
}

fn files(context: &ResourceContext<'_>) -> Vec<EtcFile> {
    let network = "network.EtcFileController";
    let mut files = vec![EtcFile {
        path: "resolv.conf",
        contents: resolv_conf(context),
        mode: READABLE,
        owner: network,
    }];
    let hosts = hosts(context);
    files.extend(hosts.map(|contents| EtcFile {
        path: "hosts",
        contents,
        mode: READABLE,
        owner: network,
    }));
    if context.node.config.is_none() {
        return files;
    }
    let id = machine_id(context);
    let owner = "cluster.NodeIdentityController";
    files.push(EtcFile { path: "machine-id", contents: id.clone(), mode: READ_ONLY, owner });
    if context.node.version.is_at_least(11) {
        let contents = format!("InitiatorName=iqn.2017-11.dev.talos:{id}\n");
        let owner = "files.IQNController";
        files.push(EtcFile { path: "iscsi/initiatorname.iscsi", contents, mode: READABLE, owner });
    }
    files
}

fn resolv_conf(context: &ResourceContext<'_>) -> String {
    let has_own = context.node.config.as_ref().is_some_and(|config| has_host_dns(config));
    let servers = if has_own { vec![HOST_DNS.to_owned()] } else { servers(context) };
    let mut text = String::new();
    for server in servers.iter().take(MOST_SERVERS) {
        text.push_str(&format!("nameserver {server}\n"));
    }
    let domains = search_domains(context);
    if !domains.is_empty() {
        text.push_str(&format!("\nsearch {}\n", domains.join(" ")));
    }
    text
}

/// Content of `/etc/hosts`; `None` while the node has no address.
fn hosts(context: &ResourceContext<'_>) -> Option<String> {
    let address = context.node.network.addresses().next()?.to_string();
    let network = &context.node.network;
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
    let extra = context.node.config.as_ref().map(|c| c.value("machine.network.extraHostEntries"));
    for entry in extra.iter().filter_map(Value::as_array).flatten() {
        let aliases = entry["aliases"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let aliases: Vec<&str> = aliases.collect();
        let ip = entry["ip"].as_str().unwrap_or_default();
        lines.push((ip.to_owned(), aliases.join(" ")));
    }
    let width = lines.iter().map(|(address, _)| address.len()).max().unwrap_or_default();
    Some(lines.iter().map(|(address, names)| format!("{address:width$} {names}\n")).collect())
}

/// Machine id: the first half of the node identity, in hexadecimal digits.
fn machine_id(context: &ResourceContext<'_>) -> String {
    identity(context.node).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
