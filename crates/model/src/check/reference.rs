//! Files that the inventory names.

use std::path::Path;

use super::patch::{all_patches, bad_patch, patch_text};
use crate::cluster::Cluster;
use crate::diagnostic::{Code, Diagnostic};
use crate::load::Content;
use crate::source::Span;
use crate::value::Patch;

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReferenceKind {
    Patch,
    /// Only has to be there.
    Other,
}

/// Calls `visit` with each file that the cluster's files name.
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
        for manifest in addon.files.iter() {
            visit(manifest.span, &manifest.value.0, ReferenceKind::Other);
        }
    }
    let mut overlays: Vec<_> = cluster
        .nodes
        .iter()
        .filter_map(|node| node.settings().system.cloud_init.overlay.spanned())
        .collect();
    overlays.sort_by_key(|overlay| overlay.span);
    overlays.dedup_by_key(|overlay| overlay.span);
    for overlay in overlays {
        visit(overlay.span, &overlay.value.0, ReferenceKind::Other);
    }
}

pub(crate) fn reference(
    path: &Path,
    span: Span,
    kind: ReferenceKind,
    content: Option<&Content>,
    out: &mut Vec<Diagnostic>,
) {
    let bytes = match content {
        Some(Ok(bytes)) => bytes,
        Some(Err(problem)) => {
            let message = format!("{}: {problem}", path.display());
            let hint = "relative paths start at the folder of this file";
            out.push(Diagnostic::error(Code::MissingFile, message).at(span).hint(hint));
            return;
        }
        // The caller did not look; it is not this check's to complain.
        None => return,
    };
    if kind != ReferenceKind::Patch {
        return;
    }
    let checked = match std::str::from_utf8(bytes) {
        Ok(text) => patch_text(text),
        Err(_) => Err("not UTF-8 text".to_owned()),
    };
    if let Err(problem) = checked {
        out.push(bad_patch(format!("{}: {problem}", path.display())).at(span));
    }
}
