//! Real kubectl, with a temporary directory for its files.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Environment variable with the path of the kubectl that the tests must use. CI sets this variable.
const VARIABLE: &str = "TALMOX_KUBECTL";

pub(crate) struct Kubectl {
    program: PathBuf,
    folder: TempDir,
    config: PathBuf,
}

impl Kubectl {
    /// Finds kubectl, and sets it up with this kubeconfig. Without kubectl, prints a note and returns `None`. If the environment
    /// variable `TALMOX_KUBECTL` is set, it must be the path of a working kubectl.
    #[expect(clippy::disallowed_methods, reason = "tests find their programs by the environment")]
    pub(crate) fn find(kubeconfig: &str) -> Option<Self> {
        let named = std::env::var_os(VARIABLE).filter(|named| !named.is_empty());
        let program = PathBuf::from(named.as_deref().unwrap_or("kubectl".as_ref()));
        let version = Command::new(&program).args(["version", "--client"]).output();
        if !version.is_ok_and(|version| version.status.success()) {
            assert!(named.is_none(), "{VARIABLE} names {}, which does not work", program.display());
            let skipped = format!("SKIPPED: {VARIABLE} is not set, and kubectl is not installed\n");
            std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes()).unwrap();
            return None;
        }
        let folder = TempDir::new().unwrap();
        let config = folder.path().join("config");
        std::fs::write(&config, kubeconfig).unwrap();
        Some(Self { program, folder, config })
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(line.split_whitespace())
            .env("KUBECONFIG", &self.config)
            .env("HOME", self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn run(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {line}\n{text}{problem}");
        text
    }

    pub(crate) fn file(&self, name: &str, objects: &[Value]) -> String {
        let path = self.folder.path().join(name);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(&path, list.to_string()).unwrap();
        Path::display(&path).to_string()
    }
}
