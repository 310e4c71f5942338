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
use super::access::{AccessArgs, Target, Who};
use super::apply_outcome::{self, Outcome, name};
use super::{block_on, intended, lock};
use crate::args::{Format, Global};
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::interrupt::{self, Stops};
use crate::printer::Printer;
use crate::runtime;

/// Send a machine config to a node
///
/// `talmox node apply FILE --insecure ADDRESS` is for a node in maintenance mode, that is, for its
/// first config. A node that has a config accepts another one only from a caller with a certificate
/// of its cluster. With the name of a node in place of the address, the machine must be the VM of
/// that node, and the config must be for it.
///
/// A cluster of the inventory is locked in Proxmox meanwhile, as by `up`. Where it cannot be locked, a warning says why, and the
/// config is sent.
#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    /// The machine config; `-` for stdin
    #[arg(value_name = "FILE")]
    file: String,

    /// The node: a name of the inventory, or an address
    #[arg(value_name = "NODE")]
    node: String,

    /// How to apply it: auto, no-reboot, reboot (up to Talos 1.13), staged (takes effect at the next
    /// boot) or try (reverts after a while)
    #[arg(long, value_name = "MODE", default_value = "auto", hide_possible_values = true)]
    mode: ModeArg,

    /// With --mode try: when the node reverts to the config it has now [default: one minute]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    try_for: Option<Duration>,

    /// Only report what would happen
    #[arg(long)]
    dry_run: bool,

    /// Print the details that the node answers. They may hold private keys
    #[arg(long)]
    details: bool,

    /// Also send a config whose host name or machine type is another than the node's
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

pub(super) fn run(args: &ApplyArgs, global: &Global, printer: &Printer) -> crate::command::Outcome {
    if args.try_for.is_some() && args.mode != ModeArg::Try {
        return Err(CommandError::usage("--try-for goes with --mode try"));
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
    let expected = match &target.who {
        Who::Anybody => target.machine()?,
        Who::Known(..) => None,
    };
    let apply = Apply { config: &config, mode, dry_run: args.dry_run };
    let applied = if args.dry_run {
        block_on(send(&target, expected.as_ref(), &apply))?
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

/// Sends the config while no run of `up` or `destroy` can work on the node's cluster: its plan would be made from a config that
/// the node no longer has.
async fn send_locked(
    target: &Target,
    lab_at: Option<&Path>,
    expected: Option<&Expected>,
    apply: &Apply<'_>,
    printer: &Printer,
) -> Result<Applied, CommandError> {
    let locks = lock::take(target, lab_at, printer).await?;
    // An interrupt must not leave the lock behind.
    let _heed = interrupt::heed();
    let mut stops = Stops::new()?;
    let sent = tokio::select! {
        biased;
        sent = send(target, expected, apply) => sent,
        () = stops.wanted() => Err(interrupted(target)),
    };
    locks.release(printer).await;
    sent
}

fn interrupted(target: &Target) -> CommandError {
    let hint = format!("{} shows its config", target.command("get", "mc"));
    CommandError::failed(
        CommandCode::Interrupted,
        format!("interrupted: {} may have taken the config", target.title()),
    )
    .hint(hint)
}

async fn send(
    target: &Target,
    expected: Option<&Expected>,
    apply: &Apply<'_>,
) -> Result<Applied, CommandError> {
    if let Some(expected) = expected {
        refuse_other_machine(target, expected).await?;
    }
    match target.ask_again(async || target.client.apply(apply).await).await {
        Ok(applied) => Ok(applied),
        Err(error) => Err(match apply_outcome::mode_hint(&error, apply.mode, &target.who) {
            Some(hint) => CommandError::failed(CommandCode::NodeFailed, target.name.clone())
                .because(error)
                .hint(hint),
            None => target.explain(error).await,
        }),
    }
}

/// A node that is named gets its own config, and not another node's.
fn refuse_others(config: &SecretText, target: &Target) -> Result<(), CommandError> {
    let Some(why) = target.node().and_then(|node| intended::mismatch(config, node)) else {
        return Ok(());
    };
    let message = format!("the config is not for `{}`: {why}", target.name);
    Err(CommandError::failed(CommandCode::ConfigNotForNode, message).hint(
        "nothing was sent; `talmox render` makes the config of every node, and --force sends this \
         one all the same",
    ))
}

/// In maintenance mode a machine does not prove which one it is, and a config has keys in it.
async fn refuse_other_machine(target: &Target, expected: &Expected) -> Result<(), CommandError> {
    let machine = target.ask(async || Machine::read(&target.client).await).await?;
    match machine.mismatch(expected) {
        None => Ok(()),
        Some(why) => {
            let message =
                format!("{} is not the VM of `{}`: {why}", target.client.node(), target.name);
            Err(CommandError::failed(StepCode::WrongMachine, message).hint(
                "nothing was sent to it; find out which machine has the address. Named by its \
                 address, it gets the config whoever it is",
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
    // Since 1.13 the node's own text may be the whole config: it is printed on request only.
    let details = Some(applied.details.expose()).filter(|_| args.details);
    let outcome = Outcome { requested, used: applied.mode, is_dry: args.dry_run };
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
