//! Outcome of `talmox node apply`: the mode that the node used, and when the config takes effect.
//!
//! The text of the node's answer is not shown. Since Talos 1.13 the answer may contain the whole config with private
//! keys.

use std::fmt;
use std::time::Duration;

use talmox_talos_api::client::ApplyMode;
use talmox_talos_api::{Code, TalosError};

use super::access::Caller;

/// Time after which Talos reverts a config in the mode `try`, if the request does not set the time.
const TRY_TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, Debug)]
pub(super) struct ApplyOutcome {
    pub(super) requested: ApplyMode,
    /// Mode in the node's answer. `None` for a node in maintenance mode up to Talos 1.12, because its answer has no mode.
    pub(super) used: Option<ApplyMode>,
    pub(super) is_dry: bool,
}

impl ApplyOutcome {
    /// Time until the node reverts to the earlier config, in the duration format of Go.
    pub(super) fn reverts_in(&self) -> Option<String> {
        let Some(ApplyMode::Try(_)) = self.used else { return None };
        let timeout = match self.requested {
            ApplyMode::Try(timeout) => timeout,
            _ => None,
        };
        Some(go_duration(timeout.unwrap_or(TRY_TIMEOUT)))
    }

    /// Text about the effect of the config on the node.
    fn effect(&self) -> String {
        let dry = |would: &str, does: &str| if self.is_dry { would } else { does }.to_owned();
        match (self.used, self.requested) {
            (Some(ApplyMode::NoReboot), _) => dry(
                "would apply the config without a reboot",
                "applied the config without a reboot",
            ),
            (Some(ApplyMode::Reboot), _) => dry(
                "would apply the config and reboot",
                "stored the config and reboots to apply it",
            ),
            (Some(ApplyMode::Staged), _) => dry(
                "would store the config; it would take effect at the next boot",
                "stored the config; it takes effect at the next boot",
            ),
            (Some(ApplyMode::Try(_)), _) => {
                let timeout = self.reverts_in().unwrap_or_default();
                let applied = dry("would apply the config on trial", "applied the config on trial");
                format!("{applied}; it reverts in {timeout} unless it is applied with another mode")
            }
            // The answer of a node in maintenance mode up to Talos 1.12 has no mode. Such a node has no earlier config.
            (None, ApplyMode::Try(_)) => dry(
                "would accept the config; it would not revert, because the node has no earlier config",
                "accepted the config; it does not revert, because the node has no earlier config",
            ),
            (Some(ApplyMode::Auto) | None, _) => {
                dry("would accept the config", "accepted the config")
            }
        }
    }
}

impl fmt::Display for ApplyOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requested = name(self.requested);
        write!(f, "{} (mode {requested}", self.effect())?;
        match self.used.map(name) {
            None => f.write_str("; the node did not report the mode it uses)")?,
            Some(used) if used == requested => f.write_str(")")?,
            Some(used) => write!(f, "; the node uses {used})")?,
        }
        if self.is_dry { f.write_str("; nothing was changed") } else { Ok(()) }
    }
}

/// Hint for a node that rejected the mode and not the config.
pub(super) fn mode_hint(error: &TalosError, mode: ApplyMode, caller: &Caller) -> Option<String> {
    let TalosError::No { code, message, .. } = error else { return None };
    if message.contains("can't be applied in immediate mode") {
        let tried = match mode {
            ApplyMode::Try(_) => "this change needs a reboot and cannot be tried",
            _ => "this change needs a reboot",
        };
        return Some(format!(
            "{tried}: use `--mode auto` or `--mode reboot` to reboot now, or `--mode staged` to apply \
             it at the next boot"
        ));
    }
    if *code != Code::Unimplemented {
        return None;
    }
    match (caller, mode) {
        (Caller::Anonymous, ApplyMode::NoReboot | ApplyMode::Staged) => {
            Some("a node in maintenance mode up to Talos 1.12 does not support this mode: use `--mode auto`".to_owned())
        }
        (Caller::Known(..), ApplyMode::Reboot) => Some(
            "Talos 1.14 has no mode reboot: use `--mode auto`, then reboot the node if the change \
             needs it"
                .to_owned(),
        ),
        _ => None,
    }
}

pub(super) fn name(mode: ApplyMode) -> &'static str {
    match mode {
        ApplyMode::Auto => "auto",
        ApplyMode::NoReboot => "no-reboot",
        ApplyMode::Reboot => "reboot",
        ApplyMode::Staged => "staged",
        ApplyMode::Try(_) => "try",
    }
}

/// Duration in the format of Go, for example `1m0s` or `1h0m5s`.
fn go_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use talmox_talos_api::{Call, node_address};

    use super::*;

    fn outcome_text(requested: ApplyMode, used: Option<ApplyMode>, is_dry: bool) -> String {
        ApplyOutcome { requested, used, is_dry }.to_string()
    }

    #[test]
    fn every_mode_reports_when_the_config_takes_effect() {
        use ApplyMode::{Auto, NoReboot, Reboot, Staged, Try};
        assert_eq!(
            outcome_text(Auto, Some(NoReboot), false),
            "applied the config without a reboot (mode auto; the node uses no-reboot)"
        );
        assert_eq!(
            outcome_text(Auto, Some(Reboot), true),
            "would apply the config and reboot (mode auto; the node uses reboot); nothing was changed"
        );
        assert_eq!(
            outcome_text(Staged, Some(Staged), false),
            "stored the config; it takes effect at the next boot (mode staged)"
        );
        let five = Try(Some(Duration::from_mins(5)));
        assert_eq!(
            outcome_text(five, Some(Try(None)), false),
            "applied the config on trial; it reverts in 5m0s unless it is applied with another mode \
             (mode try)"
        );
        assert!(outcome_text(Try(None), Some(Try(None)), false).contains("reverts in 1m0s unless"));
        // The answer of a node in maintenance mode with Talos 1.12 has no mode. Such a node keeps the config.
        assert_eq!(
            outcome_text(Auto, None, false),
            "accepted the config (mode auto; the node did not report the mode it uses)"
        );
        assert!(outcome_text(Try(None), None, false).contains("does not revert"));
    }

    #[test]
    fn durations_have_the_format_of_go() {
        let written = |seconds| go_duration(Duration::from_secs(seconds));
        assert_eq!([5, 60, 90, 3605].map(written), ["5s", "1m0s", "1m30s", "1h0m5s"]);
    }

    #[test]
    fn a_rejected_mode_names_the_modes_that_work() {
        let no = |code, message: &str| TalosError::No {
            call: Call { operation: "ApplyConfiguration", node: node_address("10.0.0.11") },
            code,
            message: message.to_owned(),
        };
        let immediate =
            no(Code::InvalidArgument, "this config change can't be applied in immediate mode");
        let hint = mode_hint(&immediate, ApplyMode::NoReboot, &Caller::Anonymous).unwrap();
        for mode in ["--mode auto", "--mode reboot", "--mode staged"] {
            assert!(hint.contains(mode), "{hint}");
        }
        let unknown = no(Code::Unimplemented, "not supported in maintenance mode");
        let hint = mode_hint(&unknown, ApplyMode::Staged, &Caller::Anonymous).unwrap();
        assert!(hint.contains("use `--mode auto`"), "{hint}");
        let invalid = no(Code::InvalidArgument, "configuration validation failed");
        assert_eq!(mode_hint(&invalid, ApplyMode::Auto, &Caller::Anonymous), None);
    }
}
