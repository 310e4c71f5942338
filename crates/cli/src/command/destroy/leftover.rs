//! Deletion of the local files of a cluster: secrets, client files and rendered configs.

use std::fs;
use std::path::{Path, PathBuf};

use talmox_plan::plan::{Change, Class};
use talmox_talos_config::secrets::Bundle;

use crate::command::{draft, kubeconfig, talosconfig};
use crate::command_code::CommandCode;
use crate::disk;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::rendered_folder::{DEFAULT_FOLDER, RenderedFolder};
use crate::secrets::SecretsFile;
use crate::session::Session;

/// Local files of a cluster that `destroy --secrets` deletes, and merged files that it keeps.
pub(super) struct Leftovers {
    /// The kubeconfig and talosconfig that `up` wrote.
    clients: Vec<PathBuf>,
    rendered: Vec<RenderedFolder>,
    /// Files of the user with contexts of several clusters. These files are kept.
    merged: Vec<PathBuf>,
    secrets: Option<SecretsFile>,
}

impl Leftovers {
    /// Finds files that provably belong to this cluster. The proof is a certificate authority of the cluster, or the list
    /// of rendered files.
    pub(super) fn find(session: &Session) -> Result<Self, CommandError> {
        let folder = session.folder();
        let mut clients = vec![];
        let paths = session.client_paths();
        for path in [paths.kubeconfig, paths.talosconfig] {
            if is_of(&path, &session.bundle)? {
                clients.push(path);
            }
        }
        let mut rendered = vec![];
        let places = [PathBuf::from(DEFAULT_FOLDER), folder.join(DEFAULT_FOLDER)];
        for place in places.iter().take(if folder == Path::new(".") { 1 } else { 2 }) {
            let output = RenderedFolder::open(place)?;
            if output.is_of(&session.bundle.cluster.id) {
                rendered.push(output);
            }
        }
        let mut merged = vec![];
        for path in [kubeconfig::own_file(), talosconfig::own_file()].into_iter().flatten() {
            if !clients.contains(&path) && is_of(&path, &session.bundle)? {
                merged.push(path);
            }
        }
        let secrets = SecretsFile::open(&session.chosen)?;
        Ok(Self { clients, rendered, merged, secrets })
    }

    /// Entries of these files in the plan.
    pub(super) fn changes(&self) -> Vec<Change> {
        let removed =
            |path: &Path, note: &str| draft::file(path.display().to_string(), Class::Destroy, note);
        let mut changes = vec![];
        changes
            .extend(self.clients.iter().map(|path| removed(path, "client file of this cluster")));
        changes.extend(
            self.rendered
                .iter()
                .map(|output| removed(output.folder(), "files that `render` wrote")),
        );
        changes.extend(self.secrets.as_ref().map(|file| {
            let note = match file.other_paths().as_slice() {
                [] => "without it, backups of the cluster cannot be accessed".to_owned(),
                others => format!("only the secrets bundle; {}", kept_note(others)),
            };
            removed(&file.path, &note)
        }));
        changes
    }

    /// Deletes the files and prints a message for each.
    pub(super) fn delete(self, session: &Session, printer: &Printer) -> Result<(), CommandError> {
        for path in &self.clients {
            remove(path, printer)?;
        }
        for output in self.rendered {
            let folder = output.folder().display().to_string();
            let kept = output.take_back()?;
            printer.say(&format!("deleted the files that `render` wrote to {folder}"));
            for path in kept {
                printer.warn(&format!(
                    "{folder}/{path} was changed after `render` wrote it: not deleted"
                ));
            }
        }
        for path in self.merged {
            printer.warn(&format!("{} still has a context of this cluster", path.display()));
        }
        if self.secrets.is_none() {
            return Ok(());
        }
        // The secrets file is read again, because another command may have added a secret. Such a secret is kept.
        let _lock = crate::secrets::lock(&session.chosen, printer)?;
        match SecretsFile::open(&session.chosen)? {
            None => Ok(()),
            Some(file) if file.other_paths().is_empty() => remove(&file.path, printer),
            Some(mut file) => {
                file.forget_bundle()?;
                let rest = kept_note(&file.other_paths());
                let path = file.path.display();
                printer.say(&format!("removed the secrets bundle from {path}; {rest}"));
                Ok(())
            }
        }
    }
}

/// Note about the secrets that are kept.
fn kept_note(paths: &[String]) -> String {
    let verb = if paths.len() == 1 { "is" } else { "are" };
    format!("{} {verb} kept", paths.join(", "))
}

/// Whether a file contains a certificate authority of this cluster.
fn is_of(path: &Path, bundle: &Bundle) -> Result<bool, CommandError> {
    let authorities = [bundle.certs.k8s.crt_base64(), bundle.certs.os.crt_base64()];
    let text = disk::read_secret(path)?;
    Ok(text.is_some_and(|text| authorities.iter().any(|known| text.expose().contains(known))))
}

fn remove(path: &Path, printer: &Printer) -> Result<(), CommandError> {
    fs::remove_file(path).map_err(|error| {
        CommandError::failed(
            CommandCode::FileUnwritable,
            format!("cannot delete {}", path.display()),
        )
        .because(error)
    })?;
    printer.say(&format!("deleted {}", path.display()));
    Ok(())
}
