//! The two processes, their folder and their certificates.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use talmox_clock::Clock;
use talmox_talos_config::pki::{AltName, Authority, LeafRequest, Name, Usage};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::time::UnixTime;

use super::RealKubernetes;
use crate::folder::Folder;
use crate::talos::config::Facts;

const YEAR: Duration = Duration::from_hours(365 * 24);
const BACKDATED: Duration = Duration::from_hours(1);

/// Ends its processes when nobody needs them any more.
#[derive(Debug)]
pub(crate) struct RealCluster {
    /// On 127.0.0.1.
    pub(crate) port: u16,
    pub(super) authority: Authority,
    folder: Folder,
    /// What the certificate is for, so far.
    names: Mutex<BTreeSet<String>>,
    processes: Mutex<Vec<Child>>,
}

/// Certificate and key, in PEM.
pub(super) type Pair = (String, String);

impl RealCluster {
    pub(super) fn start(programs: &RealKubernetes, facts: &Facts) -> Result<Self, String> {
        let key = facts.kube_ca_key.as_deref().ok_or("cluster.ca.key is missing")?;
        let account = facts.service_account_key.as_deref();
        let account = account.ok_or("cluster.serviceAccount.key is missing")?;
        let authority = Authority::from_pem(&facts.kube_ca, key).map_err(|e| e.to_string())?;
        let folder = Folder::temporary().map_err(|e| e.to_string())?;
        let write = |name: &str, text: &str| {
            folder.write(name, text.as_bytes()).map_err(|error| error.to_string())
        };
        write("ca.crt", &facts.kube_ca)?;
        write("sa.key", account)?;
        let [clients, peers, port] = free_ports().map_err(|e| e.to_string())?;
        let this =
            Self { port, authority, folder, names: Mutex::default(), processes: Mutex::default() };
        this.answer_to(&["localhost".to_owned(), "127.0.0.1".to_owned()].into())?;
        let clients = format!("http://127.0.0.1:{clients}");
        let peers = format!("http://127.0.0.1:{peers}");
        let data = this.folder.join("etcd").display().to_string();
        this.run(
            Command::new(&programs.etcd)
                .arg(format!("--data-dir={data}"))
                .arg(format!("--listen-client-urls={clients}"))
                .arg(format!("--advertise-client-urls={clients}"))
                .arg(format!("--listen-peer-urls={peers}"))
                .arg(format!("--initial-advertise-peer-urls={peers}"))
                .arg(format!("--initial-cluster=default={peers}")),
        )?;
        let file = |name: &str| this.folder.join(name).display().to_string();
        let services = facts.service_subnets.join(",");
        this.run(
            Command::new(&programs.apiserver)
                .arg(format!("--etcd-servers={clients}"))
                .arg("--bind-address=127.0.0.1")
                .arg(format!("--secure-port={port}"))
                .arg("--endpoint-reconciler-type=none")
                .arg("--authorization-mode=Node,RBAC")
                .arg("--anonymous-auth=false")
                .arg("--enable-bootstrap-token-auth=true")
                .arg(format!("--service-cluster-ip-range={services}"))
                .arg(format!("--cert-dir={}", file("certs")))
                .arg(format!("--client-ca-file={}", file("ca.crt")))
                .arg(format!("--tls-cert-file={}", file("server.crt")))
                .arg(format!("--tls-private-key-file={}", file("server.key")))
                .arg("--service-account-issuer=https://kubernetes.default.svc")
                .arg(format!("--service-account-key-file={}", file("sa.key")))
                .arg(format!("--service-account-signing-key-file={}", file("sa.key"))),
        )?;
        Ok(this)
    }

    fn run(&self, command: &mut Command) -> Result<(), String> {
        let program = command.get_program().to_string_lossy().into_owned();
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = quiet.spawn().map_err(|error| format!("{program}: {error}"))?;
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        Ok(())
    }

    /// The certificate is for these names too from now on: the API server reads it again by itself.
    pub(crate) fn answer_to(&self, more: &BTreeSet<String>) -> Result<(), String> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if more.is_subset(&names) {
            return Ok(());
        }
        names.extend(more.iter().cloned());
        let subject = Name {
            organizations: vec!["kube-master".to_owned()],
            common_name: Some("kube-apiserver".to_owned()),
        };
        let (certificate, key) = self.issue(subject, &names, Usage::Server)?;
        let write = |name: &str, text: &str| {
            self.folder.write(name, text.as_bytes()).map_err(|error| error.to_string())
        };
        write("server.key", &key)?;
        write("server.crt", &certificate)
    }

    pub(super) fn issue(
        &self,
        subject: Name,
        names: &BTreeSet<String>,
        usage: Usage,
    ) -> Result<Pair, String> {
        let alt_names = names.iter().map(|name| match name.parse() {
            Ok(address) => AltName::Ip(address),
            Err(_) => AltName::Dns(name.clone()),
        });
        let now = i64::try_from(Clock::real().unix()).unwrap_or(i64::MAX);
        let leaf = LeafRequest {
            subject,
            alt_names: alt_names.collect(),
            usage,
            key_encipherment: true,
            not_before: UnixTime::from_seconds(now).minus(BACKDATED),
            lifetime: YEAR,
        };
        let issued = self.authority.issue(&leaf, &mut SystemRandomness::new());
        let (certificate, key) = issued.map_err(|error| error.to_string())?;
        Ok((certificate.to_pem(), key.to_pkcs8_pem().expose().to_owned()))
    }
}

/// Ports that nobody has at the moment.
fn free_ports() -> std::io::Result<[u16; 3]> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let held = [bind()?, bind()?, bind()?];
    let [one, two, three] = held.each_ref().map(|held| held.local_addr().map(|at| at.port()));
    Ok([one?, two?, three?])
}

impl RealCluster {
    pub(super) fn stop(&self) {
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        // The API server first, which is lost without etcd.
        for mut process in processes.drain(..).rev() {
            // One that ended by itself cannot be killed any more.
            process.kill().ok();
            process.wait().ok();
        }
    }
}

impl Drop for RealCluster {
    fn drop(&mut self) {
        self.stop();
    }
}
