//! `up --lab --keep`.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use crate::support::{Cluster, Kubectl};

/// Process that is killed on drop.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_kept_lab_writes_a_kubeconfig_for_kubectl_and_ends_with_ctrl_c() {
    let cluster = Cluster::with_secrets();
    let folder = cluster.folder.path();
    let process = Command::new(env!("CARGO_BIN_EXE_talmox"))
        .current_dir(folder)
        .env("HOME", folder.join("home"))
        .args(["up", "--lab", "--keep", "--lab-speed", "20"])
        .stdout(File::create(folder.join("printed")).unwrap())
        .stderr(Stdio::piped())
        .spawn();
    let mut kept = KilledOnDrop(process.unwrap());
    let mut errors = BufReader::new(kept.0.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("The lab runs until Ctrl-C.") {
        assert_ne!(errors.read_line(&mut said).unwrap(), 0, "it ended: {said}");
    }
    // Another terminal may have another current folder, so the printed paths are absolute.
    let second = folder.canonicalize().unwrap().join("talmox-lab");
    while !said.contains("kubectl get nodes\n") {
        assert_ne!(errors.read_line(&mut said).unwrap(), 0, "it ended: {said}");
    }
    assert!(said.contains("Use it from a second terminal:\n"), "{said}");
    for (variable, file) in [("KUBECONFIG", "kubeconfig"), ("TALOSCONFIG", "talosconfig")] {
        let line = format!("\n  export {variable}={}\n", second.join(file).display());
        assert!(said.contains(&line), "{said}");
    }
    let printed = cluster.folder.read("printed");
    assert!(printed.contains("export KUBECONFIG=talmox-lab/kubeconfig\n"), "{printed}");
    assert_eq!(cluster.mode("talmox-lab/kubeconfig"), 0o600);
    if let Some(kubectl) = Kubectl::of(&cluster, "talmox-lab/kubeconfig") {
        let nodes = kubectl.must("get nodes --no-headers");
        let ready = nodes.lines().filter(|line| line.contains(" Ready ")).count();
        assert_eq!(ready, 2, "{nodes}");
        // The Kubernetes API of the lab stores objects.
        kubectl.must("create namespace shop");
        assert!(kubectl.must("get namespaces").contains("shop"));
    }

    let pid = kept.0.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    errors.read_to_string(&mut said).unwrap();
    assert_eq!(kept.0.wait().unwrap().code(), Some(0), "{said}");
    let inventory = folder.join("inventory/dev/kubeconfig");
    assert!(!inventory.exists(), "that is the place of the real cluster's");
}
