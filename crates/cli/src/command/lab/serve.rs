//! `talmox lab serve`

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use talmox_clock::Clock;
use talmox_lab::pve::{Fault, Profile, Release};
use talmox_lab::{
    FaultScript as _, Known, Lab, NodeSettings, Ready, RealKubernetes, Scenario, ScenarioError,
    Settings,
};
use talmox_talos_config::random::Randomness as _;
use tokio::signal::unix::{SignalKind, signal};

use super::welcome::{one_line, welcome};
use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::rehearsal::{self, lease, scenario};
use crate::{choose, environment, regular_file, session};

/// How far ahead of ours the time of a lab with real programs may be.
const MOST_AHEAD: Duration = Duration::from_mins(1);

const AFTER_HELP: &str = "\
Examples:
  talmox lab serve
  talmox lab serve --inventory DIR --speed 10 --format json > lab.json &
  talmox up --inventory DIR --lab-at lab.json --yes";

/// Serve a simulated Proxmox VE until it is told to stop
///
/// With it come an Image Factory and machines that boot Talos. With --inventory it has the hosts, storages, bridges, PCI devices and networks that the inventory names. Without one, and
/// without a scenario, there is one host `pve` with the storages `local` and `local-lvm`. The lab listens on this machine only,
/// has a certificate authority of its own, and prints how to get in. It stops on Ctrl-C or SIGTERM, and leaves nothing behind
/// unless --state names a folder for it.
///
/// With --format json it prints one line once it is ready. With that line in a file every command can work in the lab, by
/// --lab-at FILE.
///
/// The line is {"pve": {"url", "node", "ca", "fingerprint", "token_id", "token_secret", "username", "password"}, "factory":
/// {"url"}, "reach": {ADDRESS: WHERE IT IS}, "speed", "seed"}. `reach` says on which loopback addresses the nodes of the lab
/// listen: a node with the address 10.0.0.11 is at 127.A.B.11, on the ports that it really has.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeArgs {
    /// With --inventory: the cluster [default: the only one of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,

    /// What the lab consists of: hosts, storages, VMs, users and so on
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,

    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Listen on an address that others can reach too
    ///
    /// Whoever can connect and knows the token can do everything that the lab does: write to this
    /// machine's disk, and let it fetch from the network.
    #[arg(long)]
    allow_remote: bool,

    /// What chance is drawn from; the same seed gives the same run [default: the kept lab's, else by chance]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// How slow the simulated machines are: fast, homelab or slow
    #[arg(long, value_name = "PROFILE", default_value = "fast", hide_possible_values = true)]
    profile: ProfileArg,

    /// How much faster than ours the lab's time passes
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    speed: f64,

    /// The Proxmox VE to be: 9.2 or 8.4 [default: the scenario's, else 9.2]
    #[arg(long, value_name = "RELEASE", value_parser = release)]
    release: Option<Release>,

    /// Keep the lab in this folder, and go on from what is there
    ///
    /// A lab that goes on finds its guests switched off, as after a power cut.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// Write every request to Proxmox to this file, one JSON line each, without secrets
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// With --record: write the answers, too, without secrets
    #[arg(long, requires = "record")]
    record_answers: bool,

    /// What goes wrong, beside what the scenario says: a YAML file with `faults:`
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,

    /// Run this kube-apiserver behind the control planes instead of the simulated one
    ///
    /// It gets an etcd of its own. Controllers, nodes and pods are the lab's. Its data is not kept. It goes by the real clock:
    /// --speed cannot be above 1.
    #[arg(long, value_name = "PATH", requires = "etcd")]
    kube_apiserver: Option<PathBuf>,

    /// The etcd for --kube-apiserver
    #[arg(long, value_name = "PATH", requires = "kube_apiserver")]
    etcd: Option<PathBuf>,
}

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

/// Beyond these a lab would stand still, or run through a year in a minute.
const SLOWEST: f64 = 0.001;
const FASTEST: f64 = 100_000.0;

pub(crate) fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (SLOWEST..=FASTEST).contains(&speed) => Ok(speed),
        _ => Err(format!("a speed is a number from {SLOWEST} to {FASTEST}")),
    }
}

pub(crate) fn release(text: &str) -> Result<Release, String> {
    match text {
        "9.2" | "9" => Ok(Release::V9),
        "8.4" | "8" => Ok(Release::V8),
        _ => Err("known are 9.2 and 8.4".to_owned()),
    }
}

pub(super) fn run(args: &ServeArgs, global: &Global, printer: &Printer) -> Outcome {
    check_address(args, printer)?;
    let settings = settings(args, global, printer)?;
    let seed = settings.seed;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
            CommandError::failed(CommandCode::SystemFailed, "cannot start the lab").because(error)
        })?;
    runtime.block_on(serve(settings, printer, |ready| {
        let text = match printer.format {
            Format::Json => one_line(ready, seed),
            Format::Text => welcome(ready, seed),
        };
        printer.result(&text)
    }))?;
    // Tasks of the lab may still be waiting; nobody waits for them.
    runtime.shutdown_background();
    Ok(Exit::Fine)
}

fn check_address(args: &ServeArgs, printer: &Printer) -> Result<(), CommandError> {
    if args.listen.ip().is_loopback() {
        return Ok(());
    }
    if !args.allow_remote {
        let message = format!("{} can be reached from other machines", args.listen);
        return Err(CommandError::usage(message).hint(
            "listen on 127.0.0.1, or give --allow-remote if others are really meant to get in",
        ));
    }
    printer.warn(&format!(
        "the lab listens on {}: whoever reaches this machine can try to get in. Its password and \
         token are the only protection; do not leave it running.",
        args.listen
    ));
    Ok(())
}

fn settings(
    args: &ServeArgs,
    global: &Global,
    printer: &Printer,
) -> Result<Settings, CommandError> {
    let goes_on = args.state.as_deref().is_some_and(talmox_lab::has_state);
    if goes_on && (args.scenario.is_some() || args.release.is_some()) {
        printer.warn("the lab goes on from its state; --scenario and --release are for new ones");
    }
    let prepared = prepared(args, global, printer)?;
    let mut scenario = match (&args.scenario, prepared.scenario) {
        (None, Some(scenario)) => scenario,
        (Some(path), _) => {
            let name = path.display().to_string();
            let scenario = Scenario::parse(&name, &read(path)?).map_err(not_understood)?;
            // Looked at here, where a hint can be given.
            Fault::of_scenario(&scenario).map_err(not_understood)?;
            scenario
        }
        (None, None) => Scenario::default(),
    };
    if let Some(release) = args.release {
        scenario = scenario.with_release(release);
    }
    // A lab that goes on has the hosts that it was made with.
    let hosts = Some(scenario.hosts()).filter(|_| !goes_on);
    let faults = match &args.faults {
        Some(path) => faults(path, &Known { hosts, ..prepared.known })?,
        None => vec![],
    };
    Ok(Settings {
        scenario,
        listen: args.listen,
        seed: args
            .seed
            .or_else(|| talmox_lab::saved_seed(args.state.as_deref()?))
            .unwrap_or_else(any_seed),
        profile: args.profile.into(),
        speed: args.speed,
        state: args.state.clone(),
        record: args.record.clone(),
        record_answers: args.record_answers,
        faults,
        factory_names: prepared.factories,
        nodes: NodeSettings { real: real_kubernetes(args)?, ..prepared.nodes },
        ..Settings::default()
    })
}

/// What an inventory wants of its lab.
#[derive(Default)]
struct Prepared {
    scenario: Option<Scenario>,
    known: Known,
    nodes: NodeSettings,
    factories: Vec<String>,
}

fn prepared(
    args: &ServeArgs,
    global: &Global,
    printer: &Printer,
) -> Result<Prepared, CommandError> {
    if global.inventory.is_none() && args.cluster.is_none() {
        return Ok(Prepared::default());
    }
    if args.scenario.is_some() {
        return Err(CommandError::usage("--scenario and --inventory both say what the lab is")
            .hint("give one of them"));
    }
    let chosen = choose::one(global, args.cluster.as_deref(), printer)?;
    let cluster = chosen.cluster();
    // DHCP leases hang on MACs, and those on the cluster's id: only then are the secrets needed. Further cards can do
    // without.
    let bundle = if lease::leads_to_nodes(cluster) {
        session::secrets::known(&chosen)?
    } else if lease::has_further(cluster) {
        session::secrets::known(&chosen).ok().flatten()
    } else {
        None
    };
    let id = bundle.as_ref().map(|bundle| bundle.cluster.id.as_str());
    let scenario = scenario::scenario(cluster).map_err(not_understood)?;
    Ok(Prepared {
        known: rehearsal::known(cluster, &scenario),
        scenario: Some(scenario),
        nodes: scenario::nodes(cluster, id),
        factories: scenario::factories(cluster),
    })
}

/// Looked at before the lab starts: a cluster that waits for a program that is not there says little.
fn real_kubernetes(args: &ServeArgs) -> Result<Option<RealKubernetes>, CommandError> {
    let Some((apiserver, etcd)) = args.kube_apiserver.clone().zip(args.etcd.clone()) else {
        return Ok(None);
    };
    if args.speed > 1.0 {
        let message = "--kube-apiserver goes by the real clock: in a lab whose time passes faster, it would soon take \
                       nobody's certificate";
        return Err(CommandError::usage(message).hint("leave --speed away, or give --speed 1"));
    }
    // It goes on from where it was: one that was fast once is ahead for good.
    let reached = args.state.as_deref().and_then(talmox_lab::saved_time).unwrap_or_default();
    let ahead = Duration::from_secs(reached.saturating_sub(Clock::real().unix()));
    if ahead > MOST_AHEAD {
        let message = format!(
            "--kube-apiserver goes by the real clock: the lab that was kept is {} minutes ahead of it, and its \
             certificates would not be good yet",
            ahead.as_secs() / 60
        );
        let hint = "begin a new lab in another folder of --state, or leave --kube-apiserver away";
        return Err(CommandError::usage(message).hint(hint));
    }
    for (flag, path) in [("--kube-apiserver", &apiserver), ("--etcd", &etcd)] {
        let is_program = fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
        if !is_program {
            let message = format!("{flag}: there is no program {}", path.display());
            return Err(
                CommandError::usage(message).hint("give the path of a file that can be run")
            );
        }
    }
    Ok(Some(RealKubernetes { apiserver, etcd }))
}

pub(crate) fn read(path: &Path) -> Result<String, CommandError> {
    regular_file::read_text_argument(path).map_err(|error| {
        CommandError::failed(CommandCode::FileUnreadable, format!("cannot read {}", path.display()))
            .because(error)
    })
}

/// What goes wrong, as a file says, in a lab that has this.
pub(crate) fn faults(path: &Path, known: &Known) -> Result<Vec<Fault>, CommandError> {
    let text = read(path)?;
    Fault::parse_for(&path.display().to_string(), &text, known).map_err(not_understood)
}

/// Says which faults never came to pass: whoever wrote them wanted to see something else.
pub(crate) fn tell_idle(lab: &Lab, printer: &Printer) {
    let idle = lab.faults().idle();
    if !idle.is_empty() {
        let noun = if idle.len() == 1 { "fault" } else { "faults" };
        printer.warn(&format!("{noun} that nothing fitted: {}", idle.join(", ")));
    }
}

pub(crate) fn not_understood(error: ScenarioError) -> CommandError {
    let told = CommandError::failed(CommandCode::ScenarioInvalid, error.to_string());
    match error.hint {
        Some(hint) => told.hint(hint),
        None => told,
    }
}

pub(crate) fn any_seed() -> u64 {
    let mut bytes = [0; 4];
    environment::Kernel.fill(&mut bytes);
    u64::from(u32::from_le_bytes(bytes))
}

async fn serve(
    settings: Settings,
    printer: &Printer,
    tell: impl FnOnce(&Ready) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let cannot = |what: &'static str| {
        move |error: std::io::Error| {
            CommandError::failed(CommandCode::LabFailed, what).because(error)
        }
    };
    let mut interrupted =
        signal(SignalKind::interrupt()).map_err(cannot("cannot wait for Ctrl-C"))?;
    let mut terminated =
        signal(SignalKind::terminate()).map_err(cannot("cannot wait for SIGTERM"))?;
    let lab = Lab::start(settings).map_err(not_started)?;
    tell(&lab.ready())?;
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    tell_idle(&lab, printer);
    lab.stop().await.map_err(cannot("cannot save the lab"))
}

pub(crate) fn not_started(error: std::io::Error) -> CommandError {
    use std::io::ErrorKind;
    let hint = match error.kind() {
        ErrorKind::AddrInUse => "something listens there already: port 0 takes any that is free",
        ErrorKind::AddrNotAvailable => "this machine has no such address",
        ErrorKind::PermissionDenied => "choose a folder or port that you may use",
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => "--state takes a folder",
        ErrorKind::NotFound => "the folder above it must be there",
        ErrorKind::InvalidData => {
            "the folder of --state is not a lab's, or is damaged: take another"
        }
        _ => {
            return CommandError::failed(CommandCode::LabFailed, "cannot start the lab")
                .because(error);
        }
    };
    CommandError::failed(CommandCode::LabFailed, "cannot start the lab").because(error).hint(hint)
}
