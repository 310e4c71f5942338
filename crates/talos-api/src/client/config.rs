//! Applying and reading machine configs. From Talos 1.13 on, the answers contain the config with its keys. Therefore
//! `Debug` hides the answers.

use std::fmt;
use std::time::Duration;

use talmox_talos_config::client::ClientRole;
use talmox_talos_config::secret::SecretText;

use super::Client;
use crate::error::{DRY_RUN, TalosError};
use crate::proto::machine::apply_configuration_request::Mode;
use crate::proto::machine::{
    ApplyConfigurationRequest, BootstrapRequest, GenerateClientConfigurationRequest,
    MetaWriteRequest,
};

/// Mode of applying a machine config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyMode {
    /// The node chooses the mode. This is the only mode that every Talos version accepts for a node in maintenance
    /// mode.
    Auto,
    /// The config is applied without a reboot. The node rejects a config that requires a reboot.
    NoReboot,
    /// The config is applied with a reboot. Talos 1.14 removed this mode.
    Reboot,
    /// The config is applied at the next boot.
    Staged,
    /// The config is applied immediately, and reverted after this time (default: a minute) unless it is applied
    /// permanently before.
    Try(Option<Duration>),
}

/// Config to apply.
#[derive(Clone, Debug)]
pub struct Apply<'a> {
    pub config: &'a SecretText,
    pub mode: ApplyMode,
    /// Whether the node only reports the changes and does not apply them.
    pub dry_run: bool,
}

/// Result of applying a config. `Debug` hides the texts, because they may contain keys.
#[derive(Clone, PartialEq, Eq)]
pub struct Applied {
    /// Mode that the node chose; `None` if the node reports no mode or an unknown mode.
    pub mode: Option<ApplyMode>,
    /// Warnings for the author of the config. They are never logged.
    pub warnings: Vec<String>,
    /// Details of the result. For a dry run: the diff or the whole config.
    pub details: SecretText,
}

impl fmt::Debug for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applied")
            .field("mode", &self.mode)
            .field("warnings", &self.warnings.len())
            .field("details", &self.details)
            .finish()
    }
}

/// talosconfig that a node generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfiguration {
    pub talosconfig: SecretText,
}

impl Client {
    /// Applies a machine config, or performs a dry run.
    pub async fn apply(&self, apply: &Apply<'_>) -> Result<Applied, TalosError> {
        let timeout = match apply.mode {
            ApplyMode::Try(Some(timeout)) => prost_types::Duration::try_from(timeout).ok(),
            _ => None,
        };
        let request = ApplyConfigurationRequest {
            data: apply.config.expose().as_bytes().to_vec(),
            mode: Mode::from(apply.mode).into(),
            dry_run: apply.dry_run,
            try_mode_timeout: timeout,
        };
        let mut machine = self.machine();
        let answer = machine.apply_configuration(request);
        let operation = if apply.dry_run { DRY_RUN } else { "ApplyConfiguration" };
        let applied = self.ask_one(operation, answer, |all| all.messages).await;
        let applied = applied.map_err(without_config)?;
        // In maintenance mode, nodes up to 1.12 report no mode but send the value of `REBOOT`. A node that really
        // reboots always mentions the reboot in the details.
        let is_told =
            applied.mode != i32::from(Mode::Reboot) || applied.mode_details.contains("reboot");
        let mode = Mode::try_from(applied.mode).ok().filter(|_| is_told).map(ApplyMode::from);
        let details = SecretText::new(applied.mode_details);
        Ok(Applied { mode, warnings: applied.warnings, details })
    }

    /// Bootstraps etcd on this node, and returns when the bootstrap has started. Must be called on one node only. The
    /// error `AlreadyExists` means that etcd already has data.
    pub async fn bootstrap(&self) -> Result<(), TalosError> {
        self.bootstrap_with(BootstrapRequest::default()).await
    }

    /// Bootstraps etcd from the snapshot that was sent with [`Client::etcd_recover`]. Set `skip_check` for a copy of
    /// the database file, because such a copy has no checksum.
    pub async fn bootstrap_from_snapshot(&self, skip_check: bool) -> Result<(), TalosError> {
        let request = BootstrapRequest { recover_etcd: true, recover_skip_hash_check: skip_check };
        self.bootstrap_with(request).await
    }

    async fn bootstrap_with(&self, request: BootstrapRequest) -> Result<(), TalosError> {
        let mut machine = self.machine();
        self.ask("Bootstrap", machine.bootstrap(request)).await.map(|_| ())
    }

    /// Writes a key of the META partition.
    pub async fn meta_write(&self, key: u8, value: &SecretText) -> Result<(), TalosError> {
        let mut machine = self.machine();
        let value = value.expose().as_bytes().to_vec();
        let request = MetaWriteRequest { key: key.into(), value };
        self.ask("MetaWrite", machine.meta_write(request)).await.map(|_| ())
    }

    /// Requests a talosconfig that the node generates.
    pub async fn client_configuration(
        &self,
        roles: &[ClientRole],
        ttl: Duration,
    ) -> Result<ClientConfiguration, TalosError> {
        let request = GenerateClientConfigurationRequest {
            roles: roles.iter().map(ToString::to_string).collect(),
            crt_ttl: prost_types::Duration::try_from(ttl).ok(),
        };
        let operation = "GenerateClientConfiguration";
        let mut machine = self.machine();
        let answer = machine.generate_client_configuration(request);
        let made = self.ask_one(operation, answer, |all| all.messages).await?;
        let text = String::from_utf8(made.talosconfig).map_err(|_| TalosError::Unreadable {
            call: self.call(operation),
            what: "the talosconfig is not UTF-8 text".to_owned(),
        })?;
        Ok(ClientConfiguration { talosconfig: SecretText::new(text) })
    }
}

/// Removes quoted parts of the config, which may contain keys, from the error of a rejected apply.
fn without_config(error: TalosError) -> TalosError {
    match error {
        TalosError::No { call, code, message } => {
            TalosError::No { call, code, message: without_values(&message) }
        }
        other => other,
    }
}

/// Removes the diff of two configs and the values of unknown keys. The names of the keys are kept.
fn without_values(message: &str) -> String {
    const UNKNOWN: &str = "unknown keys found during decoding:";
    let end = message.to_ascii_lowercase().find("diff:").unwrap_or(message.len());
    let message = message[..end].trim_end();
    let Some(begin) = message.find(UNKNOWN).map(|at| at + UNKNOWN.len()) else {
        return message.to_owned();
    };
    let mut names: Vec<String> = vec![];
    // Indentation of the key whose block text is skipped: the lines of the block text are indented deeper than the key.
    let mut text_of = usize::MAX;
    for line in message[begin..].lines() {
        let depth = line.len() - line.trim_start().len();
        if depth > text_of {
            continue;
        }
        text_of = usize::MAX;
        match line.split_once(": ") {
            Some((name, value)) => {
                names.push(format!("{name}: …"));
                if value.starts_with(['|', '>']) {
                    text_of = depth;
                }
            }
            None if line.ends_with(':') => names.push(line.to_owned()),
            None => {}
        }
    }
    let known = &message[..begin];
    if names.is_empty() { known.to_owned() } else { format!("{known}\n{}", names.join("\n")) }
}

impl From<ApplyMode> for Mode {
    fn from(mode: ApplyMode) -> Self {
        match mode {
            ApplyMode::Auto => Self::Auto,
            ApplyMode::NoReboot => Self::NoReboot,
            ApplyMode::Reboot => Self::Reboot,
            ApplyMode::Staged => Self::Staged,
            ApplyMode::Try(_) => Self::Try,
        }
    }
}

impl From<Mode> for ApplyMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Auto => Self::Auto,
            Mode::NoReboot => Self::NoReboot,
            Mode::Reboot => Self::Reboot,
            Mode::Staged => Self::Staged,
            Mode::Try => Self::Try(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_apply_shows_names_and_no_values() {
        let said = "yaml: unknown keys found during decoding:\nmachine:\n    tokn: abc.def\n    \
                    files:\n        - content: |\n            KEY: PRIVATE\n            MORE\n        \
                    - plain\n";
        let shown = without_values(said);
        assert!(
            shown.starts_with("yaml: unknown keys found during decoding:\nmachine:\n    tokn: …")
        );
        assert!(shown.contains("\n    files:\n        - content: …"), "{shown}");
        for value in ["abc.def", "KEY", "PRIVATE", "MORE", "plain"] {
            assert!(!shown.contains(value), "{value}: {shown}");
        }
        let rejected = "this config change can't be applied in immediate mode\ndiff: +key: PRIVATE";
        assert_eq!(
            without_values(rejected),
            "this config change can't be applied in immediate mode"
        );
        let invalid = "configuration validation failed: 1 error occurred:\n\t* bad: 7\n";
        assert_eq!(without_values(invalid), invalid.trim_end());
    }
}
