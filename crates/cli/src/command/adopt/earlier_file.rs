//! Files of an earlier `adopt` that ended before it was done. They are kept if they have the content that this run would write, so
//! that a second run continues. Any other file is an error, because `adopt` overwrites nothing.

use std::fs;
use std::path::Path;

use talmox_pve::SecretText;
use talmox_talos_config::secrets::Bundle;

use crate::args::Global;
use crate::choose;
use crate::command_code::CommandCode;
use crate::disk;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::secrets::SecretsFile;

/// The files that exist already with the content that this run would write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EarlierFiles {
    pub(super) has_inventory: bool,
    pub(super) has_secrets: bool,
}

impl EarlierFiles {
    /// Compares the files beside `path` with the inventory `text`, the bundle and the token. `global` names their folder.
    pub(super) fn find(
        path: &Path,
        text: &str,
        (bundle, token): (&Bundle, &SecretText),
        global: &Global,
        printer: &Printer,
    ) -> Result<Self, CommandError> {
        let secrets = choose::secrets_beside(path);
        let Some(known) = disk::read_secret(path)? else {
            let clients = ["kubeconfig", "talosconfig"].map(|name| choose::beside(path, name));
            let mut paths = [path.to_owned(), secrets].into_iter().chain(clients);
            return match paths.find(|path| exists(path)) {
                Some(found) => Err(other(&found)),
                None => Ok(Self::default()),
            };
        };
        if known.expose() != text {
            return Err(other(path));
        }
        if !exists(&secrets) {
            return Ok(Self { has_inventory: true, has_secrets: false });
        }
        let chosen = choose::one(global, None, printer)?;
        let file = SecretsFile::open_existing(&chosen)?;
        let known = file.document.get_text("proxmox.token");
        let is_token = known.is_some_and(|known| known.expose() == token.expose());
        if file.bundle()?.as_ref() != Some(bundle) || !is_token {
            return Err(other(&secrets));
        }
        Ok(Self { has_inventory: true, has_secrets: true })
    }
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn other(path: &Path) -> CommandError {
    let message =
        format!("{} exists already, and not with the content of this run", path.display());
    let hint = "pass another folder with --output; adopt never overwrites files";
    CommandError::failed(CommandCode::FileExists, message).hint(hint)
}
