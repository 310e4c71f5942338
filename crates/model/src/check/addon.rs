//! Add-ons, and Tailscale.

use super::machine::unverified;
use crate::cluster::Cluster;
use crate::diagnostic::{Code, Diagnostic, Findings};

pub(super) fn check(cluster: &Cluster, out: &mut Findings) {
    for addon in cluster.file.addons.iter() {
        if addon.value.name.is_absent() {
            out.push(
                Diagnostic::error(Code::Missing, "an add-on without a name")
                    .at(addon.span)
                    .hint("add `name: …`"),
            );
        }
        let (files, url) = (&addon.value.files, &addon.value.url);
        if files.is_empty() && !files.is_bad() && url.is_absent() {
            out.push(
                Diagnostic::error(Code::Missing, "an add-on without manifests")
                    .at(addon.span)
                    .hint("add `files: […]` or `url: …`"),
            );
        }
        if let Some(url) = url.spanned()
            && !url.value.https
            && addon.value.checksum.is_absent()
        {
            out.push(unverified("the address of an add-on", "its manifest").at(url.span));
        }
        if let (Some(first), Some(url)) = (files.iter().next(), url.spanned()) {
            out.push(
                Diagnostic::error(Code::Conflict, "an add-on with both files and an address")
                    .at(url.span)
                    .related(first.span, "the files")
                    .hint("make two add-ons of it"),
            );
        }
    }
    let tailscale = &cluster.file.tailscale;
    if let Some(span) = tailscale.span.filter(|_| !tailscale.cleared)
        && tailscale.auth_key.is_absent()
    {
        out.push(
            Diagnostic::warning(Code::NeededLater, "Tailscale without a key to join with")
                .at(span)
                .hint("add `auth_key: {secret: tailscale.auth_key}`"),
        );
    }
}
