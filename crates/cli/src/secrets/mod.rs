//! `secrets.sops.yaml`: the identity of a cluster, and whatever else must not be seen.
//!
//! Nothing here is ever made anew: a bundle that cannot be read is an error, not a reason for
//! another one.

pub(crate) mod audience;
mod keys;

use std::path::{Path, PathBuf};

use talmox_talos_config::age::Recipient;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::{self as bundle, Bundle};
use talmox_talos_config::sops::{self, Document, SopsError};
use talmox_yaml::{Node, Value};

pub(crate) use keys::Keyring;

use crate::choose::Chosen;
use crate::disk::{self, Before};
use crate::environment;
use crate::error::CommandError;
use crate::printer::Printer;

/// Where the bundle stands in the file.
pub(crate) const TALOS: &str = "talos";

/// The file in the clear.
#[derive(Debug)]
pub(crate) struct SecretsFile {
    pub(crate) path: PathBuf,
    pub(crate) document: Document,
    /// What is on the disk; nothing yet for a new file.
    on_disk: Option<String>,
}

impl SecretsFile {
    /// Reads the secrets of a cluster; nothing if it has none yet.
    pub(crate) fn open(chosen: &Chosen) -> Result<Option<Self>, CommandError> {
        let path = chosen.secrets_path();
        let Some(text) = disk::read_secret(&path)? else {
            let plain = chosen.plain_secrets_path();
            if plain.exists() {
                return Err(not_imported(&plain));
            }
            return Ok(None);
        };
        let text = text.expose().to_owned();
        let document = decrypt(&path, &text)?;
        Ok(Some(Self { path, document, on_disk: Some(text) }))
    }

    /// The same where there must be secrets.
    pub(crate) fn open_existing(chosen: &Chosen) -> Result<Self, CommandError> {
        Self::open(chosen)?.ok_or_else(|| {
            let path = chosen.secrets_path();
            CommandError::failed(format!("there is no {}", path.display())).hint(
                "`talmox secrets init` makes the secrets of a new cluster, `talmox secrets import` \
                 takes over those of an existing one",
            )
        })
    }

    /// An empty file, which is not written yet.
    pub(crate) fn new(
        chosen: &Chosen,
        recipients: &[Recipient],
        printer: &Printer,
    ) -> Result<Self, CommandError> {
        let path = chosen.secrets_path();
        let keyring = Keyring::find()?;
        let audience = audience::for_new_file(&path, recipients, &keyring, printer)?;
        let keyring = if keyring.identities.is_empty() { Keyring::find()? } else { keyring };
        if !keyring.opens_any(&audience.recipients) {
            printer.warn("none of your age keys will open the file; its recipients can");
        }
        let names: Vec<String> = audience.recipients.iter().map(ToString::to_string).collect();
        printer.say(&format!("encrypting for {} ({})", names.join(", "), audience.origin));
        let mut randomness = environment::Kernel;
        let document = sops::create("", &audience.recipients, audience.settings, &mut randomness)
            .map_err(|error| CommandError::failed("cannot encrypt").because(error))?;
        Ok(Self { path, document, on_disk: None })
    }

    /// The bundle, checked; nothing if the file has none.
    pub(crate) fn bundle(&self) -> Result<Option<Bundle>, CommandError> {
        match self.document.get(TALOS).filter(|node| !node.is_null()) {
            None => Ok(None),
            Some(node) => checked(&node, &self.path).map(Some),
        }
    }

    /// The same file with other content, for a look at it before it is taken over.
    pub(crate) fn with(&self, document: Document) -> Self {
        Self { path: self.path.clone(), document, on_disk: self.on_disk.clone() }
    }

    /// Takes the bundle out, and writes what is left.
    pub(crate) fn forget_bundle(&mut self) -> Result<(), CommandError> {
        self.document.remove(TALOS);
        self.save()
    }

    pub(crate) fn set_bundle(&mut self, bundle: &Bundle) {
        self.document.set(TALOS, bundle.to_node());
    }

    /// Encrypts and writes the file, unless somebody else wrote it since it was read.
    pub(crate) fn save(&mut self) -> Result<(), CommandError> {
        let mut randomness = environment::Kernel;
        let text = self.document.encrypt(environment::now(), &mut randomness).map_err(|error| {
            CommandError::failed(format!("cannot encrypt {}", self.path.display())).because(error)
        })?;
        self.refuse_clear_text(&text)?;
        let before = self.on_disk.as_deref().map_or(Before::Absent, Before::Holds);
        disk::write_private(&self.path, &text, before)?;
        self.on_disk = Some(text);
        Ok(())
    }

    /// A rule of `.sops.yaml` that was made for other files may leave our secrets readable.
    fn refuse_clear_text(&self, encrypted: &str) -> Result<(), CommandError> {
        let documents = talmox_yaml::read(encrypted).unwrap_or_default();
        let mut leaves = vec![];
        if let Some(root) = documents.first() {
            collect(root, &mut String::new(), &mut leaves);
        }
        let is_clear = |(path, text): &&(String, String)| {
            is_secret(path) && !text.is_empty() && !text.starts_with("ENC[")
        };
        match leaves.iter().find(is_clear) {
            None => Ok(()),
            Some((path, _)) => {
                let message =
                    format!("`{path}` would stand in {} in clear text", self.path.display());
                Err(CommandError::failed(message).hint(
                    "the rule that says what is encrypted (encrypted_regex and its kin) leaves it \
                     out; give this file a creation rule of its own in .sops.yaml",
                ))
            }
        }
    }

    /// The paths of all values outside the bundle.
    pub(crate) fn other_paths(&self) -> Vec<String> {
        let mut leaves = vec![];
        collect(&self.document.root().without_comments(), &mut String::new(), &mut leaves);
        let paths = leaves.into_iter().map(|(path, _)| path);
        paths.filter(|path| path != TALOS && !path.starts_with("talos.")).collect()
    }
}

/// The bundle of a cluster that must have one.
pub(crate) fn bundle_of(chosen: &Chosen) -> Result<Bundle, CommandError> {
    let file = SecretsFile::open_existing(chosen)?;
    file.bundle()?.ok_or_else(|| {
        CommandError::failed(format!("{} holds no Talos bundle", file.path.display()))
            .hint("`talmox secrets init` adds a new one, `talmox secrets import` an existing one")
    })
}

/// The bundle of a cluster, which is made if there is none. Whoever can see the Proxmox looks there
/// first: a cluster that has VMs has a bundle somewhere.
pub(crate) fn bundle_or_make(chosen: &Chosen, printer: &Printer) -> Result<Bundle, CommandError> {
    let file = SecretsFile::open(chosen)?;
    match file.as_ref().map(SecretsFile::bundle).transpose()?.flatten() {
        Some(bundle) => Ok(bundle),
        None => Ok(make(chosen, file, &[], printer)?.1),
    }
}

/// Makes the bundle of a cluster that has none, and writes it.
pub(crate) fn make(
    chosen: &Chosen,
    file: Option<SecretsFile>,
    recipients: &[Recipient],
    printer: &Printer,
) -> Result<(SecretsFile, Bundle), CommandError> {
    let bundle = generate()?;
    Ok((put(chosen, file, &bundle, recipients, printer)?, bundle))
}

/// A bundle that is nowhere but in memory.
pub(crate) fn generate() -> Result<Bundle, CommandError> {
    bundle::generate(environment::now(), &mut environment::Kernel)
        .map_err(|error| CommandError::failed("cannot make the secrets").because(error))
}

/// Writes down a bundle that was made for a cluster which has none.
pub(crate) fn keep(
    chosen: &Chosen,
    bundle: &Bundle,
    printer: &Printer,
) -> Result<(), CommandError> {
    let file = SecretsFile::open(chosen)?;
    if file.as_ref().map(SecretsFile::bundle).transpose()?.flatten().is_some() {
        let message =
            format!("{} was made by somebody else just now", chosen.secrets_path().display());
        return Err(CommandError::failed(message).hint("run the command again: it takes those"));
    }
    put(chosen, file, bundle, &[], printer).map(drop)
}

fn put(
    chosen: &Chosen,
    file: Option<SecretsFile>,
    bundle: &Bundle,
    recipients: &[Recipient],
    printer: &Printer,
) -> Result<SecretsFile, CommandError> {
    let mut file = match file {
        Some(file) => file,
        None => SecretsFile::new(chosen, recipients, printer)?,
    };
    file.set_bundle(bundle);
    file.save()?;
    printer.say(&format!("wrote {}", file.path.display()));
    Ok(file)
}

/// Reads a file that sops encrypted.
pub(crate) fn decrypt(path: &Path, text: &str) -> Result<Document, CommandError> {
    let keyring = Keyring::find()?;
    sops::decrypt(text, &keyring.identities).map_err(|error| {
        let hint = match &error {
            SopsError::WrongKey { .. } | SopsError::DataKey { .. } => keyring.hint(),
            SopsError::NotSops => {
                "encrypt it with `sops --encrypt --in-place`, or move it away and take it over \
                 with `talmox secrets import`"
                    .to_owned()
            }
            SopsError::BrokenMac | SopsError::Damaged { .. } | SopsError::NotEncrypted { .. } => {
                "restore it from a backup or from git; it is never made anew".to_owned()
            }
            _ => "correct it, or restore it from a backup; it is never made anew".to_owned(),
        };
        CommandError::failed(format!("cannot decrypt {}", path.display())).because(error).hint(hint)
    })
}

/// Reads a bundle, which must be whole.
pub(crate) fn checked(node: &Node, path: &Path) -> Result<Bundle, CommandError> {
    let broken =
        || CommandError::failed(format!("the Talos bundle in {} is broken", path.display()));
    let bundle = Bundle::from_node(node).map_err(|error| broken().because(error))?;
    match bundle.check() {
        Ok(()) => Ok(bundle),
        Err(problems) => {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let message = format!("{}: {}", broken().chain(), problems.join("; "));
            Err(CommandError::failed(message))
        }
    }
}

fn not_imported(plain: &Path) -> CommandError {
    CommandError::failed(format!("{} is there, and not in use", plain.display())).hint(format!(
        "if these are the secrets of the cluster, `talmox secrets import {}` takes them over; \
         then delete the file, or move it away if they are not",
        plain.display()
    ))
}

/// What may never be readable, whatever the user's rules say. The cluster's id and certificates
/// are no secrets.
fn is_secret(path: &str) -> bool {
    let is_key = path.starts_with("talos.")
        && path != "talos.cluster.id"
        && !path.rsplit('.').next().is_some_and(|name| name.eq_ignore_ascii_case("crt"));
    is_key || path == "proxmox.token" || path == "tailscale.auth_key"
}

/// All scalars below a node with their paths.
fn collect(node: &Node, path: &mut String, leaves: &mut Vec<(String, String)>) {
    let mut below = |name: &str, child: &Node| {
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        path.push_str(name);
        collect(child, path, leaves);
        path.truncate(length);
    };
    match &node.value {
        Value::Scalar(scalar) => leaves.push((path.clone(), scalar.text.clone())),
        Value::Seq(seq) => {
            for (index, item) in seq.items.iter().enumerate() {
                below(&index.to_string(), item);
            }
        }
        Value::Map(map) => {
            for entry in &map.entries {
                below(entry.key.as_str().unwrap_or_default(), &entry.value);
            }
        }
    }
}

/// The text of a file or of stdin (`-`) that a user names.
pub(crate) fn read_input(path: &Path) -> Result<SecretText, CommandError> {
    if path == Path::new("-") {
        let text = std::io::read_to_string(std::io::stdin());
        let text = text.map_err(|error| CommandError::failed("cannot read stdin").because(error));
        return text.map(SecretText::new);
    }
    let missing = || CommandError::failed(format!("there is no file {}", path.display()));
    disk::read_secret(path)?.ok_or_else(missing)
}
