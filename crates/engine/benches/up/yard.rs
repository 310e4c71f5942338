//! Scenario of the lab, and inventories of clusters in it.

use std::fmt::Write as _;

/// ID and secret of the only token of the lab.
pub(crate) const TOKEN: &str = "root@pam!lab=00000000-1111-4222-8333-444444444444";

/// Number of nodes for each host.
const PER_HOST: usize = 5;
pub(crate) const CONTROL_PLANES: usize = 3;

/// A cluster with this number of nodes. `nth` is its number in the lab.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) nth: u8,
    pub(crate) nodes: usize,
}

impl Size {
    fn hosts(self) -> usize {
        self.nodes.div_ceil(PER_HOST)
    }

    /// The inventory of the cluster: three control planes, the rest workers, five nodes for each host.
    pub(crate) fn inventory(self) -> String {
        self.inventory_with("")
    }

    /// The same inventory, with these settings of every worker, such as `, memory: 6144`.
    pub(crate) fn inventory_with(self, worker: &str) -> String {
        let nth = usize::from(self.nth);
        let first = 1000 * (nth + 1);
        let mut text = format!(
            "cluster_name: bench-{nth}\n\
             talos_version: v1.13.6\n\
             network: {{subnet: 10.0.{nth}.0/24, gateway: 10.0.{nth}.1, nameservers: [1.1.1.1], vip: 10.0.{nth}.2}}\n\
             proxmox: {{endpoint: 'https://pve1:8006', hosts: [{}], vmid_range: {first}-{}}}\n\
             boot: cloudinit\n\
             timeouts: {{task: 600m, image: 600m, boot: 600m, bootstrap: 600m, health: 600m}}\n\
             controlplane:\n",
            hosts(self.hosts()),
            first + 999
        );
        for node in 0..self.nodes {
            if node == CONTROL_PLANES {
                text.push_str("workers:\n");
            }
            let (role, own) = if node < CONTROL_PLANES { ("cp", "") } else { ("wk", worker) };
            let address = node + 11;
            writeln!(text, "  - {{name: {role}-{nth}-{node}, ip: 10.0.{nth}.{address}{own}}}")
                .unwrap();
        }
        text
    }
}

fn hosts(count: usize) -> String {
    (1..=count).map(|host| format!("pve{host}")).collect::<Vec<_>>().join(", ")
}

/// Scenario with enough hosts for this cluster, each with a storage for images and one for disks.
pub(crate) fn scenario(largest: Size) -> String {
    let (id, secret) = TOKEN.split_once('=').unwrap();
    let mut text = "nodes:\n".to_owned();
    for host in 1..=largest.hosts() {
        writeln!(text, "  - {{name: pve{host}, cores: 256, memory: 4TiB}}").unwrap();
    }
    write!(
        text,
        "storages:\n\
        \x20 - {{storage: local, type: dir, path: /var/lib/vz, content: 'iso,vztmpl,backup,import', size: 1TiB}}\n\
        \x20 - {{storage: local-lvm, type: lvmthin, vgname: pve, thinpool: data, content: images, size: 64TiB}}\n\
         access: {{tokens: [{{tokenid: '{id}', secret: {secret}, privsep: 0}}]}}\n"
    )
    .unwrap();
    text
}
