//! `talmox secrets import`

use std::path::{Path, PathBuf};

use clap::Args;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::sops::{self, SecretNode};
use talmox_yaml::{Entry, Map, Node, Value};

use super::{ClusterArg, RecipientArgs, report};
use crate::args::Global;
use crate::choose;
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::secrets::{self, SecretsFile, read_input};

/// Import the secrets of an existing cluster
///
/// Reads the output of `talosctl gen secrets` (YAML or JSON, unencrypted or encrypted with sops), another
/// secrets.sops.yaml, or the machine config of a control plane. An existing bundle is never overwritten.
#[derive(Debug, Args)]
pub(crate) struct SecretsImportArgs {
    /// File to import; `-` for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    cluster: ClusterArg,
    #[command(flatten)]
    recipients: RecipientArgs,
}

pub(super) fn run(args: &SecretsImportArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.cluster.cluster.as_deref(), printer)?;
    let input = read_input(&args.file)?;
    let is_plain = !sops::is_encrypted(input.expose());
    let (bundle, others) = read(&input, is_plain, &args.file)?;
    let _lock = secrets::lock(&chosen, printer)?;
    // An unencrypted file beside the inventory is allowed here, because it is probably the file to import.
    let is_there = chosen.secrets_path().exists();
    let mut file = match is_there.then(|| SecretsFile::open_existing(&chosen)).transpose()? {
        Some(file) => file,
        None => SecretsFile::new(&chosen, &args.recipients.recipients, printer)?,
    };
    match file.bundle()? {
        Some(known) if known == bundle => {
            printer.say(&format!("{} already has this bundle", file.path.display()));
            return report(&file, false, printer);
        }
        Some(_) => {
            let message = format!("{} has another bundle", file.path.display());
            return Err(CommandError::failed(CommandCode::SecretsExist, message).hint(
                "talmox never overwrites a bundle; move the file away if you do not need it",
            ));
        }
        None => file.set_bundle(&bundle),
    }
    for (path, node) in others {
        if file.document.get(&path).is_none() {
            file.document.set(&path, node);
        }
    }
    file.save()?;
    printer.say(&format!("wrote {}", file.path.display()));
    if is_plain && args.file.is_file() {
        let path = args.file.display();
        printer.warn(&format!("{path} contains the same secrets unencrypted; delete it"));
    }
    report(&file, true, printer)
}

/// Reads the secrets bundle from a file in any supported format.
pub(crate) fn bundle_in(path: &Path) -> Result<Bundle, CommandError> {
    let input = read_input(path)?;
    let is_plain = !sops::is_encrypted(input.expose());
    let hint =
        "create one with `talmox secrets init`; a file of `talosctl gen secrets` is accepted too";
    let (bundle, _) = read(&input, is_plain, path)
        .map_err(|error| if error.hint.is_none() { error.hint(hint) } else { error })?;
    Ok(bundle)
}

/// Secrets bundle in the machine config of a control plane.
pub(crate) fn bundle_in_config(config: &SecretText) -> Result<Bundle, CommandError> {
    let origin = Path::new("the machine config of a control plane");
    read(config, true, origin).map(|(bundle, _)| bundle)
}

/// Reads the secrets bundle of a file, and the other sections if the file is a secrets.sops.yaml.
fn read(
    input: &SecretText,
    is_plain: bool,
    path: &Path,
) -> Result<(Bundle, Vec<(String, Node)>), CommandError> {
    let root = if is_plain {
        let documents = talmox_yaml::read(input.expose()).map_err(|error| {
            CommandError::failed(
                CommandCode::FileUnreadable,
                format!("cannot read {} as YAML", path.display()),
            )
            .because(error)
        })?;
        // A file with a machine config may contain further documents.
        let own = documents.iter().position(|document| machine_section(document).is_some());
        let documents = documents.into_iter().map(SecretNode::new);
        let chosen = documents.collect::<Vec<_>>().into_iter().nth(own.unwrap_or_default());
        chosen.unwrap_or_else(|| SecretNode::new(Node::default()))
    } else {
        SecretNode::new(secrets::decrypt(path, input.expose())?.root().without_comments())
    };
    if let Some(map) = root.as_map()
        && let Some(talos) = map.get("talos")
    {
        let others = map.entries.iter().filter_map(|entry| {
            let name = entry.key.as_str().filter(|name| *name != "talos")?;
            Some((name.to_owned(), entry.value.clone()))
        });
        return Ok((secrets::checked(talos, path)?, others.collect()));
    }
    if machine_section(&root).is_some() {
        let bundle = SecretNode::new(from_config(&root));
        return Ok((secrets::checked(&bundle, path)?, vec![]));
    }
    Ok((secrets::checked(&root, path)?, vec![]))
}

fn machine_section(document: &Node) -> Option<&Node> {
    document.as_map()?.get("machine")
}

/// Collects the secrets bundle from the machine config of a control plane. The config of a worker lacks parts of the
/// bundle. The check of the bundle reports the missing parts.
fn from_config(config: &Node) -> Node {
    const PLACES: [(&str, &str); 15] = [
        ("cluster.id", "cluster.id"),
        ("cluster.secret", "cluster.secret"),
        ("secrets.bootstraptoken", "cluster.token"),
        ("secrets.aescbcencryptionsecret", "cluster.aescbcEncryptionSecret"),
        ("secrets.secretboxencryptionsecret", "cluster.secretboxEncryptionSecret"),
        ("trustdinfo.token", "machine.token"),
        ("certs.etcd.crt", "cluster.etcd.ca.crt"),
        ("certs.etcd.key", "cluster.etcd.ca.key"),
        ("certs.k8s.crt", "cluster.ca.crt"),
        ("certs.k8s.key", "cluster.ca.key"),
        ("certs.k8saggregator.crt", "cluster.aggregatorCA.crt"),
        ("certs.k8saggregator.key", "cluster.aggregatorCA.key"),
        ("certs.k8sserviceaccount.key", "cluster.serviceAccount.key"),
        ("certs.os.crt", "machine.ca.crt"),
        ("certs.os.key", "machine.ca.key"),
    ];
    let mut root = Node::from(Value::Map(Map::default()));
    for (to, from) in PLACES {
        let mut keys = from.split('.');
        let found = keys.try_fold(config, |node, key| node.as_map()?.get(key));
        if let Some(found) = found {
            put(&mut root, to, found.clone());
        }
    }
    root
}

fn put(node: &mut Node, path: &str, value: Node) {
    let Value::Map(map) = &mut node.value else {
        return;
    };
    let (key, rest) = path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
    let Some(rest) = rest else {
        map.entries.push(Entry { key: Node::plain(key), value });
        return;
    };
    let position = map.entries.iter().position(|entry| entry.key.as_str() == Some(key));
    let position = position.unwrap_or_else(|| {
        let child = Node::from(Value::Map(Map::default()));
        map.entries.push(Entry { key: Node::plain(key), value: child });
        map.entries.len() - 1
    });
    put(&mut map.entries[position].value, rest, value);
}
