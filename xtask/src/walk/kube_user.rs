//! User of Kubernetes who deletes Node objects, with curl and with the kubeconfig that talmox wrote.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Number of attempts until a deleted object must be gone.
const ATTEMPTS: usize = 60;
const PAUSE: Duration = Duration::from_millis(200);
/// Files with the certificate and the key of the user, in the directory of the walk.
const CERTIFICATE: &str = "kube-user.crt";
const KEY: &str = "kube-user.key";

pub(super) struct KubeUser {
    root: PathBuf,
    server: String,
}

impl KubeUser {
    /// Creates a user from a kubeconfig.
    pub(super) fn new(root: &Path, kubeconfig: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(kubeconfig)?;
        let value = |key: &str| {
            let problem = || io::Error::other(format!("the kubeconfig has no {key}"));
            value(&text, key).ok_or_else(problem)
        };
        let user = Self { root: root.to_owned(), server: value("server")?.to_owned() };
        user.write_decoded(value("client-certificate-data")?, CERTIFICATE)?;
        user.write_decoded(value("client-key-data")?, KEY)?;
        Ok(user)
    }

    /// Deletes the Node object of a node. The kubelet registers the node again only after a restart.
    pub(super) fn delete_node(&self, name: &str) -> io::Result<()> {
        let path = format!("/api/v1/nodes/{name}");
        for _ in 0..ATTEMPTS {
            if self.delete(&path)? == "404" {
                return Ok(());
            }
            thread::park_timeout(PAUSE);
        }
        Err(io::Error::other(format!("the Node object {name} is not deleted")))
    }

    /// Sends a request that deletes an object. Returns the status code of the answer, or `000` without an answer.
    fn delete(&self, path: &str) -> io::Result<String> {
        let mut command = Command::new("curl");
        command.current_dir(&self.root).args([
            "--silent",
            "--max-time",
            "30",
            "--output",
            "/dev/null",
        ]);
        // The API server has no certificate for the loopback address of the lab.
        command.args(["--insecure", "--cert", CERTIFICATE, "--key", KEY]);
        command.args(["--write-out", "%{http_code}", "--request", "DELETE"]);
        let done = command.arg(format!("{}{path}", self.server)).output()?;
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    }

    /// Writes Base64 text to a file, decoded.
    fn write_decoded(&self, text: &str, file: &str) -> io::Result<()> {
        let encoded = self.root.join(format!("{file}.base64"));
        fs::write(&encoded, text)?;
        let done = Command::new("base64").arg("--decode").arg(&encoded).output()?;
        if !done.status.success() {
            return Err(io::Error::other(format!("{file} is not Base64")));
        }
        fs::write(self.root.join(file), done.stdout)
    }
}

/// Value of a key in a kubeconfig with one cluster and one user.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let mut lines = text.lines().map(str::trim);
    lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_by_their_whole_key() {
        let text = "clusters:\n  - name: a\n    cluster:\n      tls-server-name: b\n      server: https://c:1\n";
        assert_eq!(value(text, "server"), Some("https://c:1"));
        assert_eq!(value(text, "client-key-data"), None);
    }
}
