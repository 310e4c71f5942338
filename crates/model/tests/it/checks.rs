//! Findings of every check, with their positions.

use crate::support::{file, findings, load, load_bytes, load_clusters};
use talmox_model::Inventory;
use talmox_model::load::ClusterFiles;
use talmox_model::value::Cni;

/// Cluster without findings, with `extra` inserted at line 1.
fn with(extra: &str) -> String {
    format!("{extra}\n{GOOD}")
}

const GOOD: &str = "\
talos_version: v1.11.2
network: {subnet: 10.0.0.0/16, gateway: 10.0.0.1}
proxmox: {endpoint: https://pve:8006, token: {env: TOKEN}, node: pve}
controlplane:
  - {name: cp-1, ip: 10.0.0.11}
";

/// The cluster without findings, with `part` replaced by `other`.
fn but(part: &str, other: &str) -> String {
    assert!(GOOD.contains(part), "{part}");
    GOOD.replace(part, other)
}

/// Loads a text in which `§` marks the expected positions of the findings, in order.
#[track_caller]
fn finds(marked: &str, expected: &[&str]) {
    let mut places = vec![];
    for (line, text) in (1..).zip(marked.lines()) {
        let columns = text.chars().enumerate().filter(|(_, c)| *c == '§').map(|(at, _)| at);
        places.extend(columns.enumerate().map(|(nth, at)| format!("{line}:{}", at + 1 - nth)));
    }
    let inventory = load(&marked.replace('§', ""));
    let found = findings(&inventory);
    if places.is_empty() {
        assert_eq!(codes(&inventory), expected, "{found:?} {:#?}", inventory.diagnostics);
    } else {
        assert_eq!(places.len(), expected.len(), "a mark for each finding");
        let with_place = |(code, place)| format!("{code} {place}");
        let expected: Vec<String> = expected.iter().zip(&places).map(with_place).collect();
        assert_eq!(found, expected, "{:#?}", inventory.diagnostics);
    }
}

/// Findings without their positions.
fn codes(inventory: &Inventory) -> Vec<String> {
    let strip = |finding: String| finding.rsplit_once(' ').unwrap().0.to_owned();
    findings(inventory).into_iter().map(strip).collect()
}

#[test]
fn a_good_cluster_has_no_findings() {
    finds(GOOD, &[]);
}

#[test]
fn unknown_duplicate_and_aliased_keys_are_errors() {
    finds(&with("§netwrok: {}"), &["error unknown-key"]);
    finds(&with("talos_version: v1.11.3"), &["error duplicate-key"]);
    finds(&with("machine: {cpu: 2, §cores: 4}"), &["error alias-conflict"]);
    finds(
        &with("machine: {gpu_pci_bdf: '01:00', gpu: {§pci: '01:00'}}"),
        &["error alias-conflict"],
    );
    finds(
        &with("machine: {gpu: {pci: '01:00'}, §gpu_pci_bdf: '01:00'}"),
        &["error alias-conflict"],
    );
    finds(&with("classes: {a: {}, §a: {}}"), &["error duplicate-key"]);
    finds(&with("§[a]: 1"), &["error wrong-type"]);
    finds(&with("machine: {§memmory: 1}"), &["error unknown-key"]);
}

#[test]
fn unknown_keys_get_a_suggestion() {
    let hint = |text: &str| load(text).diagnostics[0].hint.clone().unwrap();
    assert_eq!(hint(&with("netwrok: {}")), "did you mean `network`?");
    assert_eq!(hint(&with("machine: {momory: 1}")), "did you mean `memory`?");
    assert_eq!(hint(&with("patches: {frobnicate: []}")), "known keys: all, controlplane, workers");
    assert_eq!(hint(&but("pve}", "pve, vmid_rang: 1}")), "did you mean `vmid_range`?");
}

#[test]
fn values_of_the_wrong_type_are_errors() {
    for (setting, place) in [
        ("machine: {cores: four}", "1:18"),
        ("machine: {onboot: yes}", "1:19"),
        ("machine: [a]", "1:10"),
        ("cert_sans: x", "1:12"),
        ("boot: pxe", "1:7"),
        ("reach: [a]", "1:8"),
        ("machine: {cores: [1]}", "1:18"),
        ("machine: {mac: x}", "1:11"),
    ] {
        let found = findings(&load(&with(setting)));
        assert_eq!(found.len(), 1, "{setting}: {found:?}");
        assert!(found[0].ends_with(place), "{setting}: {found:?}");
    }
}

#[test]
fn malformed_values_are_errors() {
    for setting in [
        "machine: {memory: 4GB}",
        "machine: {vlan: 5000}",
        "timeouts: {boot: 5}",
        "kubernetes_version: v1.32",
        "cluster_name: -x",
        "cluster_name: Home",
        "image: {extensions: [tailscale]}",
        "image: {schematic: abc}",
        "endpoint: 10.0.0.1:6443",
        "machine: {taints: [a=b:Never]}",
        "classes: {g: {gpu: {pci: '0000:28:00.9'}}}",
    ] {
        finds(&with(setting), &["error bad-value"]);
    }
    finds(&but("cp-1,", "cp-1, vmid: §99,"), &["error bad-value"]);
    finds(&but("cp-1,", "cp-1, mac: §'01:00:5e:00:00:01',"), &["error bad-value"]);
    finds(&but("name: cp-1", "name: §cp_1"), &["error bad-value"]);
    finds(&but("10.0.0.0/16", "§10.0.0.5/16"), &["error bad-value"]);
}

#[test]
fn names_addresses_vmids_and_macs_are_unique() {
    let two = |first: &str, second: &str| {
        format!("{}workers:\n  - {{name: wk-1, {second}}}\n", but("ip: 10.0.0.11", first))
    };
    finds(&two("ip: 10.0.0.11", "ip: §10.0.0.11"), &["error duplicate"]);
    finds(&two("ip: 10.0.0.11, vmid: 300", "ip: 10.0.0.12, vmid: §300"), &["error duplicate"]);
    let mac = "mac: BC:24:11:00:00:01";
    finds(
        &two(
            &format!("ip: 10.0.0.11, {mac}"),
            &format!("ip: 10.0.0.12, {}", mac.replace("BC", "bc")),
        ),
        &["error duplicate"],
    );
    finds(
        &but("cp-1, ip: 10.0.0.11}", "cp-1, ip: 10.0.0.11, nics: [{ip: §10.0.0.11/16}]}"),
        &["error duplicate"],
    );
    finds(&format!("{GOOD}workers:\n  - {{name: cp-1, ip: 10.0.0.12}}\n"), &["error duplicate"]);
    finds(
        &two("ip: 10.0.0.11, gpu: {pci: '28:00'}", "ip: 10.0.0.12, gpu: {pci: §'0000:28:00.1'}"),
        &["error gpu"],
    );
}

#[test]
fn addresses_must_be_in_their_subnet() {
    finds(&but("10.0.0.11", "10.1.0.11"), &["error outside-subnet"]);
    finds(&but("10.0.0.11", "§10.0.255.255"), &["error outside-subnet"]);
    finds(&but("10.0.0.11", "§10.0.0.0"), &["error outside-subnet"]);
    finds(&but("10.0.0.11", "10.0.0.1"), &["error address-clash"]);
    finds(&but("10.0.0.1}", "10.0.0.1, vip: §10.0.0.11}"), &["error address-clash"]);
    finds(&but("10.0.0.1}", "10.0.0.1, vip: §10.9.0.20}"), &["error outside-subnet"]);
    finds(&but("10.0.0.1}", "10.0.0.1, vip: §10.0.0.1}"), &["error address-clash"]);
    finds(&but("gateway: 10.0.0.1}", "gateway: §10.9.0.1}"), &["error outside-subnet"]);
    // The gateway of an address with its own network must be in that network.
    finds(&but("10.0.0.11}", "10.9.0.11/24, gateway: 10.9.0.1}"), &[]);
    finds(&but("10.0.0.11}", "10.9.0.11/24, gateway: §10.8.0.1}"), &["error outside-subnet"]);
}

#[test]
fn networks_do_not_overlap() {
    finds(&but("10.0.0.1}", "10.0.0.1, pod_cidr: §10.0.64.0/18}"), &["error network-overlap"]);
    finds(&but("10.0.0.1}", "10.0.0.1, svc_cidr: §10.244.0.0/20}"), &["error network-overlap"]);
    finds(&but("10.0.0.1}", "10.0.0.1, pod_cidr: [10.244.0.0/16, fd00::/48]}"), &[]);
    let inside = but("network: {subnet: 10.0.0.0/16, gateway: 10.0.0.1}", "")
        .replace("10.0.0.11", "10.96.0.11/24");
    finds(&inside, &["warning needed-later", "error network-overlap"]);
}

#[test]
fn no_or_an_even_number_of_control_planes_is_reported() {
    let nodes = "controlplane:\n  - {name: cp-1, ip: 10.0.0.11}\n";
    finds(&but(nodes, "workers:\n  - {name: wk-1, ip: 10.0.0.11}\n"), &["error no-control-plane"]);
    finds(&but(nodes, "§controlplane: []\n"), &["error no-control-plane"]);
    let four: String =
        (1..=4).map(|n| format!("  - {{name: cp-{n}, ip: 10.0.0.1{n}}}\n")).collect();
    let text = but(nodes, &format!("controlplane:\n{four}"))
        .replace("gateway:", "vip: 10.0.0.20, gateway:");
    finds(&text, &["warning even-control-planes"]);
}

#[test]
fn several_control_planes_without_a_shared_endpoint_are_reported() {
    let three: String =
        (1..=3).map(|n| format!("  - {{name: cp-{n}, ip: 10.0.0.1{n}}}\n")).collect();
    let text = but("  - {name: cp-1, ip: 10.0.0.11}\n", &three);
    finds(&text, &["warning questionable"]);
    finds(&format!("endpoint: https://lb.lan:6443\n{text}"), &[]);
    let vip = text.replace("gateway:", "vip: 10.0.0.20, gateway:");
    finds(&vip, &[]);
    finds(&format!("endpoint: §https://10.0.0.99:6443\n{vip}"), &["warning questionable"]);
}

#[test]
fn talos_and_kubernetes_versions_must_be_compatible() {
    finds(&but("v1.11.2", "§v1.7.6"), &["error talos-version"]);
    finds(&but("v1.11.2", "§v1.15.0"), &["error talos-version"]);
    finds(&but("talos_version: v1.11.2", "cluster_name: x"), &["error missing"]);
    for (talos, oldest, newest) in [
        (8, 26, 31),
        (9, 27, 32),
        (10, 28, 33),
        (11, 29, 34),
        (12, 30, 35),
        (13, 31, 36),
        (14, 32, 37),
    ] {
        let version = |minor: i32| {
            format!(
                "kubernetes_version: v1.{minor}.1\n{}",
                but("v1.11.2", &format!("v1.{talos}.0"))
            )
        };
        finds(&version(oldest - 1), &["error kubernetes-version"]);
        finds(&version(oldest), &[]);
        finds(&version(newest), &[]);
        finds(&version(newest + 1), &["error kubernetes-version"]);
    }
}

#[test]
fn machines_below_the_minimum_size_are_reported() {
    finds(&with("machine: {disk: §9}"), &["error too-small"]);
    finds(&with("machine: {memory: §2047}"), &["error too-small"]);
    finds(&with("machine: {memory: §2G}"), &["warning questionable"]);
    finds(&with("machine: {disks: [§{volume: data}]}"), &["error missing"]);
}

#[test]
fn gpu_and_secureboot_settings_need_matching_hardware() {
    finds(&with("machine: {machine_type: §i440fx, gpu: {mapping: rtx}}"), &["error gpu"]);
    finds(&with("machine: {machine_type: i440fx, gpu: {mapping: rtx, pcie: false}}"), &[]);
    finds(&with("machine: {gpu: {mapping: §rtx, pci: '28:00'}}"), &["error gpu"]);
    finds(&with("machine: {secureboot: §true, bios: seabios}"), &["error conflict"]);
}

#[test]
fn undefined_classes_and_bad_files_are_errors() {
    finds(&but("cp-1,", "cp-1, class: §gpu,"), &["error unknown-class"]);
    finds(&with("patches: {all: [good.yaml, §missing.yaml]}"), &["error missing-file"]);
    finds(&with("patches: {all: good.yaml}"), &[]);
    finds(&with("patches: {all: §missing.yaml}"), &["error missing-file"]);
    finds(&with("patches: {all: [§{machin: {}}]}"), &["error bad-patch"]);
    // A problem in a patch file is reported at its position in that file.
    for (patch, expected) in [
        ("bad.yaml", "error bad-patch bad.yaml:1:3"),
        ("bad-syntax.yaml", "error bad-patch bad-syntax.yaml:"),
        ("bad-text.yaml", "error not-utf8 bad-text.yaml:2:6"),
        ("bad-key.yaml", "error bad-patch bad-key.yaml:2:1"),
    ] {
        let inventory = load(&with(&format!("patches: {{all: [{patch}]}}")));
        let found = findings(&inventory);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{patch}: {found:?}");
        assert_eq!(inventory.diagnostics[0].related.len(), 1, "the position of the reference");
        for source in inventory.sources.iter() {
            assert!(!source.redacted_text().contains("hunter2"), "{patch}");
        }
    }
    finds(&with("patches: {all: [operations.yaml]}"), &[]);
    let newer = with("patches: {all: [operations.yaml]}").replace("v1.11.2", "v1.12.4");
    assert_eq!(codes(&load(&newer)), ["error bad-patch"]);
    finds(&with("patches: {all: [§[1, 2]]}"), &["error bad-patch"]);
    finds(&with("patches: {all: [{machine: {}}, [{op: add, path: /a, value: off}]]}"), &[]);
    finds(&with("patches:\n  workers:\n    - |\n      machine: [\n"), &["error bad-patch"]);
    finds(&but("node: pve}", "node: pve, ca_file: §ca.pem}"), &["error missing-file"]);
}

#[test]
fn missing_or_conflicting_boot_settings_are_reported() {
    let id = "a".repeat(64);
    finds(
        &with(&format!("image: {{schematic: {id}}}\nboot: meta")),
        &["error conflict", "warning unproven-peer"],
    );
    finds(
        &with("boot: §meta\nmachine: {template: §x}"),
        &["warning unproven-peer", "error conflict"],
    );
    assert_eq!(codes(&load(&with("boot: template"))), ["error missing", "warning unproven-peer"]);
    finds(&with("machine: {template: §talos-v1.11.2-base}"), &["warning questionable"]);
    let no_address = but(", ip: 10.0.0.11", "");
    finds(&no_address, &["warning needed-later"]);
    let sent = "warning unproven-peer";
    finds(
        &format!("boot: §dhcp\n{}", no_address.replace("cp-1", "§cp-1")),
        &[sent, "warning needed-later"],
    );
    let found =
        format!("boot: dhcp\nimage: {{extensions: [siderolabs/qemu-guest-agent]}}\n{no_address}");
    finds(&found, &[sent, "warning needed-later"]);
    finds(&found.replace("gateway: 10.0.0.1}", "gateway: 10.0.0.1, vip: 10.0.0.20}"), &[sent]);
}

#[test]
fn downloads_without_tls_need_a_checksum() {
    let sum = "a".repeat(64);
    finds(&with("image: {factory: §http://factory.lan}"), &["error unverified"]);
    finds(&with(&format!("image: {{factory: http://factory.lan, checksum: {sum}}}")), &[]);
    finds(&with("image: {factory: https://factory.lan}"), &[]);
    let ubuntu = |url: &str| with(&format!("machine: {{os: ubuntu, image: {{{url}}}}}"));
    finds(&ubuntu("url: §'http://example.org/noble.img'"), &["error unverified"]);
    finds(&ubuntu(&format!("url: 'http://example.org/noble.img', sha256: {sum}")), &[]);
    // The image of an Ubuntu node does not come from the Image Factory, so `factory` is not checked.
    finds(&ubuntu("url: 'https://example.org/noble.img', factory: 'http://factory.lan'"), &[]);
    let addon = |url: &str| with(&format!("addons: [{{name: shop, {url}}}]"));
    finds(&addon("url: §'http://example.org/shop.yaml'"), &["error unverified"]);
    finds(&addon(&format!("url: 'http://example.org/shop.yaml', checksum: {sum}")), &[]);
    finds(&addon("url: 'https://example.org/shop.yaml'"), &[]);
}

#[test]
fn every_boot_way_but_cidata_warns_of_an_unproven_peer() {
    // `cidata` is the default, so the cluster without `boot` has no warning either.
    for silent in [GOOD.to_owned(), with("boot: cidata")] {
        finds(&silent, &[]);
    }
    for boot in ["cloudinit", "meta", "dhcp"] {
        finds(&with(&format!("boot: §{boot}")), &["warning unproven-peer"]);
    }
    // The warning is reported once for all nodes of a layer. Nodes with another operating system have no warning.
    let two = with("boot: §cloudinit")
        .replace("10.0.0.11}\n", "10.0.0.11}\nworkers: [{name: wk-1, ip: 10.0.0.21}]\n");
    finds(&two, &["warning unproven-peer"]);
    let own = but("name: cp-1,", "name: cp-1, boot: §dhcp,");
    finds(&own, &["warning unproven-peer"]);
    let ubuntu =
        "boot: cloudinit\nmachine: {os: ubuntu, image: {url: 'https://example.org/noble.img'}}";
    finds(&with(ubuntu), &[]);
}

#[test]
fn settings_that_a_plan_needs_are_warned_about() {
    let text = but("network: {subnet: 10.0.0.0/16, gateway: 10.0.0.1}\n", "");
    finds(&text, &["warning needed-later", "warning needed-later"]);
    finds(&text.replace("10.0.0.11", "10.0.0.11/16"), &["warning needed-later"]);
    finds(&but("endpoint: https://pve:8006, ", ""), &["warning needed-later"]);
    finds(&but(", token: {env: TOKEN}", ""), &["warning needed-later"]);
    finds(&but(", node: pve", ""), &["warning needed-later"]);
}

#[test]
fn secrets_are_references_and_never_shown() {
    let inventory = load(&but("{env: TOKEN}", "root@pam!x=geheim"));
    assert_eq!(codes(&inventory), ["warning clear-secret"]);
    for text in [
        but("{env: TOKEN}", "root@pam!x=geheim"),
        but("token: {env: TOKEN}", "tokn: geheim"),
        but("{env: TOKEN}", "{scret: geheim}"),
        but("token: {env: TOKEN}", "pasword: geheim"),
    ] {
        let inventory = load(&text);
        assert!(!inventory.diagnostics.is_empty());
        assert!(!format!("{:?}", inventory.diagnostics).contains("geheim"), "{text}");
        assert!(!format!("{:?}", inventory.clusters).contains("geheim"), "{text}");
        for source in inventory.sources.iter() {
            assert!(!source.redacted_text().contains("geheim"), "{text}");
        }
    }
    for text in [
        but("{env: TOKEN}", "hunter2, x: ["),
        but("token:", "token: {env: A}, token: hunter2, x:"),
        but("{env: TOKEN}", "[hunter2]"),
        but("{env: TOKEN}", "{secret: a, env: hunter2}"),
        but("{env: TOKEN}", "{command: hunter2}"),
        but("{env: TOKEN}", "{env: hunter2-x}"),
        but("{env: TOKEN}", "{secret: hunter2 x}"),
        but("https://pve:8006", "https://root:hunter2@pve"),
        but("https://pve:8006", "root:hunter2@pve"),
        but("cp-1,", "cp-1, token: hunter2,"),
        but("proxmox: {", "proxmox: {secret: hunter2, "),
        with("token: hunter2"),
        with("tailscale: {key: hunter2}"),
        with("machine: {cloud_init: {users: [{name: a, password_hsh: hunter2}]}}"),
        with("machine: {cloud_init: {users: [{name: a, password: hunter2}]}}"),
        with("machine: {registries: {auth: {ghcr.io: {token: hunter2}}}}"),
    ] {
        let inventory = load(&text);
        assert!(!inventory.diagnostics.is_empty(), "{text}");
        assert!(!format!("{:?}", inventory.diagnostics).contains("hunter2"), "{text}");
        for source in inventory.sources.iter() {
            assert!(!source.redacted_text().contains("hunter2"), "{text}");
        }
    }
    assert_eq!(codes(&load(&but("{env: TOKEN}", "''"))), ["error bad-value"]);
    finds(&but("{env: TOKEN}", "{command: [op, read, x]}"), &[]);
    finds(&but("{env: TOKEN}", "{command: §op}"), &["error wrong-type"]);
    finds(&but("{env: TOKEN}", "{command: [op], env: [A, B_2]}"), &[]);
    finds(&but("{env: TOKEN}", "{env: [A], command: [op]}"), &[]);
    finds(&but("{env: TOKEN}", "{command: [op], env: §A}"), &["error wrong-type"]);
    finds(&but("{env: TOKEN}", "{command: [op], env: §[a-b]}"), &["error wrong-type"]);
    finds(&but("{env: TOKEN}", "{command: §op, env: [A]}"), &["error wrong-type"]);
    finds(&but("{env: TOKEN}", "§{env: A, secret: b}"), &["error wrong-type"]);
    finds(&but("{env: TOKEN}", "§{env: A}, password: {env: B}"), &["error conflict"]);
    finds(&but("token: {env: TOKEN}", "password: §{env: B}"), &["error missing"]);
}

#[test]
fn vmid_ranges_that_are_too_small_are_errors() {
    finds(&but("node: pve}", "node: pve, vmid_range: 300-300}"), &[]);
    let two = format!(
        "{}workers:\n  - {{name: wk-1, ip: 10.0.0.12}}\n",
        but("node: pve}", "node: pve, vmid_range: 300-300}")
    );
    finds(&two, &["error too-small"]);
    finds(&two.replace("cp-1,", "cp-1, vmid: 200,"), &[]);
    finds(&two.replace("cp-1,", "cp-1, vmid: 300,"), &["error too-small"]);
}

#[test]
fn texts_that_are_not_an_inventory_are_rejected_with_a_position() {
    finds("a: §[", &["error syntax"]);
    finds("network:\n\t§vip: 1", &["error syntax"]);
    let tab = load("network:\n\tvip: 1");
    assert_eq!(tab.diagnostics[0].message, "the line is indented with a tab");
    finds("§- a\n- b\n", &["error syntax"]);
    finds("§text", &["error syntax"]);
    finds(&format!("{GOOD}---\n§x: 1\n"), &["error several-documents"]);
    assert_eq!(codes(&load_bytes(b"a: \xff\xfe")), ["error not-utf8"]);
    assert_eq!(codes(&load_bytes(&vec![b'a'; 50 << 20])), ["error too-large"]);
    assert_eq!(codes(&load("")), ["error no-control-plane", "warning needed-later"]);
    assert_eq!(codes(&load("# nothing\n")).len(), 2);
}

#[test]
fn a_bom_and_windows_line_endings_are_accepted() {
    assert_eq!(codes(&load(&format!("\u{feff}{GOOD}"))), Vec::<String>::new());
    assert_eq!(codes(&load(&GOOD.replace('\n', "\r\n"))), Vec::<String>::new());
    let windows = but("10.0.0.11", "10.1.0.11").replace('\n', "\r\n");
    assert_eq!(codes(&load(&windows)), ["error outside-subnet"]);
}

#[test]
fn hostile_texts_are_rejected() {
    let deep = "[".repeat(100_000);
    assert_eq!(codes(&load(&deep)), ["error syntax"]);
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        bomb.push_str(&format!(
            "a{level}: &a{level} [{}]\n",
            format!("*a{}, ", level - 1).repeat(10)
        ));
    }
    let found = codes(&load(&bomb));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("error syntax"), "{found:?}");
}

#[test]
fn clusters_on_one_proxmox_must_not_clash() {
    let cluster = |name: &str, text: &str, is_neighbour| ClusterFiles {
        default_name: name.to_owned(),
        cluster: Some(file(&format!("{name}.yaml"), text.as_bytes())),
        is_neighbour,
        ..ClusterFiles::default()
    };
    let clash = |one: &str, other: &str| {
        codes(&load_clusters(vec![cluster("one", one, false), cluster("other", other, true)]))
    };
    let other = but("cp-1", "cp-9").replace("10.0.0.11", "10.0.0.19");
    assert_eq!(clash(GOOD, &other), Vec::<String>::new());
    assert_eq!(clash(GOOD, &other.replace("cp-9", "cp-1")), ["error shared-clash"]);
    assert_eq!(clash(GOOD, &other.replace("10.0.0.19", "10.0.0.11")), ["error shared-clash"]);
    let vmid = |text: &str| text.replace("name:", "vmid: 300, name:");
    assert_eq!(clash(&vmid(GOOD), &vmid(&other)), ["error shared-clash"]);
    let gpu = |text: &str| text.replace("name:", "gpu: {pci: '28:00'}, name:");
    assert_eq!(clash(&gpu(GOOD), &gpu(&other)), ["error shared-clash"]);
    // A cluster on another Proxmox cannot conflict. Errors of a neighbour are not reported.
    assert_eq!(clash(GOOD, &GOOD.replace("https://pve:", "https://other:")), Vec::<String>::new());
    assert_eq!(clash(GOOD, "a: ["), Vec::<String>::new());
    // A cluster without an endpoint may be on another Proxmox that has a host with the same name.
    let hint = |other: &str| {
        let clusters = vec![cluster("one", GOOD, false), cluster("other", other, true)];
        load_clusters(clusters).diagnostics.into_iter().find_map(|found| found.hint).unwrap()
    };
    assert_eq!(
        hint(GOOD),
        "change one of the two: both clusters use the same Proxmox; see other.yaml:5:12"
    );
    let unnamed = GOOD.replace("endpoint: https://pve:8006, ", "");
    let said = hint(&unnamed);
    assert!(said.starts_with("change one of the two: both clusters use a Proxmox host named `pve`. If these are two hosts"), "{said}");
    // If both clusters were requested, each conflict is reported once.
    let both = load_clusters(vec![cluster("one", GOOD, false), cluster("two", GOOD, false)]);
    assert_eq!(codes(&both), ["error shared-clash", "error shared-clash"]);
}

#[test]
fn keys_in_the_wrong_file_are_errors() {
    let cluster = |defaults: &str, cluster: &str, nodes: &str| {
        codes(&load_clusters(vec![ClusterFiles {
            default_name: "x".to_owned(),
            defaults: Some(file("defaults.yaml", defaults.as_bytes())),
            cluster: Some(file("cluster.yaml", cluster.as_bytes())),
            nodes: Some(file("nodes.yaml", nodes.as_bytes())),
            is_neighbour: false,
        }]))
    };
    assert_eq!(cluster("", GOOD, ""), Vec::<String>::new());
    assert_eq!(
        cluster("cluster_name: x\nboot: dhcp", GOOD, ""),
        ["error misplaced-key", "warning unproven-peer"]
    );
    assert_eq!(cluster("", GOOD, "boot: dhcp"), ["error misplaced-key"]);
    assert_eq!(cluster("", GOOD, "workers: []"), Vec::<String>::new());
    assert_eq!(cluster("", GOOD, "controlplane: []"), ["error misplaced-key"]);
    assert_eq!(cluster("a: [", GOOD, ""), ["error syntax"]);
}

#[test]
fn null_is_not_a_value() {
    finds(&but("v1.11.2", ""), &["error missing"]);
    finds(&but("endpoint: https://pve:8006, ", "endpoint: , "), &["warning needed-later"]);
    finds(&but(", node: pve", ", node: "), &["warning needed-later"]);
    finds(&but("ip: 10.0.0.11", "ip: "), &["warning needed-later"]);
    finds(&but("name: cp-1", "name: "), &["error missing"]);
}

#[test]
fn a_node_without_a_valid_name_is_still_checked() {
    finds(
        &but("name: cp-1, ", "name: §cp_1, memory: §1G, "),
        &["error bad-value", "error too-small"],
    );
    let two = but("name: cp-1, ", "").replace(
        "  - {ip: 10.0.0.11}\n",
        "  - {ip: 10.0.0.11}\n  - {ip: 10.0.0.12}\n  - {ip: 10.0.0.13, disk: 1}\n",
    );
    let found = codes(&load(&format!("endpoint: https://lb.lan:6443\n{two}")));
    assert_eq!(found, ["error missing", "error missing", "error missing", "error too-small"]);
}

#[test]
fn a_mistake_is_reported_once() {
    finds(&but("talos_version", "§talos_versoin"), &["error unknown-key"]);
    finds(&but("endpoint:", "§endpiont:"), &["error unknown-key"]);
    finds(&but("proxmox:", "§proxmx:"), &["error unknown-key"]);
    finds(&but("controlplane:", "§controlplan:"), &["error unknown-key"]);
    let nodes = "controlplane:\n  - {name: cp-1, ip: 10.0.0.11}\n";
    finds(&but(nodes, "controlplane: §{name: a}\n"), &["error wrong-type"]);
    finds(&but(nodes, "§controlplane: []\n"), &["error no-control-plane"]);
}

#[test]
fn addresses_that_a_machine_cannot_use_are_errors() {
    for bad in
        ["127.0.0.1/8", "224.0.0.1/24", "0.0.0.0/8", "169.254.1.1/16", "'::ffff:10.0.0.11/64'"]
    {
        let found = codes(&load(&but("ip: 10.0.0.11", &format!("ip: {bad}"))));
        assert!(found.contains(&"error bad-value".to_owned()), "{bad}: {found:?}");
    }
    finds(&but("10.0.0.11}", "10.0.0.11, nics: [{ip: 10.0.0.1/16}]}"), &["error address-clash"]);
    finds(&but("10.0.0.11}", "10.9.0.11/24, gateway: §10.9.0.11}"), &["error address-clash"]);
    finds(&but("10.0.0.11}", "§10.244.0.11/24, gateway: 10.244.0.1}"), &["error network-overlap"]);
    finds(&but("10.0.0.11}", "'fd00::11/64', gateway: 'fe80::1'}"), &[]);
}

#[test]
fn known_keys_at_the_wrong_level_get_a_hint() {
    let hint = |text: &str| load(text).diagnostics[0].hint.clone().unwrap();
    assert_eq!(hint(&with("vip: 10.0.0.20")), "`vip` belongs under `network:`");
    assert_eq!(
        hint(&but("cp-1,", "cp-1, endpoint: x,")),
        "`endpoint` belongs at the top level of the file"
    );
    assert_eq!(hint(&with("boot: cloudint")), "did you mean `cloudinit`?");
}

#[test]
fn the_stronger_of_two_alternatives_wins() {
    let text = with("classes: {g: {gpu: {pci: '28:00'}}}")
        .replace("cp-1,", "cp-1, class: g, gpu: {mapping: rtx},");
    finds(&text, &[]);
    assert!(load(&text).clusters[0].nodes[0].settings().hardware.gpu.pci.is_absent());
    finds(&with("machine: {gpu: {pcie: true}}"), &["warning gpu"]);
    finds(
        &with("x-small: &small {cpu: 4, ram: 8G}").replace("cp-1,", "cp-1, <<: *small, cores: 2,"),
        &[],
    );
}

#[test]
fn values_must_follow_the_rules_of_talos_and_kubernetes() {
    finds(&with("endpoint: §http://10.0.0.11:6443"), &["error bad-value"]);
    finds(&with("endpoint: §https://10.0.0.11:6443/x"), &["error bad-value"]);
    finds(&with("addons: [§{files: [good.yaml]}]"), &["error missing"]);
    finds(&with("addons: [§{name: a}]"), &["error missing"]);
    finds(&with("addons: [{name: a, files: [good.yaml], url: §https://x/y}]"), &["error conflict"]);
    finds(&with("timeouts: {boot: §0s}"), &["error bad-value"]);
    finds(&with("reach: {10.0.0.11: §https://x}"), &["error bad-value"]);
    finds(&with("reach: {§'a b': 10.0.0.1}"), &["error bad-value"]);
    finds(&with("machine: {labels: {§-x: y}}"), &["error bad-value"]);
    finds(&with("machine: {labels: {x: §'a b'}}"), &["error bad-value"]);
    finds(&with("machine: {annotations: {x: a b}}"), &[]);
    finds(&with("machine: {sysctls: {§'a b': 1}}"), &["error bad-value"]);
    finds(&with("machine: {kubelet: {extra_args: {§--max-pods: 1}}}"), &["error bad-value"]);
    finds(&with("§tailscale: {accept_routes: true}"), &["warning needed-later"]);
    finds(&with("machine: {cores: \"4\"}").replace("cp-1,", "cp-1, vmid: \"300\","), &[]);
}

#[test]
fn an_add_on_has_one_source_with_its_settings() {
    let addon = |rest: &str| with(&format!("addons: [{{name: shop, {rest}}}]"));
    let repo = "chart: till, repo: 'https://charts.example'";
    finds(&addon(&format!("{repo}, version: 1.2.3, values: {{a: 1}}")), &[]);
    finds(&addon("chart: 'oci://r.example/till', version: v1.2.3"), &[]);
    finds(&addon("chart: good-chart, values_files: [good.yaml], namespace: shop"), &[]);
    finds(&addon("chart: §missing-chart"), &["error missing-file"]);
    finds(&addon("chart: good-chart, values_files: [§none.yaml]"), &["error missing-file"]);
    finds(&addon("chart: §till, repo: 'https://charts.example'"), &["error missing"]);
    finds(&addon("chart: §'oci://r.example/till'"), &["error missing"]);
    finds(&addon(&format!("{repo}, version: §1.2")), &["error wrong-type"]);
    finds(&addon("chart: §'--post-renderer=x'"), &["error bad-value"]);
    finds(&addon("chart: good-chart, values: §[a]"), &["error wrong-type"]);
    finds(
        &addon("chart: till, version: 1.2.3, repo: §'http://charts.example'"),
        &["error unverified"],
    );
    finds(
        &addon("chart: 'oci://r.example/till', version: 1.2.3, repo: §'https://charts.example'"),
        &["error conflict"],
    );
    finds(&addon("chart: good-chart, manifests: [§good.yaml]"), &["error conflict"]);
    finds(&addon("manifests: [good.yaml], values: §{a: 1}"), &["warning questionable"]);
    finds(&addon("manifests: [good.yaml], namespace: §Shop"), &["error bad-value"]);
    finds(&addon("manifests: [good.yaml], wait: false, create_namespace: false"), &[]);
    finds(&addon("manifests: [good.yaml], wait: 20m, handover: gitops"), &[]);
    finds(&addon("manifests: [good.yaml], handover: §git"), &["error wrong-type"]);
    finds(&addon("manifests: [good.yaml], wait: §soon"), &["error wrong-type"]);
}

#[test]
fn manifests_of_an_add_on_at_a_url_need_a_checksum() {
    let sum = "a".repeat(64);
    let addon = |item: &str| with(&format!("addons: [{{name: shop, manifests: [{item}]}}]"));
    finds(&addon(&format!("{{url: 'https://example.org/a.yaml', sha256: {sum}}}")), &[]);
    finds(&addon("{kustomize: good-folder}, good.yaml"), &[]);
    finds(&addon("§{url: 'https://example.org/a.yaml'}"), &["error missing"]);
    finds(&addon("§'https://example.org/a.yaml'"), &["error bad-value"]);
    finds(&addon("§{}"), &["error missing"]);
    finds(&addon("{kustomize: §missing-folder}"), &["error missing-file"]);
}

#[test]
fn add_ons_have_names_of_their_own_and_need_others() {
    let addons = |all: &str| with(&format!("addons: [{all}]"));
    let one = |name: &str, needs: &str| {
        format!("{{name: {name}, manifests: [good.yaml], needs: [{needs}]}}")
    };
    finds(&addons(&format!("{}, {}", one("a", ""), one("b", "a"))), &[]);
    finds(&addons(&format!("{}, {}", one("a", ""), one("§a", ""))), &["error duplicate"]);
    finds(&addons(&one("a", "§b")), &["error bad-value"]);
    finds(&addons(&one("a", "§a")), &["error conflict"]);
    let circle = [one("a", "b"), one("b", "c"), one("c", "§a")].join(", ");
    finds(&addons(&circle), &["error conflict"]);
    let message = load(&addons(&circle).replace('§', "")).diagnostics[0].message.clone();
    assert_eq!(message, "add-ons need each other: a → b → c → a");
}

#[test]
fn a_built_in_add_on_must_be_known_and_suit_the_cluster() {
    let cilium = |network: &str, name: &str| {
        format!("addons: [{{name: net, builtin: {name}}}]\n{}", but("network: {", network))
    };
    finds(&cilium("network: {cni: none, kube_proxy: false, ", "cilium"), &[]);
    finds(&cilium("network: {", "cilium"), &[]);
    finds(&cilium("network: {cni: {managed_by: Flux}, ", "cilium"), &[]);
    finds(&cilium("network: {cni: flannel, ", "§cilium"), &["error conflict"]);
    finds(&cilium("network: {kube_proxy: true, ", "§cilium"), &["error conflict"]);
    finds(&cilium("network: {", "§cillium"), &["error bad-value"]);
}

#[test]
fn a_built_in_pod_network_sets_the_network_of_the_cluster() {
    let network = |text: &str| {
        let cluster = load(text).clusters.remove(0);
        let network = &cluster.file.network;
        (network.cni.get().cloned().unwrap(), *network.kube_proxy.get().unwrap())
    };
    assert_eq!(network(GOOD), (Cni::Flannel, true));
    let addon = "addons: [{name: net, builtin: cilium}]";
    assert_eq!(network(&with(addon)), (Cni::None, false));
    let managed = but("network: {", "network: {cni: {managed_by: Flux}, ");
    let flux = Cni::ManagedBy("Flux".to_owned());
    assert_eq!(network(&format!("{addon}\n{managed}")), (flux, false));
    let cluster = load(&with(addon)).clusters.remove(0);
    let rows = cluster.explain(&cluster.nodes[0]);
    let row = rows.iter().find(|row| row.path == "network.cni").unwrap();
    assert_eq!(row.value, "none");
    assert_eq!(row.span, cluster.file.addons.values().next().unwrap().builtin.span());
}

#[test]
fn the_pod_network_can_be_managed_by_another_tool() {
    finds(&but("network: {", "network: {cni: {managed_by: Flux}, "), &[]);
    finds(&but("network: {", "network: {cni: §{}, "), &["error missing"]);
    finds(&but("network: {", "network: {cni: §calico, "), &["error wrong-type"]);
}

#[test]
fn addresses_of_further_links_need_a_prefix_length() {
    finds(&with("machine: {nics: [{bridge: vmbr1, ip: §10.8.0.3}]}"), &["error missing"]);
    finds(&with("machine: {vlans: [{id: 5, ip: §10.7.0.1}]}"), &["error missing"]);
    finds(&with("machine: {vlans: [§{ip: 10.7.0.1/24}]}"), &["error missing"]);
    finds(&with("machine: {vlans: [{id: 5, ip: 10.7.0.1/24}], nics: [{bridge: vmbr1}]}"), &[]);
}

#[test]
fn a_taint_has_one_effect() {
    finds(&with("machine: {taints: ['a=b:NoSchedule', §'a=b:NoExecute']}"), &["error duplicate"]);
}

#[test]
fn an_overlay_must_be_a_single_mapping() {
    let load = |name: &str| {
        let image = "image: {url: 'https://example.com/noble.img'}";
        let cloud_init = format!("cloud_init: {{overlay: {name}}}");
        load(&with(&format!("machine: {{os: ubuntu, {image}, {cloud_init}}}")))
    };
    for (name, message) in [
        ("overlay-syntax.yaml", "the overlay is not YAML: "),
        ("overlay.sh", "text is not an overlay"),
        ("overlay-list.yaml", "a list is not an overlay"),
        ("overlay-two.yaml", "the overlay has several documents"),
        ("overlay-empty.yaml", "the overlay is empty"),
    ] {
        let inventory = load(name);
        let found = findings(&inventory);
        let expected = format!("error bad-value {name}:");
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{name}: {found:?}");
        let diagnostic = &inventory.diagnostics[0];
        assert!(diagnostic.message.starts_with(message), "{name}: {}", diagnostic.message);
        assert_eq!(diagnostic.related.len(), 1, "the position of the reference");
        let shown = inventory.sources.iter().map(talmox_model::Source::redacted_text);
        assert!(!shown.collect::<String>().contains("password: hunter2"), "{name}");
    }
    assert_eq!(findings(&load("overlay.yaml")), Vec::<String>::new());
}

#[test]
fn a_quoted_patch_is_not_a_file_name() {
    finds(&with("patches: {all: ['{machine: {}}']}"), &[]);
    finds(&with("patches: {all: [§'[1, 2]']}"), &["error bad-patch"]);
}

#[test]
fn an_ignored_difference_has_a_path_and_a_reason() {
    finds(&with("machine: {ignore: [{path: memory, reason: measured}]}"), &[]);
    finds(&with("machine: {ignore: null}"), &[]);
    finds(&with("machine: {ignore: [§{path: memory}]}"), &["error missing"]);
    finds(&with("machine: {ignore: [§{reason: measured}]}"), &["error missing"]);
    finds(&with("machine: {ignore: [{§pth: memory, reason: measured}]}"), &["error unknown-key"]);
    finds(&with("machine: {ignore: §memory}"), &["error wrong-type"]);
    for path in ["scsi1", "machine.sysctls", "UserVolumeConfig/data", "notes"] {
        finds(&with(&format!("machine: {{ignore: [{{path: {path}, reason: measured}}]}}")), &[]);
    }
    let typo = "machine: {ignore: [{path: §machine.sysctl, reason: measured}]}";
    finds(&with(typo), &["warning questionable"]);
    let hint = |text: &str| load(text).diagnostics[0].hint.clone().unwrap();
    assert_eq!(hint(&with(&typo.replace('§', ""))), "did you mean `machine.sysctls`?");
}

#[test]
fn the_boot_order_names_devices_of_the_vm() {
    let two =
        "machine: {disks: [{size: 5}], nics: [{bridge: vmbr1}], boot_order: [scsi0, scsi1, net1]}";
    finds(&with(two), &[]);
    finds(&with("machine: {boot_order: [scsi0, §scsi1]}"), &["error bad-value"]);
    finds(&with("machine: {boot_order: [scsi0, §scsi0]}"), &["error duplicate"]);
    finds(&with("machine: {disk_bus: sata, boot_order: [sata0, net0]}"), &[]);
    finds(&with("machine: {§boot_order: [net0]}"), &["warning questionable"]);
    finds(&with("machine: {boot_order: [§ide2, scsi0]}"), &["error wrong-type"]);
}

#[test]
fn notes_contain_no_marker() {
    finds(&with("machine: {notes: rack 1, sockets: 2, firewall: true}"), &[]);
    finds(&with("machine: {startup: {order: 1, up: 30s, down: 2m}}"), &[]);
    finds(&with("machine: {notes: §talmox/1 cluster=a}"), &["error bad-value"]);
    finds(&with("machine: {§notes_: a}"), &["error unknown-key"]);
    finds(&with("machine: {sockets: §0}"), &["error bad-value"]);
    finds(&with("machine: {startup: {order: §-1}}"), &["error bad-value"]);
}
