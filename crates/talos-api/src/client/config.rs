//! Machine configs, in and out. From Talos 1.13 on the answers hold the config with its keys, so
//! they show nothing of themselves.

use std::fmt;
use std::time::Duration;

use talmox_talos_config::client::Role;
use talmox_talos_config::secret::SecretText;

use super::Client;
use crate::error::TalosError;
use crate::proto::machine::apply_configuration_request::Mode;
use crate::proto::machine::{
    ApplyConfigurationRequest, BootstrapRequest, GenerateClientConfigurationRequest,
    MetaWriteRequest,
};

/// How a machine config is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyMode {
    /// The node chooses. The only mode that every version knows in maintenance mode.
    Auto,
    /// At once, or not at all.
    NoReboot,
    /// Gone since Talos 1.14.
    Reboot,
    /// At the next boot.
    Staged,
    /// At once, and back after a while (a minute, if none is given), unless applied for good.
    Try(Option<Duration>),
}

/// A config to be applied.
#[derive(Clone, Debug)]
pub struct Apply<'a> {
    pub config: &'a SecretText,
    pub mode: ApplyMode,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What came of it. `Debug` shows no text: there may be keys in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Applied {
    /// What the node chose; nothing if it does not say, or says what we do not know.
    pub mode: Option<ApplyMode>,
    /// For the user who wrote the config, and for no log.
    pub warnings: Vec<String>,
    /// For a dry run, the difference or the whole config.
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

/// A talosconfig that a node made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfiguration {
    pub talosconfig: SecretText,
}

impl Client {
    /// Applies a machine config, or tries it.
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
        let applied = self.ask_one("ApplyConfiguration", answer, |all| all.messages).await;
        let applied = applied.map_err(without_config)?;
        // In maintenance, nodes up to 1.12 choose nothing, and send what stands for a reboot as well. Who does
        // reboot always says so.
        let is_told =
            applied.mode != i32::from(Mode::Reboot) || applied.mode_details.contains("reboot");
        let mode = Mode::try_from(applied.mode).ok().filter(|_| is_told).map(ApplyMode::from);
        let details = SecretText::new(applied.mode_details);
        Ok(Applied { mode, warnings: applied.warnings, details })
    }

    /// Makes the first member of etcd, here and only here. Done once it is begun; `AlreadyExists`
    /// says that it was done before.
    pub async fn bootstrap(&self) -> Result<(), TalosError> {
        self.bootstrap_with(BootstrapRequest::default()).await
    }

    /// Makes the first member from the snapshot that was sent with [`Client::etcd_recover`].
    /// The copy of a data file has no checksum to be checked.
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

    /// Lets the node make a talosconfig.
    pub async fn client_configuration(
        &self,
        roles: &[Role],
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
            what: "the talosconfig is no text".to_owned(),
        })?;
        Ok(ClientConfiguration { talosconfig: SecretText::new(text) })
    }
}

/// A refused apply may show parts of the config, keys and all.
fn without_config(error: TalosError) -> TalosError {
    match error {
        TalosError::No { call, code, message } => {
            TalosError::No { call, code, message: without_values(&message) }
        }
        other => other,
    }
}

/// Without the difference between two configs, and without the values of keys that the node does not know: their names
/// are enough.
fn without_values(message: &str) -> String {
    const UNKNOWN: &str = "unknown keys found during decoding:";
    let end = message.to_ascii_lowercase().find("diff:").unwrap_or(message.len());
    let message = message[..end].trim_end();
    let Some(begin) = message.find(UNKNOWN).map(|at| at + UNKNOWN.len()) else {
        return message.to_owned();
    };
    let mut names: Vec<String> = vec![];
    // Lines of a text are deeper than its key.
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
    fn a_refusal_tells_names_and_no_values() {
        let said = "yaml: unknown keys found during decoding:\nmachine:\n    tokn: abc.def\n    \
                    files:\n        - content: |\n            KEY: PRIVATE\n            MORE\n        \
                    - plain\n";
        let told = without_values(said);
        assert!(
            told.starts_with("yaml: unknown keys found during decoding:\nmachine:\n    tokn: …")
        );
        assert!(told.contains("\n    files:\n        - content: …"), "{told}");
        for value in ["abc.def", "KEY", "PRIVATE", "MORE", "plain"] {
            assert!(!told.contains(value), "{value}: {told}");
        }
        let refused = "this config change can't be applied in immediate mode\ndiff: +key: PRIVATE";
        assert_eq!(
            without_values(refused),
            "this config change can't be applied in immediate mode"
        );
        let invalid = "configuration validation failed: 1 error occurred:\n\t* bad: 7\n";
        assert_eq!(without_values(invalid), invalid.trim_end());
    }
}
