//! The one cluster that a command works on.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use talmox_model::{Cluster, Inventory, Node, Span};

use crate::args::Global;
use crate::boundary::Boundary;
use crate::command::check;
use crate::command_code::CommandCode;
use crate::disk;
use crate::error::CommandError;
use crate::locate::locate;
use crate::printer::Printer;
use crate::render;

/// Where kubeconfig and talosconfig are.
#[derive(Clone, Debug)]
pub(crate) struct ClientPaths {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) talosconfig: PathBuf,
}

impl ClientPaths {
    /// In a folder where nobody else's are.
    pub(crate) fn within(folder: &Path) -> Self {
        Self { kubeconfig: folder.join("kubeconfig"), talosconfig: folder.join("talosconfig") }
    }
}

/// A cluster without errors, and where its files are.
#[derive(Debug)]
pub(crate) struct Chosen {
    inventory: Inventory,
    /// `cluster.yaml`, or the file that the cluster stands in.
    file: PathBuf,
    boundary: Boundary,
    allows_commands: bool,
}

impl Chosen {
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.inventory.clusters[0]
    }

    pub(crate) fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// `cluster.yaml`, or the file that the cluster stands in.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Where the files of the inventory must be.
    pub(crate) fn boundary(&self) -> &Boundary {
        &self.boundary
    }

    /// Whether the user passed `--allow-commands`.
    pub(crate) fn allows_commands(&self) -> bool {
        self.allows_commands
    }

    /// Refuses to write to a file of the inventory that is a link to the outside: the author of the inventory would
    /// choose which file of the user's is replaced.
    pub(crate) fn refuse_outside(&self, path: &Path) -> Result<(), CommandError> {
        if path.symlink_metadata().is_ok() {
            self.boundary.admit(path).map_err(|error| {
                CommandError::failed(
                    CommandCode::FileUnwritable,
                    format!("cannot write {}", path.display()),
                )
                .because(error)
            })?;
        }
        Ok(())
    }

    /// Where a file is that the inventory names at this place: relative paths start at the folder of the file that
    /// names it.
    pub(crate) fn path_at(&self, span: Span, name: &str) -> PathBuf {
        let source = self.inventory.sources.get(span.source).path();
        source.and_then(Path::parent).unwrap_or(self.folder()).join(name)
    }

    /// The folder that relative paths of the inventory start at.
    pub(crate) fn folder(&self) -> &Path {
        self.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Where the secrets of the cluster are. Several clusters may stand in one folder as single
    /// files; each has secrets of its own, since they are its identity.
    pub(crate) fn secrets_path(&self) -> PathBuf {
        secrets_beside(&self.file)
    }

    /// Where people keep what `talosctl gen secrets` writes.
    pub(crate) fn plain_secrets_path(&self) -> PathBuf {
        self.beside("secrets.yaml")
    }

    /// Where `up` leaves the files that lead to the cluster.
    pub(crate) fn client_paths(&self) -> ClientPaths {
        ClientPaths {
            kubeconfig: self.beside("kubeconfig"),
            talosconfig: self.beside("talosconfig"),
        }
    }

    /// The folder of the run logs, and of the lock.
    pub(crate) fn run_folder(&self) -> PathBuf {
        let runs = self.folder().join(".talmox");
        self.own_name().map(|name| runs.join(name)).unwrap_or(runs)
    }

    /// The same folder, made if it is not there. A link in its place would put the lock and the logs wherever the
    /// author of the inventory likes.
    pub(crate) fn make_run_folder(&self) -> Result<PathBuf, CommandError> {
        let runs = self.run_folder();
        disk::refuse_link(&self.folder().join(".talmox"))?;
        disk::refuse_link(&runs)?;
        std::fs::create_dir_all(&runs).map_err(|error| {
            CommandError::failed(
                CommandCode::FileUnwritable,
                format!("cannot make {}", runs.display()),
            )
            .because(error)
        })?;
        Ok(runs)
    }

    fn beside(&self, name: &str) -> PathBuf {
        beside(&self.file, name)
    }

    fn own_name(&self) -> Option<&OsStr> {
        own_name(&self.file)
    }

    pub(crate) fn talos_nodes(&self) -> impl Iterator<Item = &Node> {
        self.cluster().nodes.iter().filter(|node| node.is_talos())
    }
}

/// Where the secrets are of a cluster that stands in this file.
pub(crate) fn secrets_beside(file: &Path) -> PathBuf {
    beside(file, "secrets.sops.yaml")
}

/// Where a file with this name is that belongs to the cluster in `file`.
pub(crate) fn beside(file: &Path, name: &str) -> PathBuf {
    match own_name(file) {
        Some(own) => file.with_file_name(format!("{}.{name}", own.to_string_lossy())),
        None => file.with_file_name(name),
    }
}

/// What tells the files of a cluster apart that shares its folder with others: the name of its own file. One in
/// a folder of its own needs none.
fn own_name(file: &Path) -> Option<&OsStr> {
    file.file_stem().filter(|stem| *stem != "cluster")
}

/// Whether there is an inventory to choose from.
pub(crate) fn has_inventory(global: &Global) -> bool {
    global.inventory.is_some() || locate(None, &[], &[]).is_ok()
}

/// The clusters that are meant, for `one` to find: those that are named, else all. None is the only one there is, or
/// the built-in one.
pub(crate) fn each(global: &Global, names: &[String]) -> Result<Vec<Option<String>>, CommandError> {
    if !names.is_empty() {
        return Ok(names.iter().cloned().map(Some).collect());
    }
    if !has_inventory(global) {
        return Ok(vec![None]);
    }
    let located = locate(global.inventory.as_deref(), &[], &global.allow_files)?;
    let all: Vec<Option<String>> = located
        .clusters
        .iter()
        .filter(|files| !files.is_neighbour)
        .map(|files| Some(files.default_name.clone()))
        .collect();
    Ok(if all.len() == 1 { vec![None] } else { all })
}

/// The same for commands that change something: nobody means all of several by saying nothing.
pub(crate) fn each_named(names: &[String]) -> Vec<Option<String>> {
    if names.is_empty() { vec![None] } else { names.iter().cloned().map(Some).collect() }
}

/// Finds the cluster with this name, or the only one there is, and checks it.
pub(crate) fn one(
    global: &Global,
    name: Option<&str>,
    printer: &Printer,
) -> Result<Chosen, CommandError> {
    let names: Vec<String> = name.into_iter().map(str::to_owned).collect();
    let located = locate(global.inventory.as_deref(), &names, &global.allow_files)?;
    let wanted: Vec<_> = located.clusters.iter().filter(|files| !files.is_neighbour).collect();
    let [own] = wanted.as_slice() else {
        let known: Vec<_> = wanted.iter().map(|files| files.default_name.as_str()).collect();
        return Err(CommandError::usage_as(
            CommandCode::ClusterAmbiguous,
            "the inventory holds several clusters",
        )
        .hint(format!("name one of them: {}", known.join(", "))));
    };
    let file = own.cluster.as_ref().map(|file| file.path.clone()).unwrap_or_default();
    let boundary = located.boundary.clone();
    let inventory = check::load_located(located);
    if inventory.has_errors() {
        printer.say_raw(&render::text(&inventory, printer.color));
        return Err(CommandError::failed(
            CommandCode::InventoryInvalid,
            "the inventory has errors; nothing was changed",
        )
        .hint("correct what is marked `error` above")
        .detail("diagnostics", render::json(&inventory)));
    }
    Ok(Chosen { inventory, file, boundary, allows_commands: global.allow_commands })
}
