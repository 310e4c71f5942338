//! Resolution of secret references in the inventory (`{env: …}`, `{secret: …}`, `{command: …}`).

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

use talmox_model::value::{ChartValues, SecretCommand, SecretRef};
use talmox_model::{Cluster, Span, Spanned};
use talmox_talos_config::secret::SecretText;

use crate::choose::Chosen;
use crate::command_code::CommandCode;
use crate::command_consent::{self, ConsentMode};
use crate::environment;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::secrets::SecretsFile;

/// Environment variable that overrides `tailscale.auth_key`.
const AUTH_KEY: &str = "HEADSCALE_AUTH_KEY";

/// Resolver for the secret references of one cluster.
pub(crate) struct Resolver<'a> {
    chosen: &'a Chosen,
    printer: &'a Printer,
    /// Whether talmox may ask the user for consent to a command.
    consent: ConsentMode,
    /// Secrets file. It is opened at the first `{secret: …}` reference, so that an inventory without such references
    /// needs no age key.
    file: OnceCell<Option<SecretsFile>>,
    found: RefCell<Vec<(SecretRef, SecretText)>>,
    overriding_auth_key: OnceCell<Option<SecretText>>,
}

/// Secret reference, and the setting that contains the reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference<'a> {
    pub(crate) setting: Name<'a>,
    pub(crate) secret: &'a Spanned<SecretRef>,
}

/// Name of a setting in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name<'a> {
    Cluster(&'static str),
    Registry {
        node: &'a str,
        registry: &'a str,
    },
    User {
        node: &'a str,
        user: &'a str,
    },
    /// Values of the chart of an add-on.
    Values {
        addon: &'a str,
    },
}

impl std::fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cluster(setting) => f.write_str(setting),
            Self::Registry { node, registry } => {
                write!(f, "the password for {registry} of {node}")
            }
            Self::User { node, user } => write!(f, "the password of {user} on {node}"),
            Self::Values { addon } => write!(f, "a value of the add-on {addon}"),
        }
    }
}

const TAILSCALE: Name<'static> = Name::Cluster("tailscale.auth_key");

impl<'a> Resolver<'a> {
    pub(crate) fn new(chosen: &'a Chosen, printer: &'a Printer) -> Self {
        Self {
            chosen,
            printer,
            consent: ConsentMode::AskOnce,
            file: OnceCell::new(),
            found: RefCell::default(),
            overriding_auth_key: OnceCell::new(),
        }
    }

    /// Resolver for a lab. It runs no command without stored consent.
    pub(crate) fn for_lab(chosen: &'a Chosen, printer: &'a Printer) -> Self {
        Self { consent: ConsentMode::NeverAsk, ..Self::new(chosen, printer) }
    }

    /// Resolves the secret of a setting. `HEADSCALE_AUTH_KEY` overrides `tailscale.auth_key`.
    pub(crate) fn resolve(&self, reference: Reference<'_>) -> Result<SecretText, CommandError> {
        if reference.setting == TAILSCALE
            && let Some(key) = self.overriding_auth_key()
        {
            return Ok(key);
        }
        let known = |(secret, _): &&(SecretRef, SecretText)| *secret == reference.secret.value;
        if let Some((_, text)) = self.found.borrow().iter().find(known) {
            return Ok(text.clone());
        }
        let text = self.look_up(reference)?;
        self.found.borrow_mut().push((reference.secret.value.clone(), text.clone()));
        Ok(text)
    }

    /// Resolves the secrets for the machine configs. The key is the position of the reference in the inventory.
    pub(crate) fn by_place(
        &self,
        wanted: &[&Spanned<SecretRef>],
    ) -> Result<BTreeMap<Span, SecretText>, CommandError> {
        let known = all(self.chosen);
        let named = known.iter().filter(|found| wanted.iter().any(|w| w.span == found.secret.span));
        named.map(|found| Ok((found.secret.span, self.resolve(*found)?))).collect()
    }

    /// Resolves the secrets for a lab. A missing secret, or a secret whose command may not run, is replaced by a
    /// placeholder.
    pub(crate) fn by_place_or(
        &self,
        wanted: &[&Spanned<SecretRef>],
        placeholder: &str,
    ) -> BTreeMap<Span, SecretText> {
        let known = all(self.chosen);
        let named = known.iter().filter(|found| wanted.iter().any(|w| w.span == found.secret.span));
        named
            .map(|found| {
                let text = self.resolve(*found).unwrap_or_else(|_| {
                    let setting = found.setting;
                    self.printer.say(&match &found.secret.value {
                        SecretRef::Command(command) => format!(
                            "{setting}: the command `{}` did not run; the lab uses a placeholder \
                             (--allow-commands runs it)",
                            program(command)
                        ),
                        _ => format!("{setting}: not found; the lab uses a placeholder"),
                    });
                    SecretText::new(placeholder)
                });
                (found.secret.span, text)
            })
            .collect()
    }

    /// Value of `HEADSCALE_AUTH_KEY`. A note says that the variable is used, because a forgotten variable is hard to
    /// find.
    fn overriding_auth_key(&self) -> Option<SecretText> {
        let key = self.overriding_auth_key.get_or_init(|| {
            let key = environment::variable(AUTH_KEY)?;
            self.printer.say(&format!("{TAILSCALE}: using the environment variable {AUTH_KEY}"));
            Some(SecretText::new(key))
        });
        key.clone()
    }

    fn look_up(&self, reference: Reference<'_>) -> Result<SecretText, CommandError> {
        let setting = reference.setting;
        let text = match &reference.secret.value {
            SecretRef::Clear(text) => text.clone(),
            SecretRef::Env(name) => variable(name, setting)?,
            SecretRef::Secret(path) => self.in_file(path, setting)?,
            SecretRef::Command(command) => self.output(command, setting)?,
        };
        if text.is_empty() {
            let what = describe(&reference.secret.value);
            return Err(CommandError::failed(
                CommandCode::SecretUnset,
                format!("{setting}: {what} is empty"),
            ));
        }
        Ok(text)
    }

    fn in_file(&self, path: &str, setting: Name<'_>) -> Result<SecretText, CommandError> {
        let opened = if let Some(file) = self.file.get() {
            file
        } else {
            let file = SecretsFile::open(self.chosen)?;
            self.file.get_or_init(|| file)
        };
        let shown = self.chosen.secrets_path();
        let shown = shown.display();
        let set = format!("run `talmox secrets set {path}`");
        let Some(file) = opened else {
            let message = format!("{setting}: {shown}, which should have `{path}`, does not exist");
            return Err(CommandError::failed(CommandCode::SecretsMissing, message).hint(set));
        };
        match (file.document.get_text(path), file.document.get(path)) {
            (Some(text), _) => Ok(text),
            (None, Some(node)) if !node.is_null() => {
                let message =
                    format!("{setting}: `{path}` in {shown} is {}, not text", node.describe());
                Err(CommandError::failed(CommandCode::SecretUnset, message))
            }
            _ => {
                let message = format!("{setting}: {shown} has no `{path}`");
                Err(CommandError::failed(CommandCode::SecretsMissing, message).hint(set))
            }
        }
    }

    /// Runs a command in the folder of the inventory, and returns its stdout. The stdout is never shown.
    ///
    /// The command gets only PATH, HOME and the variables that its reference names. Other variables of the user, such as
    /// cloud credentials, must not be available to the author of the inventory.
    fn output(
        &self,
        command: &SecretCommand,
        setting: Name<'_>,
    ) -> Result<SecretText, CommandError> {
        let name = program(command);
        let failed = |what: &str| {
            CommandError::failed(
                CommandCode::SecretCommandFailed,
                format!("{setting}: the command `{name}` {what}"),
            )
        };
        let consent = command_consent::may_run(
            command,
            &setting.to_string(),
            self.chosen,
            self.consent,
            self.printer,
        );
        if !consent? {
            let message = format!(
                "{setting}: the inventory names a command that was not allowed to run: {}",
                command_consent::shown(command)
            );
            return Err(CommandError::usage_as(CommandCode::SecretCommandNotAllowed, message).hint(
                "review the command; then pass --allow-commands, or run talmox on a terminal and answer the question",
            ));
        }
        let folder = self.chosen.folder();
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        // A program name without a slash is searched in PATH.
        let program = &command.words[0];
        let found = if program.contains('/') { folder.join(program) } else { program.into() };
        let variables = command_consent::variables(command);
        let variables = variables.iter().filter_map(|name| Some((name, environment::raw(name)?)));
        let output = Command::new(found)
            .args(&command.words[1..])
            .env_clear()
            .envs(variables)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failed("cannot be run").because(error))?;
        if !output.status.success() {
            // The output may contain the secret, so the error does not show the output.
            let error = failed(&format!("failed ({})", output.status));
            return Err(error.hint(
                "run it by hand to see its output; it gets only PATH, HOME and the variables of `env: […]`",
            ));
        }
        let text = String::from_utf8(output.stdout).map_err(|_| failed("printed no text"))?;
        let text = SecretText::new(text);
        Ok(SecretText::new(text.expose().trim_end_matches(['\n', '\r'])))
    }
}

/// Program name of a command, with control characters escaped.
pub(crate) fn program(command: &SecretCommand) -> String {
    command.words[0].escape_debug().to_string()
}

fn variable(name: &str, setting: Name<'_>) -> Result<SecretText, CommandError> {
    let value = environment::raw(name).ok_or_else(|| {
        let message = format!("{setting}: the environment variable {name} is not set");
        let hint = if setting == Name::Cluster("proxmox.token") {
            format!("run `export {name}=…`; `talmox init --role` prints how to create the token")
        } else {
            format!("run `export {name}=…`, or use another secret reference")
        };
        CommandError::failed(CommandCode::SecretUnset, message).hint(hint)
    })?;
    value.into_string().map(SecretText::new).map_err(|_| {
        CommandError::failed(
            CommandCode::SecretUnset,
            format!("{setting}: the environment variable {name} is not text"),
        )
    })
}

/// Description of the source of a secret.
pub(crate) fn describe(secret: &SecretRef) -> String {
    match secret {
        SecretRef::Secret(path) => format!("secret `{path}`"),
        SecretRef::Env(name) => format!("environment variable {name}"),
        SecretRef::Command(command) => format!("output of `{}`", program(command)),
        SecretRef::Clear(_) => "clear text in the inventory".to_owned(),
    }
}

/// All secret references of the selected cluster.
pub(crate) fn all(chosen: &Chosen) -> Vec<Reference<'_>> {
    all_of(chosen.cluster())
}

/// All secret references of a cluster.
pub(crate) fn all_of(cluster: &Cluster) -> Vec<Reference<'_>> {
    let mut found: Vec<Reference<'_>> = [
        (Name::Cluster("proxmox.token"), &cluster.file.proxmox.token),
        (Name::Cluster("proxmox.password"), &cluster.file.proxmox.password),
        (TAILSCALE, &cluster.file.tailscale.auth_key),
    ]
    .into_iter()
    .filter_map(|(setting, slot)| Some(Reference { setting, secret: slot.spanned()? }))
    .collect();
    for node in &cluster.nodes {
        let (system, name) = (&node.settings().system, node.name.value.as_str());
        for (registry, auth) in &system.registries.auth.entries {
            let setting = Name::Registry { node: name, registry: &registry.value };
            found.extend(auth.password.spanned().map(|secret| Reference { setting, secret }));
        }
        for user in system.cloud_init.users.values() {
            let setting =
                Name::User { node: name, user: user.name.get().map_or("?", String::as_str) };
            found.extend(user.password_hash.spanned().map(|secret| Reference { setting, secret }));
        }
    }
    for addon in cluster.file.addons.values() {
        let setting = Name::Values { addon: addon.name.get().map_or("?", String::as_str) };
        let secrets = addon.values.get().into_iter().flat_map(ChartValues::secrets);
        found.extend(secrets.map(|secret| Reference { setting, secret }));
    }
    // A reference in a class or role is listed once for each node that uses it, so duplicates are removed.
    let mut seen = BTreeSet::new();
    found.retain(|reference| seen.insert(reference.secret.span));
    found
}
