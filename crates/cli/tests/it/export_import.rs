//! `talmox export` and `talmox import`

use insta::assert_snapshot;
use serde_json::{Value as Json, json};

use crate::support::{Folder, repository};

const NODES: &str = r#"{
  "control_plane_vip": "tailscale-vip-placeholder",
  "headscale_login_server": "https://hs.example.com:8080",
  "controlplanes": [{"name":"talos-cp-01","dhcp":"10.0.232.93"}],
  "workers": [{"name":"talos-worker-01","dhcp":"10.0.232.109"}]
}
"#;

fn examples(name: &str) -> String {
    repository().join("examples").join(name).display().to_string()
}

fn exported(folder: &Folder, args: &str) -> Json {
    let run = folder.talmox(&format!("export {args} --output -"));
    let no_secrets = "warning: MACs are derived from the secrets of the cluster, which cannot be read: `mac` is null\n";
    assert!(run.code == 0 && ["", no_secrets].contains(&run.stderr.as_str()), "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn tfvars_has_the_inputs_of_each_vm() {
    let json = exported(&Folder::new(), &format!("tfvars -i {}", examples("vm-module")));
    assert_snapshot!(format!("{json:#}"), @r#"
    {
      "talos_machines": {
        "k3s-dev-control-1": {
          "name": "k3s-dev-control-1",
          "node": "pve",
          "template": "talos-v1.12.4-base",
          "cores": 4,
          "memory_mb": 8192,
          "disk_gb": 40,
          "disk_pool": "tank",
          "network_bridge": "vmbr0",
          "gpu_pci_bdf": null,
          "gpu_pcie_mode": true,
          "gpu_rombar": true,
          "onboot": true,
          "role": "controlplane",
          "ip": "10.0.20.11",
          "vmid": null,
          "mac": null
        },
        "k3s-dev-gpu-1": {
          "name": "k3s-dev-gpu-1",
          "node": "pve",
          "template": "talos-v1.12.4-base",
          "cores": 8,
          "memory_mb": 16384,
          "disk_gb": 80,
          "disk_pool": "tank",
          "network_bridge": "vmbr0",
          "gpu_pci_bdf": "0000:01:00.0",
          "gpu_pcie_mode": true,
          "gpu_rombar": true,
          "onboot": true,
          "role": "worker",
          "ip": "10.0.20.21",
          "vmid": null,
          "mac": null
        }
      }
    }
    "#);
}

#[test]
fn templates_are_named_by_version_and_vmids_kept() {
    let json = exported(&Folder::new(), &format!("tfvars -i {}", examples("home")));
    let machines = json["talos_machines"].as_object().unwrap();
    assert_eq!(machines.len(), 5);
    for machine in machines.values() {
        assert_eq!(machine["template"], "talos-v1.11.2-base");
        assert!(machine["vmid"].is_u64(), "{machine}");
    }
}

#[test]
fn only_talos_nodes_are_exported() {
    let folder = Folder::new();
    let run = folder.talmox(&format!("export tfvars -o - -i {}", examples("ubuntu-cluster")));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let json: Json = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json["talos_machines"], json!({}));
    assert_eq!(run.stderr.matches("does not run Talos").count(), 7, "{}", run.stderr);
}

#[test]
fn files_are_written_once_and_replaced_on_request() {
    let folder = Folder::new();
    let args = format!("export nodes-json -i {}", examples("em-dev"));
    // If stdout is redirected, the output is the same as with `--output -`. On a terminal, a file is written.
    let piped = folder.talmox(&args);
    assert_eq!((piped.code, piped.stderr.as_str()), (0, ""));
    assert_eq!(piped.stdout, folder.talmox(&format!("{args} --output -")).stdout);
    assert!(!folder.path().join("nodes.json").exists());
    if let Some((code, shown)) = folder.typed(&args, "") {
        assert_eq!((code, shown.trim_end()), (Some(0), "wrote nodes.json"));
        assert_eq!(folder.read("nodes.json"), piped.stdout);
    }
    let args = format!("{args} -o nodes.json");
    let run = folder.talmox(&args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(folder.talmox(&args).stderr, "nodes.json is up to date\n");
    let text = folder.read("nodes.json");
    assert_eq!(text, piped.stdout);
    folder.write("nodes.json", "mine\n");
    let run = folder.talmox(&args);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("nodes.json exists already"), "{}", run.stderr);
    assert_eq!(folder.read("nodes.json"), "mine\n");
    assert_eq!(folder.talmox(&format!("{args} --force")).code, 0);
    assert_eq!(folder.read("nodes.json"), text);

    let run = folder.talmox(&format!("export tfvars -o tf/dev/ -i {}", examples("em-dev")));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run = folder.talmox(&format!("export tfvars --force -i {}", examples("em-dev")));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = folder.read("talos-machines.auto.tfvars.json");
    assert_eq!(text, folder.read("tf/dev/talos-machines.auto.tfvars.json"));
}

#[test]
fn one_cluster_without_errors_is_exported() {
    let folder = Folder::new();
    let run = folder.talmox(&format!("export tfvars -i {}", examples("")));
    assert_eq!(run.code, 64);
    assert!(run.stderr.contains("pass the name of one of them: "), "{}", run.stderr);
    let json = exported(&folder, &format!("nodes-json home -i {}", examples("")));
    assert_eq!(json["control_plane_vip"], "10.0.0.20");
    assert_eq!(json["controlplanes"][0], json!({"name": "talos-cp-01", "address": "10.0.0.11"}));

    folder.write("inventory/dev/cluster.yaml", "talos_version: v1.11.2\nrma: 1\n");
    let run = folder.talmox("export nodes-json");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("unknown key `rma`"), "{}", run.stderr);
    assert!(!folder.path().join("nodes.json").exists());
}

#[test]
fn a_nodes_json_is_imported() {
    let folder = Folder::new();
    folder.write("nodes.json", NODES);
    let run = folder.talmox("import nodes-json nodes.json");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.starts_with(
            "warning: nodes.json: `control_plane_vip` is ignored: \
             `tailscale-vip-placeholder` is not an address\n"
        ),
        "{}",
        run.stderr
    );
    assert_snapshot!(folder.read("inventory/home/nodes.yaml"), @r"
    # yaml-language-server: $schema=../talmox.schema.json
    # Each node may have a `vmid`, a `mac`, a `host` and sizes of its own.
    controlplane:
      - {name: talos-cp-01, dhcp: 10.0.232.93}

    workers:
      - {name: talos-worker-01, dhcp: 10.0.232.109}
    ");
    assert_snapshot!(folder.read("inventory/home/cluster.yaml"), @r#"
    # yaml-language-server: $schema=../talmox.schema.json
    cluster_name: home
    talos_version: v1.13.9               # set the version that the nodes run
    # kubernetes_version: v1.36.3        # default: that of the Talos version
    # endpoint: https://HOST:6443        # URL of the Kubernetes API
    boot: dhcp                           # remove this line to use static addresses: set `ip` for every node

    network:
      # subnet: 10.0.0.0/24              # network of the nodes
      # gateway: 10.0.0.1                # needed for static addresses
      # nameservers: [10.0.0.1]
      # vip: 10.0.0.20                   # free address that the control planes share
      cni: flannel

    proxmox:
      # endpoint: https://HOST:8006
      # fingerprint: "AB:CD:…"           # default: the CAs that this system trusts
      token: {env: PROXMOX_TOKEN}        # user@realm!id=uuid; or {secret: proxmox.token}
      # node: pve                        # Proxmox host of the nodes

    image:
      extensions:
        - siderolabs/qemu-guest-agent
        - siderolabs/tailscale

    tailscale:
      login_server: "https://hs.example.com:8080"
      auth_key: {env: HEADSCALE_AUTH_KEY} # or {secret: tailscale.auth_key}

    # Defaults of all nodes; nodes, classes and roles can override them.
    machine:
      cores: 2
      memory: 4096                       # MiB, or 4G
      disk: 40G
    "#);
    let check = folder.talmox("check");
    assert_eq!(check.code, 0, "{}", check.stderr);
    let again = folder.talmox("import nodes-json nodes.json --name home");
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("cluster.yaml exists already"), "{}", again.stderr);
}

#[test]
fn an_exported_file_can_be_imported() {
    for (name, written) in [
        (
            "static",
            NODES.replace("dhcp", "address").replace("tailscale-vip-placeholder", "100.64.0.9"),
        ),
        ("leases", NODES.replace("tailscale-vip-placeholder", "10.0.232.20")),
        (
            "both",
            NODES
                .replace("\"dhcp\"", "\"dhcp\":\"10.9.9.9\",\"address\"")
                .replacen("10.9.9.9", "10.9.9.8", 1),
        ),
        ("lonely", r#"{"controlplanes": [{"name": "7"}]}"#.to_owned()),
    ] {
        let folder = Folder::new();
        folder.write("given.json", &written);
        let run = folder.talmox(&format!("import nodes-json given.json --name {name} -i inv"));
        assert_eq!(run.code, 0, "{name}: {}", run.stderr);
        let check = folder.talmox("check -i inv");
        assert_eq!(check.code, 0, "{name}: {}", check.stderr);
        let first = exported(&folder, "nodes-json -i inv");
        let given: Json = serde_json::from_str(&written).unwrap();
        for key in ["controlplanes", "workers"] {
            let nodes = given.get(key).cloned().unwrap_or(json!([]));
            assert_eq!(first[key], nodes, "{name}");
        }
        folder.write("first.json", &first.to_string());
        let run = folder.talmox(&format!("import nodes-json first.json --name {name} -i again"));
        assert_eq!(run.code, 0, "{name}: {}", run.stderr);
        for file in ["cluster.yaml", "nodes.yaml"] {
            let read = |root: &str| folder.read(&format!("{root}/{name}/{file}"));
            assert_eq!(read("again"), read("inv"), "{name}");
        }
    }
}

#[test]
fn a_vip_that_is_a_node_becomes_the_endpoint() {
    let folder = Folder::new();
    folder.write("nodes.json", &NODES.replace("tailscale-vip-placeholder", "10.0.232.93"));
    let run = folder.talmox("import nodes-json nodes.json --name lab");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("10.0.232.93 is the address of `talos-cp-01`"), "{}", run.stderr);
    let cluster = folder.read("inventory/lab/cluster.yaml");
    assert!(cluster.contains("\nendpoint: https://10.0.232.93:6443\n"), "{cluster}");
}

#[test]
fn unknown_and_invalid_keys_are_rejected() {
    for (text, said) in [
        ("[]", "the file is not an object"),
        ("{", "this is not JSON"),
        (r#"{"contolplanes": []}"#, "unknown key `contolplanes` in the file"),
        (
            r#"{"controlplanes": [{"name": "a", "mac": "x"}]}"#,
            "unknown key `mac` in controlplanes[0]",
        ),
        (r#"{"controlplanes": [{"dhcp": "10.0.0.1"}]}"#, "controlplanes[0] has no name"),
        (r#"{"controlplanes": [{"name": "a b"}]}"#, "`a b` in controlplanes[0] is not the name"),
        (r#"{"controlplanes": [{"name": "a", "dhcp": "x"}]}"#, "`x` is not an address"),
        (r#"{"controlplanes": [{"name": "a", "address": "1.2.3.4/x"}]}"#, "is not an address"),
        (r#"{"controlplanes": []}"#, "no control plane"),
        (r#"{"controlplanes": [{"name": "a"}, {"name": "a"}]}"#, "`a`"),
        (r#"{"control_plane_vip": 1}"#, "`control_plane_vip` of the file is not a string"),
    ] {
        let folder = Folder::new();
        folder.write("nodes.json", text);
        let run = folder.talmox("import nodes-json nodes.json");
        assert_eq!(run.code, 1, "{text}: {}", run.stderr);
        assert!(run.stderr.contains(said), "{text}: {}", run.stderr);
        assert!(!folder.path().join("inventory").exists(), "{text}");
    }
    let folder = Folder::new();
    assert_eq!(folder.talmox("import nodes-json nowhere.json").code, 1);
    for args in ["nodes-json", "nodes-json n --name Bad", "nodes-json n --name ../x", "tfvars n"] {
        assert_eq!(folder.talmox(&format!("import {args}")).code, 64, "{args}");
    }
}
