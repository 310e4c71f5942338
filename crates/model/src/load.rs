//! From bytes to an [`Inventory`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use talmox_yaml::ReadErrorKind;

use crate::check;
use crate::cluster::{Cluster, Inventory};
use crate::diagnostic::{self, Code, Diagnostic, Label};
use crate::inventory::InventoryFile;
use crate::language::{Context, Mapping, read_mapping};
use crate::source::{SourceId, Sources, Span};
use crate::value::Patch;

/// No inventory is larger: two thousand nodes take half a megabyte.
const LARGEST_FILE: usize = 4 << 20;

/// What became of reading a file.
pub type Content = Result<Vec<u8>, String>;

/// A file that was found.
#[derive(Clone, Debug)]
pub struct File {
    /// As messages name it; relative paths inside start at its folder.
    pub path: PathBuf,
    pub content: Content,
}

/// The files of one cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterFiles {
    /// What the cluster is called if it does not say so itself: the name of its folder.
    pub default_name: String,
    /// `defaults.yaml`, shared with the clusters beside it.
    pub defaults: Option<File>,
    /// `cluster.yaml`.
    pub cluster: Option<File>,
    /// `nodes.yaml`.
    pub nodes: Option<File>,
    /// Not asked for: only looked at because it may share a Proxmox with one that is. Its own
    /// problems are not reported.
    pub is_neighbour: bool,
}

/// Inventories that are read, and wait for the files that they name.
#[derive(Debug)]
pub struct Parsed {
    sources: Sources,
    diagnostics: Vec<Diagnostic>,
    clusters: Vec<Cluster>,
    neighbours: Vec<Cluster>,
}

impl Parsed {
    pub fn new(clusters: Vec<ClusterFiles>) -> Self {
        let mut parsed = Self {
            sources: Sources::default(),
            diagnostics: vec![],
            clusters: vec![],
            neighbours: vec![],
        };
        let mut shared = Shared::default();
        for files in clusters {
            let mut diagnostics = vec![];
            let is_neighbour = files.is_neighbour;
            let cluster = shared.cluster(files, &mut parsed.sources, &mut diagnostics);
            if is_neighbour {
                parsed.neighbours.push(cluster);
            } else {
                parsed.clusters.push(cluster);
                parsed.diagnostics.append(&mut diagnostics);
            }
        }
        parsed
    }

    /// The files that the inventories name: patches, certificates, add-ons.
    pub fn references(&self) -> BTreeSet<PathBuf> {
        let mut paths = BTreeSet::new();
        for cluster in &self.clusters {
            check::references(cluster, |span, file, _| {
                paths.insert(resolve(&self.sources, span, file));
            });
        }
        paths
    }

    /// Checks everything, given what became of reading the [`references`](Self::references).
    pub fn check(mut self, references: &BTreeMap<PathBuf, Content>) -> Inventory {
        for cluster in self.clusters.iter().filter(|cluster| !cluster.is_torn) {
            let mut found = vec![];
            check::cluster(cluster, &mut found);
            check::references(cluster, |span, file, kind| {
                let path = resolve(&self.sources, span, file);
                let content = references.get(&path);
                check::reference(&path, span, kind, content, &mut found);
            });
            let in_files = |found| in_files(found, cluster, &self.sources);
            self.diagnostics.extend(found.into_iter().map(in_files));
        }
        check::fleet(&self.clusters, &self.neighbours, &self.sources, &mut self.diagnostics);
        // What is wrong with a layer is wrong for each node and cluster that has it.
        diagnostic::sort(&mut self.diagnostics);
        self.diagnostics.dedup();
        Inventory { sources: self.sources, diagnostics: self.diagnostics, clusters: self.clusters }
    }
}

/// Nobody can correct what is built in: such findings are about the cluster.
fn in_files(mut found: Diagnostic, cluster: &Cluster, sources: &Sources) -> Diagnostic {
    let is_builtin = |span: Span| sources.get(span.source).path().is_none();
    found.related.retain(|label| !is_builtin(label.span));
    match &mut found.primary {
        Some(label) if !is_builtin(label.span) => {}
        primary => *primary = cluster.place.map(|span| Label { span, text: String::new() }),
    }
    found
}

/// Where a file is that stands in the inventory as `file`.
fn resolve(sources: &Sources, span: Span, file: &str) -> PathBuf {
    let folder = sources.get(span.source).path().and_then(Path::parent);
    folder.map_or_else(|| PathBuf::from(file), |folder| folder.join(file))
}

/// What several clusters have in common is read once.
#[derive(Default)]
struct Shared {
    builtin: Option<InventoryFile>,
    defaults: BTreeMap<PathBuf, (InventoryFile, Vec<Diagnostic>)>,
}

impl Shared {
    fn cluster(
        &mut self,
        files: ClusterFiles,
        sources: &mut Sources,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Cluster {
        let mut layers = vec![self.builtin(sources)];
        if let Some(file) = files.defaults {
            layers.push(self.defaults(file, sources, diagnostics));
        }
        let mut read = |file: File, kind| read_file(file, kind, sources, diagnostics);
        let cluster = files.cluster.map(|file| read(file, FileKind::Cluster));
        let nodes = files.nodes.map(|file| read(file, FileKind::Nodes));
        let is_torn = diagnostics.iter().any(|found| found.code.is_about_whole_file());
        let mut file = cluster.unwrap_or_default();
        if let Some(nodes) = nodes {
            join_nodes(&mut file, nodes, diagnostics);
        }
        layers.push(file);
        Cluster { is_torn, ..Cluster::resolve(files.default_name, layers, diagnostics) }
    }

    fn builtin(&mut self, sources: &mut Sources) -> InventoryFile {
        let read = || {
            let mut diagnostics = vec![];
            let id = sources.add(None, include_str!("builtin.yaml").to_owned());
            let file = read_text(id, FileKind::Defaults, sources, &mut diagnostics);
            assert!(
                diagnostics.is_empty(),
                "invariant: built-in settings are right: {diagnostics:?}"
            );
            file
        };
        self.builtin.get_or_insert_with(read).clone()
    }

    fn defaults(
        &mut self,
        file: File,
        sources: &mut Sources,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> InventoryFile {
        let (layer, found) = self.defaults.entry(file.path.clone()).or_insert_with(|| {
            let mut found = vec![];
            let layer = read_file(file, FileKind::Defaults, sources, &mut found);
            (layer, found)
        });
        diagnostics.extend(found.iter().cloned());
        layer.clone()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum FileKind {
    Cluster,
    Nodes,
    Defaults,
}

fn read_file(
    file: File,
    kind: FileKind,
    sources: &mut Sources,
    diagnostics: &mut Vec<Diagnostic>,
) -> InventoryFile {
    let mut text = String::new();
    let problem = match file.content {
        Err(problem) => {
            let diagnostic =
                Diagnostic::error(Code::Unreadable, format!("cannot be read: {problem}"));
            Some(diagnostic.hint("look at the path and its permissions"))
        }
        Ok(bytes) if bytes.len() > LARGEST_FILE => {
            let message = format!("{} MiB are too much for an inventory", bytes.len() >> 20);
            let hint =
                format!("at most {} MiB are read; is this the right file?", LARGEST_FILE >> 20);
            Some(Diagnostic::error(Code::TooLarge, message).hint(hint))
        }
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(utf8) => {
                text = utf8.strip_prefix('\u{feff}').map_or_else(|| utf8.clone(), str::to_owned);
                None
            }
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let message = format!("not UTF-8 text: the byte at offset {at} is not a character");
                Some(Diagnostic::error(Code::NotUtf8, message).hint("save the file as UTF-8"))
            }
        },
    };
    let id = sources.add(Some(&file.path), text);
    if let Some(problem) = problem {
        diagnostics.push(problem.at(Span::new(id, 0..0)));
        return InventoryFile::default();
    }
    read_text(id, kind, sources, diagnostics)
}

fn read_text(
    source: SourceId,
    kind: FileKind,
    sources: &mut Sources,
    diagnostics: &mut Vec<Diagnostic>,
) -> InventoryFile {
    let start = Span::new(source, 0..0);
    let mut file = InventoryFile { span: Some(start), ..InventoryFile::default() };
    let documents = match talmox_yaml::read(sources.get(source).text()) {
        Ok(documents) => documents,
        Err(error) => {
            diagnostics.push(syntax_error(&error, source, sources));
            return file;
        }
    };
    if let Some(second) = documents.get(1) {
        diagnostics.push(
            Diagnostic::error(Code::SeveralDocuments, "a second YAML document")
                .at(Span::of(source, second.span))
                .hint("an inventory file holds one; remove the `---` before it"),
        );
    }
    let Some(document) = documents.first().filter(|document| !document.is_null()) else {
        return file;
    };
    if document.as_map().is_none() {
        let message = format!("the file holds {}, not settings", document.describe());
        diagnostics.push(
            Diagnostic::error(Code::Syntax, message)
                .at(Span::of(source, document.span))
                .hint("an inventory file is a mapping, such as `talos_version: v1.11.2`"),
        );
        return file;
    }
    let mut cx = Context { source, sources, diagnostics };
    read_mapping(&mut file, document, &mut cx);
    if let Some(first) = document.as_map().and_then(|map| map.entries.first()) {
        file.span = Some(cx.span(&first.key));
    }
    misplaced_keys(document, kind, &mut cx);
    file
}

fn syntax_error(error: &talmox_yaml::ReadError, source: SourceId, sources: &Sources) -> Diagnostic {
    let text = sources.get(source).text();
    let at = error.span.start.min(text.len());
    let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[line_start..].lines().next().unwrap_or_default();
    let indent = line.len() - line.trim_start().len();
    let diagnostic =
        Diagnostic::error(Code::Syntax, error.to_string()).at(Span::of(source, error.span));
    match &error.kind {
        ReadErrorKind::Syntax(_) if line[..indent].contains('\t') => {
            diagnostic.hint("YAML is indented with spaces, not with tabs")
        }
        ReadErrorKind::Syntax(_) => {
            diagnostic.hint("look at the indentation and the quotes here and in the line above")
        }
        _ => diagnostic.hint("write it out"),
    }
}

/// nodes.yaml holds nodes, defaults.yaml holds everything else.
fn misplaced_keys(document: &talmox_yaml::Node, kind: FileKind, cx: &mut Context<'_>) {
    let Some(map) = document.as_map() else { return };
    for entry in &map.entries {
        let Some(name) = entry.key.as_str().and_then(InventoryFile::canonical) else {
            continue;
        };
        let holds_nodes = matches!(name, "controlplane" | "workers");
        let hint = match kind {
            FileKind::Nodes if !holds_nodes => "move it to cluster.yaml",
            FileKind::Defaults if holds_nodes || name == "cluster_name" => {
                "move it to the cluster it belongs to: defaults.yaml is shared"
            }
            _ => continue,
        };
        let span = cx.span(&entry.key);
        let message = format!("`{name}` does not belong into this file");
        cx.report(Diagnostic::error(Code::MisplacedKey, message).at(span).hint(hint));
    }
}

/// Puts the nodes of nodes.yaml into the cluster.
fn join_nodes(file: &mut InventoryFile, nodes: InventoryFile, diagnostics: &mut Vec<Diagnostic>) {
    for (name, own, other) in [
        ("controlplane", &mut file.controlplane, nodes.controlplane),
        ("workers", &mut file.workers, nodes.workers),
    ] {
        match (own.span, other.span) {
            (Some(here), Some(there)) => diagnostics.push(
                Diagnostic::error(Code::MisplacedKey, format!("`{name}` is given in two files"))
                    .at(here)
                    .related(there, "and here")
                    .hint("keep the nodes in one of the two files"),
            ),
            (None, Some(_)) => *own = other,
            _ => {}
        }
    }
}

/// The parsed form of an inline or textual patch, or what is wrong with it.
pub(crate) fn parse_patch(patch: &Patch) -> Result<(), String> {
    match patch {
        Patch::File(_) => Ok(()),
        Patch::Inline(node) => check::patch_shape(std::slice::from_ref(&**node)),
        Patch::Text(text) => check::patch_text(text),
    }
}
