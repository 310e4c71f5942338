//! Test helpers: temporary folders and clusters, and runs of the program.

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Output, Stdio};
use std::sync::OnceLock;

use assert_cmd::Command;
use tempfile::TempDir;

pub(crate) struct Folder(TempDir);

/// Output and exit code of a run.
pub(crate) struct Run {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap()
    }

    /// Runs talmox with arguments separated by spaces.
    pub(crate) fn talmox(&self, args: &str) -> Run {
        self.talmox_with(args.split_whitespace(), "")
    }

    /// Runs talmox with arguments that may contain spaces, and with stdin.
    pub(crate) fn talmox_with<'a>(
        &self,
        args: impl IntoIterator<Item = &'a str>,
        stdin: &str,
    ) -> Run {
        let mut command = talmox();
        let output =
            command.current_dir(self.path()).args(args).write_stdin(stdin).output().unwrap();
        Run::from(output)
    }

    /// Runs talmox on the terminal of `script` (util-linux) and types the answers. Returns the exit code and the output.
    /// Prints a note and returns `None` if `script` is missing.
    pub(crate) fn typed(&self, args: &str, answers: &str) -> Option<(Option<i32>, String)> {
        let mut typing = self.typing(args)?;
        typing.write(answers);
        Some(typing.end())
    }

    /// Runs talmox on a terminal. The test types the answers step by step.
    pub(crate) fn typing(&self, args: &str) -> Option<TestTerminal> {
        // `stty` sets a size, because the terminal of `script` has no size without a controlling terminal.
        let program = env!("CARGO_BIN_EXE_talmox");
        // With the timeout, a test with a missing answer fails instead of waiting forever.
        let command = format!("stty rows 30 cols 100; timeout --foreground 120 {program} {args}");
        let child = std::process::Command::new("script")
            .args(["--quiet", "--return", "--flush", "--command", &command, "/dev/null"])
            .current_dir(self.path())
            .env("HOME", self.path().join("home"))
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => {
                skip_test(&format!("questions need util-linux's script: {error}"));
                return None;
            }
        };
        let (keys, screen) = (child.stdin.take(), child.stdout.take().unwrap());
        Some(TestTerminal { child, keys, screen, shown: vec![], waited: 0 })
    }
}

/// Program on a terminal on which a test types.
pub(crate) struct TestTerminal {
    child: Child,
    keys: Option<ChildStdin>,
    screen: ChildStdout,
    shown: Vec<u8>,
    /// Position in the output where the next search starts.
    waited: usize,
}

impl TestTerminal {
    pub(crate) fn write(&mut self, keys: &str) {
        self.keys.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the terminal shows this text after the text of the previous call.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let found =
            |shown: &[u8]| shown.windows(text.len()).position(|part| part == text.as_bytes());
        loop {
            if let Some(at) = found(&self.shown[self.waited..]) {
                self.waited += at + text.len();
                return;
            }
            let mut bytes = [0; 4096];
            let count = self.screen.read(&mut bytes).unwrap_or_default();
            let shown = String::from_utf8_lossy(&self.shown);
            assert_ne!(count, 0, "it ended before it showed {text:?}: {shown}");
            self.shown.extend(&bytes[..count]);
        }
    }

    /// Waits for the end of the program. Returns the exit code and the output.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        drop(self.keys.take());
        // A read error is ignored, because reading from a terminal fails after the program has ended.
        self.screen.read_to_end(&mut self.shown).ok();
        let status = self.child.wait().unwrap();
        (status.code(), String::from_utf8_lossy(&self.shown).into_owned())
    }
}

/// Temporary folder with one cluster and its own home folder, so that the files of the real user are not used.
pub(crate) struct Cluster {
    pub(crate) folder: Folder,
    variables: Vec<(String, String)>,
}

const CLUSTER: &str = "\
talos_version: v1.11.2
network: {subnet: 10.0.0.0/16, gateway: 10.0.0.1, vip: 10.0.0.20}
proxmox: {endpoint: https://pve:8006, token: {secret: proxmox.token}, node: pve}
controlplane:
  - {name: cp-1, ip: 10.0.0.11}
workers:
  - {name: wk-1, ip: 10.0.0.21}
";
pub(crate) const SECRETS: &str = "inventory/dev/secrets.sops.yaml";
pub(crate) const KEYS: &str = "home/.config/sops/age/keys.txt";

impl Cluster {
    /// Cluster without secrets.
    pub(crate) fn new() -> Self {
        let folder = Folder::new();
        folder.write("inventory/dev/cluster.yaml", CLUSTER);
        fs::create_dir_all(folder.path().join("home")).unwrap();
        Self { folder, variables: vec![] }
    }

    /// Cluster with secrets and the age key for the secrets. All tests share the secrets, because generating them takes a
    /// second.
    pub(crate) fn with_secrets() -> Self {
        static MADE: OnceLock<(String, String)> = OnceLock::new();
        let (secrets, keys) = MADE.get_or_init(|| {
            let first = Self::new();
            let run = first.run("secrets init");
            assert_eq!(run.code, 0, "{}", run.stderr);
            (first.folder.read(SECRETS), first.folder.read(KEYS))
        });
        let cluster = Self::new();
        cluster.folder.write(SECRETS, secrets);
        cluster.folder.write(KEYS, keys);
        cluster
    }

    /// Cluster of one node, with secrets.
    pub(crate) fn of_one_node() -> Self {
        let cluster = Self::with_secrets();
        let (text, _) = CLUSTER.split_once("workers:").unwrap();
        cluster.folder.write("inventory/dev/cluster.yaml", text);
        cluster
    }

    /// Copy of an example, with secrets.
    pub(crate) fn example(name: &str) -> Self {
        let cluster = Self::with_secrets();
        let secrets = cluster.folder.read(SECRETS);
        fs::remove_dir_all(cluster.folder.path().join("inventory")).unwrap();
        let inventory = cluster.folder.path().join("inventory").join(name);
        copy(&repository().join("examples").join(name), &inventory);
        cluster.folder.write(&format!("inventory/{name}/secrets.sops.yaml"), &secrets);
        cluster
    }

    /// Second checkout of the same repository on the same machine, without run logs and locks.
    pub(crate) fn checkout(&self) -> Self {
        let folder = Folder::new();
        copy(self.folder.path(), folder.path());
        let runs = folder.path().join("inventory/dev/.talmox");
        if runs.exists() {
            fs::remove_dir_all(runs).unwrap();
        }
        Self { folder, variables: self.variables.clone() }
    }

    /// Replaces `{secret: proxmox.token}` in the inventory by another reference.
    pub(crate) fn with_token(self, reference: &str) -> Self {
        let text = CLUSTER.replace("{secret: proxmox.token}", reference);
        self.folder.write("inventory/dev/cluster.yaml", &text);
        self
    }

    pub(crate) fn set(&mut self, name: &str, value: impl AsRef<Path>) {
        self.variables.push((name.to_owned(), value.as_ref().display().to_string()));
    }

    pub(crate) fn run(&self, args: &str) -> Run {
        self.run_with(args, "")
    }

    pub(crate) fn run_with(&self, args: &str, stdin: &str) -> Run {
        let mut command = talmox();
        command
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", self.folder.path().join("home"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder.path())
            .args(args.split_whitespace())
            .write_stdin(stdin);
        Run::from(command.output().unwrap())
    }

    /// Writes an executable shell script, and returns its path.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        self.folder.write(name, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.folder.path().join(path)).unwrap().permissions().mode() & 0o777
    }
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap(),
        }
    }
}

pub(crate) fn talmox() -> Command {
    Command::new(env!("CARGO_BIN_EXE_talmox"))
}

/// Root folder of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Prints that a test is skipped because a program is missing. With `CI=true`, the test fails instead, because a skipped
/// test could be overlooked.
pub(crate) fn skip_test(why: &str) {
    let is_ci = std::env::var("CI").as_deref() == Ok("true");
    assert!(!is_ci, "{why}");
    skipped(&format!("SKIPPED: {why}"));
}

/// kubectl with the kubeconfig of a cluster.
pub(crate) struct Kubectl {
    program: OsString,
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Kubectl {
    pub(crate) fn of(cluster: &Cluster, kubeconfig: &str) -> Option<Self> {
        let named = std::env::var_os("TALMOX_KUBECTL").filter(|named| !named.is_empty());
        let folder = cluster.folder.path();
        let found = Self {
            program: named.unwrap_or_else(|| "kubectl".into()),
            kubeconfig: folder.join(kubeconfig),
            home: folder.join("home"),
        };
        match found.command("version --client").output() {
            Ok(output) if output.status.success() => Some(found),
            answer => {
                skip_test(&format!("there is no kubectl (TALMOX_KUBECTL): {answer:?}"));
                None
            }
        }
    }

    fn command(&self, line: &str) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.home);
        command.args(line.split_whitespace());
        command
    }

    /// Runs kubectl. Returns whether it succeeded, and its output.
    pub(crate) fn run(&self, line: &str) -> (bool, String) {
        let output = self.command(line).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    pub(crate) fn must(&self, line: &str) -> String {
        let (went_well, text) = self.run(line);
        assert!(went_well, "kubectl {line}\n{text}");
        text
    }
}

/// Prints that a test was skipped. The text is written directly to stderr, because the output of passing tests is
/// captured.
pub(crate) fn skipped(why: &str) {
    std::io::Write::write_all(&mut std::io::stderr(), format!("{why}\n").as_bytes()).unwrap();
}
