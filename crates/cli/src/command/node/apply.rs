//! `talmox node apply`

use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
use talmox_engine::step::StepCode;
use talmox_talos_api::client::{Applied, Apply, ApplyMode};
use talmox_talos_api::{Expected, Machine};
use talmox_talos_config::client::ClientRole;
use talmox_talos_config::secret::SecretText;

use super::super::client::duration;
use super::super::config::config_file;
use super::access::{AccessArgs, Caller, Target};
use super::apply_outcome::{self, ApplyOutcome, name};
use super::{block_on, config_target, lock};
use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::interrupt::{self, StopSignals};
use crate::printer::Printer;
use crate::runtime;
use crate::session::RunLocks;

/// Send a machine config to a node
///
/// `talmox node apply FILE --insecure ADDRESS` sends the first config to a node in maintenance mode. A node that has a
/// config accepts a new one only from a client with a certificate of its cluster. With a node name instead of an
/// address, the machine must be the VM of that node, and the config must be for that node.
///
/// A cluster of the inventory is locked in Proxmox meanwhile, as by `up`. If it cannot be locked, a warning gives the
/// reason, and the config is sent.
#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    /// Machine config; `-` for stdin
    #[arg(value_name = "FILE")]
    file: String,

    /// Node: a name in the inventory, or an address
    #[arg(value_name = "NODE")]
    node: String,

    /// Apply mode: auto, no-reboot, reboot (up to Talos 1.13), staged (takes effect at the next boot) or try (reverts
    /// after --try-for)
    #[arg(long, value_name = "MODE", default_value = "auto", hide_possible_values = true)]
    mode: ModeArg,

    /// Time after which the node reverts to its current config (with --mode try) [default: one minute]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    try_for: Option<Duration>,

    /// Report what would happen, without changes
    #[arg(long)]
    dry_run: bool,

    /// Print the details of the node's answer, which may contain private keys
    #[arg(long)]
    details: bool,

    /// Send the config even if its host name or machine type differs from the node's
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    access: AccessArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    Auto,
    NoReboot,
    Reboot,
    Staged,
    Try,
}

pub(super) fn run(args: &ApplyArgs, global: &Global, printer: &Printer) -> Outcome {
    if args.try_for.is_some() && args.mode != ModeArg::Try {
        return Err(CommandError::usage("--try-for requires --mode try"));
    }
    let config = SecretText::new(config_file(&args.file)?);
    let target = Target::find(&args.node, &args.access, ClientRole::Admin, global, printer)?;
    if !args.force {
        refuse_others(&config, &target)?;
    }
    let mode = match args.mode {
        ModeArg::Auto => ApplyMode::Auto,
        ModeArg::NoReboot => ApplyMode::NoReboot,
        ModeArg::Reboot => ApplyMode::Reboot,
        ModeArg::Staged => ApplyMode::Staged,
        ModeArg::Try => ApplyMode::Try(args.try_for),
    };
    let expected = match &target.caller {
        Caller::Anonymous => target.machine()?,
        Caller::Known(..) => None,
    };
    let apply = Apply { config: &config, mode, dry_run: args.dry_run };
    let applied = if args.dry_run {
        block_on(send(&target, expected.as_ref(), &apply, &RunLocks::default(), printer))?
    } else {
        runtime::run(send_locked(
            &target,
            args.access.lab_at(),
            expected.as_ref(),
            &apply,
            printer,
        ))?
    };
    print(args, &target, mode, &applied, printer)?;
    Ok(Exit::Fine)
}

/// Sends the config under the cluster lock. Otherwise a concurrent `up` or `destroy` would use a plan that is based on
/// the old config.
async fn send_locked(
    target: &Target,
    lab_at: Option<&Path>,
    expected: Option<&Expected>,
    apply: &Apply<'_>,
    printer: &Printer,
) -> Result<Applied, CommandError> {
    let locks = lock::take(target, lab_at, printer).await?;
    // The guard makes sure that the lock is released after an interrupt.
    let _guard = interrupt::guard();
    let mut signals = StopSignals::new()?;
    let sent = tokio::select! {
        biased;
        sent = send(target, expected, apply, &locks, printer) => sent,
        () = signals.requested() => Err(interrupted(target)),
    };
    locks.release(printer).await;
    sent
}

fn interrupted(target: &Target) -> CommandError {
    let hint = format!("run {} to see its config", target.command("get", "mc"));
    CommandError::failed(
        CommandCode::Interrupted,
        format!("interrupted: {} may have accepted the config", target.title()),
    )
    .hint(hint)
}

async fn send(
    target: &Target,
    expected: Option<&Expected>,
    apply: &Apply<'_>,
    locks: &RunLocks,
    printer: &Printer,
) -> Result<Applied, CommandError> {
    if let Some(expected) = expected {
        refuse_other_machine(target, expected).await?;
    }
    lock::confirm(locks, printer).await?;
    match target.call_with_retries(async || target.client.apply(apply).await).await {
        Ok(applied) => Ok(applied),
        Err(error) => Err(match apply_outcome::mode_hint(&error, apply.mode, &target.caller) {
            Some(hint) => CommandError::failed(CommandCode::NodeFailed, target.name.clone())
                .because(error)
                .hint(hint),
            None => target.explain(error).await,
        }),
    }
}

/// Returns an error if the config is for another node of the inventory.
fn refuse_others(config: &SecretText, target: &Target) -> Result<(), CommandError> {
    let Some(why) = target.node().and_then(|node| config_target::mismatch(config, node)) else {
        return Ok(());
    };
    let message = format!("the config is not for `{}`: {why}", target.name);
    Err(CommandError::failed(CommandCode::ConfigNotForNode, message).hint(
        "nothing was sent; render the config of this node with `talmox render`, or pass --force to \
         send this file anyway",
    ))
}

/// Returns an error if the machine is not the VM of the node. The check is needed because the config contains keys, and a
/// machine in maintenance mode has no certificate of the cluster.
async fn refuse_other_machine(target: &Target, expected: &Expected) -> Result<(), CommandError> {
    let machine = target.ask(async || Machine::read(&target.client).await).await?;
    match machine.mismatch(expected) {
        None => Ok(()),
        Some(why) => {
            let message =
                format!("{} is not the VM of `{}`: {why}", target.client.node(), target.name);
            Err(CommandError::failed(StepCode::WrongMachine, message).hint(
                "nothing was sent; check which machine has this address. To send the config to it \
                 anyway, pass the address instead of the name",
            ))
        }
    }
}

fn print(
    args: &ApplyArgs,
    target: &Target,
    requested: ApplyMode,
    applied: &Applied,
    printer: &Printer,
) -> Result<(), CommandError> {
    // Since Talos 1.13 the answer may contain the whole config, so the details are printed only on request.
    let details = Some(applied.details.expose()).filter(|_| args.details);
    let outcome = ApplyOutcome { requested, used: applied.mode, is_dry: args.dry_run };
    if printer.format == Format::Json {
        let result = json!({
            "node": target.client.node().to_string(),
            "applied": !args.dry_run,
            "mode": applied.mode.map(name),
            "requested_mode": name(requested),
            "reverts_in": outcome.reverts_in(),
            "warnings": applied.warnings,
            "details": details,
        });
        return printer.result(&format!("{result:#}\n"));
    }
    for warning in &applied.warnings {
        printer.warn(warning);
    }
    if let Some(details) = details {
        printer.result(&format!("{}\n", details.trim_end()))?;
    }
    printer.say(&format!("{} {outcome}", target.title()));
    Ok(())
}
