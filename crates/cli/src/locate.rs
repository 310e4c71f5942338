//! Search for the files of an inventory.
//!
//! An inventory is a folder of clusters (`inventory/<name>/cluster.yaml`, with a shared
//! `inventory/defaults.yaml`), one cluster's folder, or a single file.

use std::fs;
use std::path::{Path, PathBuf};

use talmox_model::load::{ClusterFiles, Content, File, ReferenceKind};

use crate::boundary::{Boundary, is_planted};
use crate::command_code::CommandCode;
use crate::error::CommandError;

/// Files of the selected clusters.
#[derive(Debug)]
pub(crate) struct Located {
    /// Selected clusters, and the other clusters of the same inventory (`is_neighbour`).
    pub(crate) clusters: Vec<ClusterFiles>,
    /// Restriction of the files that the inventory may use.
    pub(crate) boundary: Boundary,
}

/// Finds the clusters with the given names, or all clusters if no name is given. `allowed` has the paths of
/// `--allow-file`.
pub(crate) fn locate(
    inventory: Option<&Path>,
    names: &[String],
    allowed: &[PathBuf],
) -> Result<Located, CommandError> {
    // A path may be given instead of a name, as in `talmox check inventory/dev`.
    if inventory.is_none()
        && let [path] = names
        && path.contains(['/', '.'])
    {
        return locate(Some(Path::new(path)), &[], allowed);
    }
    let root = match inventory {
        Some(path) => path.to_owned(),
        None => default_root()?,
    };
    if !root.exists() {
        let error = CommandError::usage_as(
            CommandCode::InventoryMissing,
            format!("there is no inventory at {}", root.display()),
        );
        return Err(error.hint("pass the folder or file of a cluster, or run `talmox init`"));
    }
    let boundary = boundary_of(&root, allowed);
    if root.is_file() || root.join("cluster.yaml").is_file() {
        return one_cluster(&root, names, boundary);
    }
    let found = clusters_in(&root);
    if found.is_empty() {
        let error = CommandError::usage_as(
            CommandCode::InventoryMissing,
            format!("no cluster in {}", root.display()),
        );
        let hint = if has_other_suffix(&root) {
            "rename cluster.yml to cluster.yaml: talmox reads only that name"
        } else {
            "run `talmox init` to write one: a cluster is a folder with a cluster.yaml"
        };
        return Err(error.hint(hint));
    }
    let mut wanted = vec![];
    for name in names {
        let folders: Vec<String> = found.iter().map(|folder| folder_name(folder)).collect();
        let by_folder = folders.iter().position(|folder| folder == name);
        let by_name =
            || found.iter().position(|folder| own_name(folder, &boundary).as_ref() == Some(name));
        let Some(at) = by_folder.or_else(by_name) else {
            let error = CommandError::usage_as(
                CommandCode::ClusterUnknown,
                format!("no cluster `{name}` in {}", root.display()),
            );
            return Err(error.hint(match nearest(name, &folders) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("clusters: {}", folders.join(", ")),
            }));
        };
        wanted.push(found[at].clone());
    }
    let is_wanted = |folder: &PathBuf| names.is_empty() || wanted.contains(folder);
    let files = |folder: &PathBuf| cluster_files(folder, !is_wanted(folder), &boundary);
    let clusters = found.iter().map(files).collect();
    Ok(Located { clusters, boundary })
}

/// Boundary of an inventory: the Git repository. Outside a repository it is the folder of clusters. For a single cluster
/// outside a repository, it is the folder of the cluster, or the parent folder if that contains a defaults.yaml.
fn boundary_of(root: &Path, allowed: &[PathBuf]) -> Boundary {
    let folder = if root.is_file() { root.parent().unwrap_or(Path::new("")) } else { root };
    let is_one = root.is_file() || folder.join("cluster.yaml").is_file();
    let own = Boundary::around(folder, allowed);
    let is_in_repository = own.root().join(".git").symlink_metadata().is_ok();
    let defaults = beside(folder, "defaults.yaml");
    if is_one && !is_in_repository && defaults.is_file() && !is_planted(&defaults) {
        return Boundary::around(&above(folder), allowed);
    }
    own
}

/// Whether a cluster.yml exists in this folder or in a direct subfolder.
fn has_other_suffix(root: &Path) -> bool {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    root.join("cluster.yml").exists()
        || entries.into_iter().any(|entry| entry.path().join("cluster.yml").exists())
}

fn default_root() -> Result<PathBuf, CommandError> {
    for candidate in ["inventory", "."] {
        let path = Path::new(candidate);
        if path.join("cluster.yaml").is_file() || !clusters_in(path).is_empty() {
            return Ok(path.to_owned());
        }
    }
    let error = CommandError::usage_as(CommandCode::InventoryMissing, "there is no inventory here");
    Err(error.hint("run `talmox init` to write one, or pass --inventory PATH"))
}

/// The `cluster_name:` of a cluster, which is used in output.
fn own_name(folder: &Path, boundary: &Boundary) -> Option<String> {
    let bytes = boundary.read(&folder.join("cluster.yaml")).ok()?;
    let documents = talmox_yaml::read(&String::from_utf8(bytes).ok()?).ok()?;
    let map = documents.first()?.as_map()?;
    let name = map.get("cluster_name").or_else(|| map.get("name"))?;
    name.as_str().map(str::to_owned)
}

fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    talmox_model::closest(name, known.iter().map(String::as_str))
}

/// Locates a single cluster by its path. Clusters in sibling folders become neighbours of this cluster.
fn one_cluster(path: &Path, names: &[String], boundary: Boundary) -> Result<Located, CommandError> {
    let own = if path.is_file() {
        let folder = path.parent().unwrap_or(Path::new(""));
        let name = match path.file_stem() {
            Some(stem) if stem != "cluster" => stem.to_string_lossy().into_owned(),
            _ => folder_name(folder),
        };
        // A single file contains all nodes, unless it is the cluster.yaml of a folder.
        let is_folder_form = path.file_name().is_some_and(|file| file == "cluster.yaml");
        ClusterFiles {
            default_name: name,
            defaults: defaults_of(folder, &boundary),
            cluster: Some(read(path, &boundary)),
            nodes: is_folder_form
                .then(|| read_if_there(&folder.join("nodes.yaml"), &boundary))
                .flatten(),
            is_neighbour: false,
        }
    } else {
        cluster_files(path, false, &boundary)
    };
    if let Some(other) = names.iter().find(|name| **name != own.default_name) {
        let message = format!("{} is the cluster `{}`", path.display(), own.default_name);
        return Err(CommandError::usage(message).hint(format!("omit `{other}`")));
    }
    let folder = if path.is_file() { path.parent() } else { Some(path) };
    let mut clusters = vec![own];
    if let Some(folder) = folder.filter(|folder| folder.join("cluster.yaml").is_file()) {
        let itself = folder.canonicalize().ok();
        let siblings = clusters_in(&above(folder));
        let others = siblings.iter().filter(|sibling| sibling.canonicalize().ok() != itself);
        // Neighbours are only compared with this cluster. They may be in other repositories.
        let around = Boundary::around(&above(folder), &[]);
        clusters.extend(others.map(|sibling| cluster_files(sibling, true, &around)));
    }
    Ok(Located { clusters, boundary })
}

/// Parent folder, written without `..` if possible.
fn above(folder: &Path) -> PathBuf {
    match folder.parent() {
        Some(parent) if folder.file_name().is_some() => parent.to_owned(),
        _ => folder.join(".."),
    }
}

fn beside(folder: &Path, name: &str) -> PathBuf {
    above(folder).join(name)
}

fn cluster_files(folder: &Path, is_neighbour: bool, boundary: &Boundary) -> ClusterFiles {
    ClusterFiles {
        default_name: folder_name(folder),
        defaults: defaults_of(folder, boundary),
        cluster: Some(read(&folder.join("cluster.yaml"), boundary)),
        nodes: read_if_there(&folder.join("nodes.yaml"), boundary),
        is_neighbour,
    }
}

/// The defaults.yaml in the parent folder of a cluster.
fn defaults_of(folder: &Path, boundary: &Boundary) -> Option<File> {
    let path = beside(folder, "defaults.yaml");
    if is_planted(&path) {
        let problem = "it belongs to another user, and its folder is writable by all users";
        return Some(File { path, content: Err(problem.to_owned()) });
    }
    read_if_there(&path, boundary)
}

/// Existing clusters of a folder, for a new cluster in the same folder.
pub(crate) fn neighbours(root: &Path) -> Vec<ClusterFiles> {
    let boundary = Boundary::around(root, &[]);
    clusters_in(root).iter().map(|folder| cluster_files(folder, true, &boundary)).collect()
}

/// Subfolders with a cluster.yaml, sorted by name.
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

/// Reads a file if the path exists. A folder, a pipe or a dangling link at the path is an error.
fn read_if_there(path: &Path, boundary: &Boundary) -> Option<File> {
    path.symlink_metadata().is_ok().then(|| read(path, boundary)).or_else(|| {
        // A `.yml` file is an error, because ignoring it would hide a part of the inventory.
        let other = path.with_extension("yml");
        let name = path.file_name()?.to_string_lossy();
        let content = Err(format!("files with this name are not read; rename it to {name}"));
        other.symlink_metadata().is_ok().then_some(File { path: other, content })
    })
}

fn read(path: &Path, boundary: &Boundary) -> File {
    let content: Content = boundary.content(path, ReferenceKind::Other);
    File { path: path.to_owned(), content }
}
