//! Finding the files of an inventory.
//!
//! An inventory is a folder of clusters (`inventory/<name>/cluster.yaml`, with a shared
//! `inventory/defaults.yaml`), one cluster's folder, or a single file.

use std::fs;
use std::path::{Path, PathBuf};

use talmox_model::load::{ClusterFiles, Content, File};

use crate::error::CommandError;

/// What a command works on.
#[derive(Debug)]
pub(crate) struct Located {
    /// The clusters that were asked for, and their neighbours.
    pub(crate) clusters: Vec<ClusterFiles>,
}

/// Finds the clusters with the given names, or all of them.
pub(crate) fn locate(inventory: Option<&Path>, names: &[String]) -> Result<Located, CommandError> {
    let root = match inventory {
        Some(path) => path.to_owned(),
        None => default_root()?,
    };
    if !root.exists() {
        let error = CommandError::usage(format!("there is no inventory at {}", root.display()));
        return Err(error.hint("name a cluster's folder or file, or run `talmox init`"));
    }
    if root.is_file() || root.join("cluster.yaml").is_file() {
        return one_cluster(&root, names);
    }
    let found = clusters_in(&root);
    if found.is_empty() {
        let error = CommandError::usage(format!("no cluster in {}", root.display()));
        let hint = "a cluster is a folder with a cluster.yaml; `talmox init` writes one";
        return Err(error.hint(hint));
    }
    for name in names {
        if !found.iter().any(|folder| folder_name(folder) == *name) {
            let known: Vec<String> = found.iter().map(|folder| folder_name(folder)).collect();
            let error = CommandError::usage(format!("no cluster `{name}` in {}", root.display()));
            return Err(error.hint(format!("there are: {}", known.join(", "))));
        }
    }
    let is_wanted = |folder: &Path| names.is_empty() || names.contains(&folder_name(folder));
    let clusters = found.iter().map(|folder| cluster_files(folder, !is_wanted(folder))).collect();
    Ok(Located { clusters })
}

fn default_root() -> Result<PathBuf, CommandError> {
    for candidate in ["inventory", "."] {
        let path = Path::new(candidate);
        if path.join("cluster.yaml").is_file() || !clusters_in(path).is_empty() {
            return Ok(path.to_owned());
        }
    }
    let error = CommandError::usage("there is no inventory here");
    Err(error.hint("run `talmox init` to write one, or name one with --inventory PATH"))
}

/// A path that is one cluster; others beside it are its neighbours.
fn one_cluster(path: &Path, names: &[String]) -> Result<Located, CommandError> {
    let own = if path.is_file() {
        let folder = path.parent().unwrap_or(Path::new(""));
        let name = match path.file_stem() {
            Some(stem) if stem != "cluster" => stem.to_string_lossy().into_owned(),
            _ => folder_name(folder),
        };
        // A file on its own has all nodes in it, unless it is the cluster.yaml of a folder.
        let is_folder_form = path.file_name().is_some_and(|file| file == "cluster.yaml");
        ClusterFiles {
            default_name: name,
            defaults: read_if_there(&beside(folder, "defaults.yaml")),
            cluster: Some(read(path)),
            nodes: is_folder_form.then(|| read_if_there(&folder.join("nodes.yaml"))).flatten(),
            is_neighbour: false,
        }
    } else {
        cluster_files(path, false)
    };
    if let Some(other) = names.iter().find(|name| **name != own.default_name) {
        let message = format!("{} is the cluster `{}`", path.display(), own.default_name);
        return Err(CommandError::usage(message).hint(format!("leave `{other}` out")));
    }
    let folder = if path.is_file() { path.parent() } else { Some(path) };
    let mut clusters = vec![own];
    if let Some(folder) = folder.filter(|folder| folder.join("cluster.yaml").is_file()) {
        let itself = folder.canonicalize().ok();
        let siblings = clusters_in(&beside(folder, "."));
        let others = siblings.iter().filter(|sibling| sibling.canonicalize().ok() != itself);
        clusters.extend(others.map(|sibling| cluster_files(sibling, true)));
    }
    Ok(Located { clusters })
}

/// A path in the folder above, written without `..` where that is possible.
fn beside(folder: &Path, name: &str) -> PathBuf {
    match folder.parent() {
        Some(parent) if folder.file_name().is_some() => parent.join(name),
        _ => folder.join("..").join(name),
    }
}

fn cluster_files(folder: &Path, is_neighbour: bool) -> ClusterFiles {
    ClusterFiles {
        default_name: folder_name(folder),
        defaults: read_if_there(&beside(folder, "defaults.yaml")),
        cluster: Some(read(&folder.join("cluster.yaml"))),
        nodes: read_if_there(&folder.join("nodes.yaml")),
        is_neighbour,
    }
}

/// The folders with a cluster.yaml, by name.
fn clusters_in(folder: &Path) -> Vec<PathBuf> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = fs::read_dir(folder) else {
        return vec![];
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .map(|path| path.strip_prefix("./").map_or_else(|_| path.clone(), Path::to_owned))
        .filter(|path| path.join("cluster.yaml").is_file())
        .collect();
    found.sort();
    found
}

fn folder_name(folder: &Path) -> String {
    let named = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    named
        .or_else(|| {
            let absolute = fs::canonicalize(if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            });
            Some(absolute.ok()?.file_name()?.to_string_lossy().into_owned())
        })
        .unwrap_or_default()
}

fn read_if_there(path: &Path) -> Option<File> {
    path.is_file().then(|| read(path))
}

fn read(path: &Path) -> File {
    File { path: path.to_owned(), content: content(path) }
}

/// A file that the inventory names. Folders are fine where they exist.
pub(crate) fn content(path: &Path) -> Content {
    if path.is_dir() {
        return Ok(vec![]);
    }
    fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    })
}
