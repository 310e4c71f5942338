//! Validation of the documents about the network.

use super::machine::invalid_subnets;
use super::{Report, View};
use crate::cel::{self, Environment, ResultType};
use crate::format::address::{canonical_addr, canonical_prefix, parse_addr, parse_prefix};
use crate::format::{decode_base64, duration};
use crate::schema::Release;

const RESERVED_PRIORITIES: [u64; 4] = [0, 32500, 32766, 32767];

/// Validates a document that configures a network link. The name of the document is the name of the link.
pub(super) fn validate_link(kind: &str, view: View<'_>, report: &mut Report) {
    require_name(view, "name must be specified", report);
    match kind {
        "BondConfig" => bond(view, report),
        "VLANConfig" => {
            report.check(
                (1..=4094).contains(&view.get("vlanID").int()),
                "vlanID must be specified and between 1 and 4094",
            );
            report.check(!view.get("parent").text().is_empty(), "parent must be specified");
        }
        "VRFConfig" => {
            let table = match view.get("table").text() {
                "" => "unspec",
                table => table,
            };
            if matches!(table, "unspec" | "local" | "main" | "default") {
                report.error(format!("cannot create vrf with reserved table {table}"));
            }
        }
        "WireguardConfig" => wireguard(view, report),
        _ => {}
    }
    addresses_and_routes(view, report);
}

fn require_name(view: View<'_>, reason: &str, report: &mut Report) {
    report.check(!view.get("name").text().is_empty(), reason);
}

fn bond(view: View<'_>, report: &mut Report) {
    report.check(!view.get("links").is_empty(), "at least one link must be specified");
    match view.get("bondMode").text() {
        "" => report.error("bond mode must be specified"),
        "802.3ad" => {
            for key in ["miimon", "updelay", "downdelay"] {
                if !view.get(key).is_set() {
                    report.warn(format!("{key} was not specified for 802.3ad bond"));
                }
            }
        }
        _ => {}
    }
}

fn check_key(key: &str) -> Result<(), String> {
    match decode_base64(key)?.len() {
        32 => Ok(()),
        _ => Err("invalid wireguard key length".to_owned()),
    }
}

fn wireguard(view: View<'_>, report: &mut Report) {
    match view.get("privateKey").text() {
        "" => report.error("wireguard private key must be specified"),
        key => {
            if let Err(reason) = check_key(key) {
                report.error(format!("wireguard private key is invalid: {reason}"));
            }
        }
    }
    report.check(
        (0..=65535).contains(&view.get("listenPort").int()),
        "wireguard listen port must be between 0 and 65535",
    );
    for (at, peer) in view.get("peers").items().enumerate() {
        match peer.get("publicKey").text() {
            "" => report
                .error(format!("wireguard peer public key must be specified (peer index {at})")),
            key => {
                if let Err(reason) = check_key(key) {
                    report.error(format!(
                        "wireguard peer public key is invalid (peer index {at}): {reason}"
                    ));
                }
            }
        }
        let shared = peer.get("presharedKey").text();
        if !shared.is_empty()
            && let Err(reason) = check_key(shared)
        {
            report.error(format!(
                "wireguard peer preshared key is invalid (peer index {at}): {reason}"
            ));
        }
        if is_negative(peer.get("persistentKeepaliveInterval")) {
            report.error(format!(
                "wireguard peer persistent keepalive interval cannot be negative (peer index {at})"
            ));
        }
    }
}

fn is_negative(view: View<'_>) -> bool {
    duration::parse(view.text()).is_some_and(|nanoseconds| nanoseconds < 0)
}

fn addresses_and_routes(view: View<'_>, report: &mut Report) {
    for (at, item) in view.get("addresses").items().enumerate() {
        match parse_prefix(item.get("address").text()) {
            None => report.error(format!("address {at} must be specified")),
            Some((addr, _)) if addr.is_unspecified() => {
                report.error(format!("address {at} must be a valid IP address"));
            }
            Some(_) => {}
        }
    }
    for (at, route) in view.get("routes").items().enumerate() {
        let destination = parse_prefix(route.get("destination").text());
        if destination.is_some_and(|(addr, _)| addr.is_unspecified()) {
            report.error(format!("route {at} destination must be a valid IP prefix"));
        }
        for key in ["gateway", "source"] {
            let addr = parse_addr(route.get(key).text());
            if addr.is_some_and(|(addr, _)| addr.is_unspecified()) {
                report.error(format!("route {at} {key} must be a valid IP address"));
            }
        }
    }
}

/// Validates the other documents about the network.
pub(super) fn validate_other(kind: &str, view: View<'_>, release: Release, report: &mut Report) {
    let name = view.get("name").text();
    match kind {
        "BlackholeRouteConfig" => {
            require_name(view, "name must be specified", report);
            if parse_prefix(name).is_none() {
                let reason = canonical_prefix(name).err();
                let reason = reason.unwrap_or_else(|| "netip.ParsePrefix(\"\"): no '/'".to_owned());
                report.error(format!("name must be a valid address prefix: {reason}"));
            }
        }
        "DHCPv4Config" | "DHCPv6Config" => dhcp(view, report),
        "EthernetConfig" => require_name(view, "name is required", report),
        "HCloudVIPConfig" | "Layer2VIPConfig" => {
            vip(view, report);
            if kind == "HCloudVIPConfig" {
                report.check(!view.get("apiToken").text().is_empty(), "apiToken must be specified");
            }
        }
        "HostnameConfig" => hostname(view, release, report),
        "KubeSpanConfig" => kubespan(view, report),
        "LinkAliasConfig" => link_alias(view, release, report),
        "NetworkRuleConfig" => rule(view, report),
        "ResolverConfig" if release >= Release::V1_14 => resolver(view, report),
        "RoutingRuleConfig" => routing_rule(view, report),
        "StaticHostConfig" => {
            require_name(view, "name is required", report);
            report.check(parse_addr(name).is_some(), "name must be a valid IP address");
            report.check(!view.get("hostnames").is_empty(), "at least one hostname is required");
        }
        "TCPProbeConfig" => tcp_probe(view, report),
        "TimeSyncConfig" => {
            report.check(!is_negative(view.get("bootTimeout")), "bootTimeout cannot be negative");
            report.check(
                !(view.get("ntp").is_set() && view.get("ptp").is_set()),
                "only one of ntp or ptp configuration can be specified",
            );
            if view.at(&["ntp", "useNTS"]).is_true() {
                for server in view.at(&["ntp", "servers"]).texts() {
                    if parse_addr(server).is_some() {
                        report
                            .error(format!("NTS requires hostnames, not IP addresses: {server:?}"));
                    }
                }
            }
        }
        _ => {}
    }
}

/// Validates a `ResolverConfig`. Talos checks its content since 1.14.
fn resolver(view: View<'_>, report: &mut Report) {
    let dns = view.get("hostDNS");
    for key in ["forwardKubeDNSToHost", "resolveMemberNames"] {
        if dns.get(key).is_true() && !dns.get("enabled").is_true() {
            report.error(format!("hostDNS.{key} cannot be enabled when hostDNS.enabled is false"));
        }
    }
    let mut are_plain = vec![];
    for (at, server) in view.get("nameservers").items().enumerate() {
        let protocol = Some(server.get("protocol").text()).filter(|text| !text.is_empty());
        let protocol = protocol.unwrap_or("Do53");
        let (is_plain, has_name) =
            (protocol == "Do53", !server.get("tlsServerName").text().is_empty());
        if is_plain && has_name {
            report.error(format!("tlsServerName must be empty when protocol is Do53: entry {at}"));
        } else if !is_plain && !has_name {
            report.error(format!(
                "tlsServerName must be set when protocol is {protocol}: entry {at}"
            ));
        }
        if parse_addr(server.get("address").text()).is_none() {
            report.error(format!("nameserver address must be a valid IP: entry {at}"));
        }
        are_plain.push(is_plain);
    }
    if !are_plain.is_empty() && !are_plain.contains(&true) {
        report.warn(
            "all configured nameservers use encrypted DNS (DoT or DoH): validating certificates requires a correct \
             system clock, so boot may stall when NTP servers are configured by hostname; consider keeping at least \
             one plain-DNS fallback or configuring NTP servers by IP address",
        );
    }
}

fn dhcp(view: View<'_>, report: &mut Report) {
    require_name(view, "name must be specified", report);
    let wants_duid = view.get("clientIdentifier").text() == "duid";
    let has_duid = !view.get("duidRaw").text().is_empty();
    report.check(!has_duid || wants_duid, "duidRaw can only be set if clientIdentifier is 'duid'");
    report.check(!wants_duid || has_duid, "duidRaw must be set if clientIdentifier is 'duid'");
}

fn vip(view: View<'_>, report: &mut Report) {
    let name = view.get("name").text();
    if name.is_empty() {
        report.error("name must be specified");
    } else if let Err(reason) = canonical_addr(name) {
        report.error(format!("name must be a valid IP address: {reason}"));
    }
    report.check(!view.get("link").text().is_empty(), "link must be specified");
}

fn hostname(view: View<'_>, release: Release, report: &mut Report) {
    let (auto, name) = (view.get("auto"), view.get("hostname").text());
    let kind = match auto.text() {
        "" => "off",
        kind => kind,
    };
    // Talos 1.12 does not accept `auto: off` without a hostname. Talos 1.13 does.
    let is_nothing = if release < Release::V1_13 { kind == "off" } else { !auto.is_set() };
    let says_nothing = is_nothing && name.is_empty();
    report.check(!says_nothing, "either 'auto' or 'hostname' must be set");
    report.check(
        kind == "off" || name.is_empty(),
        "'auto' and 'hostname' cannot be set at the same time",
    );
    if !matches!(kind, "off" | "stable") {
        report.error(format!("invalid value for 'auto': {kind}"));
    }
    if name.is_empty() {
        return;
    }
    if name.len() > 253 {
        report.error(format!("fqdn is too long: {}", name.len()));
    }
    let host = name.split('.').next().unwrap_or_default();
    if host.is_empty() || host.len() > 63 {
        report.error(format!("invalid hostname {host:?}"));
    }
}

fn kubespan(view: View<'_>, report: &mut Report) {
    let mtu = view.get("mtu");
    if mtu.is_set() && mtu.int() < 1280 {
        report.error("kubespan link MTU must be at least 1280");
    }
    for subnet in invalid_subnets(view.at(&["filters", "endpoints"]).texts()) {
        report.error(format!("KubeSpan endpoint filter is not valid: {subnet:?}"));
    }
}

fn link_alias(view: View<'_>, release: Release, report: &mut Report) {
    let name = view.get("name").text();
    if name.is_empty() {
        report.error("name must be specified");
    } else if let Some((prefix, suffix)) = name.split_once('%')
        && release >= Release::V1_13
        && (suffix != "d" || prefix.is_empty())
    {
        report.error(format!("name {name:?} contains an invalid format verb, use %d suffix"));
    }
    match view.at(&["selector", "match"]).text() {
        "" => report.error("link selector is required"),
        expression => {
            let checked = cel::check(expression, &Environment::link(), ResultType::Bool);
            if let Err(reason) = checked {
                report.error(format!("link selector is invalid: {reason}"));
            }
        }
    }
}

fn port_range(text: &str) -> (u32, u32) {
    let number = |text: &str| text.parse().unwrap_or(0);
    match text.split_once('-') {
        Some((low, high)) => (number(low), number(high)),
        None => (number(text), number(text)),
    }
}

fn rule(view: View<'_>, report: &mut Report) {
    if view.get("name").text().is_empty() {
        return report.error("name is required");
    }
    let mut ports: Vec<(u32, u32)> =
        view.at(&["portSelector", "ports"]).texts().map(port_range).collect();
    if ports.is_empty() {
        return report.error("portSelector.ports is required");
    }
    ports.sort_by_key(|(low, _)| *low);
    for (at, (low, high)) in ports.iter().enumerate() {
        if low > high {
            return report.error(format!("invalid port range: {low}-{high}"));
        }
        let before = at.checked_sub(1).map(|at| ports[at]);
        if let Some((before_low, before_high)) = before
            && *low <= before_high
        {
            return report.error(format!(
                "invalid port range: {low}-{high}, overlaps with {before_low}-{before_high}"
            ));
        }
    }
    for ingress in view.get("ingress").items() {
        if parse_prefix(ingress.get("subnet").text()).is_none() {
            return report.error("invalid subnet: invalid Prefix");
        }
    }
}

fn routing_rule(view: View<'_>, report: &mut Report) {
    let name = view.get("name").text();
    require_name(view, "name must be specified", report);
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let priority =
        name.parse::<u64>().ok().filter(|priority| is_number && u32::try_from(*priority).is_ok());
    if priority.is_none() {
        report.error(format!(
            "invalid name: must be priority parsable unsigned integer: strconv.ParseUint: parsing {name:?}: invalid syntax"
        ));
    }
    if RESERVED_PRIORITIES.contains(&priority.unwrap_or(0)) {
        report.error(
            "priority must be between 1 and 32765 (excluding reserved priorities [0 32500 32766 32767])",
        );
    }
    let action = view.get("action").text();
    let has_table = !matches!(view.get("table").text(), "" | "unspec");
    report.check(
        has_table || !matches!(action, "" | "unspec" | "unicast"),
        "either table or a non-unicast action must be specified",
    );
    report.check(
        view.get("fwMask").int() == 0 || view.get("fwMark").int() != 0,
        "fwMask requires fwMark to be set",
    );
}

fn tcp_probe(view: View<'_>, report: &mut Report) {
    require_name(view, "probe name is required", report);
    report.check(!view.get("endpoint").text().is_empty(), "TCP probe endpoint is required");
    for (key, what) in [("timeout", "TCP probe timeout"), ("interval", "probe interval")] {
        if is_negative(view.get(key)) {
            let given = view.get(key).text();
            report.error(format!("{what} cannot be negative: {given}"));
        }
    }
    let threshold = view.get("failureThreshold").int();
    if threshold < 0 {
        report.error(format!("probe failure threshold cannot be negative: {threshold}"));
    }
}
