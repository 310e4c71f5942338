//! The roles that talmox needs on Proxmox, with as few privileges as possible, and the paths on which the roles are granted.
//! `init --role` prints commands for the roles that an inventory needs. A plan prints the same commands for the roles that
//! the token lacks.

use std::collections::{BTreeMap, BTreeSet};

use talmox_model::value::Boot;
use talmox_model::{Cluster, Node};

use super::lock_pool;
use super::sdn_zone;
use crate::desired::Login;

/// A role that talmox defines on Proxmox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PveRole {
    /// Create and change VMs. The role is granted on the pool of the VMs.
    Vm,
    /// Allocate disks. The role is granted on the storages of the disks.
    Disk,
    /// Upload and download images. The role is granted on the storage of the images.
    Image,
    /// Use bridges. The role is granted on each bridge.
    Net,
    /// Let a host download images. The role is granted on the host. Without this role, talmox downloads and uploads the
    /// images.
    Fetch,
    /// Pass a PCI device through. The role is granted on the mapping of the device.
    Device,
    /// Create a mapping for a PCI device whose address is in the inventory.
    Mapping,
    /// List the PCI devices of a host.
    Host,
    /// Query guest agents. The role is granted on the pool.
    Agent,
    /// Lock a cluster against runs from other machines. The role is granted on the parent pool of the locks.
    Lock,
    /// Migrate VMs to the hosts of the inventory. The role is granted on the pool of the VMs.
    Migrate,
}

impl PveRole {
    pub fn name(self) -> &'static str {
        match self {
            Self::Vm => "TalmoxVM",
            Self::Disk => "TalmoxDisk",
            Self::Image => "TalmoxImage",
            Self::Net => "TalmoxNet",
            Self::Fetch => "TalmoxFetch",
            Self::Device => "TalmoxDevice",
            Self::Mapping => "TalmoxMapping",
            Self::Host => "TalmoxHost",
            Self::Agent => "TalmoxAgent",
            Self::Lock => "TalmoxLock",
            Self::Migrate => "TalmoxMigrate",
        }
    }

    fn rights(self) -> &'static str {
        match self {
            Self::Vm => {
                "VM.Allocate VM.Audit VM.Clone VM.Config.CDROM VM.Config.CPU VM.Config.Cloudinit \
                 VM.Config.Disk VM.Config.HWType VM.Config.Memory VM.Config.Network \
                 VM.Config.Options VM.PowerMgmt Pool.Audit"
            }
            Self::Disk => "Datastore.AllocateSpace",
            Self::Image => "Datastore.Audit Datastore.AllocateTemplate",
            Self::Net => "SDN.Use",
            Self::Fetch => "Sys.AccessNetwork",
            Self::Device => "Mapping.Audit Mapping.Use",
            Self::Mapping => "Mapping.Audit Mapping.Modify Mapping.Use",
            Self::Host => "Sys.Audit",
            // In Proxmox VE 8 and older, the privilege has another name, and Proxmox rejects an unknown privilege.
            Self::Agent => {
                "$(pveversion | grep -q '^pve-manager/[1-8][.]' && echo VM.Monitor || echo VM.GuestAgent.Audit)"
            }
            Self::Lock => "Pool.Allocate Pool.Audit",
            Self::Migrate => "VM.Migrate",
        }
    }

    /// The commands that create the role, or add missing privileges to an existing role.
    fn lines(self) -> [String; 2] {
        let (name, rights) = (self.name(), self.rights());
        let add = if_absent(&format!("pveum role add {name}"));
        [add, format!("pveum role modify {name} --append --privs \"{rights}\"")]
    }
}

/// A command that also succeeds if the object already exists, so that the command can be repeated.
fn if_absent(command: &str) -> String {
    format!("{command} 2>/dev/null || true")
}

/// The roles that are needed on each path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(BTreeMap<String, BTreeSet<PveRole>>);

impl Grants {
    /// All grants that an inventory needs.
    pub fn of(cluster: &Cluster) -> Self {
        let mut grants = Self::default();
        let proxmox = &cluster.file.proxmox;
        let pools: BTreeSet<String> =
            cluster.nodes.iter().filter_map(pool).chain(common_pool(cluster)).collect();
        for pool in &pools {
            grants.add(format!("/pool/{pool}"), PveRole::Vm);
        }
        for node in &cluster.nodes {
            let vms = pool(node).map_or("/vms".to_owned(), |pool| format!("/pool/{pool}"));
            grants.node(node, &vms);
        }
        let hosts = cluster
            .nodes
            .iter()
            .filter_map(|node| node.settings().placement.host.get().map(ToString::to_string));
        let hosts = hosts.chain(proxmox.hosts.values().map(ToString::to_string));
        let hosts: BTreeSet<String> =
            hosts.chain(proxmox.node.get().map(ToString::to_string)).collect();
        if hosts.is_empty() {
            grants.add("/nodes", PveRole::Fetch);
        }
        for host in hosts {
            grants.add(format!("/nodes/{host}"), PveRole::Fetch);
        }
        grants.add(format!("/storage/{}", proxmox.image_datastore.required()), PveRole::Image);
        grants.add(lock_pool::access_path(), PveRole::Lock);
        grants
    }

    fn node(&mut self, node: &Node, vms: &str) {
        let (placement, hardware) = (&node.settings().placement, &node.settings().hardware);
        // VMs without a pool get their privileges from the path `/vms`.
        self.add(vms, PveRole::Vm);
        let further = hardware.disks.values().filter_map(|disk| disk.datastore.get());
        for storage in placement.datastore.get().into_iter().chain(further) {
            self.add(format!("/storage/{storage}"), PveRole::Disk);
        }
        let further = hardware.nics.values().filter_map(|nic| nic.bridge.get());
        for bridge in placement.bridge.get().into_iter().chain(further) {
            self.add(sdn_zone::grant_path(bridge.as_str()), PveRole::Net);
        }
        match (hardware.gpu.mapping.get(), hardware.gpu.pci.get()) {
            (Some(mapping), _) => self.add(format!("/mapping/pci/{mapping}"), PveRole::Device),
            (None, Some(_)) => {
                self.add("/mapping/pci", PveRole::Mapping);
                self.add("/", PveRole::Host);
            }
            (None, None) => {}
        }
        if asks_agent(node) {
            self.add(vms, PveRole::Agent);
        }
    }

    pub(crate) fn add(&mut self, path: impl Into<String>, role: PveRole) {
        self.0.entry(path.into()).or_default().insert(role);
    }

    /// A grant of one role on one path.
    pub(crate) fn one(path: impl Into<String>, role: PveRole) -> Self {
        let mut grants = Self::default();
        grants.add(path, role);
        grants
    }

    /// The commands that grant the roles to an existing user and token.
    pub fn lines(&self, login: &Login) -> Vec<String> {
        self.making().chain(self.giving(login)).collect()
    }

    /// The commands that also create the user and the token. The token must exist before roles are granted to it. Proxmox
    /// shows the secret of a token only once, so the last command prints the secret in the form that talmox accepts.
    pub fn lines_for_new(&self, login: &Login) -> Vec<String> {
        let user = &login.user;
        let mut lines: Vec<String> = self.making().collect();
        lines.push(if_absent(&format!("pveum user add {user}")));
        if let Some(token) = &login.token {
            lines.push(format!(
                "token=$(pveum user token add {user} {token} --privsep 1 --output-format json)"
            ));
        }
        lines.extend(self.giving(login));
        if let Some(token) = &login.token {
            lines.push(format!(
                "echo \"$token\" | sed -n 's/.*\"value\" *: *\"\\([^\"]*\\)\".*/{user}!{token}=\\1/p'"
            ));
        }
        lines
    }

    /// The commands that create pools and roles, and look up the zones of vnets.
    fn making(&self) -> impl Iterator<Item = String> {
        let pools = self.0.keys().filter_map(|path| path.strip_prefix("/pool/"));
        let pools = pools.map(|pool| if_absent(&format!("pveum pool add {pool}")));
        let roles: BTreeSet<PveRole> = self.0.values().flatten().copied().collect();
        let zones = self.0.keys().filter_map(|path| sdn_zone::lookup(path));
        pools.chain(roles.into_iter().flat_map(PveRole::lines)).chain(zones)
    }

    /// The commands that grant the roles to the user and to the token. Both need the roles, because a token has only
    /// privileges that its user has too.
    fn giving(&self, login: &Login) -> impl Iterator<Item = String> {
        let user = &login.user;
        let token = login.token.iter().map(|token| format!("--tokens '{user}!{token}'"));
        // `root@pam` has every privilege.
        let own = (user != "root@pam").then(|| format!("--users {user}"));
        let mut places: Vec<(&String, &BTreeSet<PveRole>)> = self.0.iter().collect();
        places.sort_by_key(|(path, roles)| (roles.first().copied(), *path));
        let lines = own.into_iter().chain(token).flat_map(move |who| {
            let line = |(path, roles): &(&String, &BTreeSet<PveRole>)| {
                let roles: Vec<&str> = roles.iter().map(|role| role.name()).collect();
                // A privilege on `/` is not needed on the paths below `/`.
                let only = if *path == "/" { " --propagate 0" } else { "" };
                format!("pveum acl modify {path} {who} --roles {}{only}", roles.join(","))
            };
            places.iter().map(line).collect::<Vec<_>>()
        });
        lines.collect::<Vec<_>>().into_iter()
    }
}

fn pool(node: &Node) -> Option<String> {
    node.settings().placement.pool.get().map(ToString::to_string)
}

fn common_pool(cluster: &Cluster) -> Option<String> {
    cluster.file.proxmox.pool.get().map(ToString::to_string)
}

/// Whether talmox must query the guest agent of a node, because the address or the state of the node is not known otherwise.
fn asks_agent(node: &Node) -> bool {
    let system = &node.settings().system;
    if node.is_talos() {
        return *system.boot.required() == Boot::Dhcp && node.contact().is_none();
    }
    system.cloud_init.packages.values().any(|package| package == "qemu-guest-agent")
}
