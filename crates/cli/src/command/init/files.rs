//! Inventory files that `init` writes.

use std::net::Ipv4Addr;

use talmox_model::Release;

use super::answers::Answers;

/// Line that enables completion and checks of the file in editors.
pub(crate) const MODELINE: &str = "# yaml-language-server: $schema=../talmox.schema.json\n";

pub(super) fn cluster(answers: &Answers) -> String {
    let Answers { cluster, talos_version, subnet, gateway, node, .. } = answers;
    let vip = match answers.vip {
        Some(vip) => line(&format!("  vip: {vip}"), "free address that the control planes share"),
        None => String::new(),
    };
    let endpoint = match &answers.proxmox {
        Some(url) => format!("  endpoint: {url}\n"),
        None => "  # endpoint: https://HOST:8006\n".to_owned(),
    };
    let fingerprint = match &answers.fingerprint {
        Some(fingerprint) => format!("  fingerprint: \"{fingerprint}\"\n"),
        None => line("  # fingerprint: \"AB:CD:…\"", "default: the CAs that this system trusts"),
    };
    let version = talos_version.parse().ok().and_then(|talos| Release::of(&talos));
    let kubernetes = version.map_or("v1.34.1".to_owned(), |r| r.default_kubernetes().to_string());
    let kubernetes =
        line(&format!("# kubernetes_version: {kubernetes}"), "default: that of the Talos version");
    let kubernetes = kubernetes.trim_end();
    format!(
        r"{MODELINE}cluster_name: {cluster}
talos_version: {talos_version}
{kubernetes}

network:
  subnet: {subnet}
  gateway: {gateway}
  nameservers: [{gateway}]
{vip}  # cni: none                        # to install another CNI, such as Cilium
  # kube_proxy: false

proxmox:
{endpoint}{fingerprint}  token: {{env: PROXMOX_TOKEN}}        # user@realm!id=uuid; or {{secret: proxmox.token}}
  node: {node}
  datastore: local-lvm               # disks
  image_datastore: local             # images; needs the content type `import`
  bridge: vmbr0
  # pool: talos
  # vmid_range: 300-399

image:
  extensions:
    - siderolabs/qemu-guest-agent

# Defaults of all nodes; nodes, classes and roles can override them.
machine:
  cores: 2
  memory: 4096                       # MiB, or 4G
  disk: 40G
"
    )
}

/// Line of an inventory file with a comment at a fixed column.
pub(crate) fn line(text: &str, comment: &str) -> String {
    format!("{text:36} # {comment}\n")
}

pub(super) fn nodes(answers: &Answers) -> String {
    let list = |role: &str, addresses: &[Ipv4Addr]| -> String {
        let line = |(index, address): (usize, &Ipv4Addr)| {
            format!("  - {{name: {}-{role}-{}, ip: {address}}}\n", answers.cluster, index + 1)
        };
        addresses.iter().enumerate().map(line).collect()
    };
    let workers = if answers.workers.is_empty() {
        "workers: []\n".to_owned()
    } else {
        format!("workers:\n{}", list("wk", &answers.workers))
    };
    format!("{MODELINE}controlplane:\n{}\n{workers}", list("cp", &answers.controlplanes))
}
