//! Carries out lines for `pveum` in a lab, as root would on a host.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::rig::{ADMIN, Rig};

/// What a gateway says when an answer takes too long: on a busy machine that may happen, and `pveum` on a host has no
/// gateway before it.
const TOO_LATE: u16 = 596;
const TRIES: usize = 50;

/// A call of the API: method, path, parameters.
type Call = (&'static str, String, Vec<(&'static str, String)>);

impl Rig {
    /// Carries out all of them. What is there already may be refused, and nothing else.
    pub(crate) async fn pveum(&self, lines: &[String]) {
        for line in lines {
            let mut refusals = vec![];
            for command in line.split(" || ") {
                match self.answer(&call_of(command)).await {
                    status if status.is_success() => break,
                    status => refusals.push(status),
                }
            }
            let may_fail = ["pveum pool add ", "pveum role add "];
            let is_done = refusals.len() < line.split(" || ").count();
            let is_fine = is_done || may_fail.iter().any(|start| line.starts_with(start));
            assert!(is_fine, "{line}: {refusals:?}");
        }
    }

    /// All of these calls can be made twice.
    async fn answer(&self, call: &Call) -> StatusCode {
        for _ in 0..TRIES {
            let status = self.call(call).await;
            if status.as_u16() != TOO_LATE {
                return status;
            }
        }
        panic!("no answer to {call:?}")
    }

    async fn call(&self, (method, path, parameters): &Call) -> StatusCode {
        let mut roots = RootCertStore::empty();
        let authority = std::fs::read(self.lab.ready().pve.ca).unwrap();
        for certificate in CertificateDer::pem_slice_iter(&authority) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
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
        driver.abort();
        response.status()
    }
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

fn call_of(command: &str) -> Call {
    let words = words(command);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let own = |text: &str| text.to_owned();
    match words.as_slice() {
        ["pveum", "pool", "add", pool] => ("POST", own("/pools"), vec![("poolid", own(pool))]),
        ["pveum", "role", "add", role] => {
            ("POST", own("/access/roles"), vec![("roleid", own(role))])
        }
        ["pveum", "role", "modify", role, "--append", "--privs", rights] => {
            let parameters = vec![("privs", own(rights)), ("append", own("1"))];
            ("PUT", format!("/access/roles/{role}"), parameters)
        }
        ["pveum", "acl", "modify", path, who, name, "--roles", roles, rest @ ..] => {
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
        _ => panic!("{command}"),
    }
}

/// The words of a shell's command line.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![];
    let mut rest = command.trim();
    while !rest.is_empty() {
        let (word, after) = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => rest[1..].split_once(quote).unwrap(),
            _ => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}
