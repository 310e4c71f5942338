//! Checks of the Talos and Kubernetes versions.

use crate::cluster::{Cluster, Node};
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::release::{RELEASES, Release};

pub(super) fn check(cluster: &Cluster, out: &mut Findings) {
    if !cluster.nodes.iter().any(Node::is_talos) {
        return;
    }
    let file = &cluster.file;
    let Some(talos) = file.talos_version.spanned() else {
        if file.talos_version.is_absent() {
            out.push(
                Diagnostic::error(Code::Missing, "`talos_version` is missing")
                    .at(file.talos_version.span().or(file.cluster_name.span()).or(file.span))
                    .hint("add the version that the nodes run, such as `talos_version: v1.11.2`"),
            );
        }
        return;
    };
    let Some(release) = Release::of(&talos.value) else {
        let (oldest, newest) = (RELEASES[0].minor, RELEASES[RELEASES.len() - 1].minor);
        let (major, minor) = talos.value.minor();
        let message = if (major, minor) < (1, oldest) {
            format!("Talos {} is too old", talos.value)
        } else {
            format!("Talos {} is not supported by this version of talmox", talos.value)
        };
        out.push(
            Diagnostic::error(Code::TalosVersion, message)
                .at(talos.span)
                .hint(format!("use a version from v1.{oldest} to v1.{newest}")),
        );
        return;
    };
    let Some(kubernetes) = file.kubernetes_version.spanned() else {
        return;
    };
    if !release.runs(&kubernetes.value) {
        let (oldest, newest) = release.kubernetes;
        let message = format!("Talos {} does not run Kubernetes {}", talos.value, kubernetes.value);
        out.push(
            Diagnostic::error(Code::KubernetesVersion, message)
                .at(kubernetes.span)
                .related(talos.span, "the Talos version")
                .hint(format!(
                    "use v1.{oldest} to v1.{newest}; this Talos installs {} by default",
                    release.default_kubernetes()
                )),
        );
    }
}
