//! Boot of a node: maintenance mode, installation, and running with a config.

use std::sync::Arc;

use talmox_lab_environment::Work;
use tokio::task::JoinSet;

use super::super::api::command_line;
use super::super::apid::{self, Apid, CERTIFICATE_RENEWAL};
use super::super::config::AppliedConfig;
use super::super::disk_data::DiskKey;
use super::super::kubernetes;
use super::super::resource::{missing_user_disk, volume_labels};
use super::super::service::ServiceState::{self, Running, Waiting};
use super::super::service::{self, is_checked};
use super::super::simulation::Simulation;
use super::super::talos_state::{Node, Stage};
use super::{discovery, extension, installer};

const KUBELET: &str = "kubelet";

/// One boot of a node, for the functions of its sequences.
#[derive(Clone)]
pub(super) struct NodeBoot {
    pub(super) simulation: Arc<Simulation>,
    pub(super) vmid: u32,
    pub(super) boot: u64,
}

impl NodeBoot {
    pub(super) fn object(&self) -> String {
        format!("node/{}", self.vmid)
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&Node) -> T) -> Option<T> {
        self.simulation.look(|talos| talos.nodes.get(&self.vmid).map(look))
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Node) -> T) -> Option<T> {
        self.simulation.change_node(self.vmid, self.boot, change)
    }

    fn enter(&self, service: &str, state: ServiceState, message: &str) {
        self.simulation.enter(self.vmid, self.boot, service, state, message);
    }

    /// Starts a service, and waits until it is healthy.
    async fn bring_up(&self, service: &str, needs_time: bool) {
        self.enter(service, ServiceState::Starting, "Starting service");
        if let Some(condition) = service::condition(service) {
            self.enter(service, Waiting, &format!("Waiting for {condition}"));
        }
        if service == "trustd" {
            self.simulation.until_time_synced(self.vmid, self.boot).await;
        }
        self.enter(service, ServiceState::Preparing, "Running pre state");
        self.enter(service, ServiceState::Preparing, "Creating service runner");
        if needs_time {
            self.simulation
                .environment
                .wait(Work::Service, &format!("{}/{service}", self.object()))
                .await;
        }
        self.enter(service, Running, &service::started(service, self.vmid));
        if is_checked(service) {
            self.simulation.set_health(self.vmid, self.boot, service, true, "");
        }
    }

    /// Starts the services that run from the beginning of a boot, with or without a config.
    pub(super) async fn start_early_services(&self) {
        let has_auditd = self.look(has_auditd).unwrap_or_default();
        for service in ["udevd", "machined", "auditd", "syslogd", "containerd", "dashboard"] {
            if service != "auditd" || has_auditd {
                self.bring_up(service, false).await;
            }
        }
    }

    /// Uses the config that was found on the disk or on the platform.
    pub(super) fn use_config(&self, config: AppliedConfig) {
        let disk = self.look(|node| node.system_disk.clone()).flatten();
        let state = disk.and_then(|disk| self.simulation.hypervisor.written(&disk).state);
        let is_from_disk = state.is_some_and(|state| state.config.is_some());
        let config = Arc::new(config);
        self.change(|node| {
            node.persistent = (!is_from_disk).then(|| Arc::clone(&config));
            node.config = Some(config);
        });
        self.save_state();
    }

    /// Stops the boot because of an unusable config. No port is opened, and no other config can be applied.
    pub(super) fn stop_with_invalid_config(&self, reason: &str) {
        self.simulation.refresh_network(self.vmid, self.boot);
        let line = format!(
            "controller failed {{\"component\": \"controller-runtime\", \"controller\": \"config.AcquireController\", \"error\": {reason:?}}}"
        );
        self.change(|node| node.dmesg(self.simulation.now(), &line));
    }

    /// Waits in maintenance mode for a config. In the meantime, the partial config `part` is in effect.
    pub(super) async fn wait_in_maintenance(&self, part: Option<AppliedConfig>) {
        self.change(|node| node.partial = part.map(Arc::new));
        self.simulation.refresh_network(self.vmid, self.boot);
        let apid = self.look(|node| Apid::maintenance(&self.simulation, node));
        let Some(Ok(apid)) = apid else { return std::future::pending().await };
        self.simulation.start_guest_agent(self.vmid);
        self.change(|node| {
            node.dmesg(self.simulation.now(), "this machine is reachable at:");
        });
        let has_apid = self.look(|node| node.version.is_at_least(13)).unwrap_or_default();
        if has_apid {
            self.bring_up("apid", false).await;
        }
        self.simulation.set_stage(self.vmid, self.boot, Stage::Maintenance);
        apid.serve(Arc::clone(&self.simulation), self.vmid, self.boot).await;
        self.save_state();
        // Before 1.13, the port is closed until the configured node opens it again.
        if has_apid {
            let object = self.object();
            let switching = self.simulation.environment.wait(Work::Switch, &object);
            tokio::select! {
                () = switching => {}
                () = apid::close_connections(&self.simulation, self.vmid) => {}
            }
        }
    }

    /// Installs Talos to the disk that the config selects, and reboots from that disk.
    pub(super) async fn install(&self) {
        self.simulation.set_stage(self.vmid, self.boot, Stage::Installing);
        let installed = self.look(|node| {
            let config = node.config.as_ref()?;
            let disk = node.install_disk(&config.facts)?;
            let key = DiskKey {
                host: node.hardware.host.clone(),
                volume: disk.volume.clone()?,
                device: disk.device.clone(),
            };
            let image = config.facts.install_image.clone();
            Some((key, node.installed(), image, config.text.clone()))
        });
        self.simulation.environment.wait(Work::Install, &self.object()).await;
        let Some(Some((key, running, image, config))) = installed else {
            // No disk matches: the sequence fails, and Talos retries after a reboot.
            let line = "install failed: no disk found matching provided parameters";
            self.change(|node| node.dmesg(self.simulation.now(), line));
            self.simulation.power_cycle(self.vmid);
            return;
        };
        // Talos is installed from the installer image in the config, or else from the running image.
        let factory = self.simulation.settings.factory.as_ref();
        let named = factory.zip(image).map(|(factory, name)| factory.installer(&name));
        let installed = match named {
            Some(Err(reason)) => {
                let line = format!("install failed: {reason}");
                self.change(|node| node.dmesg(self.simulation.now(), &line));
                self.simulation.power_cycle(self.vmid);
                return;
            }
            Some(Ok(image)) => installer::as_installed(&image, &running.platform),
            None => running,
        };
        self.simulation.hypervisor.write_disk(&key, |written| {
            written.is_blank = false;
            written.installed = Some(installed);
            written.state.get_or_insert_default().config = Some(config);
        });
        self.simulation.set_stage(self.vmid, self.boot, Stage::Rebooting);
        self.simulation.power_cycle(self.vmid);
    }

    /// Writes the config and the platform addresses to the partition STATE.
    fn save_state(&self) {
        let Some((Some(disk), config, addresses)) = self.look(|node| {
            let links = node.platform.links.iter().filter_map(|link| {
                let key = node.network.link(&link.selector())?.cache_key();
                Some(link.addresses.iter().map(|prefix| (key.to_owned(), prefix.to_string())))
            });
            let addresses: Vec<_> = links.flatten().collect();
            (node.system_disk.clone(), node.config.as_ref().map(|c| c.text.clone()), addresses)
        }) else {
            return;
        };
        self.simulation.hypervisor.write_disk(&disk, |written| {
            let state = written.state.get_or_insert_default();
            state.config = config;
            if !addresses.is_empty() {
                state.platform_addresses = addresses;
            }
        });
    }

    /// Starts the services of a configured node, and runs them until power-off.
    pub(super) async fn start(&self) {
        let (simulation, vmid, boot) = (&self.simulation, self.vmid, self.boot);
        simulation.set_stage(vmid, boot, Stage::Booting);
        self.report_preparation();
        self.simulation.refresh_network(self.vmid, self.boot);
        self.simulation.start_guest_agent(self.vmid);
        if let Some(disk) = self.look(|node| node.system_disk.clone()).flatten() {
            simulation.hypervisor.write_disk(&disk, |written| {
                written.ephemeral.get_or_insert_default();
            });
        }
        if let Some(path) = self.look(|node| missing_user_disk(node).map(str::to_owned)).flatten() {
            let line = format!(
                "controller failed {{\"component\": \"controller-runtime\", \"controller\": \"block.UserDiskConfigController\", \"error\": \"error resolving device path: lstat {path}: no such file or directory\"}}"
            );
            self.change(|node| node.dmesg(self.simulation.now(), &line));
            return std::future::pending().await;
        }
        simulation.create_volumes(vmid, boot);
        let is_control_plane = self.look(Node::is_control_plane).unwrap_or_default();
        let mut running = JoinSet::new();
        running.spawn(self.clone().serve_apid());
        running.spawn(self.clone().sync_time());
        self.bring_up("cri", true).await;
        if is_control_plane {
            let me = self.clone();
            running.spawn(async move { me.bring_up("trustd", true).await });
            running.spawn(kubernetes::run_control_plane(Arc::clone(simulation), vmid, boot));
        }
        self.start_extensions();
        running.spawn(kubernetes::run_kubelet(Arc::clone(simulation), vmid, boot));
        simulation
            .until(|talos| {
                let node = talos.nodes.get(&vmid)?;
                required(is_control_plane)
                    .iter()
                    .all(|name| is_service_healthy(node, name))
                    .then_some(())
            })
            .await;
        self.report_booted();
        simulation.confirm_installed(vmid, boot);
        simulation.uncordon(vmid);
        simulation.set_stage(vmid, boot, Stage::Running);
        let mut state_changes = simulation.state_changes();
        loop {
            state_changes.borrow_and_update();
            let unmet = self.look(|node| unmet(node, is_control_plane)).unwrap_or_default();
            simulation.set_unmet(vmid, boot, unmet);
            if state_changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Runs apid of a configured node. apid restarts whenever the config or the addresses of the node change.
    async fn serve_apid(self) {
        let simulation = &self.simulation;
        self.enter(
            "apid",
            Waiting,
            "Waiting for service \"containerd\" to be \"up\", api certificates",
        );
        loop {
            let waited = simulation.until(|talos| {
                let node = talos.nodes.get(&self.vmid).filter(|node| node.boot == self.boot)?;
                let config = node.config.clone()?;
                let key = match &config.facts.ca_key {
                    Some(key) => Ok(key.clone()),
                    None => discovery::signing_key(talos, node, &simulation.settings.gateways),
                };
                let apid = Apid::configured(simulation, node, &config.facts, &key.ok()?);
                Some((apid, config, (own_addresses(node), node.clock_skew)))
            });
            let reason = self.clone().log_certificate_wait();
            let (apid, config, shown) = tokio::select! {
                ready = waited => ready,
                never = reason => never,
            };
            let Ok(apid) = apid else { return std::future::pending().await };
            let made = simulation.now();
            self.bring_up("apid", true).await;
            let mut serving = JoinSet::new();
            serving.spawn(apid.serve(Arc::clone(simulation), self.vmid, self.boot));
            let changes = simulation.until(|talos| {
                let node = talos.nodes.get(&self.vmid)?;
                let current = node.config.as_ref()?;
                let is_other = current.facts.ca != config.facts.ca
                    || current.facts.cert_sans != config.facts.cert_sans
                    || (own_addresses(node), node.clock_skew) != shown;
                is_other.then_some(())
            });
            // After a pause, the node presents an expired certificate until it has synchronized its time.
            tokio::select! {
                () = changes => {}
                () = simulation.sleep_in_guest(self.vmid, CERTIFICATE_RENEWAL) => {}
                () = simulation.until_expired_in_pause(self.vmid, made, CERTIFICATE_RENEWAL) => {}
            }
            serving.shutdown().await;
        }
    }

    /// Shows the reason in the state of the service `apid`, while the node has no API certificate. Never returns.
    async fn log_certificate_wait<T>(self) -> T {
        let mut state_changes = self.simulation.state_changes();
        loop {
            state_changes.borrow_and_update();
            let reason = self.simulation.look(|talos| {
                let node = talos.nodes.get(&self.vmid)?;
                node.config.as_ref()?.facts.ca_key.is_none().then(|| {
                    discovery::signing_key(talos, node, &self.simulation.settings.gateways).err()
                })?
            });
            if let Some(reason) = reason {
                self.enter("apid", Waiting, &format!("Waiting for api certificates: {reason}"));
            }
            if state_changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn sync_time(self) {
        let is_disabled = self
            .look(|node| node.config.as_ref().is_some_and(|config| config.facts.time_is_disabled));
        let is_disabled = is_disabled.unwrap_or_default();
        if !is_disabled {
            let gateways = self.simulation.settings.gateways.clone();
            self.simulation
                .until(|talos| {
                    let node = talos.nodes.get(&self.vmid)?;
                    node.network.has_internet(&gateways).then_some(())
                })
                .await;
            self.simulation.environment.wait(Work::TimeSync, &self.object()).await;
        }
        self.change(|node| {
            node.is_time_in_sync = true;
            // If time synchronization is disabled, the clock keeps its error.
            if !is_disabled {
                node.clock_skew = 0;
            }
        });
    }

    fn start_extensions(&self) {
        let found = self.look(|node| {
            let facts = node.config.as_ref().map(|config| config.facts.clone()).unwrap_or_default();
            let failing =
                extension::failing_modules(&node.image, &node.hardware, &facts.kernel_modules);
            let services =
                extension::services(&node.image, &node.hardware, &facts.configured_extensions);
            (failing, services)
        });
        let Some((failing, services)) = found else { return };
        for (module, reason) in failing {
            let line = format!("failed to load kernel module \"{module}\": {reason}");
            self.change(|node| node.dmesg(self.simulation.now(), &line));
        }
        for (service, state, message) in services {
            self.enter(&service, state, &message);
        }
    }
}

impl Simulation {
    /// Creates partitions for those volumes of the config that no disk has yet. Later boots find the volumes by their labels.
    pub(super) fn create_volumes(&self, vmid: u32, boot: u64) {
        let created = self.change_node(vmid, boot, |node| {
            let mut created = vec![];
            for (label, device) in volume_labels(node) {
                let host = node.hardware.host.clone();
                let mut disks = node.hardware.disks.iter_mut();
                let Some(disk) = disks.find(|disk| disk.device == device) else { continue };
                if !disk.labels.contains(&label) {
                    disk.labels.push(label.clone());
                    let volume = disk.volume.clone();
                    created.extend(volume.map(|volume| (DiskKey { host, volume, device }, label)));
                }
            }
            created
        });
        for (disk, label) in created.unwrap_or_default() {
            self.hypervisor.write_disk(&disk, |written| written.volumes.push(label));
        }
    }

    /// Starts the guest agent, if the image has the extension and the VM has the channel for the agent.
    pub(super) fn start_guest_agent(&self, vmid: u32) {
        let agent = self.look(|talos| {
            let node = talos.nodes.get(&vmid)?;
            let has_agent =
                node.hardware.has_agent_channel && extension::has(&node.image, "qemu-guest-agent");
            has_agent.then(|| node.network.agent_report())
        });
        if let Some(agent) = agent {
            self.hypervisor.set_agent(vmid, agent);
        }
    }
}

fn required(is_control_plane: bool) -> &'static [&'static str] {
    if is_control_plane {
        &["apid", "trustd", "cri", "etcd", KUBELET]
    } else {
        &["apid", "cri", KUBELET]
    }
}

fn is_service_healthy(node: &Node, service: &str) -> bool {
    node.services.get(service).is_some_and(super::super::service::Service::is_healthy)
}

/// Conditions that are not met, so that a booted node is not ready.
fn unmet(node: &Node, is_control_plane: bool) -> Vec<(String, String)> {
    let mut unmet = vec![];
    if !node.is_time_in_sync {
        unmet.push(("time".to_owned(), "time is not in sync".to_owned()));
    }
    let sick: Vec<String> = required(is_control_plane)
        .iter()
        .filter(|name| !is_service_healthy(node, name))
        .map(|name| format!("{name} not healthy"))
        .collect();
    if !sick.is_empty() {
        unmet.push(("services".to_owned(), sick.join(", ")));
    }
    unmet
}

/// Whether auditd runs. Talos has auditd since 1.9, and a kernel argument can disable it.
fn has_auditd(node: &Node) -> bool {
    let is_off = command_line(node).split_whitespace().any(|one| one == "talos.auditd.disabled=1");
    node.version.is_at_least(9) && !is_off
}

fn own_addresses(node: &Node) -> Vec<std::net::IpAddr> {
    node.network.addresses().collect()
}
