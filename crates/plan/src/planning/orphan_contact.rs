//! How talmox reaches the machine of an orphan. The inventory no longer has its address, so the address is an observed fact:
//! from the config of the VM, from its guest agent, from the Node object in Kubernetes, or from the members that the other nodes
//! discovered.
//!
//! A wrong address does no harm: the steps send nothing to a machine whose UUID and MAC addresses differ from those of the VM.

use std::net::IpAddr;

use talmox_pve_types::config::VmConfig;
use talmox_pve_types::property::{IpConfig, Ipv4Config, Ipv6Config};

use super::builder::Builder;
use crate::desired::Contact;
use crate::observed::KubernetesSeen;

/// How the machine of the orphan `name` is reached. None if its address is not known.
pub(super) fn contact(builder: &Builder<'_>, name: &str, config: &VmConfig) -> Option<Contact> {
    of_vm(config).or_else(|| observed_address(builder, name).map(Contact::At))
}

/// The static address in the cloud-init drive of a VM, or its guest agent. None for most VMs that were created with a cidata
/// volume.
fn of_vm(config: &VmConfig) -> Option<Contact> {
    let drive = config.get("ipconfig0").map(IpConfig::parse).unwrap_or_default();
    let v4 = drive.v4.and_then(|v4| match v4 {
        Ipv4Config::Static { address, .. } => Some(address.into()),
        Ipv4Config::Dhcp => None,
    });
    let v6 = drive.v6.and_then(|v6| match v6 {
        Ipv6Config::Static { address, .. } => Some(address.into()),
        Ipv6Config::Dhcp | Ipv6Config::Auto => None,
    });
    let is_on = |agent: &str| agent.split(',').any(|part| matches!(part, "1" | "enabled=1"));
    let agent = config.get("agent").filter(|agent| is_on(agent)).map(|_| Contact::AskAgent);
    v4.or(v6).map(Contact::At).or(agent)
}

/// The address that the kubelet of a node registered, or that other nodes discovered. An address that the inventory uses for
/// something else is not the address of the orphan any more.
fn observed_address(builder: &Builder<'_>, name: &str) -> Option<IpAddr> {
    let is_used = |address: &IpAddr| {
        let mut nodes = builder.desired.nodes.iter();
        builder.desired.vip == Some(*address) || nodes.any(|node| node.addresses.contains(address))
    };
    let registered = match &builder.observed.kubernetes {
        KubernetesSeen::Answers(registered) => registered.addresses.get(name),
        KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => None,
    };
    let discovered = builder.observed.orphan_addresses.get(name);
    let mut all = registered.into_iter().chain(discovered).flatten().copied();
    all.find(|address| !is_used(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(options: &[(&str, &str)]) -> VmConfig {
        VmConfig::new(options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn a_static_address_comes_before_the_guest_agent() {
        let at = Contact::At("10.0.0.11".parse().unwrap());
        let v4 = ("ipconfig0", "ip=10.0.0.11/24,gw=10.0.0.1");
        assert_eq!(of_vm(&config(&[v4, ("agent", "1")])), Some(at));
        let dhcp = ("ipconfig0", "ip=dhcp");
        assert_eq!(of_vm(&config(&[dhcp, ("agent", "enabled=1")])), Some(Contact::AskAgent));
        assert_eq!(of_vm(&config(&[dhcp, ("agent", "0")])), None);
        assert_eq!(of_vm(&config(&[])), None);
    }
}
