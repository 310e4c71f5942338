//! Formats of network addresses and names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::perl::fits;
use super::{ValueFormat, expect};

pub(crate) const IPV4: ValueFormat = ValueFormat {
    name: "ipv4",
    check: |text, _| {
        expect(address::<Ipv4Addr>(text), "value does not look like a valid IPv4 address")
    },
};

pub(crate) const IPV6: ValueFormat = ValueFormat {
    name: "ipv6",
    check: |text, _| {
        expect(address::<Ipv6Addr>(text), "value does not look like a valid IPv6 address")
    },
};

pub(crate) const CIDR: ValueFormat = ValueFormat {
    name: "CIDR",
    check: |text, _| {
        expect(is_cidr4(text) || is_cidr6(text), "value does not look like a valid CIDR network")
    },
};

/// Value of the key `ip` of `ipconfigN`.
pub(crate) const IPV4_CONFIG: ValueFormat = ValueFormat {
    name: "pve-ipv4-config",
    check: |text, _| {
        expect(
            fits!(text, "(?:dhcp|manual)") || is_cidr4(text),
            "value does not look like a valid ipv4 network configuration",
        )
    },
};

/// Value of the key `ip6` of `ipconfigN`.
pub(crate) const IPV6_CONFIG: ValueFormat = ValueFormat {
    name: "pve-ipv6-config",
    check: |text, _| {
        expect(
            fits!(text, "(?:auto|dhcp|manual)") || is_cidr6(text),
            "value does not look like a valid ipv6 network configuration",
        )
    },
};

pub(crate) const DNS_NAME: ValueFormat = ValueFormat {
    name: "dns-name",
    check: |text, _| expect(is_dns_name(text), "value does not look like a valid DNS name"),
};

pub(crate) const ADDRESS: ValueFormat = ValueFormat {
    name: "address",
    check: |text, _| {
        expect(is_host(text), format!("value does not look like a valid address: {text}"))
    },
};

pub(crate) const MAC: ValueFormat = ValueFormat {
    name: "mac-addr",
    check: |text, _| {
        expect(
            fits!(text, "(?i)[a-f0-9][02468ace](?::[a-f0-9]{2}){5}"),
            "value does not look like a valid unicast MAC address",
        )
    },
};

pub(crate) const MAC_PREFIX: ValueFormat = ValueFormat {
    name: "mac-prefix",
    check: |text, _| {
        expect(
            fits!(text, "(?i)[a-f0-9][02468ace](?::[a-f0-9]{2}){0,2}(?::[a-f0-9]?)?"),
            "value is not a valid unicast MAC address prefix",
        )
    },
};

pub(crate) const BRIDGE_ID: ValueFormat = ValueFormat {
    name: "pve-bridge-id",
    check: |text, _| expect(fits!(text, r"[-_.\w\d]+"), format!("invalid bridge ID '{text}'")),
};

pub(crate) const INTERFACE: ValueFormat = ValueFormat {
    name: "pve-iface",
    check: |text, _| {
        expect(
            fits!(text, r"(?i)[a-z][a-z0-9_]{1,20}([:.]\d+)?"),
            format!("invalid network interface name '{text}'"),
        )
    },
};

pub(crate) const EMAIL: ValueFormat = ValueFormat {
    name: "email",
    check: |text, _| {
        expect(
            fits!(text, r"[\w+~-]+(\.[\w+~-]+)*@[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)*"),
            "value does not look like a valid email address",
        )
    },
};

pub(crate) const STORAGE_SERVER: ValueFormat = ValueFormat {
    name: "pve-storage-server",
    check: |text, _| {
        expect(is_host(text), "value does not look like a valid server name or IP address")
    },
};

/// Host name or address of a storage server, with an optional port.
pub(crate) const STORAGE_PORTAL: ValueFormat = ValueFormat {
    name: "pve-storage-portal-dns",
    check: |text, _| {
        let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).is_some_and(
            |(host, port)| {
                (address::<Ipv6Addr>(host) || fits!(host, "[[:alnum:].-]+"))
                    && fits!(port, r"(?::\d+)?")
            },
        );
        let dotted_port = text.rsplit_once('.').is_some_and(|(host, port)| {
            address::<Ipv6Addr>(host) && port.bytes().all(|byte| byte.is_ascii_digit())
        });
        expect(
            fits!(text, r"[[:alnum:].-]+(?::\d+)?")
                || bracketed
                || dotted_port
                || address::<Ipv6Addr>(text),
            "value does not look like a valid portal address",
        )
    },
};

fn address<T: std::str::FromStr>(text: &str) -> bool {
    text.strip_suffix('\n').unwrap_or(text).parse::<T>().is_ok()
}

/// Whether a text is an IPv4 network. As in Proxmox, prefixes below 8 bits are invalid.
fn is_cidr4(text: &str) -> bool {
    is_cidr::<Ipv4Addr>(text, 32)
}

fn is_cidr6(text: &str) -> bool {
    is_cidr::<Ipv6Addr>(text, 128)
}

fn is_cidr<T: std::str::FromStr>(text: &str, most: u32) -> bool {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.split_once('/').is_some_and(|(host, prefix)| {
        host.parse::<T>().is_ok()
            && prefix.bytes().all(|byte| byte.is_ascii_digit())
            && prefix.parse().is_ok_and(|prefix: u32| (8..=most).contains(&prefix))
    })
}

fn is_dns_name(text: &str) -> bool {
    fits!(
        text,
        r"(([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)\.)*([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)"
    )
}

fn is_host(text: &str) -> bool {
    address::<IpAddr>(text) || is_dns_name(text)
}
