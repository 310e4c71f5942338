//! `talmox init`

use crate::support::Folder;
use insta::assert_snapshot;

#[test]
fn what_it_writes_passes_the_check() {
    for args in [
        "init --subnet 10.0.0.0/24",
        "init home --subnet 10.0.0.0/29 --controlplanes 1 --workers 1",
        "init lab --subnet 192.168.7.0/24 --vip none --workers 0 --controlplanes 1",
        "init big --subnet 10.0.0.0/16 --controlplanes 5 --workers 60 --talos-version v1.11.2",
        "init pinned --subnet 10.0.0.0/24 --proxmox atlas --fingerprint \
         AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB",
    ] {
        let folder = Folder::new();
        let run = folder.talmox(args);
        assert_eq!(run.code, 0, "{args}: {}", run.stderr);
        let check = folder.talmox("check");
        assert_eq!(check.code, 0, "{args}: {}", check.stderr);
        assert!(!check.stderr.contains("error"), "{args}: {}", check.stderr);
    }
}

#[test]
fn the_files_say_what_was_asked_for() {
    let folder = Folder::new();
    folder.talmox("init home --subnet 10.0.0.0/24 --node atlas");
    assert_snapshot!(folder.read("inventory/home/nodes.yaml"), @r"
    # yaml-language-server: $schema=../talmox.schema.json
    controlplane:
      - {name: home-cp-1, ip: 10.0.0.11}
      - {name: home-cp-2, ip: 10.0.0.12}
      - {name: home-cp-3, ip: 10.0.0.13}

    workers:
      - {name: home-wk-1, ip: 10.0.0.21}
      - {name: home-wk-2, ip: 10.0.0.22}
    ");
    let cluster = folder.read("inventory/home/cluster.yaml");
    assert!(cluster.starts_with("# yaml-language-server: $schema=../talmox.schema.json\n"));
    assert!(cluster.contains("  vip: 10.0.0.20"), "{cluster}");
    assert!(cluster.contains("  node: atlas\n"), "{cluster}");
    let schema = folder.read("inventory/talmox.schema.json");
    assert_eq!(schema, folder.talmox("schema").stdout);
}

#[test]
fn nothing_is_overwritten() {
    let folder = Folder::new();
    folder.write("inventory/home/nodes.yaml", "mine\n");
    folder.write("inventory/talmox.schema.json", "mine\n");
    let run = folder.talmox("init home --subnet 10.0.0.0/24");
    assert_eq!(run.code, 1);
    assert_snapshot!(run.stderr, @r"
    error: inventory/home/nodes.yaml exists already

    hint: choose another cluster name; init never overwrites
    ");
    assert!(!folder.path().join("inventory/home/cluster.yaml").exists());
    assert_eq!(folder.talmox("init other --subnet 10.0.0.0/24").code, 0);
    assert_eq!(folder.read("inventory/home/nodes.yaml"), "mine\n");
    assert_eq!(folder.read("inventory/talmox.schema.json"), "mine\n");
}

#[test]
fn bad_answers_write_nothing() {
    for args in [
        "init",
        "init --subnet 10.0.0.0",
        "init Home --subnet 10.0.0.0/24",
        "init --subnet 10.0.0.0/24 --gateway 10.1.0.1",
        "init --subnet 10.0.0.0/24 --vip 10.0.0.11",
        "init --subnet 10.0.0.0/29 --controlplanes 9",
        "init --subnet 10.0.0.0/24 --controlplanes 0",
        "init --subnet 10.0.0.0/24 --proxmox http://pve",
        "init --subnet 10.0.0.0/24 --fingerprint AB",
        "init --subnet 10.0.0.0/24 --talos-version latest",
    ] {
        let folder = Folder::new();
        let run = folder.talmox(args);
        assert_eq!(run.code, 64, "{args}: {}", run.stderr);
        assert!(!folder.path().join("inventory").exists(), "{args}");
    }
}

#[test]
fn an_unreachable_proxmox_is_said_and_no_obstacle() {
    let folder = Folder::new();
    let run = folder.talmox("init --subnet 10.0.0.0/24 --proxmox 127.0.0.1:1");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("no fingerprint from https://127.0.0.1:1"), "{}", run.stderr);
}

#[test]
fn a_second_cluster_does_not_clash_with_the_first() {
    let folder = Folder::new();
    assert_eq!(folder.talmox("init home --subnet 10.0.0.0/24").code, 0);
    let run = folder.talmox("init lab --subnet 10.0.0.0/24");
    assert_eq!(run.code, 64, "{}", run.stderr);
    assert!(run.stderr.contains("of the cluster `home` too"), "{}", run.stderr);
    assert!(!folder.path().join("inventory/lab").exists());
    let run =
        folder.talmox("init lab --subnet 10.0.0.0/24 --first-address 10.0.0.51 --vip 10.0.0.60");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(folder.talmox("check").code, 0);
}

#[test]
fn hosts_may_have_upper_case_letters() {
    let folder = Folder::new();
    assert_eq!(folder.talmox("init --subnet 10.0.0.0/24 --node PVE1").code, 0);
    assert!(folder.read("inventory/home/cluster.yaml").contains("  node: PVE1\n"));
}

#[test]
fn a_person_is_asked_until_the_answer_is_good() {
    let folder = Folder::new();
    let answers = "lab\n\npve7\n10.0.0.0\n10.9.0.0/24\n\n1\n1\n\n\n";
    let Some((code, shown)) = folder.typed("init", answers) else { return };
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("is not an IPv4 network"), "{shown}");
    assert!(shown.contains("Gateway [10.9.0.1]"), "{shown}");
    let nodes = folder.read("inventory/lab/nodes.yaml");
    assert!(nodes.contains("{name: lab-wk-1, ip: 10.9.0.21}"), "{nodes}");
    assert!(folder.read("inventory/lab/cluster.yaml").contains("  node: pve7\n"));
}
