//! Loading of an [`Inventory`] from the bytes of its files.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use talmox_yaml::ReadErrorKind;

use crate::check;
use crate::cluster::{Cluster, Inventory};
use crate::diagnostic::{Code, Diagnostic, Findings, Label};
use crate::inventory::InventoryFile;
use crate::language::{Context, Mapping, hide_in_lines, hide_in_tree, read_mapping};
use crate::source::{SourceId, Sources, Span};

/// Maximum size of an inventory file. An inventory with 2000 nodes takes 0.5 MiB.
const LARGEST_FILE: usize = 4 << 20;

pub use crate::check::ReferenceKind;

/// Content of a file, or the error of reading it.
pub type Content = Result<Vec<u8>, String>;

/// File of an inventory.
#[derive(Clone, Debug)]
pub struct File {
    /// Path that messages show. Relative paths in the file are relative to the folder of this path.
    pub path: PathBuf,
    pub content: Content,
}

/// Files of one cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterFiles {
    /// Name of the cluster if `cluster_name` is not set. It is the name of the folder.
    pub default_name: String,
    /// `defaults.yaml`, which several clusters share.
    pub defaults: Option<File>,
    /// `cluster.yaml`.
    pub cluster: Option<File>,
    /// `nodes.yaml`.
    pub nodes: Option<File>,
    /// Whether the cluster is loaded only because it may use the same Proxmox as a requested cluster. Problems of such
    /// a cluster itself are not reported.
    pub is_neighbour: bool,
}

/// Parsed inventories. The files that they refer to are not checked yet.
#[derive(Debug)]
pub struct Parsed {
    sources: Sources,
    findings: Findings,
    clusters: Vec<Cluster>,
    neighbours: Vec<Cluster>,
    /// Files whose text must not be shown in findings.
    outside: BTreeSet<PathBuf>,
}

impl Parsed {
    pub fn new(clusters: Vec<ClusterFiles>) -> Self {
        let mut parsed = Self {
            sources: Sources::default(),
            findings: Findings::default(),
            clusters: vec![],
            neighbours: vec![],
            outside: BTreeSet::new(),
        };
        let mut shared = SharedFiles::default();
        for files in clusters {
            let mut findings = Findings::default();
            let is_neighbour = files.is_neighbour;
            let cluster = shared.cluster(files, &mut parsed.sources, &mut findings);
            if is_neighbour {
                parsed.neighbours.push(cluster);
            } else {
                parsed.clusters.push(cluster);
                parsed.findings.append(findings, |found| found);
            }
        }
        parsed
    }

    /// Files that the inventories refer to, such as patches, certificates and add-ons.
    pub fn references(&self) -> BTreeMap<PathBuf, ReferenceKind> {
        let mut paths = BTreeMap::new();
        for cluster in &self.clusters {
            check::references(cluster, |span, file, kind| {
                paths.insert(resolve(&self.sources, span, file), kind);
            });
        }
        paths
    }

    /// Marks the files that are outside the boundary of the inventory. Findings do not show the text of these files,
    /// because the author of the inventory chose their paths.
    #[must_use]
    pub fn with_outside(mut self, is_outside: impl Fn(&Path) -> bool) -> Self {
        self.outside = self.references().into_keys().filter(|path| is_outside(path)).collect();
        self
    }

    /// Runs all checks. `read` returns the content of a file that an inventory refers to.
    pub fn check_with(self, mut read: impl FnMut(&Path, ReferenceKind) -> Content) -> Inventory {
        let read = |(path, kind): (PathBuf, ReferenceKind)| {
            let content = read(&path, kind);
            (path, content)
        };
        let references = self.references().into_iter().map(read).collect();
        self.check(&references)
    }

    /// Runs all checks. `references` contains the contents of the files that [`references`](Self::references) lists.
    pub fn check(self, references: &BTreeMap<PathBuf, Content>) -> Inventory {
        let Self { mut sources, mut findings, clusters, neighbours, outside } = self;
        let mut opened = BTreeMap::new();
        for cluster in clusters.iter().filter(|cluster| cluster.is_readable()) {
            let mut found = Findings::default();
            check::cluster(cluster, &mut found);
            let mut named = vec![];
            check::references(cluster, |span, file, kind| {
                named.push((resolve(&sources, span, file), span, kind));
            });
            for (path, span, kind) in named {
                let is_outside = outside.contains(&path);
                let file = check::Referenced { path: &path, span, kind, cluster, is_outside };
                if let Some(content) = references.get(&path) {
                    file.check(content, &mut opened, &mut sources, &mut found);
                }
            }
            findings.append(found, |found| in_files(found, cluster, &sources));
        }
        check::check_clusters(&clusters, &neighbours, &sources, &mut findings);
        let (diagnostics, unlisted) = findings.finish();
        Inventory { sources, diagnostics, unlisted, clusters }
    }
}

/// Moves a finding about a built-in setting to the position of the cluster, because users cannot edit built-in
/// settings.
fn in_files(mut found: Diagnostic, cluster: &Cluster, sources: &Sources) -> Diagnostic {
    let is_builtin = |span: Span| sources.get(span.source).path().is_none();
    found.related.retain(|label| !is_builtin(label.span));
    match &mut found.primary {
        Some(label) if !is_builtin(label.span) => {}
        primary => *primary = cluster.place.map(|span| Label { span, text: String::new() }),
    }
    found
}

/// Path of the file that the inventory refers to as `file`.
fn resolve(sources: &Sources, span: Span, file: &str) -> PathBuf {
    let folder = sources.get(span.source).path().and_then(Path::parent);
    folder.map_or_else(|| PathBuf::from(file), |folder| folder.join(file))
}

/// Files that several clusters share. Each file is parsed once.
#[derive(Default)]
struct SharedFiles {
    builtin: Option<InventoryFile>,
    defaults: BTreeMap<PathBuf, (InventoryFile, Findings)>,
}

impl SharedFiles {
    fn cluster(
        &mut self,
        files: ClusterFiles,
        sources: &mut Sources,
        findings: &mut Findings,
    ) -> Cluster {
        let mut layers = vec![self.builtin(sources)];
        if let Some(file) = files.defaults {
            layers.push(self.defaults(file, sources, findings));
        }
        let mut read = |file: File, kind| read_file(file, kind, sources, findings);
        let cluster = files.cluster.map(|file| read(file, FileKind::Cluster));
        let nodes = files.nodes.map(|file| read(file, FileKind::Nodes));
        let is_unreadable = findings.is_unreadable();
        let mut file = cluster.unwrap_or_default();
        if let Some(nodes) = nodes {
            join_nodes(&mut file, nodes, findings);
        }
        layers.push(file);
        Cluster { is_unreadable, ..Cluster::resolve(files.default_name, layers, findings) }
    }

    fn builtin(&mut self, sources: &mut Sources) -> InventoryFile {
        let read = || {
            let mut findings = Findings::default();
            let id = sources.add(None, include_str!("builtin.yaml").to_owned());
            let file = read_text(id, FileKind::Defaults, sources, &mut findings);
            let (found, _) = findings.finish();
            assert!(found.is_empty(), "invariant: built-in settings are valid: {found:?}");
            file
        };
        self.builtin.get_or_insert_with(read).clone()
    }

    fn defaults(
        &mut self,
        file: File,
        sources: &mut Sources,
        findings: &mut Findings,
    ) -> InventoryFile {
        let (layer, found) = self.defaults.entry(file.path.clone()).or_insert_with(|| {
            let mut found = Findings::default();
            let layer = read_file(file, FileKind::Defaults, sources, &mut found);
            (layer, found)
        });
        findings.append(found.clone(), |found| found);
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
    findings: &mut Findings,
) -> InventoryFile {
    let (text, problem) = match file.content {
        Err(problem) => {
            let diagnostic =
                Diagnostic::error(Code::Unreadable, format!("the file cannot be read: {problem}"));
            (String::new(), Some((diagnostic.hint("check the path and its permissions"), 0..0)))
        }
        Ok(bytes) if bytes.len() > LARGEST_FILE => {
            let message =
                format!("the file has {} MiB, too much for an inventory", bytes.len() >> 20);
            let hint =
                format!("check the path; an inventory file has at most {} MiB", LARGEST_FILE >> 20);
            let diagnostic = Diagnostic::error(Code::TooLarge, message).hint(hint);
            (String::new(), Some((diagnostic, 0..0)))
        }
        Ok(bytes) => decode(bytes),
    };
    let id = sources.add(Some(&file.path), text);
    if let Some((problem, place)) = problem {
        hide_in_lines(id, sources);
        findings.push(problem.at(Span::new(id, place)));
        return InventoryFile::default();
    }
    read_text(id, kind, sources, findings)
}

/// Text of a file. If the bytes are not UTF-8, the text ends before the invalid byte, and the error contains the
/// position.
pub(crate) fn decode(mut bytes: Vec<u8>) -> (String, Option<(Diagnostic, Range<usize>)>) {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let message = format!(
                "the file is not UTF-8 text: the byte 0x{:02x} is not part of a character",
                error.as_bytes()[at]
            );
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let shown = at..at + char::REPLACEMENT_CHARACTER.len_utf8();
            (
                text,
                Some((
                    Diagnostic::error(Code::NotUtf8, message).hint("save the file as UTF-8"),
                    shown,
                )),
            )
        }
    }
}

fn read_text(
    source: SourceId,
    kind: FileKind,
    sources: &mut Sources,
    findings: &mut Findings,
) -> InventoryFile {
    let start = Span::new(source, 0..0);
    let mut file = InventoryFile { span: Some(start), ..InventoryFile::default() };
    let documents = match talmox_yaml::read(sources.get(source).text()) {
        Ok(documents) => documents,
        Err(error) => {
            hide_in_lines(source, sources);
            findings.push(syntax_error(&error, source, sources));
            return file;
        }
    };
    hide_in_tree(&documents, source, sources);
    if let Some(second) = documents.get(1) {
        findings.push(
            Diagnostic::error(Code::SeveralDocuments, "the file has a second YAML document")
                .at(Span::of(source, second.span))
                .hint("remove the `---` before it; an inventory file has one document"),
        );
    }
    let Some(document) = documents.first().filter(|document| !document.is_null()) else {
        return file;
    };
    if document.as_map().is_none() {
        let message = format!("the file contains {}, not settings", document.describe());
        findings.push(
            Diagnostic::error(Code::Syntax, message)
                .at(Span::of(source, document.span))
                .hint("write the settings as a mapping, such as `talos_version: v1.11.2`"),
        );
        return file;
    }
    let mut cx = Context { source, sources, findings };
    read_mapping(&mut file, document, &mut cx);
    if let Some(first) = document.as_map().and_then(|map| map.entries.first()) {
        file.span = Some(cx.span(&first.key));
    }
    misplaced_keys(document, kind, &mut cx);
    file
}

/// Error for a text that is not valid YAML, with the position of the error.
pub(crate) fn syntax_error(
    error: &talmox_yaml::ReadError,
    source: SourceId,
    sources: &Sources,
) -> Diagnostic {
    let text = sources.get(source).text();
    let at = error.span.start.min(text.len());
    let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[line_start..].lines().next().unwrap_or_default();
    let indent = line.len() - line.trim_start().len();
    let place = Span::of(source, error.span);
    // The parser describes a tab in its own terms, such as its context.
    if matches!(error.kind, ReadErrorKind::Syntax(_)) && line[..indent].contains('\t') {
        return Diagnostic::error(Code::Syntax, "the line is indented with a tab")
            .at(place)
            .hint("indent with spaces; YAML does not allow tabs");
    }
    let diagnostic = Diagnostic::error(Code::Syntax, error.to_string()).at(place);
    match &error.kind {
        ReadErrorKind::Syntax(_) => {
            diagnostic.hint("check the indentation and the quotes here and in the line above")
        }
        ReadErrorKind::TooDeep(_) => diagnostic
            .hint("check for brackets that are not closed; no inventory is nested this deeply"),
        _ => diagnostic.hint("write the value out instead"),
    }
}

/// Reports keys in the wrong file. nodes.yaml may contain only nodes. defaults.yaml must not contain nodes or
/// `cluster_name`.
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
                "move it to the file of its cluster; all clusters share defaults.yaml"
            }
            _ => continue,
        };
        let span = cx.span(&entry.key);
        let message = format!("`{name}` does not belong in this file");
        cx.report(Diagnostic::error(Code::MisplacedKey, message).at(span).hint(hint));
    }
}

/// Moves the nodes from nodes.yaml into the settings of the cluster.
fn join_nodes(file: &mut InventoryFile, nodes: InventoryFile, findings: &mut Findings) {
    for (name, own, other) in [
        ("controlplane", &mut file.controlplane, nodes.controlplane),
        ("workers", &mut file.workers, nodes.workers),
    ] {
        match (own.span, other.span) {
            (Some(here), Some(there)) => findings.push(
                Diagnostic::error(Code::MisplacedKey, format!("`{name}` is set in two files"))
                    .at(here)
                    .related(there, "and here")
                    .hint("keep the nodes in one of the two files"),
            ),
            (None, Some(_)) => *own = other,
            _ => {}
        }
    }
}
