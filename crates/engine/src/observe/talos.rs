//! Observation of the machines that answer at the addresses of the nodes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_plan::desired::{Contact, Desired, DesiredNode};
use talmox_plan::observed::{Configured, EtcdSeen, PortSeen, Pve, TalosSeen};
use talmox_plan::planning::{VmPresence, places};
use talmox_pve::Client as PveClient;
use talmox_pve::api::qemu::{self, AgentAddress, Vm};
use talmox_pve::config::VmConfig;
use talmox_pve::property::{IpConfig, Ipv4Config, Ipv6Config};
use talmox_talos_api::client::{Resource, ResourceKind, Service};
use talmox_talos_api::{
    Address, Client, Expected, Machine, Settings, TalosError, Verdict, node_address, probe,
};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::former_address;
use super::listener::{CONNECT_TIMEOUT, connect, connect_common, identify, identify_common};
use super::sources::TalosAccess;
use crate::kube::KubeClient;
use crate::locate::missing_identity;

/// Time in which the members of etcd elect a leader, if they have a quorum.
const ELECTION: Duration = Duration::from_secs(5);

/// Answers of the Talos API by node, and of further ports by node and port.
type NodesAndPorts = (BTreeMap<String, TalosSeen>, BTreeMap<(String, u16), PortSeen>);

/// Result of the probe of one node: the answer of its Talos API, and of one further port if that was probed.
struct NodeAnswer {
    name: String,
    talos: TalosSeen,
    port: Option<(u16, PortSeen)>,
}

/// Running probes of nodes.
pub(super) struct NodeProbes {
    answers: JoinSet<NodeAnswer>,
    /// Timeout of each probe.
    limit: Duration,
}

impl NodeProbes {
    /// Probes the nodes whose addresses are in the inventory.
    pub(super) fn start(desired: &Desired, access: &TalosAccess, limit: Duration) -> Self {
        let mut looks = JoinSet::new();
        for node in &desired.nodes {
            match node.contact {
                Contact::At(address) if node.is_talos => {
                    spawn(&mut looks, desired, node, address, access, limit);
                }
                Contact::At(address) => spawn_other(&mut looks, node, address, access),
                Contact::AskAgent => {}
            }
        }
        Self { answers: looks, limit }
    }

    /// Probes the other nodes, now that their VMs are known, and waits for all probes.
    pub(super) async fn finish(
        self,
        desired: &Desired,
        pve: &Pve,
        client: &PveClient,
        access: &TalosAccess,
    ) -> NodesAndPorts {
        let Self { answers: mut looks, limit } = self;
        for placed in places(desired, pve).nodes {
            let (node, VmPresence::Owned(found)) = (placed.node, &placed.state) else { continue };
            if node.is_talos && node.contact == Contact::AskAgent && found.seen.is_running {
                if let Some(address) = agent_address(client, &placed.own.vm, node).await {
                    spawn(&mut looks, desired, node, address, access, limit);
                } else {
                    let talos = TalosSeen::Nothing("its guest agent reports no address".into());
                    let (name, port) = (node.name.clone(), None);
                    looks.spawn(std::future::ready(NodeAnswer { name, talos, port }));
                }
            }
        }
        let mut seen = NodesAndPorts::default();
        for NodeAnswer { name, talos, port } in looks.join_all().await {
            seen.1.extend(port.map(|(port, found)| ((name.clone(), port), found)));
            seen.0.insert(name, talos);
        }
        seen
    }
}

/// Probes nodes that do not answer at the address in the inventory. The probes use the address that the VM was created with,
/// because the address in the inventory may have been edited since. If Proxmox does not know that address, they use the addresses
/// that Kubernetes and the other nodes report.
pub(super) async fn probe_former_addresses(
    desired: &Desired,
    pve: &Pve,
    client: &PveClient,
    access: &TalosAccess,
    kube: &KubeClient,
    nodes: &mut BTreeMap<String, TalosSeen>,
) {
    let mut looks = JoinSet::new();
    let mut unknown = vec![];
    for placed in places(desired, pve).nodes {
        let (node, VmPresence::Owned(found)) = (placed.node, &placed.state) else { continue };
        let Contact::At(expected) = node.contact else { continue };
        let is_silent = matches!(nodes.get(&node.name), Some(TalosSeen::Nothing(_)));
        if !node.is_talos || !is_silent || !found.seen.is_running {
            continue;
        }
        let mut first = first_address(found.config);
        if first.is_none() && node.vm.has_agent {
            first = agent_address(client, &placed.own.vm, node).await;
        }
        match first {
            Some(first) if first != expected => {
                spawn(&mut looks, desired, node, first, access, Duration::MAX);
            }
            Some(_) => {}
            None => unknown.push((node, expected)),
        }
    }
    if !unknown.is_empty() {
        let reported = former_address::reported(nodes, access, kube).await;
        for (node, expected) in unknown {
            for address in reported.get(&node.name).into_iter().flatten().copied() {
                if address != expected
                    && is_global(address)
                    && former_address::is_machine_of(node, address, access).await
                {
                    spawn(&mut looks, desired, node, address, access, Duration::MAX);
                    break;
                }
            }
        }
    }
    // Another machine may have the former address by now. Its answer is ignored.
    let found = looks.join_all().await.into_iter();
    let own = found.filter(|answer| matches!(answer.talos, TalosSeen::OwnNode(_)));
    nodes.extend(own.map(|answer| (answer.name, answer.talos)));
}

/// The address on the cloud-init drive of a VM.
fn first_address(config: &VmConfig) -> Option<IpAddr> {
    let drive = IpConfig::parse(config.get("ipconfig0")?);
    let v4 = drive.v4.and_then(|v4| match v4 {
        Ipv4Config::Static { address, .. } => Some(IpAddr::V4(address)),
        Ipv4Config::Dhcp => None,
    });
    let v6 = drive.v6.and_then(|v6| match v6 {
        Ipv6Config::Static { address, .. } => Some(IpAddr::V6(address)),
        Ipv6Config::Dhcp | Ipv6Config::Auto => None,
    });
    v4.or(v6)
}

fn spawn(
    looks: &mut JoinSet<NodeAnswer>,
    desired: &Desired,
    node: &DesiredNode,
    address: IpAddr,
    access: &TalosAccess,
    limit: Duration,
) {
    let expected = Expected { instance_id: None, ..node.machine() };
    let (name, access) = (node.name.clone(), access.clone());
    let is_control_plane = node.is_control_plane;
    let authority = desired.kubernetes_authority.clone();
    let late = NodeAnswer {
        name: name.clone(),
        talos: TalosSeen::Mute("something that does not answer in time".to_owned()),
        port: None,
    };
    let answer = async move {
        let host = address.to_string();
        let connecting = connect_common(&host, &access.settings.reach);
        tokio::pin!(connecting);
        let look = look(address, &expected, is_control_plane, &access);
        tokio::pin!(look);
        // The other ports do not matter if the machine is a node of this cluster.
        let (talos, socket) = tokio::select! {
            talos = &mut look => match talos {
                TalosSeen::OwnNode(_) => (talos, None),
                talos => (talos, connecting.await),
            },
            socket = &mut connecting => (look.await, socket),
        };
        let port = match (&talos, socket) {
            (TalosSeen::OwnNode(_), _) | (_, None) => None,
            (_, Some((server, socket))) => {
                let found = identify_common(socket, &server, authority.as_deref()).await;
                Some((server.port, found))
            }
        };
        NodeAnswer { name, talos, port }
    };
    looks.spawn(async move { timeout(limit, Box::pin(answer)).await.unwrap_or(late) });
}

/// Probes a node with another system than Talos. Such a system does not prove which cluster it belongs to, so an answer
/// matters only for a node without a VM.
fn spawn_other(
    looks: &mut JoinSet<NodeAnswer>,
    node: &DesiredNode,
    address: IpAddr,
    access: &TalosAccess,
) {
    let (name, reach) = (node.name.clone(), access.settings.reach.clone());
    looks.spawn(async move {
        let port = match connect_common(&address.to_string(), &reach).await {
            Some((server, socket)) => {
                Some((server.port, identify_common(socket, &server, None).await))
            }
            None => None,
        };
        NodeAnswer { name, talos: TalosSeen::NotAsked, port }
    });
}

/// The address of the first network card of a node, from its guest agent.
async fn agent_address(client: &PveClient, vm: &Vm, node: &DesiredNode) -> Option<IpAddr> {
    let mac = *node.identity.macs.first()?;
    let interfaces = client.send(&qemu::agent_interfaces(vm)).await.ok()?.0;
    let own = interfaces.iter().find(|one| one.mac == Some(mac))?;
    own.addresses
        .iter()
        .find(|address| is_global(address.ip) && !is_shared(address))
        .map(|own| own.ip)
}

/// Whether an address is shared. Shared addresses have a full-length prefix, and can move to another node at any time.
fn is_shared(address: &AgentAddress) -> bool {
    let whole = if address.ip.is_ipv4() { 32 } else { 128 };
    address.prefix == Some(whole)
}

fn is_global(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_link_local() && !ip.is_loopback(),
        IpAddr::V6(ip) => !ip.is_unicast_link_local() && !ip.is_loopback(),
    }
}

async fn look(
    at: IpAddr,
    expected: &Expected,
    is_control_plane: bool,
    access: &TalosAccess,
) -> TalosSeen {
    let address = &node_address(at.to_string());
    let mut settings: Settings = access.settings.clone();
    settings.limits.connect = settings.limits.connect.min(CONNECT_TIMEOUT);
    let verdict = match probe(address, &access.credentials, None, &settings).await {
        Ok(verdict) => verdict,
        Err(error) => return TalosSeen::NoAccess(error.to_string()),
    };
    match &verdict {
        Verdict::Nothing(error) => TalosSeen::Nothing(error.to_string()),
        Verdict::Mute(_) => identify_other(address, access, TalosSeen::Mute).await,
        Verdict::NoNode(_) => identify_other(address, access, TalosSeen::NotTalos).await,
        // A node closes connections while it leaves maintenance mode.
        Verdict::Unclear(error) if error.may_pass() => TalosSeen::Mute(verdict.to_string()),
        Verdict::Maintenance(found) => maintenance(&found.machine, expected),
        Verdict::OwnNode => match Client::new(address.clone(), &access.credentials, &settings) {
            Ok(client) => {
                let found = Box::pin(configured(&client, is_control_plane, settings.clock)).await;
                TalosSeen::OwnNode(Box::new(Configured { address: Some(at), ..found }))
            }
            Err(error) => TalosSeen::NoAccess(error.to_string()),
        },
        Verdict::OtherAuthority | Verdict::OtherKey { .. } | Verdict::Unclear(_) => {
            TalosSeen::OtherMachine(verdict.to_string())
        }
        Verdict::OtherName { .. }
        | Verdict::Expired { .. }
        | Verdict::ClockSkew { .. }
        | Verdict::RejectsClient(_) => TalosSeen::NoAccess(verdict.to_string()),
    }
}

/// State of a node at whose address a machine in maintenance mode answers. Until the machine has reported its complete
/// identity, it is not known whether it is the machine of the node.
fn maintenance(machine: &Machine, expected: &Expected) -> TalosSeen {
    match missing_identity(machine, expected) {
        Some(missing) => {
            TalosSeen::Mute(format!("a machine that has not reported its {missing} yet"))
        }
        None => TalosSeen::Maintenance { mismatch: machine.mismatch(expected) },
    }
}

/// Identifies the server at the address of a node, if the server does not speak the Talos API.
async fn identify_other(
    address: &Address,
    access: &TalosAccess,
    seen: fn(String) -> TalosSeen,
) -> TalosSeen {
    match connect(address, &access.settings.reach).await {
        Some(socket) => match identify(socket, address, None).await {
            PortSeen::Other(what) => seen(what),
            PortSeen::ThisCluster => seen("something".to_owned()),
        },
        None => TalosSeen::Nothing("it closed the connection".to_owned()),
    }
}

async fn configured(client: &Client, is_control_plane: bool, clock: Clock) -> Configured {
    let (version, services, extensions, configs, addresses) = tokio::join!(
        client.version(),
        client.services(),
        client.list(ResourceKind::EXTENSION_STATUS),
        client.list(ResourceKind::MACHINE_CONFIG),
        client.list(ResourceKind::ADDRESS_SPEC),
    );
    // The Image Factory adds an extension whose version is the id of the schematic.
    let schematic = extensions.ok().and_then(|all| {
        all.iter()
            .find(|one| one.text("metadata.name").as_deref() == Some("schematic"))
            .and_then(|one| one.text("metadata.version"))
    });
    let runs = |id: &str| {
        services.as_ref().is_ok_and(|all| all.iter().any(|one| one.id == id && one.is_fine()))
    };
    let (etcd, is_leader) = match &services {
        Ok(services) if is_control_plane => {
            tokio::join!(etcd(client, services, clock), is_leader(client, services))
        }
        _ => (EtcdSeen::Unknown, false),
    };
    let configs = configs.unwrap_or_default();
    let of = |id: &str| configs.iter().find(|config| config.id == id);
    let (running, saved) = (of("v1alpha1"), of("persistent"));
    let is_other = |saved: &&Resource| running.is_none_or(|one| one.yaml() != saved.yaml());
    Configured {
        address: None,
        version: version.ok().map(|version| version.tag),
        schematic,
        config: running.map(Resource::config_text),
        saved: saved.filter(is_other).map(Resource::config_text),
        etcd,
        is_leader,
        dry_run: None,
        has_kubelet: runs("kubelet"),
        first_addresses: addresses.unwrap_or_default().iter().filter_map(first_boot).collect(),
    }
}

/// The address of an address spec, if it comes from the drive or volume of the first boot.
fn first_boot(spec: &Resource) -> Option<IpAddr> {
    if spec.text("layer").as_deref() != Some("platform") {
        return None;
    }
    spec.text("address")?.split('/').next()?.parse().ok()
}

/// Whether the etcd member of a node is the leader. A member that does not answer counts as a follower.
async fn is_leader(client: &Client, services: &[Service]) -> bool {
    // An etcd that does not run never answers.
    if !services.iter().any(|service| service.id == "etcd" && service.is_fine()) {
        return false;
    }
    let status = client.etcd_status().await;
    status.is_ok_and(|status| status.leader != 0 && status.leader == status.member_id)
}

/// State of etcd on a node. While the service waits to join, etcd has no data. If the service runs, failed or ended,
/// etcd counts as having data.
async fn etcd(client: &Client, services: &[Service], clock: Clock) -> EtcdSeen {
    let Some(service) = services.iter().find(|service| service.id == "etcd") else {
        return EtcdSeen::Waiting;
    };
    let unhealthy =
        |reason, voters, is_leaderless| EtcdSeen::Unhealthy { reason, voters, is_leaderless };
    match service.state.as_str() {
        "Running" => match client.etcd_members().await {
            Ok(members) if service.is_fine() => {
                EtcdSeen::Member { names: members.into_iter().map(|one| one.hostname).collect() }
            }
            Ok(members) => {
                let voters = members.into_iter().filter(|one| !one.is_learner);
                unhealthy(service.describe(), voters.map(|one| one.hostname).collect(), false)
            }
            // etcd runs but does not answer, because it is starting or has lost its quorum.
            Err(error @ TalosError::Late { .. }) => unhealthy(error.to_string(), vec![], false),
            // Without a leader, etcd does not report its members.
            Err(error) => unhealthy(error.to_string(), vec![], is_leaderless(client, clock).await),
        },
        "Failed" | "Finished" | "Stopping" => unhealthy(service.describe(), vec![], false),
        _ => EtcdSeen::Waiting,
    }
}

/// Whether etcd has no leader at two checks some seconds apart. A single member that has just started elects itself
/// within seconds.
async fn is_leaderless(client: &Client, clock: Clock) -> bool {
    let has_none = async || client.etcd_status().await.is_ok_and(|status| status.leader == 0);
    if !has_none().await {
        return false;
    }
    clock.sleep(ELECTION).await;
    has_none().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_full_length_prefix_is_shared() {
        let address = |ip: &str, prefix| AgentAddress { ip: ip.parse().unwrap(), prefix };
        assert!(is_shared(&address("10.0.0.20", Some(32))));
        assert!(is_shared(&address("fd00::20", Some(128))));
        for own in [Some(24), None] {
            assert!(!is_shared(&address("10.0.0.11", own)), "{own:?}");
        }
        assert!(!is_shared(&address("fd00::11", Some(64))));
    }

    #[test]
    fn a_machine_that_has_not_reported_its_identity_may_be_the_node() {
        let expected = Expected { uuid: Some("a".to_owned()), ..Expected::default() };
        let is_mute = matches!(
            maintenance(&Machine::default(), &expected),
            TalosSeen::Mute(what) if what.contains("has not reported its SMBIOS UUID")
        );
        assert!(is_mute);
        let other = Machine { uuid: Some("b".to_owned()), ..Machine::default() };
        let seen = maintenance(&other, &expected);
        assert!(matches!(seen, TalosSeen::Maintenance { mismatch: Some(_) }), "{seen:?}");
    }
}
