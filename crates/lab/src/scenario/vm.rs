//! Section `vms`: VMs that exist when the lab starts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_lab_pve::Release;
use talmox_lab_pve::is_vm_option;
use talmox_lab_pve::pve_state::{Agent, Config, Guest, Host, PendingDelete, Snapshot, Vm};
use talmox_yaml::Node;

use super::section::{Read, Section, Source};
use super::storage::known_hosts;

#[derive(Clone, Debug)]
pub(super) struct VmSpec {
    pub(super) vm: Vm,
    pub(super) running: bool,
}

pub(super) fn read(
    section: &Section<'_>,
    hosts: &BTreeMap<String, Host>,
) -> Read<BTreeMap<u32, VmSpec>> {
    let mut vms = BTreeMap::new();
    for node in section.list("vms")? {
        let (vmid, spec) = read_vm(section.source, node, hosts)?;
        if vms.insert(vmid, spec).is_some() {
            return Err(section.source.error(node.span, format!("VM {vmid} is defined twice")));
        }
    }
    Ok(vms)
}

fn read_vm(source: Source<'_>, node: &Node, hosts: &BTreeMap<String, Host>) -> Read<(u32, VmSpec)> {
    let keys = ["vmid", "node", "status", "config", "pending", "snapshots", "guest"];
    let section = Section::open(source, node, "a VM", &keys)?;
    section.name("vmid")?;
    let vmid = section.number("vmid")?.unwrap_or_default();
    if !(100..=999_999_999).contains(&vmid) {
        return Err(section.error("vmid", "a vmid is a number from 100 to 999999999"));
    }
    let host = match section.text("node")? {
        Some(name) => name,
        None => hosts.keys().next().cloned().unwrap_or_default(),
    };
    known_hosts(&section, "node", std::slice::from_ref(&host), hosts)?;
    let running = match section.text("status")?.as_deref() {
        None | Some("stopped") => false,
        Some("running") => true,
        Some(other) => {
            let message = format!("`status` is running or stopped, not `{other}`");
            return Err(section.error("status", message));
        }
    };
    let (pending, pending_delete) = pending(section.options("pending")?);
    let mut snapshots = BTreeMap::new();
    for (name, node) in section.entries("snapshots")? {
        let config = source.options(node, "a snapshot")?;
        snapshots.insert(name, Snapshot { config });
    }
    let guest = section.get("guest").map(|node| read_guest(source, node)).transpose()?;
    let guest = guest.unwrap_or_default();
    let config = section.options("config")?;
    let is_option = |key: &String| Release::ALL.iter().any(|it| is_vm_option(*it, key));
    if let Some(key) = config.keys().find(|key| !is_option(key)) {
        return Err(section.error("config", format!("a VM has no option `{key}`")));
    }
    let vm = Vm { node: host, config, pending, pending_delete, snapshots, guest, run: None };
    Ok((vmid, VmSpec { vm, running }))
}

/// Splits the pending changes into new values and pending deletions. `delete` lists the options to delete; the prefix `!` marks
/// an option whose volume is deleted as well.
fn pending(mut options: Config) -> (Config, BTreeMap<String, PendingDelete>) {
    let delete = options.remove("delete").unwrap_or_default();
    let words = delete.split([',', ';', ' ']).filter(|word| !word.is_empty());
    let delete = words.map(|word| match word.strip_prefix('!') {
        Some(forced) => (forced.to_owned(), PendingDelete::Destroy),
        None => (word.to_owned(), PendingDelete::Detach),
    });
    (options, delete.collect())
}

fn read_guest(source: Source<'_>, node: &Node) -> Read<Guest> {
    let section = Section::open(source, node, "a guest", &["hostname", "interfaces", "holds"])?;
    let mut interfaces = vec![];
    for node in section.list("interfaces")? {
        let keys = ["name", "mac", "addresses"];
        let interface = Section::open(source, node, "an interface", &keys)?;
        let mut addresses = vec![];
        for word in interface.words("addresses")? {
            addresses.push(address(&word).ok_or_else(|| {
                let message = format!("`{word}` is not an address with a prefix length");
                interface.error("addresses", message).hint("write it like 10.0.0.21/24")
            })?);
        }
        interfaces.push((interface.name("name")?, interface.name("mac")?, addresses));
    }
    let hostname = section.text("hostname")?;
    let answers = hostname.is_some() || !interfaces.is_empty();
    let agent = answers.then(|| Agent { interfaces, hostname: hostname.unwrap_or_default() });
    Ok(Guest { agent, held_drives: section.words("holds")?.into_iter().collect() })
}

fn address(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, prefix) = text.split_once('/')?;
    let (ip, prefix) = (ip.parse::<IpAddr>().ok()?, prefix.parse().ok()?);
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    (prefix <= longest).then_some((ip, prefix))
}
