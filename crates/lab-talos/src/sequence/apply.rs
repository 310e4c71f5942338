//! `ApplyConfiguration`: validation, immediate changes, and changes that need a reboot.

use std::sync::Arc;
use std::time::Duration;

use talmox_talos_api::proto::machine::apply_configuration_request::Mode;
use talmox_talos_api::proto::machine::{ApplyConfiguration, ApplyConfigurationRequest};
use talmox_talos_api::server::Status;
use talmox_talos_config::validate::{Mode as RunMode, validate_config};
use talmox_talos_config::{Config, Release};
use talmox_yaml::Node as Yaml;

use super::super::config::{AppliedConfig, Facts};
use super::super::diff;
use super::super::simulation::Simulation;
use super::super::talos_state::{Node, Stage};
use super::super::version::Version;
use crate::image::Platform;

/// Default duration of try mode.
const DEFAULT_TRY_DURATION: Duration = Duration::from_mins(1);

/// Dry-run answer of the maintenance service before 1.13, which does not compare configs.
const NO_CONFIG_YET: &str =
    "Dry run summary:\nNode is running in maintenance mode and does not have a config yet.";
const NOT_AT_ONCE: &str = "this config change can't be applied in immediate mode\ndiff: ";
const TRIED_FOR: &str =
    "\nThe config is applied in 'try' mode and will be automatically reverted back in ";

/// Keys of `machine` that take effect without a reboot.
const IMMEDIATE: [&str; 20] = [
    "ca",
    "acceptedCAs",
    "time",
    "certSANs",
    "install",
    "network",
    "sysfs",
    "sysctls",
    "logging",
    "controlPlane",
    "kubelet",
    "kernel",
    "registries",
    "pods",
    "seccompProfiles",
    "nodeLabels",
    "nodeAnnotations",
    "nodeTaints",
    "udev",
    "baseRuntimeSpecOverrides",
];
/// Keys of `machine.features` that take effect without a reboot.
const IMMEDIATE_FEATURES: [&str; 5] =
    ["kubernetesTalosAPIAccess", "kubePrism", "hostDNS", "imageCache", "nodeAddressSortAlgorithm"];

impl Simulation {
    /// Applies a config in the requested mode. Only nodes in maintenance mode accept anonymous callers.
    pub(crate) fn apply(
        self: &Arc<Self>,
        vmid: u32,
        boot: u64,
        request: &ApplyConfigurationRequest,
        is_anonymous: bool,
    ) -> Result<ApplyConfiguration, Status> {
        let known = self.look(|talos| {
            let node = talos.nodes.get(&vmid).filter(|node| node.boot == boot)?;
            let run_mode = run_mode(node.image.platform, node.system_disk.is_some());
            Some((node.version.clone(), run_mode, node.config.clone(), node.stage))
        });
        let Some((version, run_mode, current, stage)) = known else {
            return Err(Status::unavailable("the machine is gone"));
        };
        let mode = check_mode(request.mode(), &version, is_anonymous)?;
        // As on real nodes, any request in another mode ends try mode, even a dry run and a rejected config. The tried config
        // then stays until the next boot.
        if mode != Mode::Try {
            self.change_node(vmid, boot, |node| node.tried = None);
        }
        if stage == Stage::Rebooting {
            return Err(Status::failed_precondition(
                "configuration already applied and node is rebooting",
            ));
        }
        let text = std::str::from_utf8(&request.data)
            .map_err(|_| Status::invalid_argument("the config is not valid UTF-8"))?;
        let release = Release::of(&version.to_string()).unwrap_or_default();
        let config = Config::parse(text, release).map_err(|error| {
            // The maintenance service before 1.13 returns errors without a gRPC code.
            if is_anonymous && !version.is_at_least(13) {
                Status::unknown(error.to_string())
            } else {
                Status::invalid_argument(error.to_string())
            }
        })?;
        if config.v1alpha1().is_none() && !is_anonymous {
            return Err(Status::invalid_argument(
                "the applied machine configuration doesn't contain v1alpha1 config, did you mean to patch the \
                 machine config instead?",
            ));
        }
        let verdict = validate_config(&config, run_mode);
        if let Some(error) = verdict.error {
            return Err(Status::invalid_argument(format!(
                "configuration validation failed: {error}"
            )));
        }
        self.check_disks(vmid, &version, run_mode, &config)?;
        let needs = current.as_ref().map(|current| reasons_to_reboot(&current.config, &config));
        let needs = needs.unwrap_or_default();
        let mode = choose_mode(mode, &needs, &version)?;
        // Before 1.13, maintenance mode has a separate server. This server does not report the mode.
        let is_old = is_anonymous && !version.is_at_least(13);
        let mut answer = ApplyConfiguration {
            metadata: None,
            warnings: verdict.warnings,
            mode: if is_old { 0 } else { mode.into() },
            mode_details: confirmation(mode).to_owned(),
        };
        if request.dry_run {
            answer.mode_details = if is_old {
                NO_CONFIG_YET.to_owned()
            } else {
                answer.warnings.clear();
                dry_run(mode, current.as_deref(), &config)
            };
            return Ok(answer);
        }
        answer.mode_details += &match mode {
            Mode::Reboot => format!(": {NOT_AT_ONCE}{}", needs.join("\n")),
            Mode::Try => format!("{TRIED_FOR}{}", go_duration(try_duration(request))),
            _ => String::new(),
        };
        if is_old {
            answer.mode_details.clear();
        }
        let is_whole = config.v1alpha1().is_some();
        let applied = Arc::new(AppliedConfig::new(text.to_owned(), config));
        if !is_whole {
            // A partial config takes effect, but the node stays in maintenance mode.
            self.change_node(vmid, boot, |node| node.partial = Some(applied));
            self.refresh_network(vmid, boot);
            return Ok(answer);
        }
        self.put_into_effect(vmid, boot, mode, applied, request, current);
        Ok(answer)
    }

    /// Rejects a config if no disk matches its install disk. Talos does this since 1.12.
    fn check_disks(
        &self,
        vmid: u32,
        version: &Version,
        run_mode: RunMode,
        config: &Config,
    ) -> Result<(), Status> {
        let facts = Facts::of(config);
        let Some(wanted) = facts.install_match.as_ref().filter(|_| version.is_at_least(12)) else {
            return Ok(());
        };
        let has_disk = self
            .look(|talos| talos.nodes.get(&vmid).map(|node| node.install_disk(&facts).is_some()));
        if run_mode != RunMode::Metal || has_disk != Some(false) {
            return Ok(());
        }
        Err(Status::invalid_argument(format!(
            "configuration validation failed: 1 error occurred:\n\t* no disks matched the expression: {wanted}\n\n"
        )))
    }

    fn put_into_effect(
        self: &Arc<Self>,
        vmid: u32,
        boot: u64,
        mode: Mode,
        applied: Arc<AppliedConfig>,
        request: &ApplyConfigurationRequest,
        before: Option<Arc<AppliedConfig>>,
    ) {
        if mode != Mode::Try {
            let disk = self.look(|talos| talos.nodes.get(&vmid)?.system_disk.clone());
            if let Some(disk) = disk {
                self.hypervisor.write_disk(&disk, |written| {
                    written.state.get_or_insert_default().config = Some(applied.text.clone());
                });
            }
            self.change_node(vmid, boot, |node| node.persistent = Some(Arc::clone(&applied)));
        }
        match mode {
            // Only the config on the disk changes. This call notifies tasks that wait for a change.
            Mode::Staged => {
                self.change_node(vmid, boot, |_| ());
            }
            Mode::Reboot => {
                self.set_stage(vmid, boot, Stage::Rebooting);
                let simulation = Arc::clone(self);
                tokio::spawn(async move {
                    simulation.clock().sleep(Duration::from_secs(1)).await;
                    let is_same = simulation.look(|talos| talos.nodes.get(&vmid).map(|n| n.boot))
                        == Some(boot);
                    if is_same {
                        simulation.power_cycle(vmid);
                    }
                });
            }
            _ => {
                self.run_with(vmid, boot, Arc::clone(&applied));
            }
        }
        if let (Mode::Try, Some(before)) = (mode, before) {
            self.change_node(vmid, boot, |node| node.tried = Some(Arc::clone(&applied)));
            let time = try_duration(request);
            let simulation = Arc::clone(self);
            tokio::spawn(async move {
                simulation.clock().sleep(time).await;
                let is_tried = simulation.look(|talos| {
                    let node = talos.nodes.get(&vmid)?;
                    let tried = node.tried.as_ref()?;
                    Some(node.boot == boot && Arc::ptr_eq(tried, &applied))
                });
                if is_tried == Some(true) {
                    simulation.change_node(vmid, boot, |node| node.tried = None);
                    simulation.run_with(vmid, boot, before);
                }
            });
        }
    }

    /// Makes this config the running config.
    fn run_with(&self, vmid: u32, boot: u64, applied: Arc<AppliedConfig>) {
        self.change_node(vmid, boot, |node: &mut Node| node.config = Some(applied));
        self.create_volumes(vmid, boot);
        self.refresh_network(vmid, boot);
    }
}

fn check_mode(mode: Mode, version: &Version, is_anonymous: bool) -> Result<Mode, Status> {
    let is_old = !version.is_at_least(13);
    match mode {
        Mode::Reboot if version.is_at_least(14) => {
            Err(Status::unimplemented("reboot mode is no longer supported"))
        }
        Mode::NoReboot | Mode::Staged if is_anonymous && is_old => {
            Err(Status::unimplemented(format!(
                "apply configuration --mode='{}' is not supported in maintenance mode",
                mode.as_str_name().to_lowercase().replace('_', "-")
            )))
        }
        Mode::Reboot if is_anonymous => Ok(Mode::NoReboot),
        mode => Ok(mode),
    }
}

fn choose_mode(mode: Mode, needs: &[String], version: &Version) -> Result<Mode, Status> {
    match mode {
        Mode::Auto if needs.is_empty() || version.is_at_least(14) => Ok(Mode::NoReboot),
        Mode::Auto => Ok(Mode::Reboot),
        Mode::NoReboot | Mode::Try if !needs.is_empty() && !version.is_at_least(14) => {
            Err(Status::invalid_argument(format!("{NOT_AT_ONCE}{}", needs.join("\n"))))
        }
        mode => Ok(mode),
    }
}

/// Duration of try mode.
fn try_duration(request: &ApplyConfigurationRequest) -> Duration {
    let time = request.try_mode_timeout.as_ref().map(|time| {
        let seconds = u64::try_from(time.seconds).unwrap_or_default();
        Duration::new(seconds, u32::try_from(time.nanos).unwrap_or_default())
    });
    time.filter(|time| !time.is_zero()).unwrap_or(DEFAULT_TRY_DURATION)
}

/// Duration in Go's notation, such as `1m0s`.
fn go_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let last = Duration::new(seconds % 60, time.subsec_nanos()).as_secs_f64();
    match (seconds / 3600, seconds % 3600 / 60) {
        (0, 0) => format!("{last}s"),
        (0, minutes) => format!("{minutes}m{last}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{last}s"),
    }
}

/// Confirmation of Talos for a mode.
fn confirmation(mode: Mode) -> &'static str {
    match mode {
        Mode::Reboot => "Applied configuration with a reboot",
        Mode::Staged => "Staged configuration to be applied after the next reboot",
        _ => "Applied configuration without a reboot",
    }
}

/// Summary of a dry run, with the diff of the configs. As on real nodes, the diff contains keys.
fn dry_run(mode: Mode, current: Option<&AppliedConfig>, config: &Config) -> String {
    let before = current.map(|current| current.config.encode()).unwrap_or_default();
    let difference = diff::unified(&before, &config.encode());
    let difference = if difference.is_empty() { "No changes.".to_owned() } else { difference };
    let done = confirmation(mode);
    format!("Dry run summary:\n{done} (skipped in dry-run).\nConfig diff:\n\n{difference}")
}

/// Validation mode of a config. An installed node needs no install disk.
pub(super) fn run_mode(platform: Platform, is_installed: bool) -> RunMode {
    match platform {
        Platform::Metal if !is_installed => RunMode::Metal,
        Platform::Metal | Platform::Nocloud => RunMode::Cloud,
    }
}

/// Changed keys of the config that take effect only after a reboot.
fn reasons_to_reboot(before: &Config, after: &Config) -> Vec<String> {
    let keys = |config: &Config, path: &[&str]| -> Vec<(String, Yaml)> {
        let map = config.v1alpha1().and_then(|document| document.get(path)).and_then(Yaml::as_map);
        let entries = map.into_iter().flat_map(|map| &map.entries);
        entries
            .filter_map(|entry| {
                Some((entry.key.as_str()?.to_owned(), entry.value.without_comments()))
            })
            .collect()
    };
    let differing = |path: &[&str], immediate: &[&str]| -> Vec<String> {
        let (old, new) = (keys(before, path), keys(after, path));
        let names = old.iter().chain(&new).map(|(name, _)| name.clone());
        let mut names: Vec<String> =
            names.filter(|name| !immediate.contains(&name.as_str())).collect();
        names.sort();
        names.dedup();
        let value = |all: &[(String, Yaml)], name: &str| {
            let found = all.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| talmox_yaml::emit(value, 4))
        };
        names.retain(|name| value(&old, name) != value(&new, name));
        names.into_iter().map(|name| format!("{}.{name}", path.join("."))).collect()
    };
    let mut immediate = IMMEDIATE.to_vec();
    immediate.push("features");
    let mut reasons = differing(&["machine"], &immediate);
    reasons.extend(differing(&["machine", "features"], &IMMEDIATE_FEATURES));
    reasons
}
