//! The rights that talmox needs on Proxmox: as few as everything works with, each where it is
//! needed. `init --role` prints all that an inventory takes, a plan those that it lacks, in the same
//! words.

use std::collections::{BTreeMap, BTreeSet};

use talmox_model::value::Boot;
use talmox_model::{Cluster, Node};

use crate::cluster_lock;
use crate::desired::Login;
use crate::sdn_zone;

/// A role of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// All about VMs: on their pool.
    Vm,
    /// Disks: on their storages.
    Disk,
    /// Images: on the storage they are kept on.
    Image,
    /// Network cards: on bridges.
    Net,
    /// Lets a host fetch images. Without it we fetch them, and pass them on.
    Fetch,
    /// Passing a device on: on its mapping.
    Device,
    /// A device that the inventory names by its address is mapped by us.
    Mapping,
    /// And found on its host.
    Host,
    /// Asking guest agents: on the pool.
    Agent,
    /// Locking a cluster for other machines: on the pool that locks are in.
    Lock,
}

impl Role {
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
            // Up to Proxmox VE 8 the right has another name, and naming one that a release does not know is an error.
            Self::Agent => {
                "$(pveversion | grep -q '^pve-manager/[1-8][.]' && echo VM.Monitor || echo VM.GuestAgent.Audit)"
            }
            Self::Lock => "Pool.Allocate Pool.Audit",
        }
    }

    /// The lines that make the role, or add to one that has fewer rights.
    fn lines(self) -> [String; 2] {
        let (name, rights) = (self.name(), self.rights());
        let add = if_absent(&format!("pveum role add {name}"));
        [add, format!("pveum role modify {name} --append --privs \"{rights}\"")]
    }
}

/// A command that makes something, and says nothing where that is there already: the lines can be run again.
fn if_absent(command: &str) -> String {
    format!("{command} 2>/dev/null || true")
}

/// Which roles are needed on which paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(BTreeMap<String, BTreeSet<Role>>);

impl Grants {
    /// All that an inventory takes.
    pub fn of(cluster: &Cluster) -> Self {
        let mut grants = Self::default();
        let proxmox = &cluster.file.proxmox;
        let pools: BTreeSet<String> =
            cluster.nodes.iter().filter_map(pool).chain(common_pool(cluster)).collect();
        for pool in &pools {
            grants.add(format!("/pool/{pool}"), Role::Vm);
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
            grants.add("/nodes", Role::Fetch);
        }
        for host in hosts {
            grants.add(format!("/nodes/{host}"), Role::Fetch);
        }
        grants.add(format!("/storage/{}", proxmox.image_datastore.required()), Role::Image);
        grants.add(cluster_lock::access_path(), Role::Lock);
        grants
    }

    fn node(&mut self, node: &Node, vms: &str) {
        let (placement, hardware) = (&node.settings().placement, &node.settings().hardware);
        // VMs that are in no pool get their rights from above all VMs.
        self.add(vms, Role::Vm);
        let further = hardware.disks.values().filter_map(|disk| disk.datastore.get());
        for storage in placement.datastore.get().into_iter().chain(further) {
            self.add(format!("/storage/{storage}"), Role::Disk);
        }
        let further = hardware.nics.values().filter_map(|nic| nic.bridge.get());
        for bridge in placement.bridge.get().into_iter().chain(further) {
            self.add(sdn_zone::grant_path(bridge.as_str()), Role::Net);
        }
        match (hardware.gpu.mapping.get(), hardware.gpu.pci.get()) {
            (Some(mapping), _) => self.add(format!("/mapping/pci/{mapping}"), Role::Device),
            (None, Some(_)) => {
                self.add("/mapping/pci", Role::Mapping);
                self.add("/", Role::Host);
            }
            (None, None) => {}
        }
        if asks_agent(node) {
            self.add(vms, Role::Agent);
        }
    }

    pub(crate) fn add(&mut self, path: impl Into<String>, role: Role) {
        self.0.entry(path.into()).or_default().insert(role);
    }

    /// One role in one place.
    pub(crate) fn one(path: impl Into<String>, role: Role) -> Self {
        let mut grants = Self::default();
        grants.add(path, role);
        grants
    }

    /// The commands that give all this to somebody who is there.
    pub fn lines(&self, login: &Login) -> Vec<String> {
        self.making().chain(self.giving(login)).collect()
    }

    /// The same for a user and a token that do not exist yet. The token must exist before it is given rights, and Proxmox shows
    /// its secret once: the last line prints it, in the form in which talmox takes it.
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

    /// Pools, roles, and the zones of vnets.
    fn making(&self) -> impl Iterator<Item = String> {
        let pools = self.0.keys().filter_map(|path| path.strip_prefix("/pool/"));
        let pools = pools.map(|pool| if_absent(&format!("pveum pool add {pool}")));
        let roles: BTreeSet<Role> = self.0.values().flatten().copied().collect();
        let zones = self.0.keys().filter_map(|path| sdn_zone::lookup(path));
        pools.chain(roles.into_iter().flat_map(Role::lines)).chain(zones)
    }

    /// A token has the rights that both it and its user have.
    fn giving(&self, login: &Login) -> impl Iterator<Item = String> {
        let user = &login.user;
        let token = login.token.iter().map(|token| format!("--tokens '{user}!{token}'"));
        // Root has every right, and needs no list to say so.
        let own = (user != "root@pam").then(|| format!("--users {user}"));
        let mut places: Vec<(&String, &BTreeSet<Role>)> = self.0.iter().collect();
        places.sort_by_key(|(path, roles)| (roles.first().copied(), *path));
        let lines = own.into_iter().chain(token).flat_map(move |who| {
            let line = |(path, roles): &(&String, &BTreeSet<Role>)| {
                let roles: Vec<&str> = roles.iter().map(|role| role.name()).collect();
                // What is needed at the root is not needed below it.
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

/// Whether nothing but its guest agent tells that a node is there.
fn asks_agent(node: &Node) -> bool {
    let system = &node.settings().system;
    if node.is_talos() {
        return *system.boot.required() == Boot::Dhcp && node.contact().is_none();
    }
    system.cloud_init.packages.values().any(|package| package == "qemu-guest-agent")
}
