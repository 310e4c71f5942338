//! Lifecycle of a cluster: files that commands write and delete, and messages of the commands.

use serde_json::Value as Json;

use crate::lab::{IN_FILE, ServedLab};
use crate::support::{Cluster, Folder, Run, SECRETS, talmox};

fn has(cluster: &Cluster, path: &str) -> bool {
    cluster.folder.path().join(path).exists()
}

#[track_caller]
fn fine(run: Run) -> Run {
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    run
}

#[test]
fn up_generates_secrets_and_only_destroy_with_secrets_deletes_them() {
    let cluster = Cluster::new();
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");

    // `plan` writes no files, and its output is the same each time.
    let plan = fine(cluster.run(&format!("plan {IN_FILE}"))).stdout;
    assert!(plan.contains("+ file inventory/dev/secrets.sops.yaml  (create)"), "{plan}");
    assert!(plan.contains("virtio=…"), "{plan}");
    assert_eq!(fine(cluster.run(&format!("plan {IN_FILE}"))).stdout, plan);
    let out = cluster.run(&format!("plan --out plan.json {IN_FILE}"));
    assert_eq!(out.code, 1);
    assert!(out.stderr.contains("talmox secrets init"), "{}", out.stderr);
    let unasked = cluster.run(&format!("up {IN_FILE}"));
    assert_eq!(unasked.code, 64);
    assert!(unasked.stderr.contains("--yes"), "{}", unasked.stderr);
    assert!(!has(&cluster, SECRETS) && !has(&cluster, "plan.json"));

    // A file that cannot be merged into is reported before any change.
    cluster.folder.write("home/.kube/config", "clusters: [\n");
    let broken = cluster.run(&format!("up --yes --merge {IN_FILE}"));
    assert_eq!(broken.code, 1);
    assert!(broken.stderr.contains("cannot merge into"), "{}", broken.stderr);
    assert!(!has(&cluster, SECRETS));
    std::fs::remove_file(cluster.folder.path().join("home/.kube/config")).unwrap();

    let up = fine(cluster.run(&format!("up --yes {IN_FILE}"))).stdout;
    assert!(has(&cluster, SECRETS));
    assert!(up.contains("2 nodes are Ready: Kubernetes v1."), "{up}");
    assert!(up.contains("  talmox status --lab-at lab.json\n"), "{up}");
    let ignored = cluster.folder.read("inventory/dev/.gitignore");
    assert!(ignored.contains("\nkubeconfig\n") && ignored.contains("\n.talmox/\n"), "{ignored}");

    // Client files that the user requested or that are missing are written even if nothing else changes.
    let merged = fine(cluster.run(&format!("up --merge {IN_FILE}"))).stdout;
    assert!(
        merged.contains("home/.kube/config as the context `admin@dev` (now the current context)"),
        "{merged}"
    );
    assert!(cluster.folder.read("home/.kube/config").contains("admin@dev"));
    assert!(cluster.folder.read("home/.talos/config").contains("dev"));
    std::fs::remove_file(cluster.folder.path().join("inventory/dev/kubeconfig")).unwrap();
    fine(cluster.run(&format!("up {IN_FILE}")));
    assert!(has(&cluster, "inventory/dev/kubeconfig"));
    let again = fine(cluster.run(&format!("up {IN_FILE}"))).stdout;
    assert!(again.contains("Nothing to do"), "{again}");

    let services = fine(cluster.run(&format!("node services cp-1 {IN_FILE}"))).stdout;
    assert!(services.contains("etcd"), "{services}");
    let members = fine(cluster.run(&format!("node get 10.0.0.21 members {IN_FILE}"))).stdout;
    assert!(members.contains("wk-1"), "{members}");

    fine(cluster.run("render"));
    cluster.folder.write("generated/notes.txt", "mine\n");
    let rejected = cluster.run(&format!("destroy {IN_FILE}"));
    assert_eq!(rejected.code, 64);
    assert!(rejected.stderr.contains("--yes"), "{}", rejected.stderr);
    fine(cluster.run(&format!("destroy --yes {IN_FILE}")));
    assert!(has(&cluster, SECRETS) && has(&cluster, "inventory/dev/kubeconfig"));

    // `destroy --secrets` also deletes the local files of the cluster, but keeps files that do not belong to it.
    cluster.folder.write("inventory/dev/talosconfig", "context: another\n");
    let rejected = cluster.run(&format!("destroy --secrets {IN_FILE}"));
    assert_eq!(rejected.code, 64);
    assert!(has(&cluster, SECRETS));
    let gone = fine(cluster.run(&format!("destroy --secrets --yes {IN_FILE}"))).stderr;
    assert!(gone.contains("deleted inventory/dev/kubeconfig\n"), "{gone}");
    assert!(gone.contains("home/.kube/config still has a context of this cluster"), "{gone}");
    assert!(!has(&cluster, SECRETS) && !has(&cluster, "inventory/dev/kubeconfig"));
    assert!(has(&cluster, "inventory/dev/talosconfig"));
    assert!(!has(&cluster, "generated/cp-1.yaml") && has(&cluster, "generated/notes.txt"));
    assert_eq!(cluster.run("destroy --secrets --lab").code, 64);
}

#[test]
fn a_second_up_in_a_lab_recognises_its_kubeconfig() {
    let cluster = Cluster::of_one_node();
    // The lab does not serve this DNS name, so the kubeconfig of the lab has the same server as the kubeconfig of the
    // real cluster.
    let text = cluster.folder.read("inventory/dev/cluster.yaml");
    let text = text.replace(", vip: 10.0.0.20", "");
    let text = format!("{text}endpoint: https://k8s.example:6443\n");
    cluster.folder.write("inventory/dev/cluster.yaml", &text);
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    fine(cluster.run(&format!("up --yes {IN_FILE}")));
    let kubeconfig = cluster.folder.read("inventory/dev/kubeconfig");
    assert!(kubeconfig.contains("server: https://k8s.example:6443\n"), "{kubeconfig}");
    assert!(kubeconfig.ends_with("for a lab: it does not lead to a real cluster.\n"));
    let again = fine(cluster.run(&format!("up --yes {IN_FILE}"))).stdout;
    assert!(again.contains("Nothing to do"), "{again}");
    // The kubeconfig of a real cluster is not overwritten.
    let (real, _) = kubeconfig.rsplit_once("# Written by").unwrap();
    cluster.folder.write("inventory/dev/kubeconfig", real);
    let rejected = cluster.run(&format!("up --yes {IN_FILE}"));
    assert_eq!(rejected.code, 1);
    assert!(rejected.stderr.contains("kubeconfig is for a real cluster"), "{}", rejected.stderr);
    assert!(rejected.stderr.contains("--output DIR"), "{}", rejected.stderr);
    assert_eq!(cluster.folder.read("inventory/dev/kubeconfig"), real);
}

/// Without changes, `up` takes no lock and observes the cluster once, as `plan` does.
#[test]
fn an_up_without_changes_sends_no_more_requests_than_plan() {
    let cluster = Cluster::with_secrets();
    let file = "inventory/dev/cluster.yaml";
    let nodes = "  - {name: cp-2, ip: 10.0.0.12}\n  - {name: cp-3, ip: 10.0.0.13}\n\
                 workers:\n  - {name: wk-2, ip: 10.0.0.22}\n";
    cluster.folder.write(file, &cluster.folder.read(file).replace("workers:\n", nodes));
    let record = "--inventory inventory/dev --speed 20 --record calls.jsonl";
    let _lab = ServedLab::in_file(&cluster, record);
    let calls = || -> Vec<Json> {
        let text = cluster.folder.read("calls.jsonl");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let calls_of = |command: &str| {
        let before = calls().len();
        let run = fine(cluster.run(&format!("{command} {IN_FILE}")));
        (run, calls().split_off(before))
    };
    fine(cluster.run(&format!("up --yes {IN_FILE}")));
    let (plan, by_plan) = calls_of("plan --detailed-exitcode");
    assert_eq!(plan.stdout, "dev: nothing to do\n");
    let (up, by_up) = calls_of("up --yes");
    assert_eq!(up.stdout, "Nothing to do: the cluster matches the inventory.\n");
    assert!(by_up.iter().all(|call| call["method"] == "GET"), "{by_up:#?}");
    assert!(by_up.len() <= by_plan.len(), "{by_up:#?} instead of {by_plan:#?}");
}

#[test]
fn a_token_is_kept_when_the_cluster_is_destroyed() {
    let cluster = Cluster::with_secrets();
    let path = "inventory/dev/cluster.yaml";
    let text = cluster.folder.read(path).replace("https://pve:8006", "https://127.0.0.1:1");
    cluster.folder.write(path, &text);
    fine(cluster.run_with("secrets set proxmox.token", "talmox@pve!ci=secret"));
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    let gone = fine(cluster.run(&format!("destroy --secrets --yes {IN_FILE}"))).stderr;
    assert!(gone.contains("; proxmox.token is kept\n"), "{gone}");
    // If a token is available, new secrets require an answer of Proxmox.
    let unasked = cluster.run("secrets init");
    assert!(unasked.code == 1 && unasked.stderr.contains("--new-cluster"), "{}", unasked.stderr);
    let again = fine(cluster.run("secrets init --new-cluster"));
    assert!(again.stderr.contains("wrote"), "{}", again.stderr);
    let nothing = fine(cluster.run(&format!("destroy --format json {IN_FILE}"))).stdout;
    assert_eq!(nothing, "{\"cluster\":\"dev\",\"changed\":false,\"findings\":[]}\n");
    fine(cluster.run(&format!("destroy --secrets --yes {IN_FILE}")));
    let shown = fine(cluster.run("secrets show")).stdout;
    assert!(shown.contains("proxmox.token"), "{shown}");
    assert_eq!(cluster.run(&format!("status {IN_FILE}")).code, 1);
}

#[test]
fn messages_for_clusters_without_talos_do_not_mention_it() {
    let cluster = Cluster::example("ubuntu-cluster");
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory --speed 20");
    let up = fine(cluster.run(&format!("up --yes {IN_FILE}"))).stdout;
    assert!(up.contains("7 nodes run Ubuntu.\n"), "{up}");
    assert!(up.contains("  talmox status --lab-at lab.json\n"), "{up}");
    let status = fine(cluster.run(&format!("status {IN_FILE}"))).stdout;
    assert!(status.starts_with("ubuntu-cluster\n"), "{status}");
    assert!(!status.contains("Kubernetes") && !status.contains("ETCD"), "{status}");
    assert!(status.contains("running"), "{status}");
}

#[test]
fn every_json_error_has_the_same_format() {
    let cluster = Cluster::new();
    let error = |run: Run| -> Json {
        let output: Json = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(output["error"]["exit_code"], run.code);
        assert!(!run.stderr.is_empty(), "stderr has a message too");
        output["error"].clone()
    };
    let usage = error(cluster.run("up --format json --labb"));
    assert_eq!((&usage["code"], &usage["exit_code"]), (&"usage".into(), &64.into()));
    assert!(usage["message"].as_str().unwrap().contains("'--labb'"), "{usage}");
    assert!(usage["hint"].as_str().unwrap().contains("'--lab'"), "{usage}");
    let shell = error(cluster.run("completions nosh --format json"));
    assert!(!shell["message"].as_str().unwrap().contains("--help"), "{shell}");
    let unknown = error(cluster.run("status absent --format=json"));
    assert_eq!((&unknown["code"], &unknown["exit_code"]), (&"cluster-unknown".into(), &64.into()));
    assert!(unknown["message"].as_str().unwrap().contains("absent"), "{unknown}");

    let path = "inventory/dev/cluster.yaml";
    let text = cluster.folder.read(path).replace("talos_version", "talos_versoin");
    cluster.folder.write(path, &text);
    for command in ["plan", "up --yes", "status", "destroy --yes", "render", "kubeconfig"] {
        let bad = error(cluster.run(&format!("{command} --format json")));
        assert_eq!(bad["exit_code"], 1, "{command}");
        assert_eq!(bad["code"], "inventory-invalid", "{command}");
        let found = &bad["diagnostics"][0];
        assert_eq!((&found["file"], &found["line"]), (&path.into(), &1.into()), "{command}");
        assert_eq!(found["hint"], "did you mean `talos_version`?");
    }
    assert!(!has(&cluster, SECRETS) && !has(&cluster, "generated"));
}

#[test]
fn all_clusters_are_read_and_only_named_ones_are_changed() {
    let cluster = Cluster::new();
    let other = cluster.folder.read("inventory/dev/cluster.yaml");
    let other = other.replace("10.0.0.", "10.9.0.").replace("10.0.0.0/16", "10.9.0.0/16");
    let other = other.replace("cp-1", "cp-9").replace("wk-1", "wk-9");
    cluster.folder.write("inventory/ops/cluster.yaml", &other);
    let lab = "--lab --lab-speed 20";
    let both = fine(cluster.run(&format!("plan {lab}"))).stdout;
    assert!(both.contains("\ndev: ") && both.contains("\nops: "), "{both}");
    let one = fine(cluster.run(&format!("plan ops {lab}")));
    assert!(!one.stdout.contains("dev: ") && one.stdout.contains("\nops: "), "{}", one.stdout);
    assert!(one.stderr.contains("`talmox up --lab ops` executes this plan."), "{}", one.stderr);
    for command in ["up", "destroy", "render", "output"] {
        let run = cluster.run(&format!("{command} {}", if command == "render" { "" } else { lab }));
        assert_eq!(run.code, 64, "{command}: {}", run.stderr);
        assert!(
            run.stderr.contains("pass the name of one of them: dev, ops"),
            "{command}: {}",
            run.stderr
        );
    }
    let run = cluster.run(&format!("up dve {lab}"));
    assert_eq!(run.code, 64);
    assert!(run.stderr.contains("did you mean `dev`?"), "{}", run.stderr);
    let run = cluster.run(&format!("plan --graph --format json {lab}"));
    assert_eq!(run.code, 64);
    assert!(run.stdout.contains("omit --graph"), "{}", run.stdout);
    let run = cluster.run(&format!("plan --graph dot {lab}"));
    assert_eq!(run.code, 64);
}

#[test]
fn up_in_a_lab_works_without_an_inventory() {
    let (here, temporary) = (Folder::new(), Folder::new());
    let built_in = include_str!("../../src/rehearsal/quickstart.yaml");
    temporary.write("talmox-quickstart-1/quickstart/cluster.yaml", built_in);
    let mut command = talmox();
    command.current_dir(here.path()).env("TMPDIR", temporary.path()).env("HOME", here.path());
    let up = fine(Run::from(command.args(["up", "--lab"]).output().unwrap())).stdout;
    assert!(up.contains("5 nodes are Ready: Kubernetes v1."), "{up}");
    let left = std::fs::read_dir(temporary.path()).unwrap().count();
    assert_eq!(left, 1, "it takes its own folder away");
}

#[test]
fn clusters_that_share_a_folder_have_separate_files_and_runs() {
    const ONE: &str = "--inventory inventory/c1.yaml";
    let cluster = Cluster::new();
    let one = cluster.folder.read("inventory/dev/cluster.yaml");
    std::fs::remove_dir_all(cluster.folder.path().join("inventory/dev")).unwrap();
    cluster.folder.write("inventory/c1.yaml", &one);
    cluster.folder.write("inventory/c2.yaml", &one.replace("10.0.", "10.9."));
    let lab = format!("{ONE} {IN_FILE}");
    let _lab = ServedLab::in_file(&cluster, &format!("{ONE} --speed 20"));
    fine(cluster.run(&format!("up --yes {lab}")));
    let kept = cluster.folder.read("inventory/c1.kubeconfig");
    assert!(kept.contains("current-context: admin@c1\n"));
    assert!(cluster.folder.read("inventory/c1.talosconfig").contains("context: c1\n"));
    assert_eq!(fine(cluster.run(&format!("output kubeconfig {lab}"))).stdout, kept);
    let again = fine(cluster.run(&format!("up {lab}"))).stdout;
    assert!(again.contains("Nothing to do"), "{again}");
    assert!(!has(&cluster, "inventory/kubeconfig") && !has(&cluster, "inventory/talosconfig"));
    // The second cluster has no runs.
    for (name, count) in [("c1", 1), ("c2", 0)] {
        let runs = cluster.run(&format!("runs --format json --inventory inventory/{name}.yaml"));
        let runs: Json = serde_json::from_str(&fine(runs).stdout).unwrap();
        assert_eq!(runs.as_array().unwrap().len(), count, "{name}: {runs:#}");
    }

    // A kubeconfig that expires soon, or has another server, is replaced.
    fine(cluster.run(&format!("kubeconfig --ttl 12h --force -o soon {ONE}")));
    let server = kept.lines().find(|line| line.contains("server: ")).unwrap();
    let soon = cluster.folder.read("soon").replace("      server: https://10.0.0.20:6443", server);
    let elsewhere = kept.replace(server, "      server: https://127.0.0.9:6443");
    for stale in [soon, elsewhere] {
        assert!(stale != kept);
        cluster.folder.write("inventory/c1.kubeconfig", &stale);
        fine(cluster.run(&format!("up {lab}")));
        let written = cluster.folder.read("inventory/c1.kubeconfig");
        assert!(written != stale && written.contains(server), "{server}");
        let again = fine(cluster.run(&format!("up {lab}"))).stdout;
        assert!(again.contains("Nothing to do"), "{again}");
    }

    let gone = fine(cluster.run(&format!("destroy --secrets --yes {lab}"))).stderr;
    assert!(gone.contains("deleted inventory/c1.kubeconfig\n"), "{gone}");
    assert!(has(&cluster, "inventory/c2.yaml") && !has(&cluster, "inventory/c1.talosconfig"));
}
