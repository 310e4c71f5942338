//! Runs `pveum` commands against a lab, as root does on a host.

use std::fs::Permissions;
use std::future::poll_fn;
use std::os::unix::fs::PermissionsExt as _;
use std::pin::Pin;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use talmox_pve::api::cluster;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::rig::{ADMIN, Rig};

/// Status of a proxy when an answer takes too long. This may happen on a busy machine. Real `pveum` runs on a host without a
/// proxy.
const TOO_LATE: u16 = 596;
const TRIES: usize = 50;

/// An API call: method, path and parameters.
type Call = (&'static str, String, Vec<(&'static str, String)>);

/// A script that replaces `pveum`. It records its arguments, and whether its errors are shown. For a new token, it prints a
/// secret.
const PVEUM: &str = r#"#!/bin/sh
shown=yes
[ "$(readlink /proc/$$/fd/2)" = /dev/null ] && shown=no
{ printf '%s' "$shown"; for word; do printf '\037%s' "$word"; done; printf '\n'; } >> "$PVEUM_LOG"
case "$*" in
"user token add "*) echo '{"full-tokenid":"x","info":{"privsep":"1"},"value":"SECRET"}' ;;
esac
"#;
pub(crate) const SECRET: &str = "01234567-89ab-4cde-8f01-23456789abcd";

/// One run of `pveum`.
struct Command {
    are_errors_shown: bool,
    words: Vec<String>,
}

impl Rig {
    /// Runs the lines in a shell, as root does on a host, and makes the API calls that they request. No error may be shown.
    /// Returns the output of the lines.
    pub(crate) async fn pveum(&self, lines: &[String]) -> String {
        let (commands, printed) = self.shell(lines).await;
        for command in commands {
            let call = call_of(&command.words);
            let status = self.answer(&call).await;
            let is_add = matches!(call.1.as_str(), "/pools" | "/access/roles" | "/access/users");
            let is_fine = status.is_success() || (is_add && !command.are_errors_shown);
            assert!(is_fine, "pveum {}: {status}", command.words.join(" "));
        }
        printed
    }

    async fn shell(&self, lines: &[String]) -> (Vec<Command>, String) {
        let folder = TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name);
        let version = self.client(ADMIN).send(&cluster::version()).await.unwrap().version;
        let pveversion = format!(
            "#!/bin/sh\necho 'pve-manager/{version}/0123456789abcdef (running kernel: 6.8.12-1-pve)'\n"
        );
        for (name, script) in
            [("pveum", PVEUM.replace("SECRET", SECRET)), ("pveversion", pveversion)]
        {
            std::fs::write(path(name), script).unwrap();
            std::fs::set_permissions(path(name), Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::write(path("vnets.cfg"), self.vnets().await).unwrap();
        std::fs::write(path("log"), "").unwrap();
        let script = lines.join("\n");
        let script = script.replace("/etc/pve/sdn/vnets.cfg", path("vnets.cfg").to_str().unwrap());
        let ran = std::process::Command::new("sh")
            .args(["-u", "-c", &script])
            .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
            .env("PVEUM_LOG", path("log"))
            .output()
            .unwrap();
        assert!(ran.status.success() && ran.stderr.is_empty(), "{script}\n{ran:?}");
        let log = std::fs::read_to_string(path("log")).unwrap();
        let command = |line: &str| {
            let mut words = line.split('\u{1f}').map(str::to_owned);
            let are_errors_shown = words.next().unwrap() == "yes";
            Command { are_errors_shown, words: words.collect() }
        };
        (log.lines().map(command).collect(), String::from_utf8(ran.stdout).unwrap())
    }

    /// The file of vnets, in the format of Proxmox.
    async fn vnets(&self) -> String {
        let (_, answer) = self.call(&("GET", "/cluster/sdn/vnets".to_owned(), vec![])).await;
        let vnets = answer["data"].as_array().unwrap().iter();
        let vnet = |vnet: &Value| {
            let text = |key: &str| vnet[key].as_str().unwrap();
            format!("vnet: {}\n\tzone {}\n\n", text("vnet"), text("zone"))
        };
        vnets.map(vnet).collect()
    }

    /// Makes a call, with retries. That is safe, because all of these calls can be made twice.
    async fn answer(&self, call: &Call) -> StatusCode {
        for _ in 0..TRIES {
            let (status, _) = self.call(call).await;
            if status.as_u16() != TOO_LATE {
                return status;
            }
        }
        panic!("no answer to {call:?}")
    }

    async fn call(&self, (method, path, parameters): &Call) -> (StatusCode, Value) {
        let authority = std::fs::read(self.lab.ready().pve.ca).unwrap();
        let roots = talmox_net::authorities::from_pem(&authority).unwrap();
        let config =
            talmox_net::tls::client().unwrap().with_root_certificates(roots).with_no_client_auth();
        let socket = TcpStream::connect(self.lab.address()).await.unwrap();
        let name = ServerName::try_from("pve1").unwrap();
        let socket = TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.unwrap();
        let driver = tokio::spawn(connection);
        let body: Vec<String> =
            parameters.iter().map(|(key, value)| format!("{key}={}", encoded(value))).collect();
        let request = hyper::Request::builder()
            .method(*method)
            .uri(format!("/api2/json{path}"))
            .header("host", "pve1:8006")
            .header("authorization", format!("PVEAPIToken={ADMIN}"))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body.join("&"))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status();
        let body = whole(response.into_body()).await;
        driver.abort();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }
}

async fn whole(mut body: Incoming) -> Vec<u8> {
    let mut bytes = vec![];
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        if let Ok(data) = frame.unwrap().into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    bytes
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

fn call_of(words: &[String]) -> Call {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let own = |text: &str| text.to_owned();
    match words.as_slice() {
        ["pool", "add", pool] => ("POST", own("/pools"), vec![("poolid", own(pool))]),
        ["role", "add", role] => ("POST", own("/access/roles"), vec![("roleid", own(role))]),
        ["role", "modify", role, "--append", "--privs", rights] => {
            let parameters = vec![("privs", own(rights)), ("append", own("1"))];
            ("PUT", format!("/access/roles/{role}"), parameters)
        }
        ["acl", "modify", path, who, name, "--roles", roles, rest @ ..] => {
            let who = match *who {
                "--users" => "users",
                "--tokens" => "tokens",
                other => panic!("{other}"),
            };
            let mut parameters = vec![("path", own(path)), (who, own(name)), ("roles", own(roles))];
            match rest {
                [] => {}
                ["--propagate", "0"] => parameters.push(("propagate", own("0"))),
                other => panic!("{other:?}"),
            }
            ("PUT", own("/access/acl"), parameters)
        }
        ["user", "add", user] => ("POST", own("/access/users"), vec![("userid", own(user))]),
        ["user", "token", "add", user, token, "--privsep", "1", "--output-format", "json"] => {
            let path = format!("/access/users/{user}/token/{token}");
            ("POST", path, vec![("privsep", own("1"))])
        }
        other => panic!("{other:?}"),
    }
}
