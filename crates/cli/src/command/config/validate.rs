//! `talmox config validate`

use clap::{ArgAction, Args, ValueEnum};
use serde_json::{Value as Json, json};
use talmox_talos_config::Config;
use talmox_talos_config::contract::Contract;
use talmox_talos_config::lint::{Lint, lint, lint_kinds};
use talmox_talos_config::validate::{Mode, Stage, Verdict, validate_config, validate_strictly};

use super::{config_file, contract, release, say_lints};
use crate::args::Format;
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;

/// Validate machine configs
///
/// Accepts the arguments of `talosctl validate` and prints the same result. Additional `lint:` lines report settings
/// that Talos accepts but that do not work.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Machine config; `-` for stdin
    #[arg(long = "config", short, value_name = "FILE")]
    configs: Vec<String>,

    /// Additional machine configs
    #[arg(value_name = "FILE", required_unless_present = "configs")]
    files: Vec<String>,

    /// Kind of machine: metal, cloud (any hypervisor, also nocloud) or container
    #[arg(long, short, value_name = "MODE", hide_possible_values = true)]
    mode: ModeName,

    /// Treat warnings as errors
    #[arg(long, num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    #[arg(value_name = "BOOL", default_value = "false", default_missing_value = "true")]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    strict: bool,

    /// Talos version that reads the config [default: v1.13]
    #[arg(long, value_name = "VERSION")]
    talos_version: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeName {
    Metal,
    Cloud,
    Container,
}

impl ModeName {
    fn name(self) -> &'static str {
        match self {
            Self::Metal => "metal",
            Self::Cloud => "cloud",
            Self::Container => "container",
        }
    }

    fn mode(self) -> Mode {
        match self {
            Self::Metal => Mode::Metal,
            Self::Cloud => Mode::Cloud,
            Self::Container => Mode::Container,
        }
    }
}

/// Validation result of one file.
struct ValidatedFile<'a> {
    file: &'a str,
    verdict: Verdict,
    lints: Vec<Lint>,
}

pub(super) fn run(args: &ValidateArgs, printer: &Printer) -> Outcome {
    let contract = args.talos_version.as_deref().map(contract).transpose()?;
    let mut validated = vec![];
    for file in args.configs.iter().chain(&args.files) {
        let text = config_file(file)?;
        validated.push(validate_file(file, &text, args, contract));
    }
    let is_valid = validated.iter().all(|validated| validated.verdict.is_valid());
    match printer.format {
        Format::Json => {
            let files: Vec<Json> =
                validated.iter().map(|validated| to_json(validated, args.mode)).collect();
            printer.result(&format!("{:#}\n", json!({ "ok": is_valid, "files": files })))?;
        }
        Format::Text => {
            for one in &validated {
                say(one, args.mode, validated.len() > 1, printer)?;
            }
        }
    }
    Ok(if is_valid { Exit::Fine } else { Exit::Failed })
}

fn validate_file<'a>(
    file: &'a str,
    text: &str,
    args: &ValidateArgs,
    contract: Option<Contract>,
) -> ValidatedFile<'a> {
    let mode = args.mode.mode();
    let config = match Config::parse(text, release(contract)) {
        Ok(config) => config,
        Err(error) => {
            let error = Some(error.to_string());
            let verdict = Verdict { stage: Stage::Decode, warnings: vec![], error };
            let lints = contract.map(|contract| lint_kinds(text, contract)).unwrap_or_default();
            return ValidatedFile { file, verdict, lints };
        }
    };
    let verdict =
        if args.strict { validate_strictly(&config, mode) } else { validate_config(&config, mode) };
    ValidatedFile { file, verdict, lints: lint(&config) }
}

/// Prints the verdict to stdout like talosctl, and warnings and lints to stderr.
fn say(
    validated: &ValidatedFile<'_>,
    mode: ModeName,
    is_one_of_many: bool,
    printer: &Printer,
) -> Result<(), CommandError> {
    let (file, mode) = (validated.file, mode.name());
    let place = if is_one_of_many { format!("{file}: ") } else { String::new() };
    for warning in &validated.verdict.warnings {
        printer.say(&format!("{} {place}{warning}", printer.paint("warning:", "1;33")));
    }
    match &validated.verdict.error {
        None => printer.result(&format!("{file} is valid for {mode} mode\n"))?,
        Some(error) => {
            let message = format!("{file} is not valid for {mode} mode: {}", error.trim_end());
            printer.say_error(CommandCode::ConfigInvalid, &message);
        }
    }
    say_lints(&validated.lints, printer);
    Ok(())
}

fn to_json(validated: &ValidatedFile<'_>, mode: ModeName) -> Json {
    let Verdict { stage, warnings, error } = &validated.verdict;
    let lints: Vec<Json> = validated
        .lints
        .iter()
        .map(|lint| json!({ "path": lint.path, "message": lint.message }))
        .collect();
    json!({
        "file": validated.file,
        "mode": mode.name(),
        "valid": error.is_none(),
        "stage": match stage {
            Stage::Decode => "decode",
            Stage::Validate => "validate",
        },
        "error": error.as_deref().map(str::trim_end),
        "warnings": warnings,
        "lints": lints,
    })
}
