//! The lab in place of a real Proxmox: one inside this program, or one that runs already.

mod known;
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

use crate::command::lab::serve;
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::regular_file;

pub(crate) use known::known;
pub(crate) use quickstart::Quickstart;

/// How long certificates live that are made for a lab: its time may be far ahead of ours.
pub(crate) const TTL: Duration = Duration::from_hours(10 * 365 * 24);

#[derive(Debug, Args)]
#[command(next_help_heading = "Lab options")]
pub(crate) struct RehearsalArgs {
    /// Rehearse in a lab inside this program: nothing real is touched, and nothing stays
    #[arg(long, conflicts_with = "lab_at")]
    pub(crate) lab: bool,

    /// Work in a lab that runs: the file with the line that `talmox lab serve --format json` printed
    #[arg(long, value_name = "FILE")]
    pub(crate) lab_at: Option<PathBuf>,

    /// With --lab: how much faster than ours its time passes
    #[arg(long, value_name = "FACTOR", default_value = "10", value_parser = serve::speed)]
    lab_speed: f64,

    /// With --lab: how slow its machines are: fast, homelab or slow
    #[arg(long, value_name = "PROFILE", default_value = "fast", hide_possible_values = true)]
    lab_profile: serve::ProfileArg,

    /// With --lab: what chance is drawn from
    #[arg(long, value_name = "NUMBER")]
    lab_seed: Option<u64>,

    /// With --lab: the Proxmox VE to be, 9.2 or 8.4
    #[arg(long, value_name = "RELEASE", value_parser = serve::release)]
    lab_release: Option<Release>,

    /// With --lab: what goes wrong, a YAML file with `faults:`
    #[arg(long, value_name = "FILE")]
    lab_faults: Option<PathBuf>,
}

impl RehearsalArgs {
    /// Whether any lab is meant.
    pub(crate) fn is_lab(&self) -> bool {
        self.lab || self.lab_at.is_some()
    }

    /// Starts the lab, or finds it. None if the real world is meant.
    pub(crate) fn stage(
        &self,
        cluster: &Cluster,
        cluster_id: &str,
        printer: &Printer,
    ) -> Result<Option<Stage>, CommandError> {
        if let Some(file) = &self.lab_at {
            return join(file).map(Some);
        }
        if !self.lab {
            return Ok(None);
        }
        let mut scenario = scenario::scenario(cluster).map_err(serve::not_understood)?;
        if let Some(release) = self.lab_release {
            scenario = scenario.with_release(release);
        }
        let faults = match &self.lab_faults {
            Some(path) => serve::faults(path, &known(cluster, &scenario))?,
            None => vec![],
        };
        let settings = Settings {
            scenario,
            seed: self.lab_seed.unwrap_or_else(serve::any_seed),
            profile: Profile::from(self.lab_profile),
            speed: self.lab_speed,
            faults,
            factory_names: scenario::factories(cluster),
            nodes: scenario::nodes(cluster, Some(cluster_id)),
            ..Settings::default()
        };
        let lab = Lab::start(settings).map_err(serve::not_started)?;
        let (ready, clock) = (lab.ready(), lab.clock());
        let authority = authority(&ready)?;
        Ok(Some(Stage { ready, clock, authority, lab: Some((lab, printer.clone())) }))
    }
}

/// A lab to work in.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) ready: Ready,
    /// Waits are as short as the lab's time is fast.
    pub(crate) clock: Clock,
    /// Of Proxmox and of the factory, in PEM form.
    pub(crate) authority: Vec<u8>,
    /// One of our own, and whom it tells at its end.
    lab: Option<(Lab, Printer)>,
}

impl Stage {
    /// Whether the lab is inside this program.
    pub(crate) fn is_own(&self) -> bool {
        self.lab.is_some()
    }

    /// The reach map of the lab: an address that it does not name is unreachable, never that of a real machine.
    pub(crate) fn reach(&self) -> Reach {
        Reach::closed(self.ready.reach.clone())
    }

    /// Ends a lab of our own.
    pub(crate) async fn leave(self) -> Result<(), CommandError> {
        match self.lab {
            Some((lab, printer)) => {
                serve::tell_idle(&lab, &printer);
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

/// A lab that runs already.
pub(crate) fn join(file: &Path) -> Result<Stage, CommandError> {
    let text = serve::read(file)?;
    let ready: Ready = serde_json::from_str(text.trim()).map_err(|error| {
        let message = format!("{} is not what a lab prints", file.display());
        CommandError::failed(CommandCode::LabFailed, message)
            .because(error)
            .hint("make it with `talmox lab serve --format json > FILE`, and wait until the line is there")
    })?;
    let clock = ready.clock();
    let authority = authority(&ready)?;
    Ok(Stage { ready, clock, authority, lab: None })
}

fn authority(ready: &Ready) -> Result<Vec<u8>, CommandError> {
    let path = &ready.pve.ca;
    regular_file::read(path, regular_file::LARGEST).map_err(|error| {
        let message = format!("cannot read the lab's certificate {}", path.display());
        CommandError::failed(CommandCode::LabFailed, message)
            .because(error)
            .hint(
                "has the lab ended? `talmox lab serve --format json > FILE` starts one, with --inventory that of an inventory",
            )
    })
}
