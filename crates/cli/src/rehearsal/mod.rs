//! Connection to a lab instead of a real Proxmox: a lab inside this process (`--lab`), or a running lab (`--lab-at`).

mod fault_targets;
pub(crate) mod lab_options;
pub(crate) mod lease;
mod quickstart;
pub(crate) mod scenario;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use talmox_clock::Clock;
use talmox_lab::pve::{Profile, Release};
use talmox_lab::{Lab, Ready, Settings};
use talmox_model::Cluster;
use talmox_talos_api::Reach;

use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::regular_file;

pub(crate) use fault_targets::fault_targets;
pub(crate) use quickstart::Quickstart;

/// Validity of certificates for a lab. It is long because lab time may be far ahead of real time.
pub(crate) const TTL: Duration = Duration::from_hours(10 * 365 * 24);

#[derive(Debug, Args)]
#[command(next_help_heading = "Lab options")]
pub(crate) struct RehearsalArgs {
    /// Use a lab inside this process: nothing real is changed, and nothing is kept
    #[arg(long, conflicts_with = "lab_at")]
    pub(crate) lab: bool,

    /// Use a running lab: file with the output of `talmox lab serve --format json`
    #[arg(long, value_name = "FILE")]
    pub(crate) lab_at: Option<PathBuf>,

    /// Speed of lab time relative to real time (with --lab)
    #[arg(long, value_name = "FACTOR", default_value = "10", value_parser = lab_options::speed)]
    lab_speed: f64,

    /// Speed of the simulated machines: fast, homelab or slow (with --lab)
    #[arg(long, value_name = "PROFILE", default_value = "fast", hide_possible_values = true)]
    lab_profile: lab_options::ProfileArg,

    /// Random seed of the lab (with --lab)
    #[arg(long, value_name = "NUMBER")]
    lab_seed: Option<u64>,

    /// Simulated Proxmox VE release, 9.2 or 8.4 (with --lab)
    #[arg(long, value_name = "RELEASE", value_parser = lab_options::release)]
    lab_release: Option<Release>,

    /// YAML file with `faults:` to inject (with --lab)
    #[arg(long, value_name = "FILE")]
    lab_faults: Option<PathBuf>,
}

impl RehearsalArgs {
    /// Whether `--lab` or `--lab-at` is set.
    pub(crate) fn is_lab(&self) -> bool {
        self.lab || self.lab_at.is_some()
    }

    /// Starts the lab for `--lab`, or connects to the lab of `--lab-at`. `None` without these options.
    pub(crate) fn connect(
        &self,
        cluster: &Cluster,
        cluster_id: &str,
        printer: &Printer,
    ) -> Result<Option<LabConnection>, CommandError> {
        if let Some(file) = &self.lab_at {
            return join(file).map(Some);
        }
        if !self.lab {
            return Ok(None);
        }
        let mut scenario = scenario::scenario(cluster).map_err(lab_options::not_understood)?;
        if let Some(release) = self.lab_release {
            scenario = scenario.with_release(release);
        }
        let faults = match &self.lab_faults {
            Some(path) => lab_options::faults(path, &fault_targets(cluster, &scenario))?,
            None => vec![],
        };
        let settings = Settings {
            scenario,
            seed: self.lab_seed.unwrap_or_else(lab_options::any_seed),
            profile: Profile::from(self.lab_profile),
            speed: self.lab_speed,
            faults,
            factory_names: scenario::factories(cluster),
            nodes: scenario::nodes(cluster, Some(cluster_id)),
            ..Settings::default()
        };
        let lab = Lab::start(settings).map_err(lab_options::not_started)?;
        let (ready, clock) = (lab.ready(), lab.clock());
        let authority = authority(&ready)?;
        Ok(Some(LabConnection { ready, clock, authority, lab: Some((lab, printer.clone())) }))
    }
}

/// Connection to a lab.
#[derive(Debug)]
pub(crate) struct LabConnection {
    pub(crate) ready: Ready,
    /// Clock of the lab. It can run faster than real time.
    pub(crate) clock: Clock,
    /// Certificate authority of the simulated Proxmox and Image Factory, in PEM form.
    pub(crate) authority: Vec<u8>,
    /// Lab inside this process, and the printer for the warnings when the lab stops.
    lab: Option<(Lab, Printer)>,
}

impl LabConnection {
    /// Whether the lab runs inside this process.
    pub(crate) fn is_own(&self) -> bool {
        self.lab.is_some()
    }

    /// Reach map of the lab. Addresses that are not in the reach map are unreachable, so that no real machine is
    /// contacted.
    pub(crate) fn reach(&self) -> Reach {
        Reach::closed(self.ready.reach.clone())
    }

    /// Stops the lab if it runs inside this process.
    pub(crate) async fn close(self) -> Result<(), CommandError> {
        match self.lab {
            Some((lab, printer)) => {
                lab_options::warn_unused_faults(&lab, &printer);
                let stopped = lab.stop().await;
                stopped.map_err(|error| {
                    CommandError::failed(CommandCode::LabFailed, "cannot stop the lab")
                        .because(error)
                })
            }
            None => Ok(()),
        }
    }
}

/// Connects to a running lab.
pub(crate) fn join(file: &Path) -> Result<LabConnection, CommandError> {
    let text = lab_options::read(file)?;
    let ready: Ready = serde_json::from_str(text.trim()).map_err(|error| {
        let message = format!("{} is not the output of a lab", file.display());
        CommandError::failed(CommandCode::LabFailed, message).because(error).hint(
            "create it with `talmox lab serve --format json > FILE`, and wait until it has a line",
        )
    })?;
    let clock = ready.clock();
    let authority = authority(&ready)?;
    Ok(LabConnection { ready, clock, authority, lab: None })
}

fn authority(ready: &Ready) -> Result<Vec<u8>, CommandError> {
    let path = &ready.pve.ca;
    regular_file::read(path, regular_file::LARGEST).map_err(|error| {
        let message = format!("cannot read the lab's certificate {}", path.display());
        CommandError::failed(CommandCode::LabFailed, message)
            .because(error)
            .hint(
                "check that the lab still runs; `talmox lab serve --format json > FILE` starts one, with --inventory the one of an inventory",
            )
    })
}
