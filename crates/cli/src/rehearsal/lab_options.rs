//! Options that `--lab` and `talmox lab serve` share, and errors of a lab that cannot start.

use std::path::Path;

use clap::ValueEnum;
use talmox_lab::pve::{Fault, Profile, Release};
use talmox_lab::{FaultScript as _, Known, Lab, ScenarioError};
use talmox_talos_config::random::Randomness as _;

use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::{environment, regular_file};

/// Argument of `--profile` and `--lab-profile`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ProfileArg {
    #[value(hide = true)]
    Instant,
    Fast,
    Homelab,
    Slow,
}

impl From<ProfileArg> for Profile {
    fn from(profile: ProfileArg) -> Self {
        match profile {
            ProfileArg::Instant => Self::Instant,
            ProfileArg::Fast => Self::Fast,
            ProfileArg::Homelab => Self::Homelab,
            ProfileArg::Slow => Self::Slow,
        }
    }
}

/// Minimum and maximum speed of lab time.
const SLOWEST: f64 = 0.001;
const FASTEST: f64 = 100_000.0;

/// Parses the speed of lab time.
pub(crate) fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (SLOWEST..=FASTEST).contains(&speed) => Ok(speed),
        _ => Err(format!("expected a number from {SLOWEST} to {FASTEST}")),
    }
}

/// Parses a Proxmox VE release.
pub(crate) fn release(text: &str) -> Result<Release, String> {
    match text {
        "9.2" | "9" => Ok(Release::V9),
        "8.4" | "8" => Ok(Release::V8),
        _ => Err("expected 9.2 or 8.4".to_owned()),
    }
}

/// Reads a file that the command line names, as text.
pub(crate) fn read(path: &Path) -> Result<String, CommandError> {
    regular_file::read_text_argument(path).map_err(|error| {
        CommandError::failed(CommandCode::FileUnreadable, format!("cannot read {}", path.display()))
            .because(error)
    })
}

/// Reads the faults in a file, and checks that the named objects exist in the lab.
pub(crate) fn faults(path: &Path, known: &Known) -> Result<Vec<Fault>, CommandError> {
    let text = read(path)?;
    Fault::parse_for(&path.display().to_string(), &text, known).map_err(not_understood)
}

/// Prints a warning about faults that were never injected. Such faults are usually misspelled.
pub(crate) fn warn_unused_faults(lab: &Lab, printer: &Printer) {
    let idle = lab.faults().idle();
    if !idle.is_empty() {
        let noun = if idle.len() == 1 { "fault" } else { "faults" };
        printer.warn(&format!("{noun} that never matched: {}", idle.join(", ")));
    }
}

/// Error for an invalid scenario or fault file.
pub(crate) fn not_understood(error: ScenarioError) -> CommandError {
    let failed = CommandError::failed(CommandCode::ScenarioInvalid, error.to_string());
    match error.hint {
        Some(hint) => failed.hint(hint),
        None => failed,
    }
}

/// Random seed.
pub(crate) fn any_seed() -> u64 {
    let mut bytes = [0; 4];
    environment::Kernel.fill(&mut bytes);
    u64::from(u32::from_le_bytes(bytes))
}

/// Error for a lab that cannot start.
pub(crate) fn not_started(error: std::io::Error) -> CommandError {
    use std::io::ErrorKind;
    let hint = match error.kind() {
        ErrorKind::AddrInUse => "another program listens there: use port 0 for a free port",
        ErrorKind::AddrNotAvailable => "use an address of this machine",
        ErrorKind::PermissionDenied => "use a folder or port that you have permission for",
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => "pass a folder to --state",
        ErrorKind::NotFound => "create the parent folder first",
        ErrorKind::InvalidData => {
            "use another folder for --state: this one is damaged, or is not a saved lab"
        }
        _ => {
            return CommandError::failed(CommandCode::LabFailed, "cannot start the lab")
                .because(error);
        }
    };
    CommandError::failed(CommandCode::LabFailed, "cannot start the lab").because(error).hint(hint)
}
