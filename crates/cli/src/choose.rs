//! Selection of the cluster that a command works on.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use talmox_model::{Cluster, Inventory, Node, Span};

use crate::args::Global;
use crate::boundary::Boundary;
use crate::command_code::CommandCode;
use crate::disk;
use crate::error::CommandError;
use crate::load::load_located;
use crate::locate::locate;
use crate::printer::Printer;
use crate::render;

/// Paths of a kubeconfig and a talosconfig.
#[derive(Clone, Debug)]
pub(crate) struct ClientPaths {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) talosconfig: PathBuf,
}

impl ClientPaths {
    /// Paths in a folder that belongs to one cluster.
    pub(crate) fn within(folder: &Path) -> Self {
        Self { kubeconfig: folder.join("kubeconfig"), talosconfig: folder.join("talosconfig") }
    }
}

/// Cluster whose inventory has no errors, with the paths of its files.
#[derive(Debug)]
pub(crate) struct Chosen {
    inventory: Inventory,
    /// `cluster.yaml`, or the single file that describes the cluster.
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

    /// `cluster.yaml`, or the single file that describes the cluster.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Restriction of the files that the inventory may name.
    pub(crate) fn boundary(&self) -> &Boundary {
        &self.boundary
    }

    /// Whether the user passed `--allow-commands`.
    pub(crate) fn allows_commands(&self) -> bool {
        self.allows_commands
    }

    /// Returns an error if `path` is a link to a path outside the boundary. Otherwise the author of the inventory could
    /// choose which file of the user talmox overwrites.
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

    /// Path of a file that the inventory names at this position. A relative path starts at the folder of the inventory
    /// file that contains the name.
    pub(crate) fn path_at(&self, span: Span, name: &str) -> PathBuf {
        let source = self.inventory.sources.get(span.source).path();
        source.and_then(Path::parent).unwrap_or(self.folder()).join(name)
    }

    /// Folder of the inventory, where relative paths start.
    pub(crate) fn folder(&self) -> &Path {
        self.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Path of the secrets file. Each cluster has its own secrets file, even if several clusters are single files in one
    /// folder, because the secrets are the identity of a cluster.
    pub(crate) fn secrets_path(&self) -> PathBuf {
        secrets_beside(&self.file)
    }

    /// Usual path of the unencrypted output of `talosctl gen secrets`.
    pub(crate) fn plain_secrets_path(&self) -> PathBuf {
        self.beside("secrets.yaml")
    }

    /// Paths where `up` writes the client files.
    pub(crate) fn client_paths(&self) -> ClientPaths {
        ClientPaths {
            kubeconfig: self.beside("kubeconfig"),
            talosconfig: self.beside("talosconfig"),
        }
    }

    /// Folder of the run logs and of the local lock.
    pub(crate) fn run_folder(&self) -> PathBuf {
        let runs = self.folder().join(".talmox");
        self.own_name().map(|name| runs.join(name)).unwrap_or(runs)
    }

    /// Creates [`Chosen::run_folder`] if it is missing. A link at this path is rejected. Otherwise the author of the
    /// inventory could choose where talmox writes the lock and the logs.
    pub(crate) fn make_run_folder(&self) -> Result<PathBuf, CommandError> {
        let runs = self.run_folder();
        disk::refuse_link(&self.folder().join(".talmox"))?;
        disk::refuse_link(&runs)?;
        std::fs::create_dir_all(&runs).map_err(|error| {
            CommandError::failed(
                CommandCode::FileUnwritable,
                format!("cannot create {}", runs.display()),
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

/// Path of the secrets file of the cluster that `file` describes.
pub(crate) fn secrets_beside(file: &Path) -> PathBuf {
    beside(file, "secrets.sops.yaml")
}

/// Path of a generated file with this name for the cluster that `file` describes.
pub(crate) fn beside(file: &Path, name: &str) -> PathBuf {
    match own_name(file) {
        Some(own) => file.with_file_name(format!("{}.{name}", own.to_string_lossy())),
        None => file.with_file_name(name),
    }
}

/// Prefix of the generated files of a cluster that shares its folder with other clusters: the name of its inventory file
/// without the extension. `None` for a cluster with its own folder.
fn own_name(file: &Path) -> Option<&OsStr> {
    file.file_stem().filter(|stem| *stem != "cluster")
}

/// Whether the user passed an inventory path, or an inventory exists at the default path.
pub(crate) fn has_inventory(global: &Global) -> bool {
    global.inventory.is_some() || locate(None, &[], &[]).is_ok()
}

/// Names of the selected clusters, as arguments for [`one`]: the given names, or else all clusters. `None` selects the
/// only cluster of the inventory, or the built-in inventory.
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

/// Names of the selected clusters for a command that makes changes. Without a name, such a command must not select
/// several clusters at once.
pub(crate) fn each_named(names: &[String]) -> Vec<Option<String>> {
    if names.is_empty() { vec![None] } else { names.iter().cloned().map(Some).collect() }
}

/// Finds the cluster with this name, or the only cluster of the inventory, and checks its inventory.
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
            "the inventory has several clusters",
        )
        .hint(format!("pass the name of one of them: {}", known.join(", "))));
    };
    let file = own.cluster.as_ref().map(|file| file.path.clone()).unwrap_or_default();
    let boundary = located.boundary.clone();
    let inventory = load_located(located);
    if inventory.has_errors() {
        printer.say_raw(&render::text(&inventory, printer.color));
        return Err(CommandError::failed(
            CommandCode::InventoryInvalid,
            "the inventory has errors; nothing was changed",
        )
        .hint("fix the errors shown above")
        .detail("diagnostics", render::json(&inventory)));
    }
    Ok(Chosen { inventory, file, boundary, allows_commands: global.allow_commands })
}
