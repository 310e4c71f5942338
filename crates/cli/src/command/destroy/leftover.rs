//! What talmox wrote for a cluster on this machine, and what is worth nothing without its secrets.

use std::fs;
use std::path::{Path, PathBuf};

use talmox_plan::plan::{Change, Class};
use talmox_talos_config::secrets::Bundle;

use crate::command::render::{DEFAULT_FOLDER, Output};
use crate::command::{draft, kubeconfig, talosconfig};
use crate::command_code::CommandCode;
use crate::disk;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::secrets::SecretsFile;
use crate::session::Session;

/// Files that go with the secrets, the secrets last.
pub(super) struct Leftovers {
    /// kubeconfig and talosconfig.
    clients: Vec<PathBuf>,
    rendered: Vec<Output>,
    /// Files of the user's own that lead to the cluster among others: they stay.
    merged: Vec<PathBuf>,
    secrets: Option<SecretsFile>,
}

impl Leftovers {
    /// Finds what is provably of this cluster: by its authorities, or by the list of what was rendered.
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
            let output = Output::open(place)?;
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

    /// The same as lines of a plan.
    pub(super) fn changes(&self) -> Vec<Change> {
        let gone =
            |path: &Path, note: &str| draft::file(path.display().to_string(), Class::Destroy, note);
        let mut changes = vec![];
        changes.extend(self.clients.iter().map(|path| gone(path, "leads to this cluster")));
        changes.extend(
            self.rendered.iter().map(|output| gone(output.folder(), "what `render` wrote there")),
        );
        changes.extend(self.secrets.as_ref().map(|file| {
            let note = match file.other_paths().as_slice() {
                [] => "without it nobody gets into backups of the cluster".to_owned(),
                others => format!("the cluster's own secrets; {}", staying(others)),
            };
            gone(&file.path, &note)
        }));
        changes
    }

    /// Deletes them, and says so.
    pub(super) fn delete(self, session: &Session, printer: &Printer) -> Result<(), CommandError> {
        for path in &self.clients {
            remove(path, printer)?;
        }
        for output in self.rendered {
            let folder = output.folder().display().to_string();
            let kept = output.take_back()?;
            printer.say(&format!("deleted what `render` wrote to {folder}"));
            for path in kept {
                printer.warn(&format!(
                    "{folder}/{path} was changed since it was rendered: not deleted"
                ));
            }
        }
        for path in self.merged {
            printer.warn(&format!("{} still has a context of this cluster", path.display()));
        }
        if self.secrets.is_none() {
            return Ok(());
        }
        // Read again: another command may have added a secret since, which stays.
        let _lock = crate::secrets::lock(&session.chosen, printer)?;
        match SecretsFile::open(&session.chosen)? {
            None => Ok(()),
            Some(file) if file.other_paths().is_empty() => remove(&file.path, printer),
            Some(mut file) => {
                file.forget_bundle()?;
                let rest = staying(&file.other_paths());
                let path = file.path.display();
                printer.say(&format!("took the cluster's secrets out of {path}; {rest}"));
                Ok(())
            }
        }
    }
}

/// The secrets that are not deleted.
fn staying(paths: &[String]) -> String {
    let verb = if paths.len() == 1 { "stays" } else { "stay" };
    format!("{} {verb}", paths.join(", "))
}

/// Whether a file holds an authority of this cluster.
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
