//! Checks that names, addresses, vmids, MAC addresses and PCI devices are unique.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::net::IpAddr;

use crate::cluster::Cluster;
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::language::Spanned;
use crate::source::Span;
use crate::value::{MacAddress, NodeName, PciAddress};

/// Property that must be unique among machines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    Name(String),
    Address(IpAddr),
    VmId(u32),
    Mac(MacAddress),
}

impl Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => write!(f, "the name `{name}`"),
            Self::Address(address) => write!(f, "the address {address}"),
            Self::VmId(vmid) => write!(f, "the vmid {vmid}"),
            Self::Mac(mac) => write!(f, "the MAC {mac}"),
        }
    }
}

/// Properties of all nodes that must be unique, each with its position and the name of its node.
pub(super) fn identities(cluster: &Cluster) -> impl Iterator<Item = (Identity, Span, &str)> {
    cluster.nodes.iter().flat_map(|node| {
        let name = node.name.value.as_str();
        let entry = &node.entry;
        let mut found = vec![];
        // A placeholder for a missing name is not checked.
        if node.is_named {
            found.push((Identity::Name(name.to_owned()), node.name.span));
        }
        found.extend(entry.ip.spanned().map(|ip| (Identity::Address(ip.value.address), ip.span)));
        found.extend(entry.vmid.spanned().map(|id| (Identity::VmId(id.value.get()), id.span)));
        found.extend(entry.mac.spanned().map(|mac| (Identity::Mac(mac.value), mac.span)));
        for nic in entry.settings.hardware.nics.values() {
            found.extend(nic.ip.spanned().map(|ip| (Identity::Address(ip.value.address), ip.span)));
            found.extend(nic.mac.spanned().map(|mac| (Identity::Mac(mac.value), mac.span)));
        }
        found.into_iter().map(move |(identity, span)| (identity, span, name))
    })
}

pub(super) fn check(cluster: &Cluster, out: &mut Findings) {
    devices(cluster, out);
    let mut first: HashMap<Identity, (Span, &str)> = HashMap::new();
    for (identity, span, node) in identities(cluster) {
        let Some((first_span, first_node)) = first.get(&identity) else {
            first.insert(identity, (span, node));
            continue;
        };
        let is_name = matches!(identity, Identity::Name(_));
        // If both nodes have the same name, or are the same node, the message contains no node names. The spans show
        // both places.
        let both = if is_name || *first_node == node {
            format!("{identity} is used twice")
        } else {
            format!("`{first_node}` and `{node}` both have {identity}")
        };
        out.push(
            Diagnostic::error(Code::Duplicate, both)
                .at(span)
                .related(*first_span, "first used here")
                .hint("give each node its own"),
        );
    }
}

/// PCI device of a host that a node passes through.
pub(super) struct Device<'a> {
    pub(super) host: &'a str,
    pub(super) pci: &'a Spanned<PciAddress>,
    pub(super) node: &'a Spanned<NodeName>,
}

impl<'a> Device<'a> {
    pub(super) fn all(cluster: &'a Cluster) -> impl Iterator<Item = Self> {
        cluster.nodes.iter().filter_map(|node| {
            let pci = node.settings().hardware.gpu.pci.spanned()?;
            let host = node.settings().placement.host.get()?.as_str();
            Some(Self { host, pci, node: &node.name })
        })
    }

    /// Host and PCI slot of the device. Devices in different slots never conflict.
    pub(super) fn slot(&self) -> (&'a str, u16, u8, u8) {
        let PciAddress { domain, bus, device, .. } = self.pci.value;
        (self.host, domain, bus, device)
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.host == other.host && self.pci.value.overlaps(other.pci.value)
    }
}

/// Reports a PCI device that two nodes on the same host pass through.
fn devices(cluster: &Cluster, out: &mut Findings) {
    let mut seen: HashMap<_, Vec<Device<'_>>> = HashMap::new();
    for device in Device::all(cluster) {
        let on_host = seen.entry(device.slot()).or_default();
        if let Some(first) = on_host.iter().find(|first| first.overlaps(&device)) {
            let message = format!(
                "`{}` and `{}` both pass through the device {} of {}",
                first.node.value, device.node.value, device.pci.value, device.host
            );
            let first_place = Some(first.pci.span).filter(|span| *span != device.pci.span);
            out.push(
                Diagnostic::error(Code::Gpu, message)
                    .at(device.pci.span)
                    .related(first_place, "first used here")
                    .related(device.node.span, "the second node")
                    .hint("pass the device through to one of the two nodes"),
            );
        }
        // One entry per function is enough, because the conflict with this device was already reported.
        if !on_host.iter().any(|first| first.pci.value == device.pci.value) {
            on_host.push(device);
        }
    }
}
