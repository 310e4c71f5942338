//! Cost of changing the address or gateway of a running node.
//!
//! Talos applies a new config at once, but a node also keeps the network settings of its first boot. Settings from a
//! cloud-init drive remain until Proxmox writes the drive again, which happens when the VM starts. Settings from a cidata
//! volume remain until the node boots with another volume. Settings from an image remain permanently.

use talmox_pve_types::property::{IpConfig, Ipv4Config, Ipv6Config};

use crate::desired::DesiredNode;
use crate::plan::Class;

const DRIVE: &str =
    "the node keeps the settings of its cloud-init drive until the VM is stopped and started";
const ETCD: &str = "etcd identifies a control plane by its address";
const VOLUME: &str =
    "the node keeps the network settings of its config volume until it boots with a new one";
const FIRST: &str = "the node keeps the network settings of its first boot";

/// Change of the address or gateway of a network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressChange {
    /// Whether the card is the first one. The address of the first card identifies the node.
    is_first: bool,
    is_address: bool,
}

impl AddressChange {
    /// The change at a path in a machine config. None if the path is neither an address nor a route.
    pub(super) fn of_config(path: &str) -> Option<Self> {
        let card = path.strip_prefix("machine.network.interfaces[");
        let is_first =
            card.map_or(path.starts_with("LinkConfig/eth0."), |card| card.starts_with("0]"));
        let rest = match card {
            Some(card) => card.split_once("].")?.1,
            None => path.strip_prefix("LinkConfig/")?.split_once('.')?.1,
        };
        let is_address = rest.starts_with("addresses");
        (is_address || rest.starts_with("routes")).then_some(Self { is_first, is_address })
    }

    /// The change of an option such as `ipconfig0`. None for other options.
    pub(super) fn of_option(key: &str, desired: &str, found: Option<&str>) -> Option<Self> {
        let index = key.strip_prefix("ipconfig")?;
        let address = |text: &str| {
            let mut parsed = IpConfig::parse(text);
            if let Some(Ipv4Config::Static { gateway, .. }) = &mut parsed.v4 {
                *gateway = None;
            }
            if let Some(Ipv6Config::Static { gateway, .. }) = &mut parsed.v6 {
                *gateway = None;
            }
            parsed
        };
        let is_address = found.is_none_or(|found| address(found) != address(desired));
        Some(Self { is_first: index == "0", is_address })
    }

    /// The class of the change, and the reason for the class.
    pub(super) fn class(self, node: &DesiredNode) -> (Class, Option<&'static str>) {
        let Self { is_first, is_address } = self;
        if !node.is_talos {
            return (Class::Replace, Some(FIRST));
        }
        match (node.vm.has_cloudinit, is_first) {
            (true, true) if is_address && node.is_control_plane => (Class::Replace, Some(ETCD)),
            (true, _) => (Class::Drain, Some(DRIVE)),
            (false, true) if node.renews_volume() => (Class::Drain, Some(VOLUME)),
            (false, true) => (Class::Replace, Some(FIRST)),
            // Only the machine config configures the other cards.
            (false, false) => (Class::Live, None),
        }
    }

    /// Whether the node must boot with a new cidata volume for this change.
    pub(super) fn renews_volume(self, node: &DesiredNode) -> bool {
        self.is_first && node.renews_volume()
    }

    /// The class of the change on a running node. In contrast to [`Self::class`], a control plane is not replaced if its
    /// address changes.
    ///
    /// etcd stores the peer URL of each member. Talos updates the URL of its own member when the address changes and etcd is
    /// healthy (`etcd.AdvertisedPeerController`, in all versions that talmox supports). A single member needs no peer, so it
    /// starts at its new address and then updates its URL. One of several members connects to the other members at their
    /// unchanged addresses, so it catches up before the others have its new URL. So it is sufficient to stop and start the
    /// VM, which the cloud-init drive needs anyway.
    pub(super) fn running_class(self, node: &DesiredNode) -> (Class, Option<&'static str>) {
        match self.class(node) {
            (Class::Replace, Some(ETCD)) => (Class::Drain, Some(DRIVE)),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_gateways_are_found_in_both_forms() {
        let of = |path: &str| AddressChange::of_config(path).map(|it| (it.is_first, it.is_address));
        assert_eq!(of("machine.network.interfaces[0].addresses[0]"), Some((true, true)));
        assert_eq!(of("machine.network.interfaces[0].routes[0].gateway"), Some((true, false)));
        assert_eq!(of("machine.network.interfaces[1].addresses[0]"), Some((false, true)));
        assert_eq!(of("LinkConfig/eth0.addresses[0].address"), Some((true, true)));
        assert_eq!(of("LinkConfig/eth1.routes[0].gateway"), Some((false, false)));
        for other in [
            "machine.network.nameservers[0]",
            "machine.network.interfaces[0].mtu",
            "LinkConfig/eth0.mtu",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn a_gateway_is_not_an_address() {
        let of = |desired: &str, found: Option<&str>| {
            AddressChange::of_option("ipconfig0", desired, found).map(|it| it.is_address)
        };
        let old = Some("ip=10.0.0.11/16,gw=10.0.0.1");
        assert_eq!(of("ip=10.0.0.11/16,gw=10.0.0.2", old), Some(false));
        assert_eq!(of("ip=10.0.0.12/16,gw=10.0.0.1", old), Some(true));
        assert_eq!(of("ip=10.0.0.12/16", None), Some(true));
    }
}
