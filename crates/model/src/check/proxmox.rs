//! Checks of the `proxmox` settings.

use crate::cluster::Cluster;
use crate::diagnostic::{Code, Diagnostic, Findings};

pub(super) fn check(cluster: &Cluster, out: &mut Findings) {
    let proxmox = &cluster.file.proxmox;
    let at = proxmox.span.or(cluster.file.span);
    if proxmox.endpoint.is_absent() {
        out.push(
            Diagnostic::warning(Code::NeededLater, "`proxmox` has no endpoint")
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
                format!("`{}` has no Proxmox host", node.name.value),
            )
            .at(node.name.span)
            .hint("add `proxmox: {node: …}` for all nodes, or `host: …` to this node"),
        );
    }
    vmid_range(cluster, out);
}

fn credentials(cluster: &Cluster, out: &mut Findings) {
    let proxmox = &cluster.file.proxmox;
    let (token, username, password) = (&proxmox.token, &proxmox.username, &proxmox.password);
    if token.is_given() && (username.is_given() || password.is_given()) {
        out.push(
            Diagnostic::error(Code::Conflict, "`proxmox` has both a token and a password")
                .at(token.span())
                .related(username.span().or(password.span()), "and here")
                .hint("keep the token; only raw PCI devices need a password"),
        );
    } else if token.is_absent() && password.is_absent() {
        out.push(
            Diagnostic::warning(Code::NeededLater, "`proxmox` has no credentials")
                .at(proxmox.endpoint.span())
                .hint("add `token: {env: PROXMOX_TOKEN}`; `talmox init --role` prints the commands that create the token"),
        );
    } else if password.is_given() && username.is_absent() {
        out.push(
            Diagnostic::error(Code::Missing, "`proxmox` has a password, but no user name")
                .at(password.span())
                .hint("add the user of the password, such as `username: root@pam`"),
        );
    }
    if let Some(username) = username.spanned()
        && !username.value.contains('@')
    {
        out.push(
            Diagnostic::error(
                Code::BadValue,
                format!("`{}` is a user name without a realm", username.value),
            )
            .at(username.span)
            .hint("write `user@pam` or `user@pve`"),
        );
    }
    let insecure = proxmox.insecure.spanned().filter(|insecure| insecure.value);
    if let Some(insecure) = insecure {
        out.push(
            Diagnostic::warning(
                Code::Questionable,
                "`insecure: true` disables the check of the Proxmox certificate",
            )
            .at(insecure.span)
            .hint("pin it with `fingerprint:` instead; `talmox init` shows it"),
        );
    }
}

/// Reports a vmid range that is too small for the nodes without a vmid.
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
                format!("the vmid range has {size} vmids: {taken} are used by nodes, and {needed} more are needed"),
            )
            .at(range.span)
            .hint("make the range larger"),
        );
    }
}
