//! The JSON schema and the loader accept and reject the same single settings. Every key has a documentation.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::load;
use serde_json::{Map, Value as Json, json};
use talmox_model::Severity;
use talmox_yaml::{Node, Resolved, Value};

fn validator() -> jsonschema::Validator {
    jsonschema::draft202012::new(&talmox_model::schema()).expect("a schema of draft 2020-12")
}

/// JSON value that an editor reads from a YAML text.
fn to_json(node: &Node) -> Json {
    match &node.value {
        Value::Map(map) => {
            let entry = |entry: &talmox_yaml::Entry| {
                (entry.key.as_str().unwrap_or_default().to_owned(), to_json(&entry.value))
            };
            Json::Object(map.entries.iter().map(entry).collect::<Map<_, _>>())
        }
        Value::Seq(seq) => Json::Array(seq.items.iter().map(to_json).collect()),
        Value::Scalar(scalar) => match scalar.resolve() {
            Resolved::Null => Json::Null,
            Resolved::Bool(value) => json!(value),
            Resolved::Int(value) => json!(i64::try_from(value).unwrap_or(i64::MAX)),
            Resolved::Float(value) => json!(value),
            Resolved::Text => json!(scalar.text),
        },
    }
}

fn document(text: &str) -> Json {
    talmox_yaml::read(text).expect("YAML").first().map_or(json!({}), to_json)
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

#[test]
fn every_example_is_valid() {
    let validator = validator();
    let mut files = 0;
    for folder in fs::read_dir(examples()).unwrap().flatten() {
        for name in ["cluster.yaml", "nodes.yaml"] {
            let Ok(text) = fs::read_to_string(folder.path().join(name)) else { continue };
            let errors: Vec<String> =
                validator.iter_errors(&document(&text)).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{:?}/{name}: {errors:?}", folder.path());
            files += 1;
        }
    }
    assert!(files >= 9, "only {files} files");
}

#[test]
fn the_schema_and_the_loader_agree_on_single_settings() {
    let validator = validator();
    let good = [
        "machine: {cores: 4, memory: 8G, disk: 40, onboot: true, tags: [a]}",
        "machine: {sockets: 2, firewall: true, notes: a, startup: {order: 1, up: 5s}, boot_order: [scsi0]}",
        "machine: {cpu: 4, ram: 8192, disk_gb: 40G, disk_pool: tank, network_bridge: vmbr1}",
        "machine: {gpu_pci_bdf: '0000:28:00.0', gpu_pcie_mode: true, gpu_rombar: null}",
        "network: {subnet: 10.0.0.0/16, pod_cidr: [10.244.0.0/16, 'fd00::/48'], vlan: 40, cni: none}",
        "proxmox: {endpoint: [https://a:8006, b], token: {secret: a.b}, vmid_range: 300-399}",
        "proxmox: {token: {command: [op, read, x]}, hosts: [a, b], insecure: false}",
        "proxmox: {token: {command: [op, read, x], env: [OP_SESSION]}}",
        "boot: cidata",
        "patches: {all: [a.yaml, {machine: {}}, [{op: add}]]}",
        "classes: {x: {taints: ['a=b:NoSchedule'], labels: {a: 1, b: true}, sysctls: {c: d}}}",
        "timeouts: {boot: 1h30m}",
        "reach: {'10.0.0.1:6443': '127.0.0.1:1'}",
        "machine: {cores: '4', vlan: '40', gpu: {mapping: rtx-1}, tags: [_a+b]}",
        "image: {extensions: [Vendor/Name.x]}",
        "network: {search: [lan, Home.example.], dns_domain: cluster.local}",
        "patches: {all: a.yaml, worker: {machine: {}}}",
        "x-anchors: {a: [1]}",
        "machine: {cloud_init: {files: [{path: /a, mode: 0644, content: x}]}}",
        "network: {cni: {managed_by: Flux}}",
        "addons: [{name: a, chart: till, repo: 'https://x', version: 1.2.3, values: {a: [1]}, wait: 5m}]",
        "addons: [{name: a, manifests: [a.yaml, {kustomize: b}], namespace: a, wait: false, handover: gitops}]",
    ];
    let bad = [
        "machine: {cores: four}",
        "machine: {cores: 0}",
        "machine: {memmory: 1}",
        "machine: {onboot: yes}",
        "machine: {boot_order: [disk0]}",
        "machine: {sockets: 0}",
        "machine: {disk: 40GB}",
        "network: {vlan: 5000}",
        "network: {cni: cilium}",
        "network: [a]",
        "proxmox: {token: {scret: x}}",
        "proxmox: {vmid_range: 300}",
        "boot: pxe",
        "netwrok: {}",
        "classes: {x: {taints: [nope]}}",
        "timeouts: {boot: 5}",
        "talos_version: v1.11",
        "image: {extensions: [tailscale]}",
        "controlplane: {name: x}",
        "machine: {gpu: {mapping: 4090}}",
        "machine: {gpu: {mapping: r}}",
        "machine: {tags: [-a]}",
        "image: {extensions: [a b/c]}",
        "network: {search: [a_b]}",
        "network: {search: ['-a']}",
        "proxmox: {token: {env: a-b}}",
        "proxmox: {token: {command: [op], env: [a-b]}}",
        "proxmox: {token: {command: [op], env: A}}",
        "proxmox: {token: {env: [A]}}",
        "proxmox: {token: {secret: 'a b'}}",
        "machine: {labels: {'a b': c}}",
        "machine: {labels: {a: 'b c'}}",
        "timeouts: {boot: 0s}",
        "network: {cni: {managed: Flux}}",
        "addons: [{name: a, chart: oci://x/y, version: '1.2'}]",
        "addons: [{name: a, chart: -x}]",
        "addons: [{name: a, chart: x, values: [a]}]",
        "addons: [{name: a, manifests: [{file: b}]}]",
        "addons: [{name: a, files: [b], wait: soon}]",
        "addons: [{name: a, files: [b], namespace: A}]",
    ];
    let complaints = |text: &str| {
        let inventory = load(text);
        let about_values = ["unknown-key", "wrong-type", "bad-value"];
        let is_about = |found: &&talmox_model::Diagnostic| {
            found.severity == Severity::Error && about_values.contains(&found.code.as_str())
        };
        inventory.diagnostics.iter().filter(is_about).count()
    };
    for text in good {
        assert_eq!(complaints(text), 0, "the loader rejects {text}");
        assert!(validator.is_valid(&document(text)), "the schema rejects {text}");
    }
    for text in bad {
        assert_ne!(complaints(text), 0, "the loader takes {text}");
        assert!(!validator.is_valid(&document(text)), "the schema takes {text}");
    }
}

#[test]
fn every_key_is_documented() {
    fn walk(schema: &Json, name: &str) {
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let description = property["description"].as_str().unwrap_or_default();
            assert!(description.contains('.'), "{name}.{key}: {description:?}");
        }
        for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
            walk(definition, name);
        }
    }
    walk(&talmox_model::schema(), "the inventory");
}
