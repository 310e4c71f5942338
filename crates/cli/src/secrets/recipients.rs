//! Selection of the age recipients of a secrets file.

use std::fs;
use std::path::{Path, PathBuf};

use talmox_talos_config::age::{self, Recipient};
use talmox_talos_config::sops::Settings;
use talmox_talos_config::sops::creation_rules::{CreationRule, creation_rule_for};
use talmox_yaml::Node;

use super::keys::{self, Keyring};
use crate::boundary;
use crate::command_code::CommandCode;
use crate::disk;
use crate::environment;
use crate::error::CommandError;
use crate::printer::Printer;

const RECIPIENTS: &str = "SOPS_AGE_RECIPIENTS";
const CONFIG: &str = "SOPS_CONFIG";

/// Recipients of a secrets file, with the encryption settings of sops.
#[derive(Debug)]
pub(crate) struct RecipientSet {
    pub(crate) recipients: Vec<Recipient>,
    pub(crate) settings: Settings,
    /// Source of the recipients, for messages.
    pub(crate) origin: String,
}

/// Recipients of a new file. The first source with recipients is used: `--recipient`, `.sops.yaml`,
/// `SOPS_AGE_RECIPIENTS`, the age keys of the user. Without any of these, an age key is created.
pub(crate) fn for_new_file(
    path: &Path,
    given: &[Recipient],
    keyring: &Keyring,
    printer: &Printer,
) -> Result<RecipientSet, CommandError> {
    if let Some(recipient_set) = named(path, given, printer)? {
        return Ok(recipient_set);
    }
    let settings = Settings::default();
    if let Some(text) = environment::variable(RECIPIENTS) {
        let recipients = age::parse_recipients(&text);
        let recipients = recipients.map_err(|error| {
            CommandError::failed(CommandCode::RecipientsInvalid, format!("cannot use {RECIPIENTS}"))
                .because(error)
        })?;
        if !recipients.is_empty() {
            return Ok(RecipientSet { recipients, settings, origin: RECIPIENTS.to_owned() });
        }
    }
    let own = keyring.recipients();
    if !own.is_empty() {
        return Ok(RecipientSet { recipients: own, settings, origin: "your age key".to_owned() });
    }
    let (recipient, key_file) = keys::make()?;
    printer.say(&format!("created an age key: {}", key_file.display()));
    printer.warn("back up this age key: without it the secrets cannot be decrypted");
    Ok(RecipientSet {
        recipients: vec![recipient],
        settings,
        origin: "your new age key".to_owned(),
    })
}

/// Recipients from `--recipient`, or else from the matching rule of `.sops.yaml`. `None` if neither exists.
pub(crate) fn named(
    path: &Path,
    given: &[Recipient],
    printer: &Printer,
) -> Result<Option<RecipientSet>, CommandError> {
    if !given.is_empty() {
        let mut recipients = given.to_vec();
        recipients.dedup();
        let (settings, origin) = (Settings::default(), "--recipient".to_owned());
        return Ok(Some(RecipientSet { recipients, settings, origin }));
    }
    let Some(config) = find_config(path) else {
        return Ok(None);
    };
    let shown = config.display().to_string();
    let text = disk::read_secret(&config)?.unwrap_or_default();
    let rule = creation_rule_for(text.expose(), &relative(path, &config)).map_err(|error| {
        CommandError::failed(CommandCode::RecipientsInvalid, format!("cannot use {shown}"))
            .because(error)
    })?;
    let Some(rule) = rule else {
        if !has_rules(text.expose()) {
            return Ok(None);
        }
        let message = format!("no creation rule of {shown} matches {}", path.display());
        return Err(CommandError::failed(CommandCode::RecipientsInvalid, message)
            .hint("add a rule with a matching path_regex, or pass --recipient"));
    };
    from_rule(rule, shown, printer).map(Some)
}

fn from_rule(
    rule: CreationRule,
    file: String,
    printer: &Printer,
) -> Result<RecipientSet, CommandError> {
    let foreign = rule.foreign.join(", ");
    if rule.recipients.is_empty() {
        let message = format!("the creation rule of {file} has no age recipient");
        let error = CommandError::failed(CommandCode::RecipientsInvalid, message);
        return Err(error.hint("add `age: age1…` to the rule, or pass --recipient"));
    }
    if !foreign.is_empty() {
        printer.warn(&format!(
            "{file} also names {foreign}; only the age recipients are used. Run `sops updatekeys` to add the others"
        ));
    }
    Ok(RecipientSet { recipients: rule.recipients, settings: rule.settings, origin: file })
}

/// Path of the `.sops.yaml` that the environment names, or that is in the folder of the file or in a parent folder.
fn find_config(path: &Path) -> Option<PathBuf> {
    if let Some(config) = environment::path(CONFIG) {
        return Some(config);
    }
    let start = absolute(path);
    let found = start.ancestors().skip(1).map(|folder| folder.join(".sops.yaml"));
    // A `.sops.yaml` of another user, for example in `/tmp`, is ignored, because it could add that user to the
    // recipients.
    found.into_iter().find(|config| config.is_file() && !boundary::is_planted(config))
}

/// Path relative to the folder of `.sops.yaml`. The creation rules match this path.
fn relative(path: &Path, config: &Path) -> String {
    let path = absolute(path);
    let config = fs::canonicalize(config).unwrap_or_else(|_| config.to_owned());
    let below = config.parent().and_then(|folder| path.strip_prefix(folder).ok());
    below.unwrap_or(&path).to_string_lossy().into_owned()
}

/// Absolute path of a file that may not exist, without symbolic links.
fn absolute(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::canonicalize(folder.unwrap_or(Path::new(".")));
    match (folder, path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

fn has_rules(text: &str) -> bool {
    let documents = talmox_yaml::read(text).unwrap_or_default();
    let root = documents.first().and_then(Node::as_map);
    let rules = root.and_then(|map| map.get("creation_rules")).and_then(Node::as_seq);
    rules.is_some_and(|rules| !rules.items.is_empty())
}
