//! What is said about Proxmox.

use crate::cluster::Cluster;
use crate::diagnostic::{Code, Diagnostic, Findings};

pub(super) fn check(cluster: &Cluster, out: &mut Findings) {
    let proxmox = &cluster.file.proxmox;
    let at = proxmox.span.or(cluster.file.span);
    if proxmox.endpoint.is_absent() {
        out.push(
            Diagnostic::warning(Code::NeededLater, "the address of the Proxmox is not known")
                .at(at)
                .hint("add `proxmox: {endpoint: https://HOST:8006}`"),
        );
    } else {
        credentials(cluster, out);
    }
    let lost = cluster.nodes.iter().find(|node| {
        let host = &node.settings().placement.host;
        host.is_absent() && proxmox.hosts.is_empty() && !proxmox.hosts.is_bad()
    });
    if let Some(node) = lost {
        out.push(
            Diagnostic::warning(
                Code::NeededLater,
                format!("`{}` has no Proxmox host to live on", node.name.value),
            )
            .at(node.name.span)
            .hint("add `proxmox: {node: …}` for all, or `host: …` to the node"),
        );
    }
    vmid_range(cluster, out);
}

fn credentials(cluster: &Cluster, out: &mut Findings) {
    let proxmox = &cluster.file.proxmox;
    let (token, username, password) = (&proxmox.token, &proxmox.username, &proxmox.password);
    if token.is_given() && (username.is_given() || password.is_given()) {
        out.push(
            Diagnostic::error(Code::Conflict, "a token and a password are both given")
                .at(token.span())
                .related(username.span().or(password.span()), "and here")
                .hint("keep the token; a password is only needed for raw PCI devices"),
        );
    } else if token.is_absent() && password.is_absent() {
        out.push(
            Diagnostic::warning(Code::NeededLater, "no credentials for the Proxmox")
                .at(proxmox.endpoint.span())
                .hint("add `token: {env: PROXMOX_TOKEN}`; `talmox init --role` prints how to make the token"),
        );
    } else if password.is_given() && username.is_absent() {
        out.push(
            Diagnostic::error(Code::Missing, "a password without a user")
                .at(password.span())
                .hint("add `username: root@pam`, or whose it is"),
        );
    }
    if let Some(username) = username.spanned()
        && !username.value.contains('@')
    {
        out.push(
            Diagnostic::error(Code::BadValue, format!("`{}` has no realm", username.value))
                .at(username.span)
                .hint("write `user@pam` or `user@pve`"),
        );
    }
    let insecure = proxmox.insecure.spanned().filter(|insecure| insecure.value);
    if let Some(insecure) = insecure {
        out.push(
            Diagnostic::warning(
                Code::Questionable,
                "the certificate of the Proxmox is not checked",
            )
            .at(insecure.span)
            .hint("pin it with `fingerprint:` instead; `talmox init` shows it"),
        );
    }
}

/// Nodes without a vmid are given one from the range; there must be enough.
fn vmid_range(cluster: &Cluster, out: &mut Findings) {
    let Some(range) = cluster.file.proxmox.vmid_range.spanned() else {
        return;
    };
    let in_range = |vmid: u32| (range.value.first..=range.value.last).contains(&vmid);
    let vmids = || cluster.nodes.iter().filter_map(|node| node.entry.vmid.get());
    let taken = vmids().filter(|vmid| in_range(vmid.get())).count();
    let needed = cluster.nodes.len() - vmids().count();
    let size = u64::from(range.value.last - range.value.first) + 1;
    if (taken + needed) as u64 > size {
        out.push(
            Diagnostic::error(
                Code::TooSmall,
                format!("{size} vmids do not suffice: {taken} are taken and {needed} more needed"),
            )
            .at(range.span)
            .hint("make the range larger"),
        );
    }
}
