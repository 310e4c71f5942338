//! Closed sets of words. If not noted otherwise, an empty value means the first word.

use super::Enum;

const fn words(name: &'static str, values: &'static [&'static str]) -> Enum {
    Enum {
        name,
        values,
        zero: Some(values[0]),
        later: &[],
        gone: &[],
        latest: &[],
        numbers: None,
        legacy: false,
    }
}

/// Set without a word for the empty value.
const fn without_zero(name: &'static str, values: &'static [&'static str]) -> Enum {
    Enum { zero: None, ..words(name, values) }
}

pub(super) static ADLACP_ACTIVE: Enum = words("ADLACPActive", &["off", "on"]);
pub(super) static AD_SELECT: Enum = words("ADSelect", &["stable", "bandwidth", "count"]);
pub(super) static ARP_ALL_TARGETS: Enum = words("ARPAllTargets", &["any", "all"]);
pub(super) static ARP_VALIDATE: Enum = words(
    "ARPValidate",
    &["none", "active", "backup", "all", "filter", "filter-active", "filter-backup"],
);
pub(super) static AUTO_HOSTNAME_KIND: Enum =
    words("AutoHostnameKind", &["off", "talos-addr", "stable"]);
pub(super) static BOND_MODE: Enum = words(
    "BondMode",
    &[
        "balance-rr",
        "active-backup",
        "balance-xor",
        "broadcast",
        "802.3ad",
        "balance-tlb",
        "balance-alb",
    ],
);
pub(super) static BOND_XMIT_HASH_POLICY: Enum =
    words("BondXmitHashPolicy", &["layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4"]);
pub(super) static CLIENT_IDENTIFIER: Enum = words("ClientIdentifier", &["none", "mac", "duid"]);
pub(super) static DNS_PROTOCOL: Enum = words("DNSProtocol", &["Do53", "DoT", "DoH"]);
pub(super) static DEFAULT_ACTION: Enum = words("DefaultAction", &["accept", "block"]);
pub(super) static ENCRYPTION_PROVIDER_TYPE: Enum =
    words("EncryptionProviderType", &["none", "luks2"]);
pub(super) static FAIL_OVER_MAC: Enum =
    Enum { legacy: true, ..words("FailOverMAC", &["none", "active", "follow"]) };
pub(super) static FILESYSTEM_TYPE: Enum = Enum {
    // Talos 1.13 spells the word `swap` wrong.
    later: &["swapi", "virtiofs"],
    gone: &["swap"],
    latest: &["btrfs"],
    ..words(
        "FilesystemType",
        &["none", "xfs", "vfat", "ext4", "iso9660", "swap", "swapi", "virtiofs", "btrfs"],
    )
};
pub(super) static LACP_RATE: Enum = words("LACPRate", &["slow", "fast"]);
pub(super) static PRIMARY_RESELECT: Enum =
    words("PrimaryReselect", &["always", "better", "failure"]);
pub(super) static PROTOCOL: Enum = without_zero("Protocol", &["icmp", "tcp", "udp", "icmpv6"]);
pub(super) static ROUTING_RULE_ACTION: Enum =
    words("RoutingRuleAction", &["unspec", "unicast", "blackhole", "unreachable", "prohibit"]);
pub(super) static ROUTING_TABLE: Enum = Enum {
    numbers: Some((1, 252)),
    ..words("RoutingTable", &["unspec", "default", "main", "local"])
};
pub(super) static VLAN_PROTOCOL: Enum = without_zero("VLANProtocol", &["802.1q", "802.1ad"]);
pub(super) static VOLUME_TYPE: Enum = Enum {
    later: &["external"],
    ..words(
        "VolumeType",
        &["partition", "disk", "tmpfs", "directory", "symlink", "overlay", "external"],
    )
};
pub(super) static WOL_MODE: Enum = without_zero(
    "WOLMode",
    &["phy", "unicast", "multicast", "broadcast", "magic", "magicsecure", "filter"],
);
