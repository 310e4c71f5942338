//! VMs that may hold etcd data of this cluster, searched right before etcd is bootstrapped.
//!
//! The plan is older and follows the inventory, in which nodes may have other names, vmids and addresses than when their VMs
//! were created. So every VM is read here. A VM that cannot be read counts as a VM of this cluster if its name, vmid, tags or
//! pool belong to this cluster.

use std::collections::BTreeSet;
use std::net::IpAddr;

use talmox_plan::desired::TAG;
use talmox_plan::ownership::{FirstRole, Marker, SmbiosUuid, Stage, UnmarkedSign};
use talmox_plan::plan::{BootstrapEtcd, ClusterSigns};
use talmox_pve::PveError;
use talmox_pve::api::cluster::{self, Guest};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::VmConfig;
use talmox_pve::id::{MacAddress, PoolId};
use talmox_pve::property::{IpConfig, Ipv4Config, Ipv6Config};
use talmox_talos_api::Expected;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::step::{StepContext, StepError};

/// A VM of this cluster that this run did not create.
#[derive(Debug)]
pub(super) struct PossibleMember {
    pub(super) vm: Vm,
    /// Name for messages.
    pub(super) name: String,
    pub(super) is_running: bool,
    /// The addresses on the cloud-init drive of the VM.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) expected: Expected,
    /// Whether the bootstrap continues if the VM does not answer. A configured worker cannot answer before the cluster exists.
    /// Only its notes prove that it was never a control plane, because the role of a node can be changed in the inventory.
    pub(super) may_be_silent: bool,
    /// Whether the node is a worker in the inventory, and the notes of the VM do not show whether the VM was created as
    /// a worker.
    pub(super) is_role_unknown: bool,
    /// The sign that a VM without a marker belongs to this cluster. The notes of such a VM may have been replaced.
    pub(super) unmarked: Option<UnmarkedSign>,
}

/// Result of the search.
#[derive(Debug, Default)]
pub(super) struct PossibleMembers {
    pub(super) members: Vec<PossibleMember>,
    /// Descriptions of VMs that may belong to this cluster and cannot be read.
    pub(super) unread: Vec<String>,
}

impl PossibleMembers {
    /// Reads every VM, except the VM that is bootstrapped and the VMs that this run created. The inner error is the reason
    /// why Proxmox cannot list its VMs.
    pub(super) async fn search(
        step: &BootstrapEtcd,
        context: &StepContext,
    ) -> Result<Result<Self, String>, StepError> {
        let all = match context.wait(context.send(&cluster::resources())).await? {
            Ok(all) => all,
            Err(error) => return Ok(Err(format!("Proxmox does not list its VMs: {error}"))),
        };
        let own = step.node.own.vm.vmid;
        let cluster_id = context.cluster()?.bundle.cluster.id.clone();
        let is_node = |guest: &&Guest| {
            guest.vmid == own || step.signs.nodes.iter().any(|node| node.vmid == guest.vmid)
        };
        // The list is some seconds old, and may not show the pool of a new VM yet.
        let pools: Vec<PoolId> =
            all.guests.iter().filter(is_node).filter_map(|guest| guest.pool.clone()).collect();
        let is_in_pool =
            |guest: &Guest| guest.pool.as_ref().is_some_and(|pool| pools.contains(pool));
        let mut numbers: BTreeSet<_> = step
            .signs
            .nodes
            .iter()
            .map(|node| node.vmid)
            .filter(|vmid| *vmid != own && !context.vm_cache.is_created(*vmid))
            .collect();
        let is_open = |guest: &&Guest| {
            guest.is_vm
                && !guest.template
                && guest.vmid != own
                && !context.vm_cache.is_created(guest.vmid)
        };
        let mut possible = Self::default();
        let mut reads = JoinSet::new();
        for guest in all.guests.iter().filter(is_open).cloned() {
            numbers.remove(&guest.vmid);
            let pve = context.run.pve.clone();
            let read = async move {
                let vm = Vm::new(&guest.node, guest.vmid);
                let config = pve.send(&qemu::config(&vm)).await;
                let is_gone =
                    config.is_err() && pve.send(&cluster::is_free(guest.vmid)).await.is_ok();
                if is_gone {
                    return None;
                }
                let is_running = match guest.status.as_str() {
                    "running" => true,
                    "stopped" => false,
                    // A VM whose power state Proxmox does not report counts as running.
                    _ => pve.send(&qemu::current(&vm)).await.map_or(true, |now| now.running),
                };
                Some((guest, is_running, config))
            };
            reads.spawn(read.in_current_span());
        }
        let read = context.wait(reads.join_all()).await?;
        for (guest, is_running, config) in read.into_iter().flatten() {
            match config {
                Ok(config) => {
                    possible.members.extend(possible_member(
                        &step.signs,
                        &cluster_id,
                        (&guest, is_running),
                        &config,
                        is_in_pool(&guest),
                    ));
                }
                Err(error) if may_be_own(&step.signs, &guest, is_in_pool(&guest)) => {
                    possible.unread.push(unread(&guest, &error));
                }
                Err(_) => {}
            }
        }
        // The list is some seconds old, and omits VMs that the token cannot see.
        for vmid in numbers {
            match context.wait(context.send(&cluster::is_free(vmid))).await? {
                Ok(_) => {}
                Err(_) if context.vm_cache.is_created(vmid) => {}
                Err(error) if error.is_already_exists() => {
                    possible.unread.push(format!("VM {vmid}, which Proxmox does not list"));
                }
                Err(error) => possible.unread.push(format!("vmid {vmid}: {error}")),
            }
        }
        Ok(Ok(possible))
    }
}

fn unread(guest: &Guest, error: &PveError) -> String {
    let name = guest.name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
    format!("VM {}{name} on {}: {error}", guest.vmid, guest.node)
}

/// Whether a VM whose config cannot be read may belong to this cluster, according to the list of all VMs.
fn may_be_own(signs: &ClusterSigns, guest: &Guest, is_in_pool: bool) -> bool {
    let has_tag = |desired: &str| guest.tags.iter().any(|tag| tag.eq_ignore_ascii_case(desired));
    let is_node = signs
        .nodes
        .iter()
        .any(|node| node.vmid == guest.vmid || guest.name.as_deref() == Some(node.name.as_str()));
    // A VM in the pool counts without tags too, because a tag policy can reject tags.
    let is_of_another = has_tag(TAG) && guest.tags.len() > 1 && !has_tag(&signs.cluster);
    is_node || has_tag(&signs.cluster) && has_tag(TAG) || is_in_pool && !is_of_another
}

fn possible_member(
    signs: &ClusterSigns,
    cluster_id: &str,
    (guest, is_running): (&Guest, bool),
    config: &VmConfig,
    is_in_pool: bool,
) -> Option<PossibleMember> {
    let marker = Marker::find(config.description());
    let uuid = config.smbios().uuid;
    let by_uuid = signs.nodes.iter().find(|node| Some(&node.uuid) == uuid.as_ref());
    let is_marked = marker.as_ref().is_some_and(|marker| marker.cluster == signs.mark);
    // A VM may have no notes, and its node may not be in the inventory. Then only its UUID identifies it, because the UUID is
    // derived from the name.
    let own_uuid = |name: &String| SmbiosUuid::of(cluster_id, name).to_string();
    let is_by_name = uuid.is_some() && guest.name.as_ref().map(own_uuid) == uuid;
    let unmarked = UnmarkedSign::find(config, &signs.cluster, is_in_pool);
    if !is_marked && by_uuid.is_none() && !is_by_name && unmarked.is_none() {
        return None;
    }
    // The VM was never started, so its disks contain only the image.
    let is_unstarted =
        marker.as_ref().is_some_and(|marker| is_marked && marker.stage != Stage::Made);
    if is_unstarted && !is_running {
        return None;
    }
    // Only markers of VMs with another system than Talos contain a hash of user-data. Such a system has no etcd of Talos.
    if marker.as_ref().is_some_and(|marker| is_marked && marker.data.is_some()) {
        return None;
    }
    let name = marker.as_ref().map(|marker| marker.node.clone());
    let name = name.or_else(|| guest.name.clone()).unwrap_or_else(|| guest.vmid.to_string());
    let node = by_uuid.or_else(|| signs.nodes.iter().find(|node| is_marked && node.name == name));
    let first_role = marker.as_ref().filter(|_| is_marked).and_then(|marker| marker.first_role);
    let is_first_worker = first_role == Some(FirstRole::Worker);
    let macs = (0..32).filter_map(|index| config.net(index)?.mac);
    Some(PossibleMember {
        vm: Vm::new(&guest.node, guest.vmid),
        is_running,
        addresses: addresses(config),
        expected: Expected {
            uuid,
            macs: macs.map(MacAddress::lower_case).collect(),
            instance_id: None,
        },
        is_role_unknown: node.is_some_and(|node| !node.has_etcd) && first_role.is_none(),
        may_be_silent: node.is_some_and(|node| !node.has_etcd) && is_first_worker,
        unmarked,
        name,
    })
}

/// The addresses on the cloud-init drive of a VM.
fn addresses(config: &VmConfig) -> Vec<IpAddr> {
    let mut all = vec![];
    for (_, value) in config.iter().filter(|(key, _)| key.starts_with("ipconfig")) {
        let drive = IpConfig::parse(value);
        if let Some(Ipv4Config::Static { address, .. }) = drive.v4 {
            all.push(IpAddr::V4(address));
        }
        if let Some(Ipv6Config::Static { address, .. }) = drive.v6 {
            all.push(IpAddr::V6(address));
        }
    }
    all
}
