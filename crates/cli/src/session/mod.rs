//! Session of a command for one cluster: desired state, secrets, and clients for Proxmox, Talos, Kubernetes and the Image
//! Factory.

pub(crate) mod client_files;
pub(crate) mod cluster_lock;
pub(crate) mod manifests;
pub(crate) mod proxmox;
mod reading;
pub(crate) mod secrets;
pub(crate) mod templates;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_engine::access::{ClusterAccess, WriteFiles, kubernetes_server};
use talmox_engine::cluster_lock::Fence;
use talmox_engine::event::Events;
use talmox_engine::execute::{Cancel, Outcome, execute};
use talmox_engine::kube::KubeClient;
use talmox_engine::lock::Lock;
use talmox_engine::observe::{self, Purpose, Sources, TalosAccess};
use talmox_engine::run_log::{self, History};
use talmox_engine::step::Context;
use talmox_engine::web::{Web, WebSettings};
use talmox_model::value::SecretRef;
use talmox_model::{Cluster, Node, Span, Spanned};
use talmox_plan::desired::{Desired, Inputs, Phase, needed_secrets};
use talmox_plan::observed::{Observed, Pve};
use talmox_plan::plan::Plan;
use talmox_plan::planning::{PlanOptions, leads_around};
use talmox_pve::Client;
use talmox_talos_api::{Address, Credentials, Reach, Settings};
use talmox_talos_config::client::ClientRole;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::Bundle;

use crate::addons::lock_file::LockFile;
use crate::addons::{self, AddonChart, Programs};
use crate::args::Global;
use crate::choose::{self, Chosen, ClientPaths};
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::machine_config::{derive_error, read_files};
use crate::printer::Printer;
use crate::reference::Resolver;
use crate::rehearsal::{self, LabConnection, Quickstart, RehearsalArgs};
use crate::secrets::cluster_evidence;
use crate::{disk, environment};

pub(crate) use cluster_lock::RunLocks;
use reading::Reading;

/// Validity of the client certificate of a command. It must be longer than a long run.
const TTL: Duration = Duration::from_hours(12);
const KUBERNETES: u16 = 6443;

/// Hint for a command that needs the secrets of an existing cluster.
const NOT_MADE: &str = "run `talmox up` to create the cluster and its secrets. If the cluster exists, restore the file \
                        from git or a backup, or import its secrets with `talmox secrets import`";

/// Hint for `destroy`, which must not recommend to create the cluster.
const NEVER_MADE: &str = "if the cluster was never created, there is nothing to delete. If the cluster exists, restore the \
                          file from git or a backup, or import its secrets with `talmox secrets import`";

/// Handling of a cluster without secrets. In a lab inside this process, a bundle is generated in any case.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoSecrets {
    /// Generate a bundle in memory, unless there is evidence that the cluster exists. `Session::keep_secrets` writes the
    /// bundle.
    Draft,
    /// Generate a temporary bundle. For commands that only read.
    Pretend,
    /// Return an error.
    Refuse,
    /// Return an error. For a command that deletes the cluster.
    RefuseRemoval,
}

impl NoSecrets {
    /// Hint of the error. None if missing secrets are not an error.
    fn hint(self) -> Option<&'static str> {
        match self {
            Self::Refuse => Some(NOT_MADE),
            Self::RefuseRemoval => Some(NEVER_MADE),
            Self::Draft | Self::Pretend => None,
        }
    }
}

/// Session of a command for one cluster.
pub(crate) struct Session {
    pub(crate) chosen: Chosen,
    pub(crate) bundle: Arc<Bundle>,
    pub(crate) desired: Desired,
    pub(crate) pve: Client,
    pub(crate) access: TalosAccess,
    pub(crate) web: Web,
    pub(crate) clock: Clock,
    pub(crate) lab: Option<LabConnection>,
    /// Whether the bundle is new and not written yet.
    pub(crate) is_draft: bool,
    addon_lock: LockFile,
    /// Built-in inventory. `None` if another inventory is used.
    quickstart: Option<Quickstart>,
    reading: Reading,
}

impl Session {
    /// Opens a session for the cluster with this name, or for the only cluster of the inventory. Must be called inside a
    /// Tokio runtime.
    ///
    /// In a lab inside this process, this function first creates the templates that the inventory needs.
    pub(crate) async fn open(
        global: &Global,
        name: Option<&str>,
        rehearsal: &RehearsalArgs,
        printer: &Printer,
    ) -> Result<Self, CommandError> {
        Self::open_with(global, name, rehearsal, printer, NoSecrets::Draft).await
    }

    /// Same as [`Session::open`], with progress output even if stderr is not a terminal.
    pub(crate) async fn open_shown(
        global: &Global,
        name: Option<&str>,
        rehearsal: &RehearsalArgs,
        printer: &Printer,
    ) -> Result<Self, CommandError> {
        let reading = Reading::logged(printer);
        let session =
            Self::open_reading(global, name, rehearsal, printer, NoSecrets::Draft, reading).await?;
        session.prepared(printer).await
    }

    /// Same as [`Session::open`], with another handling of missing secrets.
    pub(crate) async fn open_with(
        global: &Global,
        name: Option<&str>,
        rehearsal: &RehearsalArgs,
        printer: &Printer,
        no_secrets: NoSecrets,
    ) -> Result<Self, CommandError> {
        let session = Self::open_bare(global, name, rehearsal, printer, no_secrets).await?;
        session.prepared(printer).await
    }

    async fn prepared(self, printer: &Printer) -> Result<Self, CommandError> {
        if self.is_own_lab() {
            templates::make_missing(&self, printer).await?;
        }
        Ok(self)
    }

    /// Same as [`Session::open_with`], but does not create templates in a lab inside this process.
    pub(crate) async fn open_bare(
        global: &Global,
        name: Option<&str>,
        rehearsal: &RehearsalArgs,
        printer: &Printer,
        no_secrets: NoSecrets,
    ) -> Result<Self, CommandError> {
        let reading = Reading::on_terminal(printer);
        Self::open_reading(global, name, rehearsal, printer, no_secrets, reading).await
    }

    async fn open_reading(
        global: &Global,
        name: Option<&str>,
        rehearsal: &RehearsalArgs,
        printer: &Printer,
        no_secrets: NoSecrets,
        reading: Reading,
    ) -> Result<Self, CommandError> {
        let quickstart = match (rehearsal.lab, name, choose::has_inventory(global)) {
            (true, None, false) => Some(Quickstart::new()?),
            _ => None,
        };
        let own = quickstart.as_ref().map(|quickstart| global.at(quickstart.folder()));
        let chosen = choose::one(own.as_ref().unwrap_or(global), name, printer)?;
        let files = read_files(&chosen)?;
        let mut manifests = manifests::read(&chosen)?;
        let mut addon_lock = LockFile::read(&chosen)?;
        let cluster = chosen.cluster();
        // A lab inside this process ends with the process, so its bundle may be temporary.
        let known = secrets::known(&chosen)?;
        let is_draft = known.is_none();
        // Generating keys and starting a lab take seconds, so the line is shown before.
        let announced = match (rehearsal.lab, &known, no_secrets) {
            (true, _, _) => reading.announce("starting the lab"),
            (false, None, NoSecrets::Draft | NoSecrets::Pretend) => {
                reading.announce("generating secrets")
            }
            (false, _, _) => None,
        };
        let bundle = match (known, no_secrets.hint().filter(|_| !rehearsal.lab)) {
            (Some(known), _) => known,
            (None, Some(hint)) => {
                crate::secrets::bundle_of(&chosen).map_err(|error| error.hint(hint))?
            }
            (None, None) => crate::secrets::generate()?,
        };
        let lab = rehearsal.connect(cluster, &bundle.cluster.id, printer)?;
        drop(announced);
        let clock = lab.as_ref().map_or_else(Clock::real, |lab| lab.clock);
        if let Some(endpoint) = proxmox::endpoint(&chosen, lab.as_ref())
            && !rehearsal.lab
        {
            reading.log(&format!("reading {endpoint}"));
        }
        let (pve, login) = proxmox::client(&chosen, lab.as_ref(), clock, printer)?;
        match (is_draft, rehearsal.lab, no_secrets) {
            (true, false, NoSecrets::Draft) => {
                reading.watch(&pve, Box::pin(cluster_evidence::refuse(&chosen, &pve))).await?;
            }
            (false, false, NoSecrets::Draft) => {
                let refuse = Box::pin(cluster_evidence::refuse_second(&chosen, &pve, &bundle));
                reading.watch(&pve, refuse).await?;
            }
            _ => {}
        }
        secrets::check(&bundle)?;
        let wanted = needed_secrets(cluster);
        let secrets = if rehearsal.is_lab() {
            Resolver::for_lab(&chosen, printer).by_place_or(&wanted, "rehearsal")
        } else {
            Resolver::new(&chosen, printer).by_place(&wanted)?
        };
        let programs = if no_secrets.hint().is_some() { Programs::Skip } else { Programs::Run };
        let values = match programs {
            Programs::Run => addon_secrets(&chosen, rehearsal.is_lab(), printer)?,
            Programs::Skip => BTreeMap::new(),
        };
        let secret_at = |reference: &Spanned<SecretRef>| values.get(&reference.span).cloned();
        addons::render(&chosen, &mut manifests, &mut addon_lock, &secret_at, programs);
        let inputs = Inputs {
            cluster,
            bundle: &bundle,
            secrets: &secrets,
            files: &files,
            phase: Phase::Final,
        };
        let desired = Desired::of(&inputs, &manifests, login)
            .map_err(|error| derive_error(&chosen, error))?;
        let access = access(&bundle, cluster, lab.as_ref(), clock)?;
        let web = Web::new(WebSettings {
            reach: access.settings.reach.clone(),
            authorities: lab.as_ref().map(|lab| lab.authority.clone()).unwrap_or_default(),
        });
        let web = web.map_err(|error| {
            CommandError::failed(CommandCode::SystemFailed, "cannot use TLS").because(error)
        })?;
        let bundle = Arc::new(bundle);
        Ok(Self {
            chosen,
            bundle,
            desired,
            pve,
            access,
            web,
            clock,
            lab,
            is_draft,
            addon_lock,
            quickstart,
            reading,
        })
    }

    /// Writes the digests of charts that this command used for the first time. Nothing is written for a lab inside this
    /// process.
    pub(crate) fn keep_addon_lock(&self, printer: &Printer) -> Result<(), CommandError> {
        if !self.is_own_lab()
            && let Some(path) = self.addon_lock.save()?
        {
            printer.say(&format!("wrote {}", path.display()));
        }
        Ok(())
    }

    /// Writes the secrets of a new cluster to disk. Must be called before the first change. The secrets of a lab inside
    /// this process are not written.
    pub(crate) fn keep_secrets(&self, printer: &Printer) -> Result<(), CommandError> {
        if self.is_draft && !self.is_own_lab() {
            crate::secrets::keep(&self.chosen, &self.bundle, printer)?;
        }
        Ok(())
    }

    /// Returns an error if the secrets are new although the cluster exists. The check is repeated while the cluster is
    /// locked, because no other run can create VMs then.
    pub(crate) async fn refuse_lost_secrets(&self) -> Result<(), CommandError> {
        if self.is_draft && !self.is_own_lab() {
            cluster_evidence::refuse(&self.chosen, &self.pve).await?;
        }
        Ok(())
    }

    /// Returns an error if the secrets are missing although the cluster exists. A plan with temporary secrets would report every VM
    /// and address of the cluster as foreign.
    pub(crate) async fn refuse_existing_cluster(&self) -> Result<(), CommandError> {
        if self.is_draft && !self.is_own_lab() {
            let refuse = Box::pin(cluster_evidence::refuse_existing(&self.chosen, &self.pve));
            self.reading.watch(&self.pve, refuse).await?;
        }
        Ok(())
    }

    /// Observes the cluster, with the checks for a plan that creates or changes VMs.
    pub(crate) async fn observe(&self) -> Result<Observed, CommandError> {
        self.look(Purpose::Change).await
    }

    /// Observes the cluster, for a plan that removes VMs.
    pub(crate) async fn observe_for_removal(&self) -> Result<Observed, CommandError> {
        self.look(Purpose::Removal).await
    }

    /// Observes the cluster with short timeouts, for a report.
    pub(crate) async fn observe_for_report(&self) -> Result<Observed, CommandError> {
        self.look(Purpose::Report).await
    }

    /// Adds the addresses of all foreign VMs to the observed state.
    pub(crate) async fn observe_addresses(&self, observed: &mut Observed) {
        observe::observe_addresses(&self.desired, &self.pve, &mut observed.pve).await;
    }

    /// Adds the images on the hosts of all nodes to the observed state, for a plan that replaces nodes.
    pub(crate) async fn observe_image_contents(&self, observed: &mut Observed) {
        observe::observe_image_contents(&self.desired, &self.pve, &mut observed.pve).await;
    }

    /// Observes Proxmox only.
    pub(crate) async fn observe_proxmox(&self) -> Result<Pve, CommandError> {
        let seen = observe::observe_proxmox(&self.desired, &self.pve).await;
        seen.map_err(proxmox::unreachable)
    }

    /// Client for the Kubernetes API of the cluster.
    pub(crate) fn kube(&self) -> Result<KubeClient, CommandError> {
        self.kube_at(&self.api())
    }

    fn kube_at(&self, addresses: &[Address]) -> Result<KubeClient, CommandError> {
        let randomness = &mut environment::Kernel;
        let settings = &self.access.settings;
        KubeClient::new(&self.bundle, addresses, settings, randomness).map_err(|error| {
            CommandError::failed(
                CommandCode::CertificateFailed,
                "cannot create a certificate for Kubernetes",
            )
            .because(error)
        })
    }

    async fn look(&self, purpose: Purpose) -> Result<Observed, CommandError> {
        let kube = self.kube()?;
        let sources =
            Sources { pve: &self.pve, talos: &self.access, kube: &kube, web: &self.web, purpose };
        let observed = Box::pin(observe::observe(&self.desired, &sources));
        let seen = self.reading.watch(&self.pve, observed).await;
        let seen = seen.map_err(proxmox::unreachable)?;
        Ok(Observed { are_secrets_new: self.is_draft, ..seen })
    }

    /// Executes a plan.
    pub(crate) async fn execute(
        &self,
        plan: &Plan,
        write_files: WriteFiles,
        locks: Vec<Fence>,
        cancel: &Cancel,
        events: &Events,
    ) -> Outcome {
        let context = Context {
            clock: self.clock,
            pve: self.pve.clone(),
            web: self.web.clone(),
            cluster: Some(self.cluster_access(write_files)),
            locks,
            seed: 0,
            cut: None,
        };
        execute(plan, &context, cancel, events).await
    }

    /// Credentials and addresses for the Talos and Kubernetes APIs of the cluster.
    pub(crate) fn cluster_access(&self, write_files: WriteFiles) -> ClusterAccess {
        ClusterAccess {
            bundle: Arc::clone(&self.bundle),
            credentials: self.access.credentials.clone(),
            settings: self.access.settings.clone(),
            api: self.api(),
            earlier: client_files::addresses(&self.client_paths(), &self.bundle),
            write_files,
        }
    }

    /// Plan options, for the client files beside the inventory.
    pub(crate) fn options(&self, observed: &Observed) -> PlanOptions {
        self.options_with(&self.client_paths(), observed)
    }

    pub(crate) fn options_with(&self, paths: &ClientPaths, observed: &Observed) -> PlanOptions {
        let desired = &self.desired;
        let found = |url: &str| kubernetes_server(url, &self.access.settings.reach).0;
        let server = found(desired.endpoint.as_deref().unwrap_or_default());
        let control_planes: Vec<String> =
            self.own_api().map(|address| found(&format!("https://{address}"))).collect();
        let now = environment::now();
        let is_lab = self.lab.is_some();
        let servers =
            client_files::Servers { server: &server, control_planes: &control_planes, is_lab };
        let known = client_files::client_file_state(paths, &self.bundle, servers, now);
        let goes_around = leads_around(desired, observed);
        let has_files = known.was_up || (goes_around && known.is_provisional_current);
        // Run logs are not used for a lab, because runs on Proxmox say nothing about the lab.
        let history = if is_lab { History::Unknown } else { run_log::history(&self.runs_folder()) };
        let was_up = match history {
            History::WasUp => true,
            // The cluster was deleted, although the client files still exist: `destroy` keeps them.
            History::Destroyed => false,
            History::Unknown => has_files,
        };
        PlanOptions {
            has_client_files: if goes_around {
                known.is_provisional_current
            } else {
                known.is_current
            },
            was_up,
            // A lab that was started again is empty, and the client files are for the earlier lab.
            was_bootstrapped: was_up && !is_lab,
        }
    }

    /// Folder of the run logs.
    fn runs_folder(&self) -> PathBuf {
        self.chosen.run_folder().join("runs")
    }

    /// Default paths of kubeconfig and talosconfig: beside the inventory.
    pub(crate) fn client_paths(&self) -> ClientPaths {
        if self.quickstart.is_some() {
            return ClientPaths::within(Path::new("."));
        }
        self.chosen.client_paths()
    }

    /// Whether the built-in inventory is used.
    pub(crate) fn is_quickstart(&self) -> bool {
        self.quickstart.is_some()
    }

    /// Whether the lab runs inside this process. Other processes cannot use such a lab.
    pub(crate) fn is_own_lab(&self) -> bool {
        self.lab.as_ref().is_some_and(LabConnection::is_own)
    }

    /// Takes the local lock. It keeps other runs on this machine from using the inventory.
    pub(crate) fn lock(&self, command: &str) -> Result<Option<Lock>, CommandError> {
        if self.is_own_lab() {
            return Ok(None);
        }
        let runs = self.chosen.make_run_folder()?;
        disk::refuse_link(&runs.join("lock"))?;
        let holder = format!("talmox {command} of {}", self.desired.cluster);
        Lock::take(&runs.join("lock"), &holder).map(Some).map_err(|error| {
            let hint = "wait for it to end, or stop it with Ctrl-C";
            CommandError::failed(CommandCode::ClusterLocked, "another run works on this inventory")
                .because(error)
                .hint(hint)
        })
    }

    /// Addresses of the Kubernetes API. The shared address is first, then the control planes follow.
    pub(crate) fn api(&self) -> Vec<Address> {
        let cluster = self.chosen.cluster();
        let shared = cluster.file.network.vip.get().copied().map(api_at);
        shared.into_iter().chain(self.own_api()).collect()
    }

    /// Addresses of the Kubernetes API on the control planes.
    fn own_api(&self) -> impl Iterator<Item = Address> {
        let nodes = self.chosen.cluster().controlplanes().filter(|node| node.is_talos());
        nodes.filter_map(Node::contact).map(api_at)
    }

    /// Whether the Kubernetes API answers at the shared address. `None` if the cluster has no shared address.
    pub(crate) async fn shared_address_answers(&self) -> Option<bool> {
        let address = api_at(self.desired.vip?);
        let kube = self.kube_at(&[address]).ok()?;
        Some(kube.version().await.is_ok())
    }

    /// Folder for the files that the command writes: the folder of the inventory. For the built-in inventory, the current
    /// folder.
    pub(crate) fn folder(&self) -> PathBuf {
        if self.quickstart.is_some() {
            return PathBuf::from(".");
        }
        self.chosen.folder().to_owned()
    }

    pub(crate) async fn close(self) -> Result<(), CommandError> {
        match self.lab {
            Some(lab) => lab.close().await,
            None => Ok(()),
        }
    }
}

/// Secrets in the values of charts. In a lab, a missing secret is replaced by a placeholder.
fn addon_secrets(
    chosen: &Chosen,
    is_lab: bool,
    printer: &Printer,
) -> Result<BTreeMap<Span, SecretText>, CommandError> {
    let charts = addons::charts(chosen);
    let is_rendered = |chart: &&AddonChart<'_>| !chart.is_vendored(chosen);
    let wanted: Vec<&Spanned<SecretRef>> =
        charts.iter().filter(is_rendered).flat_map(AddonChart::secrets).collect();
    if is_lab {
        return Ok(Resolver::for_lab(chosen, printer).by_place_or(&wanted, "rehearsal"));
    }
    Resolver::new(chosen, printer).by_place(&wanted)
}

fn api_at(address: IpAddr) -> Address {
    Address { host: address.to_string(), port: KUBERNETES }
}

fn access(
    bundle: &Bundle,
    cluster: &Cluster,
    lab: Option<&LabConnection>,
    clock: Clock,
) -> Result<TalosAccess, CommandError> {
    let now = environment::now();
    let roles = [ClientRole::Admin];
    let ttl = if lab.is_some() { rehearsal::TTL } else { TTL };
    let credentials = Credentials::issue(bundle, &roles, ttl, now, &mut environment::Kernel)
        .map_err(|error| {
            CommandError::failed(CommandCode::CertificateFailed, "cannot create a certificate")
                .because(error)
        })?;
    let mut settings = Settings::new(clock);
    settings.reach = if let Some(lab) = lab { lab.reach() } else { reach_of(cluster) };
    Ok(TalosAccess { credentials, settings })
}

/// Reach map of an inventory.
pub(crate) fn reach_of(cluster: &Cluster) -> Reach {
    let entries = cluster.file.reach.entries.iter();
    Reach::new(entries.filter_map(|(from, to)| Some((from.value.clone(), to.get()?.clone()))))
}
