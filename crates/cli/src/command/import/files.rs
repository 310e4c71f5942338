//! The files that `import` writes.

use std::net::IpAddr;

use serde_json::json;

use super::nodes_json::{Found, Node};
use crate::command::init::files::{MODELINE, line};

pub(super) fn cluster(found: &Found, name: &str, talos_version: &str) -> String {
    let mut out = format!("{MODELINE}cluster_name: {name}\n");
    out.push_str(&line(&format!("talos_version: {talos_version}"), "which one do the nodes run?"));
    out.push_str(
        "# kubernetes_version: v1.36.3        # default: the one that this Talos brings\n",
    );
    out.push_str(&endpoint(found));
    if !found.is_static() {
        out.push_str(&line(
            "boot: dhcp",
            "without this line no DHCP is needed: give every node an `ip`",
        ));
    }
    out.push_str("\nnetwork:\n");
    out.push_str(&line("  # subnet: 10.0.0.0/24", "the network of the nodes"));
    out.push_str(&line("  # gateway: 10.0.0.1", "static addresses need it"));
    out.push_str("  # nameservers: [10.0.0.1]\n");
    out.push_str(&vip(found.vip));
    // A mapping without keys would be nothing at all.
    out.push_str("  cni: flannel\n");
    out.push_str(
        r"
proxmox:
  # endpoint: https://HOST:8006
",
    );
    out.push_str(&line("  # fingerprint: \"AB:CD:…\"", "else the CAs that this system trusts"));
    out.push_str(&line(
        "  token: {env: PROXMOX_TOKEN}",
        "user@realm!id=uuid; or {secret: proxmox.token}",
    ));
    out.push_str(&line("  # node: pve", "the Proxmox host of the nodes"));
    out.push_str("\nimage:\n  extensions:\n    - siderolabs/qemu-guest-agent\n");
    if let Some(server) = &found.login_server {
        out.push_str(&format!(
            "    - siderolabs/tailscale\n\ntailscale:\n  login_server: {}\n",
            json!(server)
        ));
        out.push_str(&line(
            "  auth_key: {env: HEADSCALE_AUTH_KEY}",
            "or {secret: tailscale.auth_key}",
        ));
    }
    out.push_str(
        "\n# What every node has; nodes, classes and roles can say otherwise.\nmachine:\n",
    );
    out.push_str("  cores: 2\n");
    out.push_str(&line("  memory: 4096", "MiB, or 4G"));
    out.push_str("  disk: 40G\n");
    out
}

fn endpoint(found: &Found) -> String {
    let url = |address: IpAddr| match address {
        IpAddr::V4(address) => format!("https://{address}:6443"),
        IpAddr::V6(address) => format!("https://[{address}]:6443"),
    };
    match (found.endpoint, found.vip) {
        (Some(node), _) => format!("endpoint: {}\n", url(node)),
        (None, Some(_)) => String::new(),
        (None, None) => {
            line("# endpoint: https://HOST:6443", "where clients find the Kubernetes API")
        }
    }
}

fn vip(vip: Option<IpAddr>) -> String {
    let Some(vip) = vip else {
        return line("  # vip: 10.0.0.20", "a free address: the control plane as a whole");
    };
    let mut out = line(&format!("  vip: {vip}"), "the control plane as a whole");
    if is_overlay(vip) {
        // Talos answers for an address on the nodes' own network only.
        out.push_str(&line("  vip_by: kube-vip", "it is an address of the Tailscale network"));
    }
    out
}

/// The addresses that Tailscale gives out.
fn is_overlay(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => matches!(address.octets(), [100, 64..=127, ..]),
        IpAddr::V6(address) => address.segments()[..3] == [0xfd7a, 0x115c, 0xa1e0],
    }
}

pub(super) fn nodes(found: &Found) -> String {
    let list = |nodes: &[Node]| -> String { nodes.iter().map(node).collect() };
    let workers = match found.workers.as_slice() {
        [] => "workers: []\n".to_owned(),
        workers => format!("workers:\n{}", list(workers)),
    };
    format!(
        "{MODELINE}# Each node may have a `vmid`, a `mac`, a `host` and sizes of its own.\n\
         controlplane:\n{}\n{workers}",
        list(&found.controlplanes)
    )
}

fn node(node: &Node) -> String {
    // Quoted: an IPv6 address would end a key.
    let quoted =
        |text: &str| if text.contains(':') { json!(text).to_string() } else { text.to_owned() };
    let mut keys = vec![format!("name: {}", quoted_name(&node.name))];
    if let Some(address) = &node.address {
        keys.push(format!("ip: {}", quoted(address)));
    }
    if let Some(lease) = node.dhcp {
        keys.push(format!("dhcp: {}", quoted(&lease.to_string())));
    }
    format!("  - {{{}}}\n", keys.join(", "))
}

/// A name of digits alone, or such as `true`, must stay a text.
fn quoted_name(name: &str) -> String {
    if name.starts_with(|c: char| c.is_ascii_digit()) || !name.contains('-') {
        json!(name).to_string()
    } else {
        name.to_owned()
    }
}
