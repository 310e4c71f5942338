//! Validation of `machine.network.interfaces` of the v1alpha1 document.

use std::net::IpAddr;

use super::{Report, View};
use crate::format::{address, decode_base64};

const EXCLUSIVE: &str = "config sections are mutually exclusive";

pub(super) fn validate(network: View<'_>, report: &mut Report) {
    // Pairs of an interface and the bond or bridge that it belongs to.
    let mut owners: Vec<(&str, &str)> = vec![];
    for device in network.get("interfaces").items() {
        let name = device.get("interface").text();
        let (bond, bridge) = (device.get("bond"), device.get("bridge"));
        if bond.is_set() && bridge.is_set() {
            report.error(format!(
                "interface has both bridge and bond sections set {name:?}: {EXCLUSIVE}"
            ));
        }
        let has_both =
            !bond.get("interfaces").is_empty() && !bond.get("deviceSelectors").is_empty();
        if has_both {
            report.error(format!(
                "interface {name:?} has both interfaces and selectors set: {EXCLUSIVE}"
            ));
        }
        let members = if bridge.is_set() { bridge } else { bond };
        for member in members.get("interfaces").texts() {
            match owners.iter_mut().find(|(other, _)| *other == member) {
                Some((_, owner)) => {
                    if *owner != name {
                        report.error(format!(
                            "interface {member:?} is declared as part of two separate links: {owner:?} and {name:?}"
                        ));
                    }
                    *owner = name;
                }
                None => owners.push((member, name)),
            }
        }
    }
    for device in network.get("interfaces").items() {
        if !device.is_set() {
            report.error("empty device");
        } else if !device.get("ignore").is_true() {
            check_interface(device, report);
            check_addressing(device, &owners, report);
            check_routes(device, report);
        }
    }
}

fn check_interface(device: View<'_>, report: &mut Report) {
    const SECTIONS: &str =
        "[networking.os.device.interface], [networking.os.device.deviceSelector]";
    let name = device.get("interface").text();
    let selector = device.get("deviceSelector");
    if name.is_empty() && !selector.is_set() {
        report.error(format!("{SECTIONS}: required either config section to be set"));
    } else if !name.is_empty() && selector.is_set() {
        report.error(format!("{SECTIONS}: {EXCLUSIVE}"));
    }
    if selector.is_set() && selector.is_empty() {
        report.error(
            "[networking.os.device.deviceSelector]: config section should contain at least one field",
        );
    }
    if device.get("bond").is_set() {
        check_bond(device.get("bond"), report);
    }
    if device.get("wireguard").is_set() {
        check_wireguard(device.get("wireguard"), report);
    }
    check_vlans(device, report);
}

fn check_bond(bond: View<'_>, report: &mut Report) {
    let mode = match bond.get("mode").text() {
        "" => "balance-rr",
        mode => mode,
    };
    let modes = [
        "balance-rr",
        "active-backup",
        "balance-xor",
        "broadcast",
        "802.3ad",
        "balance-tlb",
        "balance-alb",
    ];
    let known = modes.contains(&mode);
    if !known {
        report.error(format!("invalid bond type {mode}"));
    }
    let mode = if known { mode } else { "balance-rr" };
    let words: [(&str, &str, &[&str]); 7] = [
        (
            "xmitHashPolicy",
            "invalid xmit hash policy",
            &["layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4"],
        ),
        ("lacpRate", "invalid lacp rate", &["slow", "fast"]),
        (
            "arpValidate",
            "invalid arp_validate mode",
            &["none", "active", "backup", "all", "filter", "filter-active", "filter-backup"],
        ),
        ("arpAllTargets", "invalid arp_all_targets mode", &["any", "all"]),
        ("primaryReselect", "invalid primary_reselect mode", &["always", "better", "failure"]),
        ("failOverMac", "invalid fail_over_mac value", &["none", "active", "follow"]),
        ("adSelect", "invalid ad_select mode", &["stable", "bandwidth", "count"]),
    ];
    for (key, reason, allowed) in words {
        let word = bond.get(key).text();
        if !word.is_empty() && !allowed.contains(&word) {
            report.error(format!("{reason} {word}"));
        }
    }
    check_bond_delays(bond, report);
    check_bond_mode(bond, mode, report);
}

fn check_bond_delays(bond: View<'_>, report: &mut Report) {
    let interval = bond.get("miimon").int();
    for (key, name) in [("updelay", "upDelay"), ("downdelay", "downDelay")] {
        let delay = bond.get(key).int();
        if interval == 0 && delay != 0 {
            report.error(format!("bond.{name} can't be set if miiMon is zero"));
        } else if interval != 0 && delay % interval != 0 {
            report.error(format!("bond.{name} should be a multiple of miiMon"));
        }
    }
}

fn check_bond_mode(bond: View<'_>, mode: &str, report: &mut Report) {
    let is_given = |key: &str| bond.get(key).is_set();
    let is_8023ad = mode == "802.3ad";
    let is_balanced = matches!(mode, "balance-alb" | "balance-tlb");
    let unavailable = |name: &str| format!("bond.{name} is not available in {mode} mode");
    report.check(bond.get("arpIPTarget").is_empty(), "bond.arpIPTarget is not supported");
    report.check(
        !is_given("lacpRate") || is_8023ad,
        "bond.lacpRate is only available in 802.3ad mode",
    );
    report.check(!is_given("adActorSystem"), "bond.adActorSystem is not supported");
    if (is_8023ad || is_balanced) && is_given("arpValidate") {
        report.error(unavailable("arpValidate"));
    }
    if !(mode == "active-backup" || is_balanced) && is_given("primary") {
        report.error(unavailable("primary"));
    }
    if (is_8023ad || is_balanced) && bond.get("arpInterval").int() > 0 {
        report.error(unavailable("arpInterval"));
    }
    if mode != "balance-rr" && bond.get("packetsPerSlave").int() > 1 {
        report.error(unavailable("packetsPerSlave"));
    }
    if !is_balanced && bond.get("tlbDynamicLb").int() > 0 {
        report.error(unavailable("tlbDynamicTLB"));
    }
    for (key, name) in [("adActorSysPrio", "adActorSysPrio"), ("adUserPortKey", "adUserPortKey")] {
        if !is_8023ad && bond.get(key).int() > 0 {
            report.error(format!("bond.{name} is only available in 802.3ad mode"));
        }
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let bytes = decode_base64(key)?;
    if bytes.len() == 32 { Ok(()) } else { Err(format!("wrong key length: {}", bytes.len())) }
}

fn check_wireguard(wireguard: View<'_>, report: &mut Report) {
    if let Err(reason) = check_key(wireguard.get("privateKey").text()) {
        report.error(format!("private key is invalid: {reason}"));
    }
    for peer in wireguard.get("peers").items() {
        if let Err(reason) = check_key(peer.get("publicKey").text()) {
            report.error(format!("public key invalid: {reason}"));
        }
        let endpoint = peer.get("endpoint").text();
        if !endpoint.is_empty() && !has_port(endpoint) {
            report.error(format!("peer endpoint {endpoint:?} is invalid"));
        }
        for allowed in peer.get("allowedIPs").texts() {
            if address::parse_prefix(allowed).is_none() {
                report.error(format!(
                    "peer allowed IP {allowed:?} is invalid: invalid CIDR address: {allowed}"
                ));
            }
        }
    }
}

/// Whether an endpoint has a host and a port. If the host contains colons, it must be an address in brackets.
fn has_port(endpoint: &str) -> bool {
    match split_host_port(endpoint) {
        Ok((host, _)) => !host.contains(':') || address::parse_addr(host).is_some(),
        Err(_) => false,
    }
}

/// Splits host and port like Go's net.SplitHostPort.
pub(super) fn split_host_port(endpoint: &str) -> Result<(&str, &str), &'static str> {
    let Some((host, port)) = endpoint.rsplit_once(':') else {
        return Err("missing port in address");
    };
    if let Some(inner) = endpoint.strip_prefix('[') {
        let Some((host, after)) = inner.split_once(']') else {
            return Err("missing ']' in address");
        };
        return match after.strip_prefix(':') {
            None => Err("missing port in address"),
            Some(port) if port.contains(':') => Err("too many colons in address"),
            Some(_) if host.contains('[') => Err("unexpected '[' in address"),
            Some(port) => Ok((host, port)),
        };
    }
    if host.contains(':') {
        return Err("too many colons in address");
    }
    if endpoint.contains(['[', ']']) {
        return Err("unexpected bracket in address");
    }
    Ok((host, port))
}

fn check_ip_or_cidr(text: &str) -> Result<(), String> {
    if text.contains('/') {
        return match address::parse_prefix(text) {
            Some(_) => Ok(()),
            None => Err(format!("invalid CIDR address: {text}")),
        };
    }
    match text.parse::<IpAddr>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("failed to parse IP address {text:?}")),
    }
}

fn check_vlans(device: View<'_>, report: &mut Report) {
    let name = device.get("interface").text();
    for vlan in device.get("vlans").items() {
        let at = format!("{name}.{}", vlan.get("vlanId").int());
        let (addresses, cidr) = (vlan.get("addresses"), vlan.get("cidr").text());
        if !addresses.is_empty() && !cidr.is_empty() {
            report.error(format!(
                "[networking.os.device.vlan] {at}: vlan can't have both .cidr and .addresses set"
            ));
        }
        if !cidr.is_empty()
            && let Err(reason) = check_ip_or_cidr(cidr)
        {
            report.error(format!("[networking.os.device.vlan.CIDR] {at}: {reason}"));
        }
        for text in addresses.texts() {
            if let Err(reason) = check_ip_or_cidr(text) {
                report.error(format!("[networking.os.device.vlan.addresses] {at}: {reason}"));
            }
        }
    }
}

fn check_addressing(device: View<'_>, owners: &[(&str, &str)], report: &mut Report) {
    let name = device.get("interface").text();
    let (addresses, cidr) = (device.get("addresses"), device.get("cidr").text());
    let vip = device.get("vip");
    let is_addressed =
        device.get("dhcp").is_true() || !cidr.is_empty() || !addresses.is_empty() || vip.is_set();
    if is_addressed && owners.iter().any(|(member, _)| *member == name) {
        report.error(format!(
            "[networking.os.device] {name:?}: bonded/bridged interface shouldn't have any addressing methods configured"
        ));
    }
    if !addresses.is_empty() && !cidr.is_empty() {
        report.error(format!(
            "[networking.os.device] {name:?}: interface can't have both .cidr and .addresses set"
        ));
    }
    if !cidr.is_empty() {
        if let Err(reason) = check_ip_or_cidr(cidr) {
            report.error(format!("[networking.os.device.CIDR] {name:?}: {reason}"));
        }
        report.warn(format!(
            "{name:?}: machine.network.interface.cidr is deprecated, please use machine.network.interface.addresses"
        ));
    }
    for text in addresses.texts() {
        if let Err(reason) = check_ip_or_cidr(text) {
            report.error(format!("[networking.os.device.addresses] {name:?}: {reason}"));
        }
    }
    let shared = vip.get("ip").text();
    if vip.is_set() && shared.parse::<IpAddr>().is_err() {
        report
            .error(format!("[networking.os.device.vip] failed to parse {shared:?} as IP address"));
    }
}

fn check_routes(device: View<'_>, report: &mut Report) {
    for (at, route) in device.get("routes").items().enumerate() {
        let mut invalid = |key: &str, text: &str| {
            report.error(format!(
                "[networking.os.device.route[{at}].{key}] {text:?}: invalid network address"
            ));
        };
        let network = route.get("network").text();
        let gateway = route.get("gateway").text();
        let source = route.get("source").text();
        if !network.is_empty() && address::parse_prefix(network).is_none() {
            invalid("network", network);
        }
        if !gateway.is_empty() && gateway.parse::<IpAddr>().is_err() {
            invalid("gateway", gateway);
        }
        if !source.is_empty() && source.parse::<IpAddr>().is_err() {
            invalid("source", source);
        }
        if network.is_empty() && gateway.is_empty() {
            report.error(format!(
                "[networking.os.device.route[{at}]]: either network or gateway should be set"
            ));
        }
    }
}
