//! `talmox node apply`

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
use talmox_talos_api::client::{Applied, Apply, ApplyMode};
use talmox_talos_api::{Expected, Machine};
use talmox_talos_config::client::Role;
use talmox_talos_config::secret::SecretText;

use super::super::client::duration;
use super::super::config::config_file;
use super::access::{AccessArgs, Target, Who};
use super::{block_on, intended};
use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;

/// Give a node its machine config
///
/// `talmox node apply FILE --insecure ADDRESS` is for a node in maintenance mode, that is, for its
/// first config. A node that has one takes another only from those it knows. With the name of a node
/// in place of the address, the machine must be the VM of that node, and the config must be for it.
#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    /// The machine config; `-` for stdin
    #[arg(value_name = "FILE")]
    file: String,

    /// The node: a name of the inventory, or an address
    #[arg(value_name = "NODE")]
    node: String,

    /// How to take it over: auto, no-reboot, reboot (up to Talos 1.13), staged (at the next boot) or
    /// try (and back after a while)
    #[arg(long, value_name = "MODE", default_value = "auto", hide_possible_values = true)]
    mode: ModeArg,

    /// With --mode try: when to go back [default: one minute]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    try_for: Option<Duration>,

    /// Only ask what would happen
    #[arg(long)]
    dry_run: bool,

    /// Print what the node answers in detail. There may be keys in it
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

pub(super) fn run(args: &ApplyArgs, global: &Global, printer: &Printer) -> Outcome {
    if args.try_for.is_some() && args.mode != ModeArg::Try {
        return Err(CommandError::usage("--try-for goes with --mode try"));
    }
    let config = SecretText::new(config_file(&args.file)?);
    let target = Target::find(&args.node, &args.access, Role::Admin, global, printer)?;
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
    let applied = block_on(async {
        if let Some(expected) = &expected {
            refuse_stranger(&target, expected).await?;
        }
        let apply = Apply { config: &config, mode, dry_run: args.dry_run };
        match target.client.apply(&apply).await {
            Ok(applied) => Ok(applied),
            Err(error) => Err(target.explain(error).await),
        }
    })?;
    tell(args, &target, &applied, printer)?;
    Ok(Exit::Fine)
}

/// Who names a node means its config, and no other's.
fn refuse_others(config: &SecretText, target: &Target) -> Result<(), CommandError> {
    let Some(why) = target.node().and_then(|node| intended::mismatch(config, node)) else {
        return Ok(());
    };
    let message = format!("the config is not for `{}`: {why}", target.name);
    Err(CommandError::failed(message).hint(
        "nothing was sent; `talmox render` makes the config of every node, and --force sends this \
         one all the same",
    ))
}

/// In maintenance mode nobody proves who it is, and a config has keys in it.
async fn refuse_stranger(target: &Target, expected: &Expected) -> Result<(), CommandError> {
    let machine = match Machine::read(&target.client).await {
        Ok(machine) => machine,
        Err(error) => return Err(target.explain(error).await),
    };
    match machine.mismatch(expected) {
        None => Ok(()),
        Some(why) => {
            let message =
                format!("{} is not the VM of `{}`: {why}", target.client.node(), target.name);
            Err(CommandError::failed(message).hint(
                "nothing was sent to it; find out which machine has the address. Named by its \
                 address, it gets the config whoever it is",
            ))
        }
    }
}

fn tell(
    args: &ApplyArgs,
    target: &Target,
    applied: &Applied,
    printer: &Printer,
) -> Result<(), CommandError> {
    let mode = applied.mode.map(name);
    let details = Some(applied.details.expose()).filter(|_| args.details);
    if printer.format == Format::Json {
        let result = json!({
            "node": target.client.node().to_string(),
            "applied": !args.dry_run,
            "mode": mode,
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
    let title = target.title();
    let mode = mode.map(|mode| format!(" (mode {mode})")).unwrap_or_default();
    printer.say(&if args.dry_run {
        format!("{title} would take it over{mode}; nothing was changed")
    } else {
        format!("{title} took it over{mode}")
    });
    Ok(())
}

fn name(mode: ApplyMode) -> &'static str {
    match mode {
        ApplyMode::Auto => "auto",
        ApplyMode::NoReboot => "no-reboot",
        ApplyMode::Reboot => "reboot",
        ApplyMode::Staged => "staged",
        ApplyMode::Try(_) => "try",
    }
}
