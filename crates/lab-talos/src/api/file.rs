//! Files of a node and keys of the META partition.

use std::net::IpAddr;
use std::time::Duration;

use talmox_talos_api::proto::common::Data;
use talmox_talos_api::server::Status;
use tonic::codegen::BoxStream;

use super::kubeconfig::archive;
use super::stream;
use super::{Session, status};
use crate::etcd;
use crate::link::Link;
use crate::talos_state::Node;

/// Size of the META partition in bytes.
const META_SIZE: usize = 256 << 10;

pub(super) fn read(session: &Session, path: &str) -> Result<BoxStream<Data>, Status> {
    Ok(stream::bytes(&bytes(session, path)?))
}

/// File of the node as a tar archive.
pub(super) fn copy(session: &Session, path: &str) -> Result<BoxStream<Data>, Status> {
    if !path.starts_with('/') {
        return Err(Status::unknown(format!("path is not absolute {path}")));
    }
    let bytes = bytes(session, path)?;
    let now = i64::try_from(session.simulation.now().as_secs()).unwrap_or(i64::MAX);
    let name = path.rsplit('/').next().unwrap_or_default();
    let archive = archive(name, &bytes, now).map_err(|error| Status::unknown(error.to_string()))?;
    Ok(stream::bytes(&archive))
}

fn bytes(session: &Session, path: &str) -> Result<Vec<u8>, Status> {
    let now = session.simulation.now();
    let found = session.look(|talos, node| match path {
        "/var/lib/etcd/member/snap/db" => etcd::database(talos, node.vmid),
        "/var/lib/etcd.snapshot" => node.snapshot.clone(),
        "/proc/net/arp" => {
            Some(arp_table(node, &session.simulation.settings.gateways).into_bytes())
        }
        _ => contents(node, path, now).map(String::into_bytes),
    })?;
    found.ok_or_else(|| Status::not_found(format!("stat {path}: no such file or directory")))
}

/// ARP table of the kernel. It contains the gateway in use, because a node always sends packets to other networks. A gateway that does
/// not exist has no hardware address.
fn arp_table(node: &Node, gateways: &[IpAddr]) -> String {
    let network = &node.network;
    let mut table =
        "IP address       HW type     Flags       HW address            Mask     Device\n"
            .to_owned();
    let near = network.gateways.first().filter(|gateway| gateway.is_ipv4()).and_then(|gateway| {
        let on = |link: &&Link| link.addresses.iter().any(|(own, _)| own.contains(*gateway));
        Some((gateway.to_string(), network.links.iter().find(on)?))
    });
    if let Some((gateway, link)) = near {
        let (flags, mac) = if network.has_internet(gateways) {
            ("0x2", "02:00:00:00:00:01")
        } else {
            ("0x0", "00:00:00:00:00:00")
        };
        let name = &link.name;
        table.push_str(&format!(
            "{gateway:<16} 0x1         {flags}         {mac}     *        {name}\n"
        ));
    }
    table
}

/// Content of a file on the node. Only files that clients are known to read exist.
fn contents(node: &Node, path: &str, now: Duration) -> Option<String> {
    let version = &node.version;
    Some(match path {
        "/proc/sys/kernel/random/boot_id" => format!("{}\n", node.boot_id),
        "/etc/os-release" => format!(
            "NAME=\"Talos\"\nID=talos\nVERSION_ID={version}\nPRETTY_NAME=\"Talos ({version})\"\n\
             HOME_URL=\"https://www.talos.dev/\"\nBUG_REPORT_URL=\"https://github.com/siderolabs/talos/issues\"\n\
             VENDOR_NAME=\"Sidero Labs\"\nVENDOR_URL=\"https://www.siderolabs.com/\"\n"
        ),
        "/proc/version" => format!("Linux version {}-talos\n", kernel(version.minor)),
        "/proc/sys/kernel/osrelease" => format!("{}-talos\n", kernel(version.minor)),
        "/proc/meminfo" => {
            let (total, free, available) = status::memory_in_kib(node);
            format!(
                "MemTotal:       {total:>8} kB\nMemFree:        {free:>8} kB\nMemAvailable:   {available:>8} kB\n"
            )
        }
        "/proc/uptime" => {
            let up = now.saturating_sub(node.booted);
            format!("{:.2} {:.2}\n", up.as_secs_f64(), up.as_secs_f64())
        }
        "/proc/cpuinfo" => {
            let cpus = 0..node.hardware.cpus;
            cpus.map(|cpu| format!("processor\t: {cpu}\nmodel name\t: QEMU Virtual CPU\n\n"))
                .collect()
        }
        "/proc/cmdline" => command_line(node),
        "/etc/hostname" | "/proc/sys/kernel/hostname" => format!("{}\n", node.hostname()),
        "/etc/machine-id" => format!("{}\n", node.boot_id.replace('-', "")),
        "/etc/resolv.conf" => {
            node.network.nameservers.iter().map(|server| format!("nameserver {server}\n")).collect()
        }
        "/etc/kubernetes/kubelet.yaml" => node.config.as_ref().map(|_| {
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n".to_owned()
        })?,
        // Clients check only whether this file exists. It shows that etcd has run on this node.
        "/var/lib/etcd/member/snap/db" => node.etcd.as_ref().map(|_| "\0".repeat(512))?,
        "/system/state/config.yaml" => node.config.as_ref().map(|config| config.text.clone())?,
        _ => return None,
    })
}

/// Kernel version of a Talos minor release.
pub(crate) fn kernel(minor: u32) -> &'static str {
    match minor {
        ..=8 => "6.6.64",
        9 => "6.12.23",
        10 => "6.12.57",
        11 => "6.12.52",
        12 => "6.18.24",
        13 => "6.18.33",
        14.. => "6.18.38",
    }
}

/// Kernel command line, with the extra arguments of the schematic.
pub(crate) fn command_line(node: &Node) -> String {
    let names = if node.platform.name == "nocloud" { " net.ifnames=0" } else { "" };
    let mut line =
        format!("talos.platform={} console=tty1 console=ttyS0{names}", node.platform.name);
    for argument in &node.image.schematic.customization.extra_kernel_args {
        line.push(' ');
        line.push_str(argument);
    }
    line.push('\n');
    line
}

pub(super) fn write_meta(session: &Session, key: u32, value: &[u8]) -> Result<(), Status> {
    let key = meta_key(key)?;
    let value = String::from_utf8_lossy(value).into_owned();
    let disk = session.change(|node| {
        let used: usize = node.meta.values().map(String::len).sum();
        if used + value.len() > META_SIZE {
            return Err(Status::resource_exhausted("meta write failed"));
        }
        node.meta.insert(key, value.clone());
        Ok(node.system_disk.clone())
    })??;
    if let Some(disk) = disk {
        session.simulation.hypervisor.write_disk(&disk, |written| {
            written.meta.insert(key, value);
        });
    }
    Ok(())
}

pub(super) fn delete_meta(session: &Session, key: u32) -> Result<(), Status> {
    let key = meta_key(key)?;
    let (removed, disk) =
        session.change(|node| (node.meta.remove(&key), node.system_disk.clone()))?;
    if removed.is_none() {
        return Err(Status::not_found("meta key not found"));
    }
    if let Some(disk) = disk {
        session.simulation.hypervisor.write_disk(&disk, |written| {
            written.meta.remove(&key);
        });
    }
    Ok(())
}

fn meta_key(key: u32) -> Result<u8, Status> {
    u8::try_from(key).map_err(|_| Status::invalid_argument("key must be a uint8"))
}
