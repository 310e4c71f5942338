//! Search for the patch that causes Talos to reject a config.

use talmox_model::Span;
use talmox_talos_config::Config;
use talmox_talos_config::patch::{Patch, apply_to};
use talmox_talos_config::validate::{Mode, validate_config};

use crate::desired::error::Problem;

/// Applies the patches one by one. Returns each problem of the final config, with the patch after which the problem appeared.
pub(super) fn trace<'a>(
    unpatched: Config,
    patches: impl Iterator<Item = (Span, &'a Patch)>,
    mode: Mode,
) -> Vec<Problem> {
    let mut config = unpatched;
    let mut known: Vec<Problem> = messages(&config, mode)
        .into_iter()
        .map(|message| Problem { message, patch: None })
        .collect();
    for (span, patch) in patches {
        let Ok(next) = apply_to(&config, std::slice::from_ref(patch)) else { break };
        config = next;
        let blamed = |message: String| {
            let before = known.iter().find(|problem| problem.message == message);
            let patch = before.map_or(Some(span), |problem| problem.patch);
            Problem { message, patch }
        };
        known = messages(&config, mode).into_iter().map(blamed).collect();
    }
    known
}

/// The problems that the validator reports, one by one. The validator returns them as a text with nested lists.
fn messages(config: &Config, mode: Mode) -> Vec<String> {
    let text = validate_config(config, mode).error.unwrap_or_default();
    let lines = text.lines().map(|line| line.trim().trim_start_matches("* "));
    let lines = lines.filter(|line| !line.is_empty() && !line.ends_with(" occurred:"));
    lines.map(str::to_owned).collect()
}
