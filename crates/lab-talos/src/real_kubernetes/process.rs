//! Processes of kube-apiserver and etcd, with their folder and certificates.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use talmox_clock::Clock;
use talmox_lab_environment::Folder;
use talmox_talos_config::pki::{AltName, Authority, LeafRequest, Name, PrivateKey, Usage};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::time::UnixTime;

use super::RealKubernetes;
use crate::config::Facts;

const YEAR: Duration = Duration::from_hours(365 * 24);
const BACKDATED: Duration = Duration::from_hours(1);

/// Processes of kube-apiserver and etcd. Dropping this value stops both.
#[derive(Debug)]
pub(crate) struct RealCluster {
    /// Port of the API server on 127.0.0.1.
    pub(crate) port: u16,
    pub(super) authority: Authority,
    folder: Folder,
    /// Private key of the API server. It never changes, so that certificate and key always match.
    key: PrivateKey,
    /// Names in the certificate of the API server.
    names: Mutex<BTreeSet<String>>,
    processes: Mutex<Vec<Process>>,
}

#[derive(Debug)]
struct Process {
    name: &'static str,
    command: Command,
    child: Child,
    watchdog: Option<Child>,
}

/// Certificate and key, in PEM.
pub(super) type PemKeyPair = (String, String);

impl RealCluster {
    /// Starts the processes. The certificate contains these names.
    pub(super) fn start(
        programs: &RealKubernetes,
        facts: &Facts,
        names: &BTreeSet<String>,
    ) -> Result<Self, String> {
        let key = facts.kube_ca_key.as_deref().ok_or("cluster.ca.key is missing")?;
        let account = facts.service_account_key.as_deref();
        let account = account.ok_or("cluster.serviceAccount.key is missing")?;
        let authority = Authority::from_pem(&facts.kube_ca, key).map_err(|e| e.to_string())?;
        let folder = Folder::temporary().map_err(|e| e.to_string())?;
        let [clients, peers, port] = free_ports().map_err(|e| e.to_string())?;
        let key = PrivateKey::generate(authority.key.kind(), &mut SystemRandomness::new());
        let (names_so_far, processes) = (Mutex::default(), Mutex::default());
        let this = Self { port, authority, folder, key, names: names_so_far, processes };
        this.write("ca.crt", &facts.kube_ca)?;
        this.write("sa.key", account)?;
        this.write("admission.json", &admission(facts).to_string())?;
        this.write("server.key", this.key.to_pkcs8_pem().expose())?;
        let own = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        this.add_names(&names.iter().cloned().chain(own).collect())?;
        let clients = format!("http://127.0.0.1:{clients}");
        let peers = format!("http://127.0.0.1:{peers}");
        let file = |name: &str| this.folder.join(name).display().to_string();
        let mut etcd = Command::new(&programs.etcd);
        etcd.arg(format!("--data-dir={}", file("etcd")))
            .arg(format!("--listen-client-urls={clients}"))
            .arg(format!("--advertise-client-urls={clients}"))
            .arg(format!("--listen-peer-urls={peers}"))
            .arg(format!("--initial-advertise-peer-urls={peers}"))
            .arg(format!("--initial-cluster=default={peers}"))
            // The data is not needed after the lab ends, so writes do not need to reach the disk.
            .arg("--unsafe-no-fsync");
        this.run("etcd", etcd)?;
        let services = facts.service_subnets.join(",");
        let mut apiserver = Command::new(&programs.apiserver);
        apiserver
            .arg(format!("--etcd-servers={clients}"))
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={port}"))
            .arg("--endpoint-reconciler-type=none")
            .arg("--authorization-mode=Node,RBAC")
            .arg("--anonymous-auth=false")
            .arg("--allow-privileged=true")
            .arg("--enable-bootstrap-token-auth=true")
            .arg(format!("--admission-control-config-file={}", file("admission.json")))
            .arg(format!("--service-cluster-ip-range={services}"))
            .arg(format!("--cert-dir={}", file("certs")))
            .arg(format!("--client-ca-file={}", file("ca.crt")))
            .arg(format!("--tls-cert-file={}", file("server.crt")))
            .arg(format!("--tls-private-key-file={}", file("server.key")))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg(format!("--service-account-key-file={}", file("sa.key")))
            .arg(format!("--service-account-signing-key-file={}", file("sa.key")));
        this.run("kube-apiserver", apiserver)?;
        Ok(this)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        self.folder.write(name, text.as_bytes()).map_err(|error| error.to_string())
    }

    fn processes(&self) -> MutexGuard<'_, Vec<Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, name: &'static str, mut command: Command) -> Result<(), String> {
        let child = self.spawn(name, &mut command)?;
        let watchdog = start_watchdog(&child);
        self.processes().push(Process { name, command, child, watchdog });
        Ok(())
    }

    /// Starts a process whose output is written to a file, for error reports.
    fn spawn(&self, name: &str, command: &mut Command) -> Result<Child, String> {
        let program = command.get_program().to_string_lossy().into_owned();
        let problem = |error: std::io::Error| format!("{program}: {error}");
        let log = File::create(self.folder.join(&format!("{name}.log"))).map_err(problem)?;
        let same = log.try_clone().map_err(problem)?;
        command.stdin(Stdio::null()).stdout(log).stderr(same);
        command.spawn().map_err(problem)
    }

    /// Restarts processes that have ended. Returns the reasons why they ended; `None` if none has ended.
    pub(super) fn restart_ended(&self) -> Option<String> {
        let mut problems = vec![];
        for Process { name, command, child, watchdog } in self.processes().iter_mut() {
            let Ok(Some(status)) = child.try_wait() else { continue };
            problems.push(format!("{name} ended, {status}: {}", self.last_log_lines(name)));
            match self.spawn(name, command) {
                Ok(next) => {
                    kill(watchdog.take());
                    *child = next;
                    *watchdog = start_watchdog(child);
                }
                Err(problem) => problems.push(problem),
            }
        }
        (!problems.is_empty()).then(|| problems.join("; "))
    }

    fn last_log_lines(&self, name: &str) -> String {
        let log = std::fs::read(self.folder.join(&format!("{name}.log"))).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
    }

    /// Adds names to the certificate. The API server reloads the certificate itself.
    pub(crate) fn add_names(&self, more: &BTreeSet<String>) -> Result<(), String> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if more.is_subset(&names) {
            return Ok(());
        }
        names.extend(more.iter().cloned());
        let subject = Name {
            organizations: vec!["kube-master".to_owned()],
            common_name: Some("kube-apiserver".to_owned()),
        };
        let certificate = self.sign(subject, &names, Usage::Server, &self.key)?;
        self.write("server.crt", &certificate)
    }

    /// Issues a certificate with a key.
    pub(super) fn issue(
        &self,
        subject: Name,
        names: &BTreeSet<String>,
        usage: Usage,
    ) -> Result<PemKeyPair, String> {
        let key = PrivateKey::generate(self.authority.key.kind(), &mut SystemRandomness::new());
        let certificate = self.sign(subject, names, usage, &key)?;
        Ok((certificate, key.to_pkcs8_pem().expose().to_owned()))
    }

    fn sign(
        &self,
        subject: Name,
        names: &BTreeSet<String>,
        usage: Usage,
        key: &PrivateKey,
    ) -> Result<String, String> {
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
        let signed = self.authority.sign(&leaf, &key.public_der(), &mut SystemRandomness::new());
        signed.map(|certificate| certificate.to_pem()).map_err(|error| error.to_string())
    }
}

/// Starts a watchdog that kills the process when the lab ends. This works even if the lab is killed, because the standard input
/// of the watchdog is closed then.
fn start_watchdog(child: &Child) -> Option<Child> {
    let mut watchdog = Command::new("sh");
    watchdog.args(["-c", "read -r _; kill -9 \"$0\"", &child.id().to_string()]);
    watchdog.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // Without a shell there is no watchdog. The process then keeps running if the lab is killed.
    watchdog.spawn().ok()
}

fn kill(child: Option<Child>) {
    if let Some(mut child) = child {
        // The error is ignored, because the process may already have ended.
        child.kill().ok();
        child.wait().ok();
    }
}

/// Admission configuration from the machine config, such as PodSecurity.
fn admission(facts: &Facts) -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": facts.admission_control,
    })
}

/// TCP ports of 127.0.0.1 that are free.
fn free_ports() -> std::io::Result<[u16; 3]> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let held = [bind()?, bind()?, bind()?];
    let [one, two, three] = held.each_ref().map(|held| held.local_addr().map(|at| at.port()));
    Ok([one?, two?, three?])
}

impl RealCluster {
    pub(super) fn stop(&self) {
        // The processes are stopped in reverse order, because the API server needs etcd to shut down.
        for process in self.processes().drain(..).rev() {
            kill(process.watchdog);
            kill(Some(process.child));
        }
    }
}

impl Drop for RealCluster {
    fn drop(&mut self) {
        self.stop();
    }
}
