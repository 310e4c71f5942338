//! The secrets file `secrets.sops.yaml`: the secrets bundle of a cluster, and other secrets such as tokens.
//!
//! A bundle that cannot be read is an error. It is never replaced by a new bundle.

pub(crate) mod cluster_evidence;
mod keys;
mod lock;
pub(crate) mod recipients;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use talmox_talos_config::age::Recipient;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::{self as bundle, Bundle};
use talmox_talos_config::sops::{self, SopsDocument, SopsError};
use talmox_yaml::{Node, Value};

pub(crate) use keys::Keyring;
pub(crate) use lock::lock;

use lock::SecretsLock;
use recipients::RecipientSet;

use crate::boundary::{Boundary, RejectedFile};
use crate::choose::Chosen;
use crate::command_code::CommandCode;
use crate::disk::{self, Before};
use crate::environment;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::regular_file::{self, LARGEST_OWN, ReadError};

/// Key of the secrets bundle in the file.
pub(crate) const TALOS: &str = "talos";

/// Decrypted secrets file.
#[derive(Debug)]
pub(crate) struct SecretsFile {
    pub(crate) path: PathBuf,
    pub(crate) document: SopsDocument,
    /// Encrypted content of the file on disk. `None` for a new file.
    on_disk: Option<String>,
    /// Age keys that must be able to decrypt the file after a change.
    keyring: Rc<Keyring>,
}

impl SecretsFile {
    /// Reads the secrets file of a cluster. `None` if the file does not exist.
    pub(crate) fn open(chosen: &Chosen) -> Result<Option<Self>, CommandError> {
        let path = chosen.secrets_path();
        let Some(text) = read_inside(&path, chosen.boundary())? else {
            let plain = chosen.plain_secrets_path();
            if plain.exists() {
                return Err(not_imported(&plain));
            }
            return Ok(None);
        };
        let keyring = Rc::new(Keyring::find()?);
        let document = decrypt_with(&keyring, &path, &text)?;
        Ok(Some(Self { path, document, on_disk: Some(text), keyring }))
    }

    /// Reads the secrets file of a cluster. Returns an error if the file does not exist.
    pub(crate) fn open_existing(chosen: &Chosen) -> Result<Self, CommandError> {
        Self::open(chosen)?.ok_or_else(|| {
            let path = chosen.secrets_path();
            CommandError::failed(
                CommandCode::SecretsMissing,
                format!("there is no {}", path.display()),
            )
            .hint(
                "run `talmox secrets init` for a new cluster, or `talmox secrets import` for an \
                 existing one",
            )
        })
    }

    /// New empty secrets file, which is not written yet.
    pub(crate) fn new(
        chosen: &Chosen,
        recipients: &[Recipient],
        printer: &Printer,
    ) -> Result<Self, CommandError> {
        let path = chosen.secrets_path();
        let keyring = Keyring::find()?;
        let recipient_set = recipients::for_new_file(&path, recipients, &keyring, printer)?;
        let keyring = if keyring.identities.is_empty() { Keyring::find()? } else { keyring };
        if !keyring.opens_any(&recipient_set.recipients) {
            return Err(unopenable(&path, &recipient_set));
        }
        let names: Vec<String> = recipient_set.recipients.iter().map(ToString::to_string).collect();
        printer.say(&format!("encrypting for {} ({})", names.join(", "), recipient_set.origin));
        let mut randomness = environment::Kernel;
        let document =
            sops::create("", &recipient_set.recipients, recipient_set.settings, &mut randomness)
                .map_err(|error| {
                    CommandError::failed(CommandCode::SecretsUnencryptable, "cannot encrypt")
                        .because(error)
                })?;
        Ok(Self { path, document, on_disk: None, keyring: Rc::new(keyring) })
    }

    /// Parses and checks the bundle. `None` if the file has no bundle.
    pub(crate) fn bundle(&self) -> Result<Option<Bundle>, CommandError> {
        match self.document.get(TALOS).filter(|node| !node.is_null()) {
            None => Ok(None),
            Some(node) => checked(&node, &self.path).map(Some),
        }
    }

    /// Copy of this file with other content. Used to check the content before it is saved.
    pub(crate) fn with(&self, document: SopsDocument) -> Self {
        let keyring = Rc::clone(&self.keyring);
        Self { path: self.path.clone(), document, on_disk: self.on_disk.clone(), keyring }
    }

    /// Removes the bundle and saves the file.
    pub(crate) fn forget_bundle(&mut self) -> Result<(), CommandError> {
        self.document.remove(TALOS);
        self.save()
    }

    pub(crate) fn set_bundle(&mut self, bundle: &Bundle) {
        self.document.set(TALOS, bundle.to_node());
    }

    /// Encrypts and writes the file. Returns an error if another process changed the file since it was read, or if the
    /// available age keys could not decrypt the new file. The caller must hold the lock from reading to saving.
    pub(crate) fn save(&mut self) -> Result<(), CommandError> {
        let mut randomness = environment::Kernel;
        let text = self.document.encrypt(environment::now(), &mut randomness).map_err(|error| {
            CommandError::failed(
                CommandCode::SecretsUnencryptable,
                format!("cannot encrypt {}", self.path.display()),
            )
            .because(error)
        })?;
        self.refuse_clear_text(&text)?;
        // This check runs before the write. Otherwise the secrets of a running cluster could become unreadable.
        sops::decrypt(&text, &self.keyring.identities).map_err(|error| {
            let message = format!(
                "nothing was written: your age keys could not decrypt {}",
                self.path.display()
            );
            CommandError::failed(CommandCode::SecretsUnencryptable, message)
                .because(error)
                .hint(self.keyring.hint())
        })?;
        let before = self.on_disk.as_deref().map_or(Before::Absent, Before::Holds);
        disk::write_private(&self.path, &text, before)?;
        self.on_disk = Some(text);
        Ok(())
    }

    /// Returns an error if a rule of `.sops.yaml`, such as `encrypted_regex`, would leave a secret unencrypted.
    fn refuse_clear_text(&self, encrypted: &str) -> Result<(), CommandError> {
        let documents = talmox_yaml::read(encrypted).unwrap_or_default();
        let mut clear = None;
        if let Some(root) = documents.first() {
            visit(root, &mut String::new(), &mut |path, text| {
                if is_secret(path) && !text.is_empty() && !text.starts_with("ENC[") {
                    clear.get_or_insert_with(|| path.to_owned());
                }
            });
        }
        match clear {
            None => Ok(()),
            Some(path) => {
                let message = format!("`{path}` would be in clear text in {}", self.path.display());
                Err(CommandError::failed(CommandCode::SecretsUnencryptable, message).hint(
                    "the encryption rule (such as encrypted_regex) does not include it; add a creation \
                     rule for this file to .sops.yaml",
                ))
            }
        }
    }

    /// Paths of all values that are not part of the bundle.
    pub(crate) fn other_paths(&self) -> Vec<String> {
        let mut paths = vec![];
        visit(self.document.root(), &mut String::new(), &mut |path, _| {
            if path != TALOS && !path.starts_with("talos.") {
                paths.push(path.to_owned());
            }
        });
        paths
    }
}

/// Bundle of a cluster. Returns an error if the cluster has no bundle.
pub(crate) fn bundle_of(chosen: &Chosen) -> Result<Bundle, CommandError> {
    let file = SecretsFile::open_existing(chosen)?;
    file.bundle()?.ok_or_else(|| {
        CommandError::failed(
            CommandCode::SecretsMissing,
            format!("{} has no Talos bundle", file.path.display()),
        )
        .hint("run `talmox secrets init` to add a new one, or `talmox secrets import` to add an existing one")
    })
}

/// State for writing a generated bundle later. It holds the lock on the secrets file.
#[derive(Debug)]
pub(crate) struct DraftBundle {
    _lock: SecretsLock,
    /// Existing secrets file that has no bundle. `None` if the file does not exist.
    file: Option<SecretsFile>,
}

impl DraftBundle {
    /// Writes the generated bundle.
    pub(crate) fn keep(
        self,
        chosen: &Chosen,
        bundle: &Bundle,
        printer: &Printer,
    ) -> Result<(), CommandError> {
        put(chosen, self.file, bundle, &[], printer).map(drop)
    }
}

/// Bundle of a cluster. If the bundle is missing, and no evidence shows that the cluster exists, a bundle is generated.
/// The caller must write a generated bundle with [`DraftBundle::keep`].
pub(crate) fn bundle_or_draft(
    chosen: &Chosen,
    is_new: bool,
    printer: &Printer,
) -> Result<(Bundle, Option<DraftBundle>), CommandError> {
    let known = |file: Option<&SecretsFile>| -> Result<Option<Bundle>, CommandError> {
        Ok(file.map(SecretsFile::bundle).transpose()?.flatten())
    };
    // Reading without a lock also works in a read-only folder.
    if let Some(bundle) = known(SecretsFile::open(chosen)?.as_ref())? {
        return Ok((bundle, None));
    }
    let lock = lock(chosen, printer)?;
    let file = SecretsFile::open(chosen)?;
    if let Some(bundle) = known(file.as_ref())? {
        return Ok((bundle, None));
    }
    cluster_evidence::refuse_offline(chosen, is_new, printer)?;
    Ok((generate()?, Some(DraftBundle { _lock: lock, file })))
}

/// Generates and writes the bundle of a cluster without a bundle. The caller must hold the lock.
pub(crate) fn make(
    chosen: &Chosen,
    file: Option<SecretsFile>,
    recipients: &[Recipient],
    printer: &Printer,
) -> Result<(SecretsFile, Bundle), CommandError> {
    let bundle = generate()?;
    Ok((put(chosen, file, &bundle, recipients, printer)?, bundle))
}

/// Generates a bundle in memory.
pub(crate) fn generate() -> Result<Bundle, CommandError> {
    bundle::generate(environment::now(), &mut environment::Kernel).map_err(|error| {
        CommandError::failed(CommandCode::CertificateFailed, "cannot generate the secrets")
            .because(error)
    })
}

/// Writes a generated bundle. Returns an error if the cluster has a bundle already.
pub(crate) fn keep(
    chosen: &Chosen,
    bundle: &Bundle,
    printer: &Printer,
) -> Result<(), CommandError> {
    let _lock = lock(chosen, printer)?;
    let file = SecretsFile::open(chosen)?;
    if file.as_ref().map(SecretsFile::bundle).transpose()?.flatten().is_some() {
        let message =
            format!("another process has just created {}", chosen.secrets_path().display());
        return Err(CommandError::failed(CommandCode::FileChanged, message)
            .hint("run the same command again to use it"));
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

/// Decrypts a sops file.
pub(crate) fn decrypt(path: &Path, text: &str) -> Result<SopsDocument, CommandError> {
    decrypt_with(&Keyring::find()?, path, text)
}

fn decrypt_with(keyring: &Keyring, path: &Path, text: &str) -> Result<SopsDocument, CommandError> {
    sops::decrypt(text, &keyring.identities).map_err(|error| {
        let hint = match &error {
            SopsError::WrongKey { .. } | SopsError::DataKey { .. } => keyring.hint(),
            SopsError::NotSops => {
                "encrypt it with `sops --encrypt --in-place`, or move it away and import it with \
                 `talmox secrets import`"
                    .to_owned()
            }
            SopsError::BrokenMac | SopsError::Damaged { .. } | SopsError::NotEncrypted { .. } => {
                "restore it from a backup or from git; talmox never generates it again".to_owned()
            }
            _ => "correct it, or restore it from a backup; talmox never generates it again"
                .to_owned(),
        };
        CommandError::failed(
            CommandCode::SecretsUndecryptable,
            format!("cannot decrypt {}", path.display()),
        )
        .because(error)
        .hint(hint)
    })
}

/// Encrypted text of a secrets file. The file must be inside the boundary of the inventory. Otherwise a link to the
/// secrets of another cluster would send those secrets to the Proxmox that this inventory names.
fn read_inside(path: &Path, boundary: &Boundary) -> Result<Option<String>, CommandError> {
    match boundary.read(path) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| {
            CommandError::failed(
                CommandCode::SecretsInvalid,
                format!("{} is not text", path.display()),
            )
        }),
        Err(RejectedFile::Read(ReadError::Missing)) => Ok(None),
        Err(error) => Err(CommandError::failed(
            CommandCode::FileUnreadable,
            format!("cannot read {}", path.display()),
        )
        .because(error)),
    }
}

/// Error for recipients that do not include a key of the user. The user could not decrypt the file again.
fn unopenable(path: &Path, recipient_set: &RecipientSet) -> CommandError {
    let names: Vec<String> = recipient_set.recipients.iter().map(ToString::to_string).collect();
    let message = format!(
        "nothing was written: none of your age keys could decrypt {}, which is encrypted for {} ({})",
        path.display(),
        names.join(", "),
        recipient_set.origin
    );
    CommandError::failed(CommandCode::SecretsUnencryptable, message)
        .hint("include your own recipient")
}

/// Parses a bundle and checks that it is complete.
pub(crate) fn checked(node: &Node, path: &Path) -> Result<Bundle, CommandError> {
    let broken = || {
        CommandError::failed(
            CommandCode::SecretsInvalid,
            format!("the Talos bundle in {} is invalid", path.display()),
        )
    };
    let bundle = Bundle::from_node(node).map_err(|error| broken().because(error))?;
    match bundle.check() {
        Ok(()) => Ok(bundle),
        Err(problems) => {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let message = format!("{}: {}", broken().chain(), problems.join("; "));
            Err(CommandError::failed(CommandCode::SecretsInvalid, message))
        }
    }
}

fn not_imported(plain: &Path) -> CommandError {
    CommandError::failed(
        CommandCode::SecretsUnused,
        format!("{} exists, but is not used", plain.display()),
    )
    .hint(format!(
        "if these are the secrets of the cluster, run `talmox secrets import {}`, then delete the \
         file; if not, move it away",
        plain.display()
    ))
}

/// Whether a value must be encrypted, whatever the rules in `.sops.yaml` say. The cluster ID and certificates are not
/// secret.
fn is_secret(path: &str) -> bool {
    let is_key = path.starts_with("talos.")
        && path != "talos.cluster.id"
        && !path.rsplit('.').next().is_some_and(|name| name.eq_ignore_ascii_case("crt"));
    is_key || path == "proxmox.token" || path == "tailscale.auth_key"
}

/// Calls `seen` with the path and the text of every scalar below a node, without copying secrets.
fn visit(node: &Node, path: &mut String, seen: &mut dyn FnMut(&str, &str)) {
    let mut below = |name: &str, child: &Node, seen: &mut dyn FnMut(&str, &str)| {
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        path.push_str(name);
        visit(child, path, seen);
        path.truncate(length);
    };
    match &node.value {
        Value::Scalar(scalar) => seen(path, &scalar.text),
        Value::Seq(seq) => {
            let own = seq.items.iter().filter(|item| item.as_comment().is_none());
            for (index, item) in own.enumerate() {
                below(&index.to_string(), item, seen);
            }
        }
        Value::Map(map) => {
            for entry in map.entries.iter().filter(|entry| entry.as_comment().is_none()) {
                below(entry.key.as_str().unwrap_or_default(), &entry.value, seen);
            }
        }
    }
}

/// Reads a file that the command line names. Reads stdin for `-`.
pub(crate) fn read_input(path: &Path) -> Result<SecretText, CommandError> {
    if path == Path::new("-") {
        let text = std::io::read_to_string(std::io::stdin());
        let text = text.map_err(|error| {
            CommandError::failed(CommandCode::FileUnreadable, "cannot read stdin").because(error)
        });
        return text.map(SecretText::new);
    }
    let read = regular_file::read_argument(path, LARGEST_OWN);
    let bytes = read.map_err(|error| match error {
        ReadError::Missing => CommandError::failed(
            CommandCode::FileUnreadable,
            format!("there is no file {}", path.display()),
        ),
        error => CommandError::failed(
            CommandCode::FileUnreadable,
            format!("cannot read {}", path.display()),
        )
        .because(error),
    })?;
    disk::secret_text(path, bytes)
}
