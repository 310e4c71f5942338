//! `talmox lab serve`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value as Json;
use talmox_clock::Clock;

use crate::support::{Cluster, Folder, skip_test};

/// Lab in a separate process. The process is killed on drop.
pub(crate) struct ServedLab {
    process: Child,
    ready: Json,
}

/// Option that connects a command to the lab of `ServedLab::in_file`.
pub(crate) const IN_FILE: &str = "--lab-at lab.json";

impl ServedLab {
    fn start(folder: &Path, args: &str) -> Self {
        Self::of(serve(folder).args(args.split_whitespace()))
    }

    /// Starts a lab for commands in the folder of the cluster. The commands connect to the lab with `IN_FILE`.
    pub(crate) fn in_file(cluster: &Cluster, args: &str) -> Self {
        let folder = cluster.folder.path();
        // The lab needs the age key of the cluster, because DHCP leases depend on MACs, and MACs are derived from the
        // secrets.
        let lab =
            Self::of(serve(folder).env("HOME", folder.join("home")).args(args.split_whitespace()));
        cluster.folder.write("lab.json", &lab.ready.to_string());
        lab
    }

    fn of(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready = serde_json::from_str(&line).unwrap();
        Self { process, ready }
    }

    pub(crate) fn pve(&self, key: &str) -> &str {
        self.ready["pve"][key].as_str().unwrap()
    }

    /// Sends a request to the lab with curl. Prints a note and returns `None` if curl is missing.
    pub(crate) fn get(&self, path: &str) -> Option<Json> {
        let token = format!("{}={}", self.pve("token_id"), self.pve("token_secret"));
        let output = Command::new("curl")
            .args(["--silent", "--fail", "--cacert", self.pve("ca")])
            .args(["--header", &format!("Authorization: PVEAPIToken={token}")])
            .arg(format!("{}/api2/json{path}", self.pve("url")))
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) => {
                skip_test(&format!("there is no curl: {error}"));
                return None;
            }
        };
        assert!(output.status.success(), "{output:?}");
        Some(serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Sends a signal and returns the exit code of the lab.
    pub(crate) fn signal(mut self, name: &str) -> Option<i32> {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
        for _ in 0..400 {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code();
            }
            std::thread::park_timeout(Duration::from_millis(25));
        }
        panic!("the lab does not stop");
    }
}

fn serve(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_talmox"));
    command.current_dir(folder).args(["lab", "serve", "--format", "json"]);
    command
}

impl Drop for ServedLab {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

#[test]
fn the_json_line_has_addresses_and_credentials_and_sigterm_ends_the_lab() {
    let folder = Folder::new();
    for signal in ["TERM", "INT"] {
        let lab = ServedLab::start(folder.path(), "--release 8.4 --seed 7");
        assert!(lab.pve("url").starts_with("https://127.0.0.1:"));
        assert_eq!(lab.pve("node"), "pve");
        assert_eq!(lab.pve("username"), "root@pam");
        assert_eq!(lab.pve("fingerprint").len(), 95);
        assert!(!lab.pve("password").is_empty());
        assert_eq!(lab.ready["seed"], 7);
        if let Some(version) = lab.get("/version") {
            assert_eq!(version["data"]["release"], "8.4");
        }
        let ca = Path::new(lab.pve("ca")).to_owned();
        assert!(ca.exists());
        assert_eq!(lab.signal(signal), Some(0));
        assert!(!ca.exists(), "nothing is left behind");
    }
}

#[test]
fn a_lab_with_state_continues_after_it_was_killed() {
    let folder = Folder::new();
    folder.write("lab.yaml", "nodes: [{name: atlas}]\n");
    let args = "--state kept --scenario lab.yaml --record calls.jsonl";
    let first = ServedLab::start(folder.path(), args);
    let (secret, print) =
        (first.pve("token_secret").to_owned(), first.pve("fingerprint").to_owned());
    let place = first.ready["reach"]["10.0.0.11"].clone();
    assert!(place.is_string(), "{place}");
    assert_eq!(first.signal("KILL"), None);
    let second = ServedLab::start(folder.path(), "--state kept");
    assert_eq!(second.pve("node"), "atlas");
    assert_eq!(second.pve("token_secret"), secret);
    assert_eq!(second.pve("fingerprint"), print);
    // On a system with a single loopback address, the port of the node is random.
    if !place.as_str().unwrap().contains(':') {
        assert_eq!(second.ready["reach"]["10.0.0.11"], place);
    }
    assert_eq!(second.signal("TERM"), Some(0));
}

#[test]
fn idle_connections_are_closed_for_new_ones() {
    let folder = Folder::new();
    let program = env!("CARGO_BIN_EXE_talmox");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 100; exec \"$0\" lab serve --format json", program]);
    let lab = ServedLab::of(shell.current_dir(folder.path()));
    let address = lab.pve("url").strip_prefix("https://").unwrap();
    let idle: Vec<_> = (0..200).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    if let Some(version) = lab.get("/version") {
        assert_eq!(version["data"]["release"], "9.2");
    }
    drop(idle);
    assert_eq!(lab.signal("TERM"), Some(0));
}

#[test]
fn a_remote_address_requires_allow_remote() {
    let folder = Folder::new();
    let run = folder.talmox("lab serve --listen 0.0.0.0:0");
    assert_eq!(run.code, 64);
    assert!(run.stderr.contains("--allow-remote"), "{}", run.stderr);

    let mut process = Command::new(env!("CARGO_BIN_EXE_talmox"))
        .args(["lab", "serve", "--listen", "0.0.0.0:0", "--allow-remote"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(process.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("curl") {
        assert_ne!(out.read_line(&mut text).unwrap(), 0, "{text}");
    }
    assert!(text.contains("ready") && text.contains("https://127.0.0.1:"), "{text}");
    let pid = process.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    let mut printed = String::new();
    process.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    assert!(printed.contains("warning:") && printed.contains("0.0.0.0"), "{printed}");
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

#[test]
fn unused_faults_give_a_warning_and_unknown_objects_an_error() {
    let cluster = Cluster::new();
    cluster
        .folder
        .write("nobody.yaml", "faults:\n  - {talos: Bootstrap, node: cp-9, hang: true}\n");
    for command in ["lab serve --inventory inventory/dev --faults", "plan --lab --lab-faults"] {
        let run = cluster.run(&format!("{command} nobody.yaml"));
        assert_eq!(run.code, 1, "{command}");
        let words = ["nobody.yaml:2", "there is no node `cp-9`", "did you mean `cp-1`?"];
        assert!(words.iter().all(|word| run.stderr.contains(word)), "{}", run.stderr);
    }
    let faults = "faults:\n  - {path: /version, delay: 0s}\n  - {talos: Bootstrap, node: cp-1, hang: true}\n  \
                  - {after: 9h, node: 10.0.0.21, unplug: true}\n";
    cluster.folder.write("faults.yaml", faults);
    let run = cluster.run("plan --lab --lab-faults faults.yaml");
    let reported = "faults that never matched: faults.yaml:3, faults.yaml:4\n";
    assert!(run.code == 0 && run.stderr.contains(reported), "{}", run.stderr);

    let mut command = Command::new(env!("CARGO_BIN_EXE_talmox"));
    command.current_dir(cluster.folder.path()).stderr(Stdio::piped());
    let mut lab = ServedLab::of(command.args([
        "lab",
        "serve",
        "--format",
        "json",
        "--faults",
        "faults.yaml",
    ]));
    let mut errors = lab.process.stderr.take().unwrap();
    assert_eq!(lab.signal("TERM"), Some(0));
    let mut printed = String::new();
    errors.read_to_string(&mut printed).unwrap();
    let reported = "faults that never matched: faults.yaml:2, faults.yaml:3, faults.yaml:4\n";
    assert!(printed.contains(reported), "{printed}");
}

#[test]
fn dhcp_serves_every_card_that_uses_it() {
    let cluster = Cluster::with_secrets();
    let path = "inventory/dev/cluster.yaml";
    let text = cluster.folder.read(path);
    let card = "{bridge: vmbr1, mac: '02:00:00:00:01:21'}";
    let more = text.replace("ip: 10.0.0.21", &format!("ip: 10.0.0.21, nics: [{card}]"));
    assert_ne!(text, more);
    cluster.folder.write(path, &more);
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    let up = cluster.run(&format!("up --yes {IN_FILE}"));
    assert_eq!(up.code, 0, "{}", up.stderr);
    let addresses = cluster.run(&format!("node get 10.0.0.21 addresses {IN_FILE}")).stdout;
    for own in ["10.0.0.21/", "198.18.0.2/24"] {
        assert!(addresses.contains(own), "{addresses}");
    }
    let again = cluster.run(&format!("up {IN_FILE}")).stdout;
    assert!(again.contains("Nothing to do"), "{again}");
}

#[test]
fn start_errors_have_hints() {
    let folder = Folder::new();
    folder.write("bad.yaml", "nodes: [{name: pve}]\nstorges: []\n");
    let run = folder.talmox("lab serve --scenario bad.yaml");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("bad.yaml:2"), "{}", run.stderr);
    assert!(run.stderr.contains("did you mean `storages`?"), "{}", run.stderr);

    folder.write("faults.yaml", "faults:\n  - {cut: sideways}\n");
    for option in ["--faults", "--scenario"] {
        let run = folder.talmox(&format!("lab serve {option} faults.yaml"));
        assert_eq!(run.code, 1);
        assert!(run.stderr.contains("faults.yaml:2"), "{}", run.stderr);
    }
    assert_eq!(folder.talmox("lab serve --record-answers").code, 64);
    let run = folder.talmox("lab serve --record no/such/folder/calls.jsonl");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("no/such/folder/calls.jsonl"), "{}", run.stderr);

    let run = folder.talmox("lab serve --kube-apiserver no/program --etcd /bin/sh");
    assert_eq!(run.code, 64);
    assert!(
        run.stderr.contains("--kube-apiserver: no/program is not an executable file"),
        "{}",
        run.stderr
    );
    assert_eq!(folder.talmox("lab serve --etcd /bin/sh").code, 64);
    let run = folder.talmox("lab serve --kube-apiserver /bin/sh --etcd /bin/sh --speed 10");
    assert_eq!(run.code, 64);
    assert!(run.stderr.contains("--kube-apiserver uses the real clock"), "{}", run.stderr);
    assert!(run.stderr.contains("--speed 1"), "{}", run.stderr);
    // The time of a saved lab may be ahead of real time.
    let tomorrow = Clock::real().unix() + 24 * 3600;
    folder.write("kept/time.json", &tomorrow.to_string());
    let run = folder.talmox("lab serve --kube-apiserver /bin/sh --etcd /bin/sh --state kept");
    assert_eq!(run.code, 64, "{}", run.stderr);
    assert!(run.stderr.contains("minutes ahead of it"), "{}", run.stderr);
    assert!(run.stderr.contains("hint: start a new lab"), "{}", run.stderr);

    assert_eq!(folder.talmox("lab serve --scenario none.yaml").code, 1);
    for usage in ["--speed 0", "--speed fast", "--release 7", "--profile quick", "--listen here"] {
        assert_eq!(folder.talmox(&format!("lab serve {usage}")).code, 64, "{usage}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let run = folder.talmox(&format!("lab serve --listen {}", taken.local_addr().unwrap()));
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("cannot start the lab"), "{}", run.stderr);
}
