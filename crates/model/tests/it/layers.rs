//! Merging of layers, and the reported origin of each value.

use std::collections::BTreeMap;

use crate::support::{file, findings, load, load_clusters};
use talmox_model::load::ClusterFiles;
use talmox_model::{Cluster, Inventory};

const DEFAULTS: &str = "\
machine: {cores: 3, memory: 5G, disk: 33G, onboot: false, tags: [lab]}
image: {extensions: [siderolabs/qemu-guest-agent]}
patches: {all: [good-defaults.yaml]}
proxmox: {endpoint: https://pve:8006, token: {env: TOKEN}, node: pve, datastore: slow}
";

const CLUSTER: &str = "\
talos_version: v1.11.2
network: {subnet: 10.0.0.0/16, gateway: 10.0.0.1}
proxmox: {datastore: fast}
machine: {memory: 6G, disk: 34G, cpu_type: x86-64-v3}
roles:
  workers: {disk: 35G, cpu_type: x86-64-v4, tags: [work], patches: [good-role.yaml]}
classes:
  big: {cpu_type: max, gpu: {pci: '28:00', x_vga: true}, image: {extensions: [siderolabs/tailscale, siderolabs/qemu-guest-agent]}, patches: [good-class.yaml]}
  huge: {cores: 64}
patches:
  all: [good-all.yaml]
  workers: [good-workers.yaml]
";

const NODES: &str = "\
controlplane:
  - {name: cp-1, ip: 10.0.0.11}
workers:
  - {name: wk-1, ip: 10.0.0.21, class: big, cores: 7, tags: [own], patches: [good-node.yaml]}
  - {name: wk-2, ip: 10.0.0.22, class: [big, huge], gpu: null, onboot: null, datastore: null}
";

fn inventory() -> Inventory {
    load_clusters(vec![ClusterFiles {
        default_name: "layers".to_owned(),
        defaults: Some(file("defaults.yaml", DEFAULTS.as_bytes())),
        cluster: Some(file("cluster.yaml", CLUSTER.as_bytes())),
        nodes: Some(file("nodes.yaml", NODES.as_bytes())),
        is_neighbour: false,
    }])
}

/// Map from each setting to its value, and to the file and line of the value.
fn explain(inventory: &Inventory, node: &str) -> BTreeMap<String, (String, String)> {
    let cluster = &inventory.clusters[0];
    let rows = cluster.explain(cluster.node(node).unwrap());
    rows.into_iter()
        .map(|row| {
            let origin = row.span.map_or("derived".to_owned(), |span| {
                let place = inventory.sources.locate(span);
                place.rsplit_once(':').map_or(place.clone(), |(line, _)| line.to_owned())
            });
            (row.path, (row.value, origin))
        })
        .collect()
}

#[test]
fn the_strongest_layer_wins_and_is_shown_as_origin() {
    let inventory = inventory();
    assert_eq!(findings(&inventory), Vec::<String>::new());
    let rows = explain(&inventory, "wk-1");
    let row = |path: &str| (rows[path].0.as_str(), rows[path].1.as_str());
    assert_eq!(row("disk_bus"), ("scsi", "built-in"));
    assert_eq!(row("onboot"), ("false", "defaults.yaml:1"));
    assert_eq!(row("memory"), ("6 GiB", "cluster.yaml:4"));
    assert_eq!(row("datastore"), ("fast", "cluster.yaml:3"));
    assert_eq!(row("disk"), ("35 GiB", "cluster.yaml:6"));
    assert_eq!(row("cpu_type"), ("max", "cluster.yaml:8"));
    assert_eq!(row("cores"), ("7", "nodes.yaml:4"));
    assert_eq!(row("gpu.x_vga").0, "true");
    assert_eq!(row("gpu.pcie"), ("true", "built-in"), "mappings merge key by key");
    assert_eq!(row("endpoint"), ("https://10.0.0.11:6443", "derived"));
    assert_eq!(row("kubernetes_version"), ("v1.34.1", "derived"));
}

#[test]
fn ignored_differences_of_all_layers_apply() {
    let text = "\
talos_version: v1.11.2
network: {subnet: 10.0.0.0/16, gateway: 10.0.0.1}
proxmox: {endpoint: https://pve:8006, token: {env: TOKEN}, node: pve}
machine: {ignore: [{path: memory, reason: all}]}
classes: {big: {ignore: [{path: cores, reason: class}]}}
controlplane:
  - {name: cp-1, ip: 10.0.0.11, class: big, ignore: [{path: net0, reason: node}]}
  - {name: cp-2, ip: 10.0.0.12, ignore: null}
";
    let inventory = load(text);
    let reasons = |node: &str| -> Vec<String> {
        let node = inventory.clusters[0].node(node).unwrap();
        let ignored = node.settings().ignore.values();
        ignored.filter_map(|one| one.reason.get().cloned()).collect()
    };
    assert_eq!(reasons("cp-1"), ["all", "class", "node"]);
    assert!(reasons("cp-2").is_empty(), "`null` removes those of weaker layers");
}

#[test]
fn extensions_and_tags_are_combined_and_patches_append() {
    let inventory = inventory();
    let rows = explain(&inventory, "wk-1");
    let list = |path: &str| -> Vec<&str> {
        let items = (0..).map_while(|index| rows.get(&format!("{path}[{index}]")));
        items.map(|(value, _)| value.as_str()).collect()
    };
    assert_eq!(list("image.extensions"), ["siderolabs/qemu-guest-agent", "siderolabs/tailscale"]);
    assert_eq!(list("tags"), ["lab", "work", "own"]);
    assert_eq!(
        list("patches"),
        [
            "good-defaults.yaml",
            "good-all.yaml",
            "good-workers.yaml",
            "good-role.yaml",
            "good-class.yaml",
            "good-node.yaml"
        ]
    );
    let controlplane = explain(&inventory, "cp-1");
    assert_eq!(controlplane["patches[1]"].0, "good-all.yaml");
    assert!(!controlplane.contains_key("patches[2]"));
}

#[test]
fn null_resets_a_value_to_the_builtin_one() {
    let inventory = inventory();
    let rows = explain(&inventory, "wk-2");
    assert_eq!(rows["cores"].0, "64", "of several classes the last wins");
    assert!(!rows.contains_key("gpu.pci"));
    assert!(!rows.contains_key("gpu.pcie"), "settings without a device are not shown");
    assert!(inventory.clusters[0].node("wk-2").unwrap().settings().hardware.gpu.pcie.required());
    assert_eq!(rows["onboot"], ("true".to_owned(), "built-in".to_owned()));
    assert_eq!(rows["datastore"].0, "local-lvm");
}

#[test]
fn nulls_everywhere_leave_a_usable_node() {
    let inventory = load(
        "talos_version: v1.11.2\nnetwork: null\nproxmox: null\nboot: null\nimage: null\n\
         machine: {os: null, cores: null, memory: null, disk: null, gpu: null, boot: null}\n\
         controlplane: [{name: a, ip: 10.0.0.1/8, machine_type: null, bios: null}]\n",
    );
    let cluster: &Cluster = &inventory.clusters[0];
    let node = &cluster.nodes[0];
    assert!(node.is_talos());
    assert_eq!(node.settings().hardware.cores.required().get(), 2);
    assert!(!node.settings().hardware.gpu.x_vga.required());
}

#[test]
fn the_names_of_the_terraform_module_are_aliases() {
    let text = "\
talos_version: v1.12.4
boot: template
network: {subnet: 10.0.0.0/16, gateway: 10.0.0.1}
proxmox: {endpoint: https://pve:8006, token: {env: TOKEN}}
controlplane:
  - {name: a, ip: 10.0.0.11, node: pve, template: 9000, cores: 4, memory_mb: 8192, disk_gb: 80,
     disk_pool: tank, network_bridge: vmbr1, gpu_pci_bdf: '0000:01:00.0', gpu_pcie_mode: false,
     gpu_rombar: false, onboot: false}
  - {name: b, ip: 10.0.0.12, node: pve, template: talos-v1.12.4-base}
  - {name: c, ip: 10.0.0.13, node: pve, template: talos-v1.12.4-base}
";
    let inventory = load(&text.replace("subnet:", "vip: 10.0.0.20, subnet:"));
    assert_eq!(findings(&inventory), ["warning unproven-peer 2:7"]);
    let values = |node| -> Vec<(String, String)> {
        let rows = explain(&inventory, node);
        [
            "host",
            "template",
            "cores",
            "memory",
            "disk",
            "datastore",
            "bridge",
            "gpu.pci",
            "gpu.pcie",
            "gpu.rombar",
            "onboot",
        ]
        .into_iter()
        .filter_map(|path| Some((path.to_owned(), rows.get(path)?.0.clone())))
        .collect()
    };
    let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    };
    assert_eq!(
        values("a"),
        pairs(&[
            ("host", "pve"),
            ("template", "9000"),
            ("cores", "4"),
            ("memory", "8 GiB"),
            ("disk", "80 GiB"),
            ("datastore", "tank"),
            ("bridge", "vmbr1"),
            ("gpu.pci", "0000:01:00.0"),
            ("gpu.pcie", "false"),
            ("gpu.rombar", "false"),
            ("onboot", "false"),
        ])
    );
    assert_eq!(
        values("b"),
        pairs(&[
            ("host", "pve"),
            ("template", "talos-v1.12.4-base"),
            ("cores", "2"),
            ("memory", "4 GiB"),
            ("disk", "40 GiB"),
            ("datastore", "local-lvm"),
            ("bridge", "vmbr0"),
            ("onboot", "true"),
        ])
    );
    let gpu = &inventory.clusters[0].node("b").unwrap().settings().hardware.gpu;
    assert!(*gpu.pcie.required() && *gpu.rombar.required(), "defaults for a later device");
}

#[test]
fn null_removes_lists_and_table_entries() {
    let text = "\
talos_version: v1.11.2
network: {subnet: 10.0.0.0/16, gateway: 10.0.0.1}
proxmox: {endpoint: https://pve:8006, token: {env: TOKEN}, node: pve}
image: {extensions: [a/b]}
machine: {tags: [lab], labels: {x: y, z: y}, patches: [good.yaml]}
controlplane:
  - {name: a, ip: 10.0.0.11, tags: null, image: {extensions: null}, labels: {x: null}, patches: null}
workers:
  - {name: b, ip: 10.0.0.12, labels: null}
";
    let inventory = load(text);
    assert_eq!(findings(&inventory), Vec::<String>::new());
    let settings = |name: &str| inventory.clusters[0].node(name).unwrap().settings().clone();
    let (a, b) = (settings("a"), settings("b"));
    assert!(a.placement.tags.is_empty() && a.system.image.extensions.is_empty());
    assert!(a.system.patches.is_empty());
    assert_eq!(a.kubernetes.labels.names().collect::<Vec<_>>(), ["z"]);
    assert!(b.kubernetes.labels.is_empty() && !b.placement.tags.is_empty());
}
