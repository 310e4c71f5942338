//! `talmox check`

use crate::support::{Folder, repository};
use insta::assert_snapshot;
use serde_json::Value as Json;

const CLUSTER: &str = "\
talos_version: v1.11.2
network: {subnet: 10.0.0.0/16, gateway: 10.0.0.1}
proxmox: {endpoint: https://pve:8006, token: {env: TOKEN}, node: pve}
controlplane:
  - {name: cp-1, ip: 10.0.0.11, cores: 4}
";

fn folder(cluster: &str) -> Folder {
    let folder = Folder::new();
    folder.write("inventory/dev/cluster.yaml", cluster);
    folder
}

#[test]
fn a_valid_inventory_is_summarised() {
    let run = folder(CLUSTER).talmox("check");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_snapshot!(run.stdout, @r"
    dev: 1 control plane, 0 workers, Talos v1.11.2, Kubernetes v1.34.1
    no problems
    ");
}

#[test]
fn findings_show_the_line_and_a_hint() {
    let run = folder(&CLUSTER.replace("cores: 4", "cpus: four, ramm: 1")).talmox("check dev");
    assert_eq!(run.code, 1);
    assert_snapshot!(run.stderr, @r"
    error[wrong-type]: expected a number of cores, found `four`
     --> inventory/dev/cluster.yaml:5:39
      |
    5 |   - {name: cp-1, ip: 10.0.0.11, cpus: four, ramm: 1}
      |                                       ^^^^
      |
      = hint: write it as `4`

    error[unknown-key]: unknown key `ramm` in a node
     --> inventory/dev/cluster.yaml:5:45
      |
    5 |   - {name: cp-1, ip: 10.0.0.11, cpus: four, ramm: 1}
      |                                             ^^^^
      |
      = hint: did you mean `ram`?
    ");
    assert_snapshot!(run.stdout, @r"
    dev: 1 control plane, 0 workers, Talos v1.11.2, Kubernetes v1.34.1
    2 errors
    ");
}

#[test]
fn warnings_do_not_fail_the_check() {
    let run = folder(&CLUSTER.replace("endpoint: https://pve:8006, ", "")).talmox("check");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.ends_with("1 warning\n"), "{}", run.stdout);
}

/// The file contains escape sequences, C1 controls, a bidirectional override and a zero-width character, as raw
/// characters and as YAML escapes.
#[test]
fn file_content_cannot_control_the_terminal() {
    let evil = "x\u{9b}2J\u{202e}\u{200b}";
    let spelled = "\\e]0;evil\\a\\e[2J";
    for options in ["--color never", "--color always", "--format json"] {
        let text = CLUSTER.replace("cores: 4", &format!("\"{evil}{spelled}\": 1"));
        let raw = CLUSTER.replace("cores: 4", "cores: \u{1b}[2J");
        for text in [text, raw] {
            let run = folder(&text).talmox(&format!("check {options}"));
            assert_eq!(run.code, 1, "{}", run.stderr);
            let printed = format!("{}{}", run.stdout, run.stderr);
            for hidden in ["\u{9b}", "\u{202e}", "\u{200b}", "\u{7}", "\u{1b}]", "\u{1b}[2J"] {
                assert!(!printed.contains(hidden), "{options}: {printed:?}");
            }
            assert_eq!(printed.contains('\u{1b}'), options == "--color always", "{printed:?}");
        }
    }
}

#[test]
fn a_config_sent_in_maintenance_mode_gives_a_warning() {
    let run = folder(&format!("boot: cloudinit\n{CLUSTER}")).talmox("check");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_snapshot!(run.stderr, @r"
    warning[unproven-peer]: `boot: cloudinit` sends machine configs to machines that cannot prove their identity
     --> inventory/dev/cluster.yaml:1:7
      |
    1 | boot: cloudinit
      |       ^^^^^^^^^
      |
      = hint: use `boot: cidata`, which delivers each config on a volume of the VM: otherwise a
              machine on the network path can read the keys of the cluster
    ");
}

#[test]
fn secrets_are_not_shown() {
    let run = folder(&CLUSTER.replace("{env: TOKEN}", "root@pam!a=hunter2")).talmox("check");
    assert!(run.stderr.contains("the secret is in clear text"), "{}", run.stderr);
    assert!(!run.stderr.contains("hunter2"), "{}", run.stderr);
}

#[test]
fn json_has_every_finding() {
    let run = folder(&CLUSTER.replace("cores", "coress")).talmox("check --format json");
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    let json: Json = serde_json::from_str(&run.stdout).unwrap();
    assert_snapshot!(format!("{json:#}"), @r#"
    {
      "ok": false,
      "clusters": [
        {
          "name": "dev",
          "controlplanes": 1,
          "workers": 0,
          "talos_version": "v1.11.2",
          "kubernetes_version": "v1.34.1"
        }
      ],
      "diagnostics": [
        {
          "severity": "error",
          "code": "unknown-key",
          "message": "unknown key `coress` in a node",
          "file": "inventory/dev/cluster.yaml",
          "line": 5,
          "column": 33,
          "end_line": 5,
          "end_column": 39,
          "hint": "did you mean `cores`?"
        }
      ]
    }
    "#);
}

#[test]
fn explain_shows_the_origin_of_each_value() {
    let folder = folder(CLUSTER);
    folder.write("inventory/defaults.yaml", "machine: {disk: 50G}\n");
    let run = folder.talmox("check --explain cp-1");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let line = |setting: &str| {
        let starts = format!("{setting} ");
        run.stdout
            .lines()
            .find(|line| line.starts_with(&starts))
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
    };
    assert_eq!(line("cores").unwrap(), ["cores", "4", "inventory/dev/cluster.yaml:5:40"]);
    assert_eq!(line("disk").unwrap(), ["disk", "50", "GiB", "inventory/defaults.yaml:1:17"]);
    assert_eq!(line("cpu_type").unwrap(), ["cpu_type", "host", "built-in"]);

    let run = folder.talmox("check --explain cp-2");
    assert_eq!(run.code, 64);
    assert_snapshot!(run.stderr, @r"
    error[node-not-found]: there is no node `cp-2`

    hint: did you mean `cp-1`?
    ");
    let run = folder.talmox("check --explain cp-1 --format json");
    let json: Json = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json["node"]["settings"][0]["setting"], "name");
}

#[test]
fn inventories_are_found_by_path_and_by_name() {
    let folder = folder(CLUSTER);
    let other = CLUSTER.replace("cp-1", "cp-9").replace("10.0.0.11", "10.0.0.19");
    folder.write("inventory/prod/cluster.yaml", &other);
    folder.write("single.yaml", CLUSTER);
    for (args, clusters) in [
        ("check", &["dev", "prod"][..]),
        ("check dev", &["dev"]),
        ("check prod dev", &["dev", "prod"]),
        ("check --inventory inventory", &["dev", "prod"]),
        ("check -i inventory/prod", &["prod"]),
        ("check -i inventory/prod/cluster.yaml", &["prod"]),
        ("check -i inventory/prod/ prod", &["prod"]),
        ("check -i single.yaml", &["single"]),
        ("check inventory/prod", &["prod"]),
        ("check single.yaml", &["single"]),
    ] {
        let run = folder.talmox(args);
        assert_eq!(run.code, 0, "{args}: {}", run.stderr);
        let names: Vec<&str> =
            run.stdout.lines().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
        assert_eq!(names, clusters, "{args}");
    }
    for args in ["check staging", "check -i nowhere", "check -i inventory/dev prod"] {
        let run = folder.talmox(args);
        assert_eq!(run.code, 64, "{args}");
        assert!(run.stderr.contains("hint: "), "{args}: {}", run.stderr);
    }
    assert_eq!(Folder::new().talmox("check").code, 64);
}

#[test]
fn a_neighbour_on_the_same_proxmox_is_respected() {
    let folder = folder(CLUSTER);
    folder.write("inventory/prod/cluster.yaml", &CLUSTER.replace("cp-1", "cp-9"));
    let run = folder.talmox("check dev");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("inventory/prod/cluster.yaml:5:"), "{}", run.stderr);
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    let folder = folder(CLUSTER);
    for args in ["", "chekc", "check --fromat json", "check --format xml"] {
        assert_eq!(folder.talmox(args).code, 64, "{args}");
    }
    for args in [
        "help",
        "help check",
        "--help",
        "--version",
        "check --help",
        "init -h",
        "schema --help",
        "secrets show --help",
        "secrets edit -h",
        "kubeconfig --help",
        "talosconfig -h",
        "render --help",
        "config gen --help",
        "export --help",
        "import -h",
    ] {
        let run = folder.talmox(args);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args}");
    }
}

#[test]
fn every_example_is_valid() {
    let run =
        Folder::new().talmox(&format!("check -i {}", repository().join("examples").display()));
    // The only warning is about clones of a template, because they get their configs in maintenance mode.
    let title = "warning[unproven-peer]: `boot: template` sends machine configs";
    assert!(run.code == 0 && run.stderr.starts_with(title), "{}", run.stderr);
    assert_eq!(run.stderr.matches("vm-module/cluster.yaml").count(), 1, "{}", run.stderr);
    assert_snapshot!(run.stdout, @r"
    dev: 1 control plane, 1 worker, Talos v1.8.2, Kubernetes v1.30.1
    home: 3 control planes, 2 workers, Talos v1.11.2, Kubernetes v1.32.1
    talos-cluster: 3 control planes, 4 workers, Talos v1.12.4, Kubernetes v1.35.4
    ubuntu-cluster: 3 control planes, 4 workers
    k3s-dev: 1 control plane, 1 worker, Talos v1.12.4, Kubernetes v1.35.4
    1 warning
    ");
}

#[test]
fn a_cluster_is_found_by_folder_and_by_name() {
    let folder = Folder::new();
    folder.write("inventory/em-dev/cluster.yaml", &format!("cluster_name: dev\n{CLUSTER}"));
    for args in ["check em-dev", "check dev"] {
        let run = folder.talmox(args);
        assert_eq!(run.code, 0, "{args}: {}", run.stderr);
        assert!(run.stdout.starts_with("dev: 1 control plane"), "{}", run.stdout);
    }
    let run = folder.talmox("check em-dve");
    assert!(run.stderr.contains("hint: did you mean `em-dev`?"), "{}", run.stderr);
}

#[test]
fn a_cluster_that_cannot_be_read_is_not_counted() {
    let run = folder(&format!("{CLUSTER}a: [")).talmox("check");
    assert_eq!(run.code, 1);
    assert_snapshot!(run.stdout, @r"
    dev: could not be read
    1 error
    ");
}

#[test]
fn only_regular_files_are_read() {
    let folder =
        folder(&CLUSTER.replace("controlplane:", "patches: {all: [p.yaml]}\ncontrolplane:"));
    let path = |name: &str| folder.path().join("inventory/dev").join(name);
    let check = |problem: &str| {
        let run = folder.talmox("check");
        assert_eq!(run.code, 1, "{problem}");
        assert!(run.stderr.contains(problem), "{problem}: {}", run.stderr);
    };
    check("no such file");
    std::fs::create_dir(path("p.yaml")).unwrap();
    check("a folder, not a file");
    std::fs::remove_dir(path("p.yaml")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", path("p.yaml")).unwrap();
    check("not a regular file");
    std::fs::remove_file(path("p.yaml")).unwrap();
    folder.write("inventory/dev/p.yaml", &"a".repeat((4 << 20) + 1));
    check("larger than 4 MiB");
    folder.write("inventory/dev/p.yaml", "machine: {}\n");
    std::os::unix::fs::symlink("nowhere", path("nodes.yaml")).unwrap();
    check("a link to a missing file");
    std::fs::remove_file(path("nodes.yaml")).unwrap();
    std::fs::create_dir(path("nodes.yaml")).unwrap();
    check("a folder, not a file");
    std::fs::remove_dir(path("nodes.yaml")).unwrap();
    folder.write("inventory/dev/nodes.yml", "workers: []\n");
    check("rename it to nodes.yaml");
    std::fs::remove_file(path("nodes.yml")).unwrap();
    assert_eq!(folder.talmox("check").code, 0);
}

#[test]
fn documents_of_a_later_talos_version_are_errors() {
    let host = "apiVersion: v1alpha1\nkind: StaticHostConfig\nname: 10.5.0.2\nhostnames: [a]\n";
    let patched = CLUSTER.replace("controlplane:", "patches: {all: [p.yaml]}\ncontrolplane:");
    let folder = folder(&patched);
    folder.write("inventory/dev/p.yaml", host);
    let run = folder.talmox("check");
    assert_eq!(run.code, 1);
    assert_snapshot!(run.stderr, @r"
    error[bad-patch]: StaticHostConfig exists since Talos v1.12; Talos v1.11 rejects the config
     --> inventory/dev/cluster.yaml:4:17
      |
    4 | patches: {all: [p.yaml]}
      |                 ^^^^^^
      |
      = hint: increase `talos_version`, or remove the document from the patch
    ");
    for command in ["plan --lab", "up --lab --yes", "render"] {
        let run = folder.talmox(command);
        assert_eq!(run.code, 1, "{command}");
        let reported = "error[bad-patch]: StaticHostConfig exists since Talos v1.12; Talos v1.11 rejects the config";
        assert!(run.stderr.contains(reported), "{command}: {}", run.stderr);
    }
    // A patch that only deletes a document is valid for every release. Newer releases support the document.
    folder.write(
        "inventory/dev/p.yaml",
        "apiVersion: v1alpha1\nkind: HostnameConfig\n$patch: delete\n",
    );
    assert_eq!(folder.talmox("check").code, 0);
    folder.write("inventory/dev/p.yaml", host);
    folder.write("inventory/dev/cluster.yaml", &patched.replace("v1.11.2", "v1.12.7"));
    assert_eq!(folder.talmox("check").code, 0);
}

#[test]
fn a_config_that_talos_rejects_is_reported_with_nodes_and_patch() {
    let patched = CLUSTER.replace("controlplane:", "patches: {all: [p.yaml]}\ncontrolplane:");
    let workers = "workers:\n  - {name: wk-1, ip: 10.0.0.21}\n  - {name: wk-2, ip: 10.0.0.22}\n";
    let folder = folder(&format!("{patched}{workers}"));
    let etcd = "cluster: {etcd: {advertisedSubnets: [10.0.0.0/16]}}\n";
    folder.write("inventory/dev/p.yaml", etcd);
    let run = folder.talmox("check");
    assert_eq!(run.code, 1);
    assert_snapshot!(run.stderr, @r"
    error[bad-patch]: Talos rejects the config of wk-1, wk-2: etcd config is only allowed on control plane machines
     --> inventory/dev/cluster.yaml:4:17
      |
    4 | patches: {all: [p.yaml]}
      |                 ^^^^^^
      |
      = hint: change the patch, or give it only to the nodes that it is for: `patches:` has `all`,
              `controlplane` and `workers`, and a node or class has its own
    ");
    // The check wrote no files.
    assert_eq!(std::fs::read_dir(folder.path().join("inventory/dev")).unwrap().count(), 2);
    for command in ["plan --lab", "up --lab --yes"] {
        let run = folder.talmox(command);
        assert_eq!(run.code, 1, "{command}");
        let reported = "error[config-invalid]: cannot render `wk-1`: Talos rejects the config: etcd config is only allowed on control plane \
                    machines (the patch p.yaml)\n";
        assert!(run.stderr.contains(reported), "{command}: {}", run.stderr);
        for hint in
            ["see inventory/dev/cluster.yaml:4:17", "talmox check dev", "talmox config validate"]
        {
            assert!(run.stderr.contains(hint), "{command}, {hint}: {}", run.stderr);
        }
        assert!(!run.stderr.contains("\n\n\n"), "{command}: {}", run.stderr);
    }
    // The values of an invalid patch are not shown.
    folder.write("inventory/dev/p.yaml", "machine: {tokenn: hunter2}\n");
    let run = folder.talmox("check");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("bad-patch") && run.stderr.contains("tokenn"), "{}", run.stderr);
    assert!(!run.stderr.contains("hunter2"), "{}", run.stderr);
    // The patch is valid if only the control planes get it.
    folder.write("inventory/dev/p.yaml", etcd);
    let right = patched.replace("{all:", "{controlplane:");
    folder.write("inventory/dev/cluster.yaml", &format!("{right}{workers}"));
    assert_eq!(folder.talmox("check").code, 0);
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let folder = folder(CLUSTER);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_talmox"))
        .args(["check"])
        .current_dir(folder.path())
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the result"));
}

#[test]
fn errors_are_listed_before_warnings() {
    let nodes: String = (20..90)
        .map(|n| {
            format!("  - {{name: wk-{n}, memory: 2G{}}}\n", if n == 89 { ", x: 1" } else { "" })
        })
        .collect();
    let run = folder(&format!("{CLUSTER}workers:\n{nodes}")).talmox("check");
    assert!(run.stderr.starts_with("error[unknown-key]"), "{}", run.stderr);
    assert!(run.stderr.contains("… and "), "{}", run.stderr);
}
