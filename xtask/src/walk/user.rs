//! User of Proxmox who changes VMs through the Proxmox API, with curl.
//!
//! The user logs in with a password, but talmox uses an API token. So the lab can distinguish the changes of the user
//! from those of talmox.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::machine::Machine;

/// Number of attempts until a change must be visible. Faults of the lab also affect the calls of the user.
const ATTEMPTS: usize = 60;
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct User {
    root: PathBuf,
    url: String,
    ca: String,
    password: String,
}

impl User {
    /// Creates a user for the lab that `lab.json` in this directory describes.
    pub(super) fn new(root: &Path) -> io::Result<Self> {
        let ready: Value = serde_json::from_slice(&fs::read(root.join("lab.json"))?)?;
        let text = |key: &str| ready["pve"][key].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            root: root.to_owned(),
            url: text("url"),
            ca: text("ca"),
            password: text("password"),
        })
    }

    /// Creates a VM that talmox must not change. Returns the config of the VM.
    pub(super) fn create_foreign_vm(&self, host: &str, vmid: u64) -> io::Result<Value> {
        let id = vmid.to_string();
        let options = [("vmid", id.as_str()), ("name", "foreign"), ("memory", "512")];
        let path = format!("/nodes/{host}/qemu");
        self.until("the VM is created", || {
            let answer = self.call("GET", &format!("{path}/{vmid}/config"), &[])?;
            let config = &answer["data"];
            if config.is_null() {
                self.call("POST", &path, &options)?;
            }
            let is_created = config["name"] == "foreign" && config["lock"].is_null();
            Ok(is_created.then(|| config.clone()))
        })
    }

    pub(super) fn config(&self, host: &str, vmid: u64) -> io::Result<Value> {
        self.until("the config can be read", || {
            let answer = self.call("GET", &format!("/nodes/{host}/qemu/{vmid}/config"), &[])?;
            Ok(Some(answer["data"].clone()).filter(Value::is_object))
        })
    }

    pub(super) fn set(&self, machine: &Machine, key: &str, value: &str) -> io::Result<()> {
        let Machine { host, vmid, .. } = machine;
        let path = format!("/nodes/{host}/qemu/{vmid}/config");
        self.until("the option is set", || {
            self.call("PUT", &path, &[(key, value)])?;
            let config = self.config(host, *vmid)?;
            // Proxmox returns some options as numbers.
            let is_set = config[key].as_str() == Some(value) || format!("{}", config[key]) == value;
            Ok(is_set.then_some(()))
        })
    }

    pub(super) fn stop(&self, machine: &Machine) -> io::Result<()> {
        let Machine { host, vmid, .. } = machine;
        let path = format!("/nodes/{host}/qemu/{vmid}/status");
        self.until("the VM is stopped", || {
            let answer = self.call("GET", &format!("{path}/current"), &[])?;
            match answer["data"]["status"].as_str() {
                Some("stopped") => return Ok(Some(())),
                Some("running") => drop(self.call("POST", &format!("{path}/stop"), &[])?),
                _ => {}
            }
            Ok(None)
        })
    }

    /// Resets a running VM. If the answer is lost, the VM is reset again.
    pub(super) fn reset(&self, machine: &Machine) -> io::Result<()> {
        let Machine { host, vmid, .. } = machine;
        let path = format!("/nodes/{host}/qemu/{vmid}/status/reset");
        self.until("the VM is reset", || {
            let answer = self.call("POST", &path, &[])?;
            Ok(answer["data"].is_string().then_some(()))
        })
    }

    pub(super) fn delete(&self, machine: &Machine) -> io::Result<()> {
        let Machine { host, vmid, .. } = machine;
        self.stop(machine)?;
        self.until("the VM is deleted", || {
            self.call("DELETE", &format!("/nodes/{host}/qemu/{vmid}"), &[])?;
            let list = self.call("GET", &format!("/nodes/{host}/qemu"), &[])?;
            let Some(vms) = list["data"].as_array() else { return Ok(None) };
            Ok(vms.iter().all(|vm| vm["vmid"].as_u64() != Some(*vmid)).then_some(()))
        })
    }

    fn until<T>(
        &self,
        what: &str,
        mut look: impl FnMut() -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        for _ in 0..ATTEMPTS {
            if let Some(found) = look()? {
                return Ok(found);
            }
            thread::park_timeout(PAUSE);
        }
        Err(io::Error::other(format!("timed out waiting until {what}")))
    }

    /// Answer to a call. Null if the call failed.
    fn call(&self, method: &str, path: &str, options: &[(&str, &str)]) -> io::Result<Value> {
        // Each call logs in again, because a ticket expires after two hours of lab time.
        let login = [("username", "root@pam"), ("password", self.password.as_str())];
        let login = self.curl("POST", "/access/ticket", &[], &login)?;
        let text = |key: &str| login["data"][key].as_str().unwrap_or_default().to_owned();
        let headers = [
            format!("Cookie: PVEAuthCookie={}", encoded(&text("ticket"))),
            format!("CSRFPreventionToken: {}", text("CSRFPreventionToken")),
        ];
        self.curl(method, path, &headers, options)
    }

    fn curl(
        &self,
        method: &str,
        path: &str,
        headers: &[String],
        options: &[(&str, &str)],
    ) -> io::Result<Value> {
        let mut command = Command::new("curl");
        command.current_dir(&self.root).args(["--silent", "--max-time", "30"]);
        command.args(["--cacert", &self.ca, "--request", method]);
        for header in headers {
            command.args(["--header", header]);
        }
        for (key, value) in options {
            command.args(["--data-urlencode", &format!("{key}={value}")]);
        }
        let done = command.arg(format!("{}/api2/json{path}", self.url)).output()?;
        Ok(serde_json::from_slice(&done.stdout).unwrap_or_default())
    }
}

/// Text in the percent-encoding of cookies and URLs.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_encoded_for_a_cookie() {
        assert_eq!(encoded("PVE:root@pam:6F::a+b/c="), "PVE%3Aroot%40pam%3A6F%3A%3Aa%2Bb%2Fc%3D");
    }
}
