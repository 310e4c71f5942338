//! Inventory files that `import` writes.

use std::net::IpAddr;

use serde_json::json;

use super::nodes_json::{Node, NodesJson};
use crate::command::init::files::{MODELINE, line};

pub(super) fn cluster(found: &NodesJson, name: &str, talos_version: &str) -> String {
    let mut out = format!("{MODELINE}cluster_name: {name}\n");
    out.push_str(&line(
        &format!("talos_version: {talos_version}"),
        "set the version that the nodes run",
    ));
    out.push_str("# kubernetes_version: v1.36.3        # default: that of the Talos version\n");
    out.push_str(&endpoint(found));
    if !found.is_static() {
        out.push_str(&line(
            "boot: dhcp",
            "remove this line to use static addresses: set `ip` for every node",
        ));
    }
    out.push_str("\nnetwork:\n");
    out.push_str(&line("  # subnet: 10.0.0.0/24", "network of the nodes"));
    out.push_str(&line("  # gateway: 10.0.0.1", "needed for static addresses"));
    out.push_str("  # nameservers: [10.0.0.1]\n");
    out.push_str(&vip(found.vip));
    // Without an uncommented key, `network:` would be null in YAML.
    out.push_str("  cni: flannel\n");
    out.push_str(
        r"
proxmox:
  # endpoint: https://HOST:8006
",
    );
    out.push_str(&line("  # fingerprint: \"AB:CD:…\"", "default: the CAs that this system trusts"));
    out.push_str(&line(
        "  token: {env: PROXMOX_TOKEN}",
        "user@realm!id=uuid; or {secret: proxmox.token}",
    ));
    out.push_str(&line("  # node: pve", "Proxmox host of the nodes"));
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
        "\n# Defaults of all nodes; nodes, classes and roles can override them.\nmachine:\n",
    );
    out.push_str("  cores: 2\n");
    out.push_str(&line("  memory: 4096", "MiB, or 4G"));
    out.push_str("  disk: 40G\n");
    out
}

fn endpoint(found: &NodesJson) -> String {
    let url = |address: IpAddr| match address {
        IpAddr::V4(address) => format!("https://{address}:6443"),
        IpAddr::V6(address) => format!("https://[{address}]:6443"),
    };
    match (found.endpoint, found.vip) {
        (Some(node), _) => format!("endpoint: {}\n", url(node)),
        (None, Some(_)) => String::new(),
        (None, None) => line("# endpoint: https://HOST:6443", "URL of the Kubernetes API"),
    }
}

fn vip(vip: Option<IpAddr>) -> String {
    let Some(vip) = vip else {
        return line("  # vip: 10.0.0.20", "free address that the control planes share");
    };
    let mut out = line(&format!("  vip: {vip}"), "address that the control planes share");
    if is_overlay(vip) {
        // Talos supports a VIP only in the network of the nodes.
        out.push_str(&line("  vip_by: kube-vip", "the address is in the Tailscale network"));
    }
    out
}

/// Whether an address is in the range of Tailscale.
fn is_overlay(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => matches!(address.octets(), [100, 64..=127, ..]),
        IpAddr::V6(address) => address.segments()[..3] == [0xfd7a, 0x115c, 0xa1e0],
    }
}

pub(super) fn nodes(found: &NodesJson) -> String {
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
    // An address is quoted, because YAML would parse the colons of an IPv6 address as keys.
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

/// Quotes a name that YAML would parse as a number or a boolean.
fn quoted_name(name: &str) -> String {
    if name.starts_with(|c: char| c.is_ascii_digit()) || !name.contains('-') {
        json!(name).to_string()
    } else {
        name.to_owned()
    }
}
