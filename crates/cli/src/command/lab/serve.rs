//! `talmox lab serve`

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use talmox_clock::Clock;
use talmox_lab::pve::{Fault, Release};
use talmox_lab::{
    FaultScript as _, Known, Lab, NodeSettings, Ready, RealKubernetes, Scenario, Settings,
};
use tokio::signal::unix::{SignalKind, signal};

use super::violations::{ViolationFile, keep_writing};
use super::welcome::{one_line, welcome};
use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::rehearsal::lab_options::{
    ProfileArg, any_seed, faults, not_started, not_understood, read, release, speed,
    warn_unused_faults,
};
use crate::rehearsal::{self, lease, scenario};
use crate::{choose, session};

/// Maximum time by which lab time may be ahead of real time, for a lab with a real kube-apiserver.
const MOST_AHEAD: Duration = Duration::from_mins(1);

const AFTER_HELP: &str = "\
Examples:
  talmox lab serve
  talmox lab serve --inventory DIR --speed 10 --format json > lab.json &
  talmox up --inventory DIR --lab-at lab.json --yes";

/// Serve a simulated Proxmox VE until Ctrl-C
///
/// The lab also simulates an Image Factory and machines that boot Talos. With --inventory it has the hosts, storages,
/// bridges, PCI devices and networks that the inventory names. Without an inventory and without a scenario it has one
/// host `pve` with the storages `local` and `local-lvm`. The lab listens on this machine only, has its own certificate
/// authority, and prints its addresses and credentials. It stops at Ctrl-C or SIGTERM and keeps no data, unless --state
/// names a folder for it.
///
/// With --format json it prints one JSON line when it is ready. Other commands use the lab with --lab-at FILE, where
/// FILE contains that line.
///
/// The line is {"pve": {"url", "node", "ca", "fingerprint", "token_id", "token_secret", "username", "password"},
/// "factory": {"url"}, "reach": {ADDRESS: LOOPBACK ADDRESS}, "speed", "seed"}. `reach` maps the addresses of the nodes
/// to the loopback addresses where they listen: a node with the address 10.0.0.11 listens on 127.A.B.11, with the same
/// ports.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeArgs {
    /// Cluster, with --inventory [default: the only cluster of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,

    /// Scenario file that describes the lab: hosts, storages, VMs, users and more
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,

    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Allow an address that other machines can reach
    ///
    /// A client with the token can use all functions of the lab: it can write to the disk of this machine and make it
    /// download from the network.
    #[arg(long)]
    allow_remote: bool,

    /// Random seed; the same seed gives the same behaviour [default: the seed of the saved lab, or else a random one]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Speed of the simulated machines: fast, homelab or slow
    #[arg(long, value_name = "PROFILE", default_value = "fast", hide_possible_values = true)]
    profile: ProfileArg,

    /// Speed of lab time relative to real time
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    speed: f64,

    /// Simulated Proxmox VE release: 9.2 or 8.4 [default: that of the scenario, or else 9.2]
    #[arg(long, value_name = "RELEASE", value_parser = release)]
    release: Option<Release>,

    /// Save the lab to this folder, and continue with a saved lab
    ///
    /// The VMs of a saved lab are stopped when it continues, as after a power failure.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// File for a log of all requests to Proxmox, one JSON line each, without secrets
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Also log the responses, without secrets (with --record)
    #[arg(long, requires = "record")]
    record_answers: bool,

    /// YAML file with `faults:` to inject, in addition to those of the scenario
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,

    /// Run this kube-apiserver behind the control planes instead of the simulated one
    ///
    /// It uses the etcd of --etcd. Controllers, nodes and pods are simulated. Its data is not saved. It uses real time,
    /// so --speed cannot be above 1.
    #[arg(long, value_name = "PATH", requires = "etcd")]
    kube_apiserver: Option<PathBuf>,

    /// etcd binary for --kube-apiserver
    #[arg(long, value_name = "PATH", requires = "kube_apiserver")]
    etcd: Option<PathBuf>,

    /// File for violated invariants of the simulated clusters, for `cargo xtask walk`
    #[arg(long, value_name = "FILE", hide = true)]
    violations: Option<PathBuf>,
}

pub(super) fn run(args: &ServeArgs, global: &Global, printer: &Printer) -> Outcome {
    check_address(args, printer)?;
    let settings = settings(args, global, printer)?;
    let seed = settings.seed;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
            CommandError::failed(CommandCode::SystemFailed, "cannot start the lab").because(error)
        })?;
    runtime.block_on(serve(settings, printer, args.violations.as_deref(), |ready| {
        let text = match printer.format {
            Format::Json => one_line(ready, seed),
            Format::Text => welcome(ready, seed),
        };
        printer.result(&text)
    }))?;
    // The command ends without waiting for the remaining tasks of the lab.
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
            "listen on 127.0.0.1, or pass --allow-remote to allow access from other machines",
        ));
    }
    printer.warn(&format!(
        "the lab listens on {}: every machine in the network can try to connect. The password and the token are the only \
        protection; do not leave it running.",
        args.listen
    ));
    Ok(())
}

fn settings(
    args: &ServeArgs,
    global: &Global,
    printer: &Printer,
) -> Result<Settings, CommandError> {
    let is_saved = args.state.as_deref().is_some_and(talmox_lab::has_state);
    if is_saved && (args.scenario.is_some() || args.release.is_some()) {
        printer
            .warn("the lab continues from its saved state; --scenario and --release are ignored");
    }
    let prepared = prepared(args, global, printer)?;
    let mut scenario = match (&args.scenario, prepared.scenario) {
        (None, Some(scenario)) => scenario,
        (Some(path), _) => {
            let name = path.display().to_string();
            let scenario = Scenario::parse(&name, &read(path)?).map_err(not_understood)?;
            // The faults are checked here, because an error at this place can have a hint.
            Fault::of_scenario(&scenario).map_err(not_understood)?;
            scenario
        }
        (None, None) => Scenario::default(),
    };
    if let Some(release) = args.release {
        scenario = scenario.with_release(release);
    }
    // A saved lab keeps the hosts of its saved state, so the hosts of the scenario are not used for the check of the
    // faults.
    let hosts = Some(scenario.hosts()).filter(|_| !is_saved);
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

/// Settings of a lab for an inventory.
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
        return Err(CommandError::usage("--scenario cannot be used with an inventory")
            .hint("omit --scenario, or omit --inventory and the cluster"));
    }
    let chosen = choose::one(global, args.cluster.as_deref(), printer)?;
    let cluster = chosen.cluster();
    // DHCP leases depend on MACs, and MACs are derived from the cluster ID. So nodes with DHCP need the secrets. A lab
    // with additional network cards works without the secrets.
    let bundle = if lease::has_dhcp_nodes(cluster) {
        session::secrets::known(&chosen)?
    } else if lease::has_additional_dhcp_cards(cluster) {
        session::secrets::known(&chosen).ok().flatten()
    } else {
        None
    };
    let id = bundle.as_ref().map(|bundle| bundle.cluster.id.as_str());
    let scenario = scenario::scenario(cluster).map_err(not_understood)?;
    Ok(Prepared {
        known: rehearsal::fault_targets(cluster, &scenario),
        scenario: Some(scenario),
        nodes: scenario::nodes(cluster, id),
        factories: scenario::factories(cluster),
    })
}

/// Checks the options `--kube-apiserver`, `--etcd` and `--speed` before the lab starts.
fn real_kubernetes(args: &ServeArgs) -> Result<Option<RealKubernetes>, CommandError> {
    let Some((apiserver, etcd)) = args.kube_apiserver.clone().zip(args.etcd.clone()) else {
        return Ok(None);
    };
    if args.speed > 1.0 {
        let message = "--kube-apiserver uses the real clock: if lab time is faster, it soon rejects every certificate";
        return Err(CommandError::usage(message).hint("omit --speed, or pass --speed 1"));
    }
    // The time of a saved lab continues. It stays ahead of real time if the lab ran faster than real time before.
    let reached = args.state.as_deref().and_then(talmox_lab::saved_time).unwrap_or_default();
    let ahead = Duration::from_secs(reached.saturating_sub(Clock::real().unix()));
    if ahead > MOST_AHEAD {
        let message = format!(
            "--kube-apiserver uses the real clock: the saved lab is {} minutes ahead of it, so its certificates are not \
             valid yet",
            ahead.as_secs() / 60
        );
        let hint = "start a new lab in another folder of --state, or omit --kube-apiserver";
        return Err(CommandError::usage(message).hint(hint));
    }
    for (flag, path) in [("--kube-apiserver", &apiserver), ("--etcd", &etcd)] {
        let is_program = fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
        if !is_program {
            let message = format!("{flag}: {} is not an executable file", path.display());
            return Err(CommandError::usage(message).hint("pass the path of an executable file"));
        }
    }
    Ok(Some(RealKubernetes { apiserver, etcd }))
}

async fn serve(
    settings: Settings,
    printer: &Printer,
    violations: Option<&Path>,
    announce: impl FnOnce(&Ready) -> Result<(), CommandError>,
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
    let cannot_write = cannot("cannot write the violations");
    let violations = violations.map(|path| ViolationFile::create(&lab, path));
    let mut violations = violations.transpose().map_err(cannot_write)?;
    announce(&lab.ready())?;
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
        error = keep_writing(violations.as_mut()) => return Err(cannot_write(error)),
    }
    if let Some(violations) = &mut violations {
        violations.write().map_err(cannot_write)?;
    }
    warn_unused_faults(&lab, printer);
    lab.stop().await.map_err(cannot("cannot save the lab"))
}
