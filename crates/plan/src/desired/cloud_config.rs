//! User-data for nodes that run Ubuntu: cloud-init's `#cloud-config`.

use talmox_model::Node;
use talmox_model::inventory::{CloudInitFile, User};
use talmox_talos_config::secret::SecretText;
use talmox_yaml::build::{flag, list, map, text, texts, unless_empty};
use talmox_yaml::{Entry, Map, Node as Yaml, Value, emit};

use super::error::DeriveError;
use super::inputs::Inputs;

pub(super) fn user_data(node: &Node, inputs: &Inputs<'_>) -> Result<SecretText, DeriveError> {
    let cloud_init = &node.settings().system.cloud_init;
    let users: Vec<Yaml> =
        cloud_init.users.values().map(|one| user(one, inputs)).collect::<Result<_, _>>()?;
    let mut config = map([
        ("hostname", Some(text(node.name.value.as_str()))),
        ("users", unless_empty(list(users))),
        ("ssh_authorized_keys", unless_empty(texts(cloud_init.ssh_authorized_keys.values()))),
        ("package_update", (!cloud_init.packages.is_empty()).then(|| flag(true))),
        ("package_upgrade", cloud_init.package_upgrade.get().copied().map(flag)),
        ("packages", unless_empty(texts(cloud_init.packages.values()))),
        ("write_files", unless_empty(list(cloud_init.files.values().map(file)))),
        ("runcmd", unless_empty(texts(cloud_init.runcmd.values()))),
    ]);
    if let Some(overlay) = cloud_init.overlay.spanned() {
        let span = overlay.span;
        let overlay = inputs.files.get(&span).ok_or(DeriveError::Unresolved { span })?;
        let documents =
            talmox_yaml::read(overlay).ok().and_then(|all| <[Yaml; 1]>::try_from(all).ok());
        match documents.map(|[one]| one.value) {
            Some(Value::Map(overlay)) => overlay_keys(&mut config, overlay),
            _ => return Err(DeriveError::Overlay { span }),
        }
    }
    Ok(SecretText::new(format!("#cloud-config\n{}", emit(&config, 2))))
}

/// Whether this user-data installs the QEMU guest agent.
pub(super) fn installs_agent(user_data: &SecretText) -> bool {
    let documents = talmox_yaml::read(user_data.expose()).unwrap_or_default();
    let packages = documents.first().and_then(Yaml::as_map).and_then(|map| map.get("packages"));
    packages.is_some_and(names_agent)
}

/// Whether a list of packages contains the QEMU guest agent. An item of the list is a name, a list of name and version, or a
/// mapping from a package manager to such a list.
fn names_agent(packages: &Yaml) -> bool {
    match &packages.value {
        Value::Seq(list) => list.items.iter().any(names_agent),
        Value::Map(managers) => managers.entries.iter().any(|entry| names_agent(&entry.value)),
        Value::Scalar(_) => packages.as_str().is_some_and(|name| {
            name.split_once('=').map_or(name, |(name, _)| name).trim() == "qemu-guest-agent"
        }),
    }
}

fn user(user: &User, inputs: &Inputs<'_>) -> Result<Yaml, DeriveError> {
    let password = user.password_hash.spanned().map(|hash| inputs.secret(hash)).transpose()?;
    Ok(map([
        ("name", user.name.get().map(text)),
        ("groups", unless_empty(texts(user.groups.values()))),
        ("shell", user.shell.get().map(text)),
        ("sudo", user.sudo.get().map(text)),
        ("lock_passwd", password.map(|_| flag(false))),
        ("passwd", password.map(|hash| text(hash.expose()))),
        ("ssh_authorized_keys", unless_empty(texts(user.ssh_authorized_keys.values()))),
    ]))
}

fn file(file: &CloudInitFile) -> Yaml {
    map([
        ("path", file.path.get().map(text)),
        ("content", file.content.get().map(text)),
        ("permissions", file.mode.get().map(|mode| text(format!("{:04o}", mode.0)))),
        ("owner", file.owner.get().map(text)),
    ])
}

/// Replaces keys of the generated config by the keys of the overlay, and adds the other keys of the overlay.
fn overlay_keys(config: &mut Yaml, overlay: Map) {
    let Value::Map(config) = &mut config.value else { return };
    for Entry { key, value } in overlay.entries {
        match config.entries.iter_mut().find(|entry| entry.key.as_str() == key.as_str()) {
            Some(entry) => entry.value = value,
            None => config.entries.push(Entry { key, value }),
        }
    }
}
