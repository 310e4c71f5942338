//! Tests with inventories of untrusted authors, and on machines with other users.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::lab::{IN_FILE, ServedLab};
use crate::support::{Cluster, Folder, KEYS, SECRETS};

const PATH: &str = "inventory/dev/cluster.yaml";
const TAILSCALE: &str =
    "image: {extensions: [siderolabs/tailscale]}\ntailscale: {auth_key: REFERENCE}\n";

/// Cluster whose configs need a secret that this reference names.
fn with_auth_key(reference: &str) -> Cluster {
    let cluster = Cluster::of_one_node().with_token("{env: HOME}");
    let text = cluster.folder.read(PATH);
    let (text, _) = text.split_once("workers:").unwrap();
    cluster.folder.write(PATH, &format!("{text}{}", TAILSCALE.replace("REFERENCE", reference)));
    cluster
}

fn has(cluster: &Cluster, path: &str) -> bool {
    cluster.folder.path().join(path).symlink_metadata().is_ok()
}

#[test]
fn a_folder_of_another_user_is_not_used_for_the_quickstart() {
    let folder = Folder::new();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("tmp")).unwrap();
    fs::create_dir_all(at("empty")).unwrap();
    folder.write("victim", "precious\n");
    // The shell starts talmox with `exec`, so that the pid of talmox is known in advance.
    let script = "\
around=$TMPDIR/talmox-quickstart-$$
mkdir -p $around/quickstart
ln -s $VICTIM $around/quickstart/cluster.yaml
echo 'nonsense: {command: [touch, ran]}' > $around/defaults.yaml
exec $TALMOX plan --lab";
    let output = Command::new("sh")
        .args(["-c", script])
        .env("TMPDIR", at("tmp"))
        .env("VICTIM", at("victim"))
        .env("HOME", at("empty"))
        .env("TALMOX", env!("CARGO_BIN_EXE_talmox"))
        .current_dir(at("empty"))
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(folder.read("victim"), "precious\n");
    assert_eq!(output.status.code(), Some(0), "{reported}");
    assert!(!reported.contains("nonsense"), "{reported}");
    // talmox has removed its own temporary folders.
    assert_eq!(fs::read_dir(at("tmp")).unwrap().count(), 1);
}

#[test]
fn commands_of_an_inventory_do_not_run_unasked() {
    let cluster = with_auth_key("{command: [./vault, key]}");
    cluster.script("inventory/dev/vault", "touch ran; echo hunter2");
    let ran = || {
        let path = cluster.folder.path().join("inventory/dev/ran");
        fs::remove_file(path).is_ok()
    };
    let check = cluster.run("check");
    assert_eq!(check.code, 0, "{}", check.stderr);
    let reported = "tailscale.auth_key: the command `./vault` was not run\n";
    assert!(check.stderr.contains(reported), "{}", check.stderr);
    assert!(!ran());
    let plan = cluster.run("plan --lab");
    assert_eq!(plan.code, 0, "{}", plan.stderr);
    let reported =
        "tailscale.auth_key: the command `./vault` did not run; the lab uses a placeholder";
    assert!(plan.stderr.contains(reported), "{}", plan.stderr);
    assert!(!ran());
    // Outside a lab, no placeholder is used for the secret.
    let render = cluster.run("render");
    assert_eq!(render.code, 64, "{}", render.stderr);
    assert!(
        render.stderr.contains(r#"not allowed to run: ["./vault", "key"]"#),
        "{}",
        render.stderr
    );
    assert!(render.stderr.contains("--allow-commands"), "{}", render.stderr);
    assert!(!ran() && !has(&cluster, "generated/cp-1.yaml"));

    for command in ["plan --lab --allow-commands", "render --allow-commands"] {
        let run = cluster.run(command);
        assert_eq!(run.code, 0, "{command}: {}", run.stderr);
        assert!(ran(), "{command}");
        assert!(!run.stderr.contains("placeholder"), "{command}: {}", run.stderr);
    }
    // `--allow-commands` did not store a consent.
    assert_eq!(cluster.run("render").code, 64);
    assert!(!ran() && !has(&cluster, "home/.local"));
}

#[test]
fn consent_is_asked_once_and_again_after_a_change() {
    let cluster = with_auth_key("{command: [./vault, key]}");
    cluster.script("inventory/dev/vault", "touch ran; echo hunter2");
    let resolve = "secrets show --resolve";
    let Some((code, shown)) = cluster.folder.typed(resolve, "n\n") else { return };
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains(r#"["./vault", "key"]"#), "{shown}");
    assert!(shown.contains("with these environment variables: PATH, HOME"), "{shown}");
    assert!(!has(&cluster, "inventory/dev/ran"));
    assert_eq!(cluster.run(resolve).code, 1);

    let (code, shown) = cluster.folder.typed(resolve, "y\n").unwrap();
    assert_eq!(code, Some(0), "{shown}");
    assert!(has(&cluster, "inventory/dev/ran"));
    // The stored consent is also valid without a terminal and in a lab. It is stored in the folder of the user and not in
    // the repository.
    assert_eq!(cluster.run(resolve).code, 0);
    let plan = cluster.run("plan --lab");
    assert!(!plan.stderr.contains("placeholder"), "{}", plan.stderr);
    let kept = cluster.folder.path().join("home/.local/state/talmox/allowed-commands");
    assert_eq!(fs::read_dir(kept).unwrap().count(), 1);

    cluster.script("inventory/dev/vault", "touch ran-again; echo hunter2");
    assert_eq!(cluster.run(resolve).code, 1, "another script");
    assert!(!has(&cluster, "inventory/dev/ran-again"));
}

/// The program is a shell that stays the same, but the script that the shell runs can change.
#[test]
fn a_script_that_an_interpreter_runs_is_asked_about_again_when_it_changes() {
    let cluster = with_auth_key("{command: [sh, ./vault.sh]}");
    cluster.script("inventory/dev/vault.sh", "touch ran; echo hunter2");
    let resolve = "secrets show --resolve";
    let Some((code, shown)) = cluster.folder.typed(resolve, "y\n") else { return };
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(cluster.run(resolve).code, 0);
    cluster.script("inventory/dev/vault.sh", "touch ran-again; echo hunter2");
    assert_eq!(cluster.run(resolve).code, 1, "another script");
    assert!(!has(&cluster, "inventory/dev/ran-again"));
}

#[test]
fn a_command_gets_only_the_variables_it_names() {
    let mut cluster = with_auth_key("{command: [./vault], env: [WANTED, MISSING]}");
    cluster.script("inventory/dev/vault", "env > seen; echo hunter2");
    cluster.set("WANTED", "yes");
    cluster.set("AWS_SECRET_ACCESS_KEY", "no");
    let run = cluster.run("secrets show --resolve --allow-commands");
    assert_eq!(run.code, 0, "{}", run.stdout);
    let seen = cluster.folder.read("inventory/dev/seen");
    let mut names: Vec<&str> =
        seen.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    // The shell adds these variables.
    names.retain(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["HOME", "PATH", "WANTED"], "{seen}");
}

/// Cluster with a patch of this name, inside or outside a Git repository. `private.yaml` is outside the boundary.
fn with_patch(name: &str, is_repository: bool) -> Folder {
    let folder = Folder::new();
    let cluster = "\
talos_version: v1.11.2
network: {subnet: 10.0.0.0/16, gateway: 10.0.0.1}
proxmox: {endpoint: https://pve:8006, token: {env: TOKEN}, node: pve}
controlplane:
  - {name: cp-1, ip: 10.0.0.11}
";
    let text = format!("{cluster}patches: {{all: [{name}]}}\n");
    folder.write("clone/inventory/dev/cluster.yaml", &text);
    folder.write("clone/patches/good.yaml", "machine: {sysctls: {a: b}}\n");
    folder.write("private.yaml", "password-of-mine: hunter2\nline-of-mine\n");
    if is_repository {
        fs::create_dir_all(folder.path().join("clone/.git")).unwrap();
    }
    folder
}

#[test]
fn files_of_an_inventory_must_be_in_its_repository() {
    let check = |folder: &Folder, more: &str| {
        folder.talmox(&format!("check -i clone/inventory/dev {more}"))
    };
    let run = check(&with_patch("../../patches/good.yaml", true), "");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run = check(&with_patch("../../patches/good.yaml", false), "");
    assert_eq!(run.code, 1, "without a repository the inventory's folder is the limit");
    assert!(run.stderr.contains("it is outside"), "{}", run.stderr);

    let linked = with_patch("patch.yaml", true);
    let private = linked.path().join("private.yaml");
    symlink(&private, linked.path().join("clone/inventory/dev/patch.yaml")).unwrap();
    let named = with_patch("../../../private.yaml", true);
    let absolute = with_patch(private.to_str().unwrap(), true);
    for folder in [&linked, &named, &absolute] {
        for command in ["", "--format json"] {
            let run = check(folder, command);
            assert_eq!(run.code, 1, "{}", run.stderr);
            let reported = format!("{}{}", run.stdout, run.stderr);
            assert!(reported.contains("it is outside"), "{reported}");
            assert!(reported.contains("--allow-file"), "{reported}");
            assert!(!reported.contains("of-mine") && !reported.contains("hunter2"), "{reported}");
        }
    }
    // An allowed file is read, but findings do not contain its text.
    let run = check(&linked, "--allow-file private.yaml");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("patch.yaml cannot be used as patch"), "{}", run.stderr);
    assert!(!run.stderr.contains("of-mine") && !run.stderr.contains("hunter2"), "{}", run.stderr);
    linked.write("private.yaml", "machine: {sysctls: {a: b}}\n");
    let run = check(&linked, "--allow-file private.yaml");
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn the_inventory_itself_must_be_in_its_repository() {
    let folder = with_patch("../../patches/good.yaml", true);
    let path = folder.path().join("clone/inventory/dev/cluster.yaml");
    fs::remove_file(&path).unwrap();
    symlink(folder.path().join("private.yaml"), &path).unwrap();
    for command in ["check", "plan --lab", "secrets show"] {
        let run = folder.talmox(&format!("{command} -i clone/inventory/dev"));
        assert_eq!(run.code, 1, "{command}: {}", run.stderr);
        assert!(run.stderr.contains("it is outside"), "{command}: {}", run.stderr);
        assert!(!run.stderr.contains("of-mine"), "{command}: {}", run.stderr);
    }
}

#[test]
fn only_regular_files_up_to_a_size_are_read() {
    for (target, problem) in [
        ("/dev/zero", "not a regular file"),
        ("pipe", "not a regular file"),
        ("/proc/self/environ", "a kernel file"),
        ("large", "larger than 4 MiB"),
    ] {
        let folder = with_patch("patch.yaml", false);
        let dev = folder.path().join("clone/inventory/dev");
        if target == "pipe" {
            let made = Command::new("mkfifo").arg(dev.join("pipe")).status().unwrap();
            assert!(made.success());
        }
        let large = fs::File::create(dev.join("large")).unwrap();
        large.set_len(5 << 20).unwrap();
        symlink(target, dev.join("patch.yaml")).unwrap();
        let run =
            folder.talmox("check -i clone/inventory/dev --allow-file /dev --allow-file /proc");
        assert_eq!(run.code, 1, "{target}: {}", run.stderr);
        assert!(run.stderr.contains(problem), "{target}: {}", run.stderr);
        // The same rules apply to files with fixed names.
        fs::remove_file(dev.join("patch.yaml")).unwrap();
        folder.write("clone/inventory/dev/patch.yaml", "machine: {sysctls: {a: b}}\n");
        symlink(target, dev.join("secrets.sops.yaml")).unwrap();
        let run = folder
            .talmox("secrets show -i clone/inventory/dev --allow-file /dev --allow-file /proc");
        assert_eq!(run.code, 1, "{target}: {}", run.stderr);
        assert!(run.stderr.contains(problem), "{target}: {}", run.stderr);
    }
}

#[test]
fn a_link_to_the_secrets_of_another_cluster_is_not_followed() {
    let cluster = Cluster::with_secrets();
    let folder = cluster.folder.path();
    fs::rename(folder.join(SECRETS), folder.join("other.sops.yaml")).unwrap();
    symlink(folder.join("other.sops.yaml"), folder.join(SECRETS)).unwrap();
    let run = cluster.run("secrets show");
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(run.stderr.contains("it is outside"), "{}", run.stderr);
    let run = cluster.run("secrets show --allow-file other.sops.yaml");
    assert_eq!(run.code, 0, "{}", run.stderr);
    // The key file belongs to the user, but it must be a regular file too.
    fs::remove_file(folder.join(KEYS)).unwrap();
    symlink("/dev/zero", folder.join(KEYS)).unwrap();
    let run = cluster.run("secrets show --allow-file other.sops.yaml");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("not a regular file"), "{}", run.stderr);
}

#[test]
fn links_at_output_paths_do_not_replace_other_files() {
    let cluster = Cluster::of_one_node();
    let folder = cluster.folder.path();
    cluster.folder.write("victim", "precious\n");
    fs::create_dir_all(folder.join("inventory/dev/.talmox")).unwrap();
    symlink(folder.join("victim"), folder.join("inventory/dev/.talmox/secrets.lock")).unwrap();
    let run = cluster.run_with("secrets set values.a", "x");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("is a link"), "{}", run.stderr);
    fs::remove_dir_all(folder.join("inventory/dev/.talmox")).unwrap();
    symlink(folder.join("home"), folder.join("inventory/dev/.talmox")).unwrap();
    assert_eq!(cluster.run_with("secrets set values.a", "x").code, 1);

    // Even if the list of rendered files contains the file, talmox does not follow the link.
    let cluster = cluster.with_token("{env: HOME}");
    fs::create_dir_all(folder_of(&cluster, "generated")).unwrap();
    assert_eq!(cluster.run("render").code, 0);
    fs::remove_file(folder_of(&cluster, "generated/cp-1.yaml")).unwrap();
    symlink(folder_of(&cluster, "victim"), folder_of(&cluster, "generated/cp-1.yaml")).unwrap();
    let run = cluster.run("render");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("generated/cp-1.yaml is a link"), "{}", run.stderr);
    assert_eq!(cluster.folder.read("victim"), "precious\n");
}

fn folder_of(cluster: &Cluster, name: &str) -> std::path::PathBuf {
    cluster.folder.path().join(name)
}

/// The error message comes from Proxmox. It contains escape sequences that a terminal would execute.
#[test]
fn a_text_of_proxmox_cannot_control_the_terminal() {
    let cluster = Cluster::with_secrets();
    let message = r"\u001b[2Jno \u001b]0;evil\u0007entry\u202e";
    let refuse = format!("refuse: {{status: 400, message: \"{message}\"}}");
    let faults = format!(
        "faults:\n  - {{method: GET, path: /cluster/resources, times: always, {refuse}}}\n"
    );
    cluster.folder.write("faults.yaml", &faults);
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --faults faults.yaml");
    let obeyed = ['\u{1b}', '\u{7}', '\u{202e}'];
    for command in ["plan", "status"] {
        let run = cluster.run(&format!("{command} {IN_FILE}"));
        let printed = format!("{}{}", run.stdout, run.stderr);
        assert!(printed.contains(r"\u{1b}[2Jno \u{1b}]0;evil\u{7}entry"), "{command}: {printed:?}");
        assert!(!printed.contains(obeyed), "{command}: {printed:?}");
    }
    // In JSON, a program can read the original text.
    let run = cluster.run(&format!("status --format json {IN_FILE}"));
    assert!(!run.stdout.contains(obeyed), "{:?}", run.stdout);
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let reasons = report["unreachable"].as_array().unwrap().iter();
    let mut reasons = reasons.filter_map(|silent| silent["reason"].as_str());
    assert!(reasons.any(|reason| reason.contains("\u{1b}[2Jno ")), "{report:#}");
}

/// The author of the inventory chooses the variable, and the server that gets its value.
#[test]
fn check_sends_no_variable_to_the_endpoint_of_an_inventory() {
    let endpoint = TcpListener::bind("127.0.0.1:0").unwrap();
    endpoint.set_nonblocking(true).unwrap();
    let is_called = || match endpoint.accept() {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            false
        }
    };
    let mut cluster = Cluster::with_secrets().with_token("{env: PRIVATE_TOKEN}");
    cluster.set("PRIVATE_TOKEN", "ann@pve!hunter2=00000000-0000-0000-0000-000000000000");
    let address = endpoint.local_addr().unwrap().to_string();
    let text = cluster.folder.read(PATH).replace("pve:8006", &address);
    let reach = "reach: {10.0.0.11: 127.0.0.1, 10.0.0.20: 127.0.0.1, 10.0.0.21: 127.0.0.1}\n";
    cluster.folder.write(PATH, &format!("{text}{reach}"));
    let check = cluster.run("check");
    assert_eq!(check.code, 0, "{}", check.stderr);
    assert!(!format!("{}{}", check.stdout, check.stderr).contains("hunter2"), "{}", check.stderr);
    assert!(!is_called(), "check connects to the endpoint");
    // With the same inventory, other commands connect to the endpoint.
    assert_eq!(cluster.run("status --timeout 1s").code, 1);
    assert!(is_called(), "status does not connect to the endpoint");
}
