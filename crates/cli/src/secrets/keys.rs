//! Age keys of the user, read from the same places as sops.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use talmox_talos_config::age::{self, AgeError, Identity, Recipient};
use talmox_talos_config::secret::SecretText;

use crate::command_code::CommandCode;
use crate::disk::{self, Before};
use crate::environment;
use crate::error::CommandError;
use crate::words;

const KEY: &str = "SOPS_AGE_KEY";
const KEY_FILE: &str = "SOPS_AGE_KEY_FILE";
const KEY_COMMAND: &str = "SOPS_AGE_KEY_CMD";

/// Age keys that are available to the user.
#[derive(Debug, Default)]
pub(crate) struct Keyring {
    pub(crate) identities: Vec<Identity>,
    /// Places that were searched, for messages.
    looked: Vec<String>,
    /// Keys of an unsupported kind, for messages.
    unusable: Vec<String>,
}

impl Keyring {
    /// Reads the keys from all places that sops reads.
    pub(crate) fn find() -> Result<Self, CommandError> {
        let mut keyring = Self::default();
        if let Some(text) = environment::variable(KEY) {
            keyring.add(&SecretText::new(text), KEY)?;
        }
        if let Some(path) = environment::path(KEY_FILE) {
            let text = disk::read_secret(&path)?.ok_or_else(|| {
                let message =
                    format!("{KEY_FILE} names the file {}, which does not exist", path.display());
                CommandError::failed(CommandCode::AgeKeyMissing, message)
                    .hint("correct or unset the variable")
            })?;
            keyring.add(&text, &path.display().to_string())?;
        }
        if let Some(command) = environment::variable(KEY_COMMAND) {
            keyring.add(&run(&command)?, KEY_COMMAND)?;
        }
        if let Some(path) = default_key_file() {
            match disk::read_secret(&path)? {
                Some(text) => keyring.add(&text, &path.display().to_string())?,
                None => keyring.looked.push(format!("{} (missing)", path.display())),
            }
        }
        Ok(keyring)
    }

    pub(crate) fn recipients(&self) -> Vec<Recipient> {
        let mut recipients: Vec<Recipient> = vec![];
        for identity in &self.identities {
            let recipient = identity.recipient();
            if !recipients.contains(&recipient) {
                recipients.push(recipient);
            }
        }
        recipients
    }

    /// Whether one of the keys can decrypt a file that is encrypted for these recipients.
    pub(crate) fn opens_any(&self, recipients: &[Recipient]) -> bool {
        self.recipients().iter().any(|own| recipients.contains(own))
    }

    /// Hint for an error that no key can decrypt a file.
    pub(crate) fn hint(&self) -> String {
        let mut text = format!("looked for age keys in {}", self.looked.join(", "));
        if !self.unusable.is_empty() {
            text.push_str(&format!("; cannot use {}", self.unusable.join(", ")));
        }
        text.push_str(&format!("; {KEY_FILE} may name another file"));
        text
    }

    /// Adds the keys in a text, one key per line. Keys of an unsupported kind are skipped.
    fn add(&mut self, text: &SecretText, origin: &str) -> Result<(), CommandError> {
        self.looked.push(origin.to_owned());
        for (index, line) in text.expose().lines().enumerate() {
            match age::parse_identities(line) {
                Ok(identities) => self.identities.extend(identities),
                Err(AgeError::UnsupportedIdentity { kind, .. }) => {
                    self.unusable.push(format!("{kind} ({origin}, line {})", index + 1));
                    if line.trim_start().starts_with("-----BEGIN") {
                        break;
                    }
                }
                Err(_) => {
                    let message = format!("line {} of {origin} is not an age key", index + 1);
                    return Err(CommandError::failed(CommandCode::AgeKeyMissing, message)
                        .hint("keys look like AGE-SECRET-KEY-1…; comments start with #"));
                }
            }
        }
        Ok(())
    }
}

/// Creates an age key in the default key file of sops.
pub(crate) fn make() -> Result<(Recipient, PathBuf), CommandError> {
    let path = default_key_file().ok_or_else(|| {
        CommandError::failed(
            CommandCode::AgeKeyMissing,
            "there is no age key, and no home folder to create one in",
        )
        .hint(format!("set {KEY_FILE}, or HOME"))
    })?;
    let identity = Identity::generate(&mut environment::Kernel);
    let text = identity.to_key_file(environment::now());
    if path.exists() {
        let message = format!("{} has no usable age key", path.display());
        return Err(CommandError::failed(CommandCode::AgeKeyMissing, message)
            .hint("add one: `age-keygen >> FILE`"));
    }
    disk::write_private(&path, text.expose(), Before::Absent)?;
    Ok((identity.recipient(), path))
}

fn default_key_file() -> Option<PathBuf> {
    Some(environment::config_folder()?.join(Path::new("sops/age/keys.txt")))
}

fn run(command: &str) -> Result<SecretText, CommandError> {
    let failed = |what: &str| {
        CommandError::failed(
            CommandCode::SecretCommandFailed,
            format!("the command of {KEY_COMMAND} {what}"),
        )
    };
    let words = words::split(command).ok_or_else(|| failed("cannot be parsed"))?;
    let output = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed("cannot be run").because(error))?;
    let text = SecretText::new(String::from_utf8(output.stdout).unwrap_or_default());
    if output.status.success() {
        Ok(text)
    } else {
        Err(failed(&format!("failed ({})", output.status)))
    }
}
