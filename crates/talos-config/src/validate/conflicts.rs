//! Settings that must not be in both the v1alpha1 document and a separate document.

use super::View;
use crate::document::Document;
use crate::format::address::parse_addr;
use crate::format::duration;

/// Error for a document whose settings are also in the v1alpha1 document.
pub(super) fn with_v1alpha1(document: &Document, legacy: View<'_>) -> Option<String> {
    let machine = legacy.get("machine");
    let network = machine.get("network");
    let conflict = match document.kind() {
        "HostnameConfig" => {
            if !network.get("hostname").text().is_empty() {
                "static hostname is already set in v1alpha1 config"
            } else if machine.at(&["features", "stableHostname"]).is_true() {
                "stable hostname is already set in v1alpha1 config"
            } else {
                return None;
            }
        }
        "ResolverConfig" => {
            let mut nameservers = network.get("nameservers").texts();
            if network.get("searchDomains").is_set() {
                ".machine.network.searchDomains is already set in v1alpha1 config"
            } else if nameservers.any(|server| parse_addr(server).is_some()) {
                ".machine.network.nameservers is already set in v1alpha1 config"
            } else if network.get("disableSearchDomain").is_true() {
                ".machine.network.disableSearchDomain is already set in v1alpha1 config"
            } else if sets_host_dns(document) && machine.at(&["features", "hostDNS"]).is_set() {
                ".machine.features.hostDNS is already set in v1alpha1 config"
            } else {
                return None;
            }
        }
        "TimeSyncConfig" => {
            let time = machine.get("time");
            let timeout = duration::parse(time.get("bootTimeout").text()).unwrap_or(0);
            if time.get("disabled").is_true() {
                "time sync cannot be disabled in both v1alpha1 and new-style configuration"
            } else if !time.get("servers").is_empty() {
                "time servers cannot be specified in both v1alpha1 and new-style configuration"
            } else if timeout != 0 {
                "boot timeout cannot be specified in both v1alpha1 and new-style configuration"
            } else {
                return None;
            }
        }
        "KubeSpanConfig" if network.get("kubespan").is_set() => {
            "kubespan is already configured in v1alpha1 machine.network.kubespan"
        }
        "VolumeConfig" => return volume_encryption(document, machine),
        _ => return None,
    };
    Some(conflict.to_owned())
}

fn sets_host_dns(document: &Document) -> bool {
    let dns = View::of(&document.body).get("hostDNS");
    let keys = ["enabled", "forwardKubeDNSToHost", "resolveMemberNames"];
    keys.iter().any(|key| dns.get(key).is_set())
}

fn volume_encryption(document: &Document, machine: View<'_>) -> Option<String> {
    let name = document.name()?;
    let key = match name {
        "STATE" => "state",
        "EPHEMERAL" => "ephemeral",
        _ => return None,
    };
    let view = View::of(&document.body);
    let provider = view.at(&["encryption", "provider"]).text();
    let is_encrypted = !matches!(provider, "" | "none");
    let both = is_encrypted && machine.at(&["systemDiskEncryption", key]).is_set();
    both.then(|| {
        format!(
            "system disk encryption for {name:?} is configured in both v1alpha1.Config and VolumeConfig"
        )
    })
}
