//! Start and stop of a lab.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_clock::{Chance, Clock};
use talmox_lab_environment::fault::{Fault, Faults};
use talmox_lab_environment::fetch::Outside;
use talmox_lab_environment::{Environment, Folder, Profile, stopped};
use talmox_lab_kube::KubeStore;
use talmox_lab_pve::{Gate, Keys, PveServer, RequestLog, Site, Timeouts};
use talmox_lab_talos::factory::{self, Factory, Signer};
use talmox_lab_talos::{Hypervisor, NodeSettings, Simulation};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::Scenario;
use crate::blob_cleanup::remove_unused_blobs;
use crate::fault_script::FaultScript as _;
use crate::hypervisor::PveHypervisor;
use crate::scenario::LAB_TOKEN;
use crate::state::{self, LabState};

/// Real time between two saves of the state.
const SAVE_EVERY: Duration = Duration::from_secs(2);
/// Amount that each restart from saved state adds to the seed, so that a restarted lab draws other random numbers.
const RUN_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Settings of a lab.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Initial state of the lab. If `state` is a directory with a saved lab, the saved state is used instead.
    pub scenario: Scenario,
    /// Address to listen on; port 0 selects a free port.
    pub listen: SocketAddr,
    pub seed: u64,
    pub profile: Profile,
    /// Whether an operation takes exactly the time of the profile. Otherwise it takes 50 % to 150 % of that time.
    pub is_even: bool,
    /// Speed of lab time relative to real time.
    pub speed: f64,
    /// Directory with the state of the lab; `None` for a temporary directory.
    pub state: Option<PathBuf>,
    /// File to which the lab records requests.
    pub record: Option<PathBuf>,
    /// Whether the recorded requests include their answers.
    pub record_answers: bool,
    /// Faults in addition to those of the scenario.
    pub faults: Vec<Fault>,
    /// Host names of the Image Factory in addition to the default one.
    pub factory_names: Vec<String>,
    /// Loopback address of each `host:port` outside the lab that the simulated hosts can reach.
    pub reach: BTreeMap<String, SocketAddr>,
    pub timeouts: Timeouts,
    pub nodes: NodeSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            scenario: Scenario::default(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            seed: 0,
            profile: Profile::default(),
            is_even: false,
            speed: 1.0,
            state: None,
            record: None,
            record_answers: false,
            faults: vec![],
            factory_names: vec![],
            reach: BTreeMap::new(),
            timeouts: Timeouts::default(),
            nodes: NodeSettings::default(),
        }
    }
}

/// Addresses and credentials of a running lab.
#[derive(Clone, Serialize, Deserialize)]
pub struct Ready {
    pub pve: PveReady,
    pub factory: FactoryReady,
    /// Real address of each address or `host:port` inside the lab.
    pub reach: BTreeMap<String, String>,
    /// Speed of lab time relative to real time. A client divides its waits by this number.
    pub speed: f64,
    pub time: TimeReady,
}

/// The same moment in real time (`machine`) and in lab time (`lab`), in seconds since 1970. A client computes the current lab
/// time from both.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TimeReady {
    pub machine: f64,
    pub lab: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FactoryReady {
    pub url: String,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct PveReady {
    pub url: String,
    /// Name of the Proxmox host that answers at this address.
    pub node: String,
    /// Path of the file with the CA certificate.
    pub ca: PathBuf,
    /// SHA-256 fingerprint of the server certificate.
    pub fingerprint: String,
    pub token_id: String,
    pub token_secret: String,
    pub username: String,
    pub password: String,
}

impl Ready {
    /// Clock that shows the lab time.
    pub fn clock(&self) -> Clock {
        let passed = Clock::real().since_epoch().as_secs_f64() - self.time.machine;
        let now = self.time.lab + passed * self.speed;
        Clock::scaled(self.speed).not_before(Duration::try_from_secs_f64(now).unwrap_or_default())
    }
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pve, factory, reach, speed, time } = self;
        let mut out = f.debug_struct("Ready");
        out.field("pve", pve)
            .field("factory", factory)
            .field("reach", reach)
            .field("speed", speed)
            .field("time", time)
            .finish()
    }
}

impl std::fmt::Debug for PveReady {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PveReady").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Running lab. Dropping this value stops the lab.
#[derive(Debug)]
pub struct Lab {
    pub(crate) site: Arc<Site>,
    pub(crate) state: Arc<LabState>,
    simulation: Arc<Simulation>,
    address: SocketAddr,
    factory: SocketAddr,
    /// Names of the Image Factory.
    factory_names: Vec<String>,
    stop: watch::Sender<bool>,
    running: Vec<JoinHandle<()>>,
}

impl Lab {
    /// Starts a lab in the current tokio runtime.
    pub fn start(settings: Settings) -> io::Result<Self> {
        let Settings { scenario, listen, seed, profile, speed, .. } = settings;
        let folder = match &settings.state {
            Some(path) => Folder::open(path).map_err(|error| at(&path.display(), &error))?,
            None => Folder::temporary()?,
        };
        let clock = state::clock(&folder, speed)?;
        let mut faults = Fault::of_scenario(&scenario).map_err(io::Error::other)?;
        faults.extend(settings.faults);
        let mut factory_names: Vec<String> = factory::HOSTS.map(str::to_owned).into();
        factory_names.extend(settings.factory_names);
        let names: Vec<&str> = factory_names.iter().map(String::as_str).collect();
        let address = (listen.ip(), names.as_slice());
        let (state, pve_state, blobs) = LabState::open(folder, scenario, address, clock, seed)?;
        let identity = &state.keys.identity;
        let authority = identity.authority_pem().map_err(io::Error::other)?;
        state.folder.write("ca.pem", authority.as_bytes())?;
        let seed = seed.wrapping_add(state.runs.wrapping_mul(RUN_STEP));
        let chance = if settings.is_even { Chance::even(seed) } else { Chance::new(seed) };
        let roots = identity.roots().map_err(io::Error::other)?;
        let (factory_listener, factory_address) = bind(SocketAddr::new(listen.ip(), 0))?;
        let mut reach: BTreeMap<String, SocketAddr> =
            factory_names.iter().map(|name| (https(name), reachable(factory_address))).collect();
        reach.extend(settings.reach);
        let environment = Environment::new(clock, chance, profile);
        let environment = Arc::new(environment.with_outside(Outside::new(reach).with_roots(roots)));
        let site = Site::new(pve_state, blobs, Arc::clone(&environment));
        let site = Arc::new(site.with_fingerprint(identity.fingerprint()));
        for fault in faults {
            environment.faults.add(fault);
        }
        let (listener, address) = bind(listen)?;
        let recorder = settings.record.as_deref().map(|path| {
            RequestLog::open(path, settings.record_answers)
                .map_err(|error| at(&path.display(), &error))
        });
        let gate = Gate {
            site: Arc::clone(&site),
            keys: Keys::new(&state.keys.tickets),
            recorder: recorder.transpose()?,
        };
        let tls = identity.server_config().map_err(io::Error::other)?;
        let server = PveServer {
            listener,
            tls: TlsAcceptor::from(Arc::new(tls)),
            gate: Arc::new(gate),
            timeouts: settings.timeouts,
        };
        let factory_tls = identity.factory_config().map_err(io::Error::other)?;
        let (stop, stop_signal) = watch::channel(false);
        let state = Arc::new(state);
        let hypervisor: Arc<dyn Hypervisor> = Arc::new(PveHypervisor(Arc::clone(&site)));
        let signer = Signer {
            certificate: authority.clone(),
            public_key: state.keys.identity.factory_key_pem().map_err(io::Error::other)?,
        };
        let folder = Arc::clone(&state.folder);
        let factory =
            Factory::open(Arc::clone(&environment), Arc::clone(&hypervisor), folder, signer)?;
        let factory = Arc::new(factory);
        let kept = state.folder.is_kept().then_some(authority.as_str());
        let simulation = settings.nodes.simulation(&environment, &hypervisor, &factory, kept)?;
        let factory = factory::FactoryServer {
            listener: factory_listener,
            tls: TlsAcceptor::from(Arc::new(factory_tls)),
            factory,
        };
        site.start_daemons();
        simulation.restore_etcds(state.read_etcds()?);
        let mut running = vec![
            tokio::spawn(Arc::clone(&simulation).run(stop_signal.clone())),
            tokio::spawn(server.run(stop_signal.clone())),
            tokio::spawn(factory.run(stop_signal.clone())),
            tokio::spawn(remove_unused_blobs(Arc::clone(&site), stop_signal.clone())),
        ];
        if settings.state.is_some() {
            let saving = keep_saving(
                Arc::clone(&site),
                Arc::clone(&simulation),
                Arc::clone(&state),
                stop_signal,
            );
            running.push(tokio::spawn(saving));
        }
        let factory = factory_address;
        Ok(Self { site, state, simulation, address, factory, factory_names, stop, running })
    }

    pub fn ready(&self) -> Ready {
        let now = self.site.now();
        let pve_state = self.site.pve_state();
        let host =
            pve_state.hosts.iter().find(|(_, host)| host.online).or(pve_state.hosts.iter().next());
        let tokens = pve_state.access.tokens.get_key_value(LAB_TOKEN).into_iter();
        let mut tokens = tokens.chain(&pve_state.access.tokens);
        let token = tokens.find(|(id, _)| pve_state.is_usable(id, now));
        let root = pve_state.access.users.get("root@pam");
        let factory = reachable(self.factory);
        Ready {
            pve: PveReady {
                url: format!("https://{}", reachable(self.address)),
                node: host.map(|(name, _)| name.clone()).unwrap_or_default(),
                ca: self.state.folder.join("ca.pem"),
                fingerprint: self.site.fingerprint().to_owned(),
                token_id: token.map(|(id, _)| id.clone()).unwrap_or_default(),
                token_secret: token.map(|(_, token)| token.secret.clone()).unwrap_or_default(),
                username: "root@pam".to_owned(),
                password: root.and_then(|root| root.password.clone()).unwrap_or_default(),
            },
            factory: FactoryReady { url: format!("https://{factory}") },
            reach: {
                let names = self.factory_names.iter();
                let names = names.map(|name| (https(name), factory.to_string()));
                names.chain(self.simulation.reach()).collect()
            },
            speed: self.site.clock.speed(),
            time: TimeReady {
                machine: Clock::real().since_epoch().as_secs_f64(),
                lab: self.site.clock.since_epoch().as_secs_f64(),
            },
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn clock(&self) -> Clock {
        self.site.clock
    }

    /// Fault rules of the lab, which can be changed while it runs.
    pub fn faults(&self) -> &Faults {
        &self.site.environment.faults
    }

    /// Number of etcd clusters that were ever bootstrapped in this lab. Two etcd clusters for one Talos cluster are a split
    /// brain, which the API of a single node does not show.
    pub fn etcd_clusters(&self) -> usize {
        self.simulation.etcd_clusters()
    }

    /// Stores of the Kubernetes clusters of this lab, for direct access to their objects.
    pub fn kubernetes_stores(&self) -> Vec<Arc<KubeStore>> {
        self.simulation.kubernetes_stores()
    }

    pub(crate) fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// Switches a host on after a fault switched it off.
    pub fn switch_on(&self, host: &str) {
        self.site.switch_on_host(host);
    }

    /// Closes all connections and saves the state.
    pub async fn stop(self) -> io::Result<()> {
        self.stop.send_replace(true);
        for running in self.running {
            running.await.map_err(io::Error::other)?;
        }
        self.simulation.stop_real_kubernetes();
        self.state.save_etcds(&self.simulation.save_etcds())?;
        self.state.save(&self.site.pve_state(), self.site.clock)
    }
}

fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind(address).map_err(|error| at(&address, &error))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((TcpListener::from_std(listener)?, address))
}

/// Address `host:443` for a host name.
fn https(name: &str) -> String {
    format!("{name}:443")
}

/// Address for clients on this machine. If the lab listens on all addresses, this is a loopback address.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

/// Prefixes an error message with the file or address that the error is about.
fn at(place: &dyn std::fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{place}: {error}"))
}

/// Saves the state periodically, so that a killed lab loses only its last changes.
async fn keep_saving(
    site: Arc<Site>,
    simulation: Arc<Simulation>,
    state: Arc<LabState>,
    mut stop: watch::Receiver<bool>,
) {
    let clock = Clock::real();
    loop {
        tokio::select! {
            () = clock.sleep(SAVE_EVERY) => {}
            () = stopped(&mut stop) => return,
        }
        let snapshot_json = state.snapshot_json(&site.pve_state());
        let (state, simulation, clock) = (Arc::clone(&state), Arc::clone(&simulation), site.clock);
        let stored = tokio::task::spawn_blocking(move || {
            state.save_etcds(&simulation.save_etcds())?;
            state.store(snapshot_json?, clock)
        });
        // A save can fail, for instance on a full disk. The next save retries it, and the last save reports its error.
        stored.await.ok();
    }
}
