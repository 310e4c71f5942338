//! Files that the inventory refers to, and checks of their content.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use talmox_yaml::Node as Yaml;

use super::patch::{BadPatch, all_patches, shape};
use crate::cluster::Cluster;
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::inventory::{Addon, ChartOrigin, ManifestSource};
use crate::language::{hide_in_lines, hide_in_tree};
use crate::load::{Content, decode, syntax_error};
use crate::source::{SourceId, Sources, Span};
use crate::value::Patch;

/// Purpose of a file that the inventory refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// Patch of machine configs.
    Patch,
    /// cloud-init user-data that is merged over the generated user-data.
    Overlay,
    /// Manifests or chart of an add-on: a file, or a folder of files.
    Manifests,
    /// File that must exist. Its content is not checked.
    Other,
}

/// Calls `visit` for each file that the inventory of the cluster refers to.
pub(crate) fn references(cluster: &Cluster, mut visit: impl FnMut(Span, &str, ReferenceKind)) {
    for patch in all_patches(cluster) {
        if let Patch::File(file) = &patch.value {
            visit(patch.span, &file.0, ReferenceKind::Patch);
        }
    }
    let file = &cluster.file;
    if let Some(ca) = file.proxmox.ca_file.spanned() {
        visit(ca.span, &ca.value.0, ReferenceKind::Other);
    }
    for addon in file.addons.values() {
        addon_references(addon, &mut visit);
    }
    let mut overlays: Vec<_> = cluster
        .nodes
        .iter()
        .filter_map(|node| node.settings().system.cloud_init.overlay.spanned())
        .collect();
    overlays.sort_by_key(|overlay| overlay.span);
    overlays.dedup_by_key(|overlay| overlay.span);
    for overlay in overlays {
        visit(overlay.span, &overlay.value.0, ReferenceKind::Overlay);
    }
}

fn addon_references(addon: &Addon, visit: &mut impl FnMut(Span, &str, ReferenceKind)) {
    for manifests in addon.manifests.iter() {
        match &manifests.value {
            ManifestSource::Path(path) => visit(manifests.span, &path.0, ReferenceKind::Manifests),
            ManifestSource::Entry(entry) => {
                if let Some(folder) = entry.kustomize.spanned() {
                    visit(folder.span, &folder.value.0, ReferenceKind::Manifests);
                }
            }
        }
    }
    for file in addon.values_files.iter() {
        visit(file.span, &file.value.0, ReferenceKind::Other);
    }
    if let Some((span, ChartOrigin::Path(path))) = addon.chart_origin() {
        visit(span, &path, ReferenceKind::Manifests);
    }
}

/// File that the inventory refers to.
pub(crate) struct Referenced<'a> {
    pub(crate) path: &'a Path,
    /// Position of the reference.
    pub(crate) span: Span,
    pub(crate) kind: ReferenceKind,
    pub(crate) cluster: &'a Cluster,
    /// Whether the file is outside the boundary of the inventory. If so, messages do not show the text of the file.
    pub(crate) is_outside: bool,
}

impl Referenced<'_> {
    /// Checks the content of the file. If the file has errors, it is added to `sources` and `opened`, so that findings
    /// can show positions in it.
    pub(crate) fn check(
        &self,
        content: &Content,
        opened: &mut BTreeMap<PathBuf, SourceId>,
        sources: &mut Sources,
        out: &mut Findings,
    ) {
        let bytes = match content {
            Ok(bytes) => bytes,
            Err(problem) => {
                let message = format!("{}: {problem}", self.path.display());
                let hint = "correct the path; relative paths start at the folder of this file";
                out.push(Diagnostic::error(Code::MissingFile, message).at(self.span).hint(hint));
                return;
            }
        };
        let (what, code) = match self.kind {
            ReferenceKind::Patch => ("patch", Code::BadPatch),
            ReferenceKind::Overlay => ("overlay", Code::BadValue),
            ReferenceKind::Manifests | ReferenceKind::Other => return,
        };
        if self.is_outside {
            if !self.is_good(bytes) {
                let message = format!("{} cannot be used as {what}", self.path.display());
                let hint = "correct the file; it is outside of the repository of the inventory, so this message does not show its text";
                out.push(Diagnostic::error(code, message).at(self.span).hint(hint));
            }
            return;
        }
        let mut open = |text: String, sources: &mut Sources| {
            *opened
                .entry(self.path.to_owned())
                .or_insert_with(|| sources.add(Some(self.path), text))
        };
        let (text, problem) = decode(bytes.clone());
        let (found, place) = if let Some((problem, place)) = problem {
            let id = open(text, sources);
            hide_in_lines(id, sources);
            (problem, Span::new(id, place))
        } else {
            match talmox_yaml::read(&text) {
                Err(error) => {
                    let id = open(text, sources);
                    hide_in_lines(id, sources);
                    let problem = syntax_error(&error, id, sources);
                    let message = format!("the {what} is not YAML: {}", problem.message);
                    let problem = Diagnostic { code, message, ..problem };
                    (problem, Span::of(id, error.span))
                }
                Ok(documents) => {
                    let judged = match self.kind {
                        ReferenceKind::Overlay => overlay(&documents),
                        _ => shape(&documents, self.cluster),
                    };
                    let Err(bad) = judged else { return };
                    let id = open(text, sources);
                    hide_in_tree(&documents, id, sources);
                    let span = Span::of(id, bad.span);
                    (Diagnostic { code, ..bad.diagnostic() }, span)
                }
            }
        };
        out.push(found.at(place).related(self.span, "referenced here"));
    }

    /// Whether the content of the file is a valid cloud-init overlay or a valid Talos patch, depending on the kind of
    /// the file.
    fn is_good(&self, bytes: &[u8]) -> bool {
        let (text, problem) = decode(bytes.to_vec());
        let documents = talmox_yaml::read(&text).ok().filter(|_| problem.is_none());
        documents.is_some_and(|documents| match self.kind {
            ReferenceKind::Overlay => overlay(&documents).is_ok(),
            _ => shape(&documents, self.cluster).is_ok(),
        })
    }
}

/// Checks that an overlay is a single mapping. cloud-init also accepts other kinds of user-data, but talmox cannot
/// merge them with the generated user-data.
fn overlay(documents: &[Yaml]) -> Result<(), BadPatch> {
    let hint = "write one mapping with keys of cloud-config, such as `packages: […]`; scripts go into `runcmd:`";
    let bad = |span, problem: String| Err(BadPatch { problem, hint, span });
    match documents {
        [one] if one.as_map().is_some() => Ok(()),
        [] => bad(talmox_yaml::Span::default(), "the overlay is empty".to_owned()),
        [one] if one.is_null() => bad(one.span, "the overlay is empty".to_owned()),
        [one] => bad(one.span, format!("{} is not an overlay", one.describe())),
        [_, second, ..] => bad(second.span, "the overlay has several documents".to_owned()),
    }
}
