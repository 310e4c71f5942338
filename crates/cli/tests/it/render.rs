//! `talmox render`

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use insta::assert_snapshot;

use crate::support::{Cluster, SECRETS};

/// Name of the file that lists the rendered files.
const LIST: &str = ".talmox-rendered.json";

fn files(folder: &Path) -> Vec<String> {
    let mut found = vec![];
    let mut queue = vec![folder.to_owned()];
    while let Some(next) = queue.pop() {
        for entry in fs::read_dir(next).unwrap().flatten() {
            if entry.path().is_dir() {
                queue.push(entry.path());
            } else {
                assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
                let path = entry.path();
                found.push(path.strip_prefix(folder).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn rendering_again_changes_nothing() {
    let cluster = Cluster::example("talos-cluster");
    let folder = &cluster.folder;
    let run = cluster.run("render");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let base = "88d1f7a5c4f1d3aba7df787c448c1d3d008ed29cfb34af53fa0df4336a56040b";
    let gpu = "901b9afcf2f7eda57991690fc5ca00414740cc4ee4ad516109bcc58beff1b829";
    assert_eq!(
        files(&folder.path().join("generated")),
        [
            ".talmox-rendered.json".to_owned(),
            "k8s-controller1.yaml".to_owned(),
            "k8s-controller2.yaml".to_owned(),
            "k8s-controller3.yaml".to_owned(),
            "k8s-worker1.yaml".to_owned(),
            "k8s-worker2.yaml".to_owned(),
            "k8s-worker3.yaml".to_owned(),
            "k8s-worker4.yaml".to_owned(),
            format!("schematics/{base}.yaml"),
            format!("schematics/{gpu}.yaml"),
            "talosconfig".to_owned(),
        ]
    );
    let again = cluster.run("render");
    assert_snapshot!(again.stderr, @"generated: 0 written, 10 unchanged, 0 removed");
    let elsewhere = cluster.run("render --output other");
    assert_eq!(elsewhere.code, 0, "{}", elsewhere.stderr);
    for node in ["k8s-controller1", "k8s-worker4"] {
        let path = format!("{node}.yaml");
        assert_eq!(
            folder.read(&format!("generated/{path}")),
            folder.read(&format!("other/{path}"))
        );
    }
}

#[test]
fn files_of_removed_nodes_are_deleted_and_others_kept() {
    let cluster = Cluster::example("talos-cluster");
    let folder = &cluster.folder;
    assert_eq!(cluster.run("render").code, 0);
    let nodes = folder.read("inventory/talos-cluster/nodes.yaml");
    let fewer: String = nodes
        .lines()
        .filter(|line| !line.contains("worker2") && !line.contains("worker3"))
        .map(|line| format!("{line}\n"))
        .collect();
    folder.write("inventory/talos-cluster/nodes.yaml", &fewer);
    folder.write("generated/k8s-worker3.yaml", "changed by hand\n");
    folder.write("generated/notes.txt", "mine\n");
    let run = cluster.run("render");
    assert_snapshot!(run.stderr, @r"
    warning: k8s-worker3.yaml belongs to a removed node, but was changed: not removed
    removed k8s-worker2.yaml
    generated: 1 written, 7 unchanged, 1 removed
    ");
    assert_eq!(folder.read("generated/k8s-worker3.yaml"), "changed by hand\n");
    assert_eq!(folder.read("generated/notes.txt"), "mine\n");
}

#[test]
fn a_file_of_the_user_is_not_overwritten() {
    let cluster = Cluster::example("em-dev");
    let folder = &cluster.folder;
    folder.write("generated/dev-cp-1.yaml", "mine\n");
    let run = cluster.run("render");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("generated/dev-cp-1.yaml exists already"), "{}", run.stderr);
    assert_eq!(folder.read("generated/dev-cp-1.yaml"), "mine\n");
    assert!(!folder.path().join("generated/dev-wk-1.yaml").exists());
}

#[test]
fn phases_have_separate_folders() {
    let mut cluster = Cluster::example("home");
    cluster.set("HEADSCALE_AUTH_KEY", "key-of-a-test");
    let folder = &cluster.folder;
    let run = cluster.run("render --phases");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let first = folder.read("generated/phase1/controlplanes/talos-cp-01.yaml");
    assert!(first.contains("dhcp: true") && first.contains("TS_AUTHKEY=key-of-a-test"));
    let second = folder.read("generated/phase2/workers/talos-worker-02.yaml");
    assert!(second.contains("10.0.0.22/16") && second.contains("dhcp: false"));
}

#[test]
fn a_missing_secret_is_reported_with_its_place() {
    let cluster = Cluster::example("home");
    let folder = &cluster.folder;
    let run = cluster.run("render");
    assert_eq!(run.code, 1);
    let error = run.stderr.split_once("error[secrets-missing]: ").unwrap().1;
    assert_snapshot!(error, @r"
    tailscale.auth_key: inventory/home/secrets.sops.yaml has no `tailscale.auth_key`

    hint: run `talmox secrets set tailscale.auth_key`
    ");
    assert!(!folder.path().join("generated").exists());
}

#[test]
fn a_patch_that_talos_rejects_writes_no_files() {
    let cluster = Cluster::example("talos-cluster");
    let folder = &cluster.folder;
    folder.write("inventory/talos-cluster/patches/nvidia.yaml", "machine: {kernal: {}}\n");
    let run = cluster.run("render");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("kernal"), "{}", run.stderr);
    assert!(
        run.stderr.contains("hint: see inventory/talos-cluster/cluster.yaml:50:"),
        "{}",
        run.stderr
    );
    assert!(!folder.path().join("generated").exists());
}

#[test]
fn lost_secrets_are_not_generated_again_for_existing_configs() {
    let cluster = Cluster::example("em-dev");
    assert_eq!(cluster.run("render").code, 0);
    let before = cluster.folder.read("generated/dev-cp-1.yaml");
    fs::remove_file(cluster.folder.path().join("inventory/em-dev/secrets.sops.yaml")).unwrap();
    let run = cluster.run("render");
    assert_eq!(run.code, 1);
    assert!(
        run.stderr.contains("there is no inventory/em-dev/secrets.sops.yaml"),
        "{}",
        run.stderr
    );
    let run = cluster.run("secrets init");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("generated has machine configs of its nodes"), "{}", run.stderr);
    // New secrets are generated while the rendered configs are in another folder.
    let folder = cluster.folder.path();
    fs::rename(folder.join("generated"), folder.join("aside")).unwrap();
    assert_eq!(cluster.run("secrets init").code, 0);
    fs::rename(folder.join("aside"), folder.join("generated")).unwrap();
    let run = cluster.run("render");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("has the configs of another cluster"), "{}", run.stderr);
    assert_eq!(cluster.folder.read("generated/dev-cp-1.yaml"), before);
}

#[test]
fn values_of_a_rejected_patch_are_not_shown() {
    let cluster = Cluster::example("talos-cluster");
    let patch = "inventory/talos-cluster/patches/nvidia.yaml";
    cluster.folder.write(patch, "machine: {tokn: hunter2}\n");
    let run = cluster.run("render");
    assert!(run.stderr.contains("tokn: …"), "{}", run.stderr);
    assert!(!run.stderr.contains("hunter2"), "{}", run.stderr);
}

/// Secrets are the identity of a cluster, so a failed command must not write new secrets.
#[test]
fn a_first_run_that_fails_writes_no_secrets() {
    let cluster = Cluster::new();
    let (folder, path) = (&cluster.folder, "inventory/dev/cluster.yaml");
    let text = folder.read(path);
    folder.write("inventory/dev/bad.yaml", "machine: {kernal: {}}\n");
    folder.write(path, &format!("{text}patches: {{all: [bad.yaml]}}\n"));
    let run = cluster.run("render");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("kernal"), "{}", run.stderr);
    assert!(!folder.path().join(SECRETS).exists(), "{}", run.stderr);
    folder.write(path, &text);
    folder.write("generated/cp-1.yaml", "mine\n");
    let run = cluster.run("render");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("generated/cp-1.yaml exists already"), "{}", run.stderr);
    assert!(!folder.path().join(SECRETS).exists(), "{}", run.stderr);
    fs::remove_file(folder.path().join("generated/cp-1.yaml")).unwrap();
    // A folder that cannot be created, and a path that is a file. These fail for root too, unlike a read-only folder.
    folder.write("file", "mine\n");
    for output in ["/proc/nope", "file/below"] {
        let run = cluster.run(&format!("render --output {output}"));
        assert_eq!(run.code, 1, "{output}: {}", run.stderr);
        assert!(run.stderr.contains(&format!(" {output}/")), "{output}: {}", run.stderr);
        assert!(!folder.path().join(SECRETS).exists(), "{output}: {}", run.stderr);
    }
    assert_eq!(cluster.run("render").code, 0);
    assert!(folder.path().join(SECRETS).exists());
    let left = files(&folder.path().join("generated"));
    assert!(!left.iter().any(|name| name.starts_with(".talmox-") && name != LIST), "{left:?}");
}

#[test]
fn findings_are_counted_with_singular_and_plural() {
    let cluster = Cluster::with_secrets();
    let path = "inventory/dev/cluster.yaml";
    let text = cluster.folder.read(path).replace("token: {secret: proxmox.token}, ", "");
    cluster.folder.write(path, &text);
    let run = cluster.run("render");
    assert!(run.stderr.contains("warning: `talmox check` reports 1 finding\n"), "{}", run.stderr);
}
