//! Checks of add-ons and of the Tailscale settings.

use super::machine::unverified_download;
use crate::cluster::Cluster;
use crate::diagnostic::{Code, Diagnostic, Findings};

pub(super) fn check(cluster: &Cluster, out: &mut Findings) {
    for addon in cluster.file.addons.iter() {
        if addon.value.name.is_absent() {
            out.push(
                Diagnostic::error(Code::Missing, "the add-on has no name")
                    .at(addon.span)
                    .hint("add `name: …`"),
            );
        }
        let (files, url) = (&addon.value.files, &addon.value.url);
        if files.is_empty() && !files.is_bad() && url.is_absent() {
            out.push(
                Diagnostic::error(Code::Missing, "the add-on has no manifests")
                    .at(addon.span)
                    .hint("add `files: […]` or `url: …`"),
            );
        }
        if let Some(url) = url.spanned()
            && !url.value.https
            && addon.value.checksum.is_absent()
        {
            out.push(unverified_download("the URL of the add-on", "its manifest").at(url.span));
        }
        if let (Some(first), Some(url)) = (files.iter().next(), url.spanned()) {
            out.push(
                Diagnostic::error(Code::Conflict, "the add-on has both `files` and `url`")
                    .at(url.span)
                    .related(first.span, "the files")
                    .hint("split it into two add-ons"),
            );
        }
    }
    let tailscale = &cluster.file.tailscale;
    if let Some(span) = tailscale.span.filter(|_| !tailscale.cleared)
        && tailscale.auth_key.is_absent()
    {
        out.push(
            Diagnostic::warning(Code::NeededLater, "`tailscale` has no auth key")
                .at(span)
                .hint("add `auth_key: {secret: tailscale.auth_key}`"),
        );
    }
}
