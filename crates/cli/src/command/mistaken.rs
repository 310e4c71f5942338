//! Commands and options of other tools that talmox does not have. The parser would suggest whatever is spelled alike, such as `up`
//! for `upgrade`.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

/// What is said of a subcommand that does not exist.
const SUBCOMMANDS: [(&str, &str); 2] = [
    (
        "upgrade",
        "talmox cannot upgrade clusters yet: upgrade the nodes with `talosctl upgrade`, and set the new versions in the \
         inventory",
    ),
    ("down", "`talmox destroy` stops and deletes the VMs of a cluster"),
];

/// What is said of `--dry-run`, by the command that it was given to.
const DRY_RUNS: [(&str, &str); 2] = [
    ("up", "`talmox plan` shows what `up` would do, and changes nothing"),
    (
        "destroy",
        "`talmox destroy` shows what it would delete, and deletes nothing before its question is answered",
    ),
];

/// The same error, with advice in place of a suggestion that only looks alike.
pub(super) fn explained(mut error: clap::Error) -> clap::Error {
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
    let known = |all: &[(&str, &'static str)], is_it: &dyn Fn(&str) -> bool| {
        all.iter().find(|(name, _)| is_it(name)).map(|(_, advice)| *advice)
    };
    if let Some(given) = text(ContextKind::InvalidSubcommand) {
        return known(&SUBCOMMANDS, &|name| name == given);
    }
    let given = text(ContextKind::InvalidArg)?;
    let usage = text(ContextKind::Usage).unwrap_or_default();
    // `Usage: talmox up [OPTIONS]`
    let is_of = |name: &str| usage.split_whitespace().nth(2) == Some(name);
    (given == "--dry-run").then(|| known(&DRY_RUNS, &is_of)).flatten()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    fn said(line: &str) -> String {
        explained(Cli::try_parse_from(line.split(' ')).unwrap_err()).to_string()
    }

    #[test]
    fn what_other_tools_have_is_not_answered_with_what_is_spelled_alike() {
        for (line, advice) in [
            ("talmox upgrade", "tip: talmox cannot upgrade clusters yet"),
            ("talmox upgrade dev", "tip: talmox cannot upgrade clusters yet"),
            ("talmox down", "tip: `talmox destroy` stops and deletes"),
            ("talmox up --dry-run", "tip: `talmox plan` shows what `up` would do"),
            ("talmox up dev --lab --dry-run", "tip: `talmox plan` shows what `up` would do"),
            ("talmox destroy --dry-run", "tip: `talmox destroy` shows what it would delete"),
        ] {
            let said = said(line);
            assert!(said.contains(advice), "{line}: {said}");
            assert_eq!(said.matches("tip: ").count(), 1, "{line}: {said}");
            assert!(!said.contains("similar"), "{line}: {said}");
        }
    }

    #[test]
    fn real_typos_are_still_corrected() {
        assert!(said("talmox destory").contains("'destroy'"));
        assert!(said("talmox up --kepe").contains("'--keep'"));
    }
}
