//! Checks of add-ons and of the Tailscale settings.

use std::collections::BTreeMap;

use super::machine::unverified_download;
use crate::builtin_addon::{BUILTIN_ADDONS, BuiltinAddon};
use crate::cluster::Cluster;
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::inventory::{Addon, ManifestEntry, ManifestSource};
use crate::language::{Spanned, closest};
use crate::source::Span;
use crate::value::{Chart, Cni};

pub(super) fn check(cluster: &Cluster, out: &mut Findings) {
    let mut names: BTreeMap<&str, Span> = BTreeMap::new();
    for addon in cluster.file.addons.iter() {
        if addon.value.name.is_absent() {
            out.push(
                Diagnostic::error(Code::Missing, "the add-on has no name")
                    .at(addon.span)
                    .hint("add `name: …`"),
            );
        }
        if let Some(name) = addon.value.name.spanned() {
            match names.get(name.value.as_str()) {
                Some(first) => out.push(
                    Diagnostic::error(
                        Code::Duplicate,
                        format!("two add-ons have the name `{}`", name.value),
                    )
                    .at(name.span)
                    .related(*first, "the first one")
                    .hint("rename one of the two"),
                ),
                None => {
                    names.insert(&name.value, name.span);
                }
            }
        }
        source(addon, out);
        chart(&addon.value, out);
        builtin(cluster, &addon.value, out);
        for manifests in addon.value.manifests.iter() {
            if let ManifestSource::Entry(found) = &manifests.value {
                entry(found, manifests.span, out);
            }
        }
    }
    needs(cluster, &names, out);
    tailscale(cluster, out);
}

/// Checks that an add-on has exactly one source.
fn source(addon: &Spanned<Addon>, out: &mut Findings) {
    let Addon { chart, builtin, manifests, url, checksum, .. } = &addon.value;
    let first_manifest = manifests.iter().next().map(|first| first.span);
    let sources = [
        ("chart", chart.span().filter(|_| !chart.is_absent())),
        ("builtin", builtin.span().filter(|_| !builtin.is_absent())),
        ("manifests", first_manifest.or(manifests.span.filter(|_| manifests.is_bad()))),
        ("url", url.span().filter(|_| !url.is_absent())),
    ];
    let mut given = sources.iter().filter_map(|(key, span)| Some((*key, (*span)?)));
    let Some((first, first_span)) = given.next() else {
        out.push(
            Diagnostic::error(Code::Missing, "the add-on has no source")
                .at(addon.span)
                .hint("add `chart: …`, `manifests: […]` or `builtin: …`"),
        );
        return;
    };
    for (key, span) in given {
        let message = format!("the add-on has both `{first}` and `{key}`");
        out.push(
            Diagnostic::error(Code::Conflict, message)
                .at(span)
                .related(first_span, format!("`{first}`"))
                .hint("split it into two add-ons"),
        );
    }
    if let Some(url) = url.spanned()
        && !url.value.https
        && checksum.is_absent()
    {
        out.push(unverified_download("the URL of the add-on", "its manifest").at(url.span));
    }
}

/// Checks the settings of a chart, and reports them if the add-on has none.
fn chart(addon: &Addon, out: &mut Findings) {
    let Addon { chart, repo, version, values, values_files, builtin, .. } = addon;
    if let Some(repo) = repo.spanned() {
        let is_registry = chart.get().is_some_and(Chart::is_registry);
        if is_registry || builtin.is_given() {
            let message = "`repo` has no place here: the chart is not in a Helm repository";
            out.push(
                Diagnostic::error(Code::Conflict, message)
                    .at(repo.span)
                    .hint("remove `repo`, or write the name of the chart in `chart:`"),
            );
        } else if chart.is_absent() {
            out.push(
                Diagnostic::error(Code::Missing, "the add-on has `repo`, but no chart")
                    .at(repo.span)
                    .hint("add `chart:` with the name of the chart in the repository"),
            );
        }
        if !repo.value.https {
            out.push(
                Diagnostic::error(Code::Unverified, "the repository of the chart uses http")
                    .at(repo.span)
                    .hint(
                        "use `https://`, or download the chart and write the path of its .tgz file",
                    ),
            );
        }
    }
    if let Some(found) = chart.spanned()
        && (found.value.is_registry() || repo.is_given())
        && version.is_absent()
    {
        out.push(
            Diagnostic::error(Code::Missing, "the chart has no version")
                .at(found.span)
                .hint("add `version:` with an exact version, such as `version: 1.16.5`"),
        );
    }
    if !chart.is_absent() || !builtin.is_absent() {
        return;
    }
    let without_effect = [
        ("version", version.span()),
        ("values", values.span()),
        ("values_files", values_files.span),
    ];
    for (key, span) in without_effect {
        let Some(span) = span else { continue };
        let message = format!("`{key}` has no effect: the add-on has no chart");
        out.push(
            Diagnostic::warning(Code::Questionable, message)
                .at(span)
                .hint(format!("remove `{key}`, or add `chart: …`")),
        );
    }
}

/// Checks that talmox knows the add-on, and that the cluster suits it.
fn builtin(cluster: &Cluster, addon: &Addon, out: &mut Findings) {
    let Some(name) = addon.builtin.spanned() else { return };
    let Some(known) = BuiltinAddon::named(&name.value) else {
        let names: Vec<&str> = BUILTIN_ADDONS.iter().map(|known| known.name).collect();
        let hint = match closest(&name.value, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known: {}; use `chart:` for other add-ons", names.join(", ")),
        };
        let message = format!("talmox has no built-in add-on `{}`", name.value);
        out.push(Diagnostic::error(Code::BadValue, message).at(name.span).hint(hint));
        return;
    };
    let network = &cluster.file.network;
    let is_by_talos = network.cni.get().is_some_and(Cni::is_by_talos);
    if known.is_network && (is_by_talos || network.kube_proxy.get() == Some(&true)) {
        let message =
            format!("`{}` replaces the pod network and the kube-proxy of Talos", name.value);
        out.push(Diagnostic::error(Code::Conflict, message).at(name.span).hint(
            "remove `cni: flannel` and `kube_proxy: true` from `network:`; the add-on sets both",
        ));
    }
}

/// Checks an item of `manifests` that is not a path.
fn entry(entry: &ManifestEntry, span: Span, out: &mut Findings) {
    match (entry.url.is_absent(), entry.kustomize.is_absent()) {
        (true, true) => out.push(
            Diagnostic::error(Code::Missing, "the manifests have neither `url` nor `kustomize`")
                .at(span)
                .hint("write `{url: https://…, sha256: …}` or `{kustomize: folder}`"),
        ),
        (false, false) => out.push(
            Diagnostic::error(Code::Conflict, "the manifests have both `url` and `kustomize`")
                .at(span)
                .hint("write two items"),
        ),
        (false, true) if entry.checksum.is_absent() => out.push(
            Diagnostic::error(Code::Missing, "the URL of the manifests has no checksum")
                .at(span)
                .hint("add `sha256:` with the SHA-256 of the file (`sha256sum FILE`)"),
        ),
        _ => {}
    }
}

/// Checks that the add-ons of `needs` exist, and that no add-on needs itself.
fn needs(cluster: &Cluster, names: &BTreeMap<&str, Span>, out: &mut Findings) {
    let mut edges: BTreeMap<&str, Vec<&Spanned<String>>> = BTreeMap::new();
    for addon in cluster.file.addons.values() {
        for need in addon.needs.iter() {
            if names.contains_key(need.value.as_str()) {
                let name = addon.name.get().map_or("", String::as_str);
                edges.entry(name).or_default().push(need);
                continue;
            }
            let hint = match closest(&need.value, names.keys().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "write the name of another add-on of this cluster".to_owned(),
            };
            let message = format!("there is no add-on `{}`", need.value);
            out.push(Diagnostic::error(Code::BadValue, message).at(need.span).hint(hint));
        }
    }
    // Each add-on is visited once. An add-on on the current path that is needed again closes a cycle.
    let mut done: Vec<&str> = vec![];
    for name in names.keys().copied() {
        visit(name, &edges, &mut vec![], &mut done, out);
    }
}

fn visit<'a>(
    name: &'a str,
    edges: &BTreeMap<&'a str, Vec<&'a Spanned<String>>>,
    path: &mut Vec<&'a str>,
    done: &mut Vec<&'a str>,
    out: &mut Findings,
) {
    if done.contains(&name) {
        return;
    }
    path.push(name);
    for need in edges.get(name).into_iter().flatten() {
        let Some(start) = path.iter().position(|known| *known == need.value) else {
            visit(&need.value, edges, path, done, out);
            continue;
        };
        let mut circle: Vec<&str> = path[start..].to_vec();
        circle.push(&need.value);
        let message = format!("add-ons need each other: {}", circle.join(" → "));
        out.push(
            Diagnostic::error(Code::Conflict, message)
                .at(need.span)
                .hint("remove one of these `needs`"),
        );
    }
    path.pop();
    done.push(name);
}

fn tailscale(cluster: &Cluster, out: &mut Findings) {
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
