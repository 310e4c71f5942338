//! Advice for commands and options of other tools that talmox does not have. Without this advice, the parser suggests a
//! similar spelling, such as `up` for `upgrade`.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

/// Advice for unknown subcommands.
const SUBCOMMANDS: [(&str, &str); 7] = [
    (
        "upgrade",
        "talmox cannot upgrade clusters yet: upgrade the nodes as the Talos documentation describes, and set the new \
         versions in the inventory",
    ),
    ("down", DESTROY),
    ("delete", DESTROY),
    ("teardown", DESTROY),
    (
        "remove",
        "`talmox destroy` deletes a cluster; to remove a node, delete it from the inventory and run `talmox up`",
    ),
    (
        "create",
        "`talmox up` creates the cluster of an inventory; `talmox init` writes an inventory",
    ),
    (
        "apply",
        "`talmox up` creates or updates a cluster; `talmox node apply` sends a machine config to a node",
    ),
];

const DESTROY: &str = "`talmox destroy` stops and deletes the VMs of a cluster";

/// Advice for `--dry-run`, by command. The empty name stands for no command.
const DRY_RUNS: [(&str, &str); 4] = [
    ("", DRY_RUN),
    ("up", DRY_RUN),
    ("plan", "`talmox plan` never changes anything: omit --dry-run"),
    (
        "destroy",
        "`talmox destroy` shows what it would delete, and deletes nothing before its question is answered",
    ),
];

const DRY_RUN: &str = "`talmox plan` shows what `up` would do, and changes nothing";

/// Replaces the suggestion of the parser by advice, if there is advice for the unknown command or option.
pub(super) fn with_advice(mut error: clap::Error) -> clap::Error {
    let Some(advice) = advice(&error) else { return error };
    for kind in
        [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedCommand]
    {
        error.remove(kind);
    }
    let advice = vec![StyledStr::from(advice)];
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(advice));
    error
}

fn advice(error: &clap::Error) -> Option<&'static str> {
    let text = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::StyledStr(text)) => Some(text.to_string()),
        _ => None,
    };
    let known = |all: &[(&str, &'static str)], wanted: &str| {
        all.iter().find(|(name, _)| *name == wanted).map(|(_, advice)| *advice)
    };
    let usage = text(ContextKind::Usage).unwrap_or_default();
    // The third word of the usage text is the command, as in `Usage: talmox up [OPTIONS]`. Without a command, it is a
    // placeholder, as in `Usage: talmox [OPTIONS] <COMMAND>`.
    let word = usage.split_whitespace().nth(2).unwrap_or_default();
    let command = if word.starts_with(['[', '<']) { "" } else { word };
    if let Some(given) = text(ContextKind::InvalidSubcommand) {
        // `talmox node remove` is not about a cluster.
        return if command.is_empty() { known(&SUBCOMMANDS, &given) } else { None };
    }
    let given = text(ContextKind::InvalidArg)?;
    if given == "--dry-run" { known(&DRY_RUNS, command) } else { None }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    fn error_text(line: &str) -> String {
        with_advice(Cli::try_parse_from(line.split(' ')).unwrap_err()).to_string()
    }

    #[test]
    fn commands_of_other_tools_get_advice_instead_of_a_similar_name() {
        for (line, advice) in [
            ("talmox upgrade", "tip: talmox cannot upgrade clusters yet"),
            ("talmox upgrade dev", "tip: talmox cannot upgrade clusters yet"),
            ("talmox down", "tip: `talmox destroy` stops and deletes"),
            ("talmox delete dev", "tip: `talmox destroy` stops and deletes"),
            ("talmox teardown", "tip: `talmox destroy` stops and deletes"),
            ("talmox remove dev", "tip: `talmox destroy` deletes a cluster; to remove a node"),
            ("talmox create", "tip: `talmox up` creates the cluster"),
            ("talmox apply dev", "tip: `talmox up` creates or updates"),
            ("talmox --dry-run", "tip: `talmox plan` shows what `up` would do"),
            ("talmox plan dev --dry-run", "tip: `talmox plan` never changes anything"),
            ("talmox up --dry-run", "tip: `talmox plan` shows what `up` would do"),
            ("talmox up dev --lab --dry-run", "tip: `talmox plan` shows what `up` would do"),
            ("talmox destroy --dry-run", "tip: `talmox destroy` shows what it would delete"),
        ] {
            let error_text = error_text(line);
            assert!(error_text.contains(advice), "{line}: {error_text}");
            assert_eq!(error_text.matches("tip: ").count(), 1, "{line}: {error_text}");
            assert!(!error_text.contains("similar"), "{line}: {error_text}");
        }
    }

    #[test]
    fn subcommands_of_other_commands_get_no_advice_about_clusters() {
        let error_text = error_text("talmox node remove wk-1");
        assert!(!error_text.contains("talmox destroy"), "{error_text}");
    }

    #[test]
    fn typos_still_get_a_suggestion() {
        assert!(error_text("talmox destory").contains("'destroy'"));
        assert!(error_text("talmox up --kepe").contains("'--keep'"));
    }
}
