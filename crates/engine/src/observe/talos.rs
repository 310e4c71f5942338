//! What answers at the nodes' addresses.

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

use super::listener::{PATIENCE, knock, who};
use super::sources::{KUBERNETES, TalosAccess};
use crate::locate::unsaid;

/// Where one logs in to systems that are no Talos.
const SSH: u16 = 22;

/// More than members of etcd that hear enough others take to elect a leader.
const ELECTION: Duration = Duration::from_secs(5);

/// What answers at the address of each node, and who at further ports of it.
type NodesAndPorts = (BTreeMap<String, TalosSeen>, BTreeMap<(String, u16), PortSeen>);

/// What answers at one address.
struct At {
    name: String,
    talos: TalosSeen,
    port: Option<(u16, PortSeen)>,
}

/// Looks that are under way.
pub(super) struct Looks {
    answers: JoinSet<At>,
    /// For each of them.
    limit: Duration,
}

impl Looks {
    /// Looks at all nodes whose addresses are known beforehand.
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

    /// Looks at the others, now that their VMs are known, and waits for all.
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
                    let talos = TalosSeen::Nothing("its guest agent tells no address".into());
                    let (name, port) = (node.name.clone(), None);
                    looks.spawn(std::future::ready(At { name, talos, port }));
                }
            }
        }
        let mut seen = NodesAndPorts::default();
        for At { name, talos, port } in looks.join_all().await {
            seen.1.extend(port.map(|(port, who)| ((name.clone(), port), who)));
            seen.0.insert(name, talos);
        }
        seen
    }
}

/// Looks for nodes that do not answer where they should at the address that their VMs were made
/// with: the inventory may have given them another one since.
pub(super) async fn look_elsewhere(
    desired: &Desired,
    pve: &Pve,
    client: &PveClient,
    access: &TalosAccess,
    nodes: &mut BTreeMap<String, TalosSeen>,
) {
    let mut looks = JoinSet::new();
    for placed in places(desired, pve).nodes {
        let (node, VmPresence::Owned(found)) = (placed.node, &placed.state) else { continue };
        let Contact::At(wanted) = node.contact else { continue };
        let is_silent = matches!(nodes.get(&node.name), Some(TalosSeen::Nothing(_)));
        if !node.is_talos || !is_silent || !found.seen.is_running {
            continue;
        }
        let mut first = first_address(found.config);
        if first.is_none() && node.vm.has_agent {
            first = agent_address(client, &placed.own.vm, node).await;
        }
        if let Some(first) = first.filter(|first| *first != wanted) {
            spawn(&mut looks, desired, node, first, access, Duration::MAX);
        }
    }
    // Whoever else has that address by now is of no interest.
    let found = looks.join_all().await.into_iter();
    let ours = found.filter(|at| matches!(at.talos, TalosSeen::OwnNode(_)));
    nodes.extend(ours.map(|at| (at.name, at.talos)));
}

/// The address that the cloud-init drive of a VM tells.
fn first_address(config: &VmConfig) -> Option<IpAddr> {
    let told = IpConfig::parse(config.get("ipconfig0")?);
    let v4 = told.v4.and_then(|v4| match v4 {
        Ipv4Config::Static { address, .. } => Some(IpAddr::V4(address)),
        Ipv4Config::Dhcp => None,
    });
    let v6 = told.v6.and_then(|v6| match v6 {
        Ipv6Config::Static { address, .. } => Some(IpAddr::V6(address)),
        Ipv6Config::Dhcp | Ipv6Config::Auto => None,
    });
    v4.or(v6)
}

fn spawn(
    looks: &mut JoinSet<At>,
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
    let late = At {
        name: name.clone(),
        talos: TalosSeen::Mute("something that does not answer in time".to_owned()),
        port: None,
    };
    let answer = async move {
        let api = Address { host: address.to_string(), port: KUBERNETES };
        let reach = &access.settings.reach;
        let knocking = knock(&api, reach);
        tokio::pin!(knocking);
        let look = look(address, &expected, is_control_plane, &access);
        tokio::pin!(look);
        // Who is known to be ours need not be waited for at another port.
        let (talos, socket) = tokio::select! {
            talos = &mut look => match talos {
                TalosSeen::OwnNode(_) => (talos, None),
                talos => (talos, knocking.await),
            },
            socket = &mut knocking => (look.await, socket),
        };
        let port = match (&talos, socket) {
            (TalosSeen::OwnNode(_), _) | (_, None) => None,
            (_, Some(socket)) => Some((KUBERNETES, who(socket, &api, authority.as_deref()).await)),
        };
        At { name, talos, port }
    };
    looks.spawn(async move { timeout(limit, Box::pin(answer)).await.unwrap_or(late) });
}

/// At systems that are no Talos nothing tells whose they are: it matters only where there is to be
/// none yet.
fn spawn_other(looks: &mut JoinSet<At>, node: &DesiredNode, address: IpAddr, access: &TalosAccess) {
    let (name, reach) = (node.name.clone(), access.settings.reach.clone());
    looks.spawn(async move {
        let address = Address { host: address.to_string(), port: SSH };
        let port = knock(&address, &reach)
            .await
            .map(|_| (SSH, PortSeen::Other("something that one can log in to".to_owned())));
        At { name, talos: TalosSeen::NotAsked, port }
    });
}

/// The address of a node's first network card, by its guest agent.
async fn agent_address(client: &PveClient, vm: &Vm, node: &DesiredNode) -> Option<IpAddr> {
    let mac = *node.identity.macs.first()?;
    let interfaces = client.send(&qemu::agent_interfaces(vm)).await.ok()?.0;
    let own = interfaces.iter().find(|one| one.mac == Some(mac))?;
    own.addresses
        .iter()
        .find(|address| is_global(address.ip) && !is_shared(address))
        .map(|own| own.ip)
}

/// Shared addresses have no network around them, and are somebody else's the next moment.
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
    settings.limits.connect = settings.limits.connect.min(PATIENCE);
    let verdict = match probe(address, &access.credentials, None, &settings).await {
        Ok(verdict) => verdict,
        Err(error) => return TalosSeen::NoAccess(error.to_string()),
    };
    match &verdict {
        Verdict::Nothing(error) => TalosSeen::Nothing(error.to_string()),
        Verdict::Mute(_) => unheard(address, access, TalosSeen::Mute).await,
        Verdict::NoNode(_) => unheard(address, access, TalosSeen::NotTalos).await,
        // It broke off, as one does that goes from one face to the other.
        Verdict::Unclear(error) if error.may_pass() => TalosSeen::Mute(verdict.to_string()),
        Verdict::Maintenance(found) => maintenance(&found.machine, expected),
        Verdict::Ours => match Client::new(address.clone(), &access.credentials, &settings) {
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
        | Verdict::RefusesUs(_) => TalosSeen::NoAccess(verdict.to_string()),
    }
}

/// A machine that has not told who it is yet is neither known nor a stranger.
fn maintenance(machine: &Machine, expected: &Expected) -> TalosSeen {
    match unsaid(machine, expected) {
        Some(missing) => TalosSeen::Mute(format!("a machine that has not told its {missing} yet")),
        None => TalosSeen::Maintenance { mismatch: machine.mismatch(expected) },
    }
}

/// What it is that does not speak as Talos does, if it is still there.
async fn unheard(
    address: &Address,
    access: &TalosAccess,
    seen: fn(String) -> TalosSeen,
) -> TalosSeen {
    match knock(address, &access.settings.reach).await {
        Some(socket) => match who(socket, address, None).await {
            PortSeen::Other(what) => seen(what),
            PortSeen::ThisCluster => seen("something".to_owned()),
        },
        None => TalosSeen::Nothing("it hung up".to_owned()),
    }
}

async fn configured(client: &Client, is_control_plane: bool, clock: Clock) -> Configured {
    let (version, services, extensions, config) = tokio::join!(
        client.version(),
        client.services(),
        client.list(ResourceKind::EXTENSION_STATUS),
        client.get(ResourceKind::MACHINE_CONFIG, "v1alpha1"),
    );
    // The factory adds an extension whose version is the schematic's id.
    let schematic = extensions.ok().and_then(|all| {
        all.iter()
            .find(|one| one.text("metadata.name").as_deref() == Some("schematic"))
            .and_then(|one| one.text("metadata.version"))
    });
    let runs = |id: &str| {
        services.as_ref().is_ok_and(|all| all.iter().any(|one| one.id == id && one.is_fine()))
    };
    let etcd = match &services {
        Ok(services) if is_control_plane => etcd(client, services, clock).await,
        _ => EtcdSeen::Unknown,
    };
    Configured {
        address: None,
        version: version.ok().map(|version| version.tag),
        schematic,
        config: config.ok().flatten().as_ref().map(Resource::config_text),
        etcd,
        has_kubelet: runs("kubelet"),
    }
}

/// A member that waits has no data yet. One that ran, or tried to, has.
async fn etcd(client: &Client, services: &[Service], clock: Clock) -> EtcdSeen {
    let Some(service) = services.iter().find(|service| service.id == "etcd") else {
        return EtcdSeen::Waiting;
    };
    let ill = |reason, voters, is_leaderless| EtcdSeen::Ill { reason, voters, is_leaderless };
    match service.state.as_str() {
        "Running" => match client.etcd_members().await {
            Ok(members) if service.is_fine() => {
                EtcdSeen::Member { names: members.into_iter().map(|one| one.hostname).collect() }
            }
            Ok(members) => {
                let voters = members.into_iter().filter(|one| !one.is_learner);
                ill(service.describe(), voters.map(|one| one.hostname).collect(), false)
            }
            // It runs and does not answer: it is starting, or its quorum is lost for now.
            Err(error @ TalosError::Late { .. }) => ill(error.to_string(), vec![], false),
            // Without a leader nobody tells who the members are.
            Err(error) => ill(error.to_string(), vec![], is_leaderless(client, clock).await),
        },
        "Failed" | "Finished" | "Stopping" => ill(service.describe(), vec![], false),
        _ => EtcdSeen::Waiting,
    }
}

/// Whether it stays without a leader: who is alone in etcd, and has just begun, elects itself within seconds.
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
    fn an_address_without_a_network_around_it_is_shared() {
        let address = |ip: &str, prefix| AgentAddress { ip: ip.parse().unwrap(), prefix };
        assert!(is_shared(&address("10.0.0.20", Some(32))));
        assert!(is_shared(&address("fd00::20", Some(128))));
        for own in [Some(24), None] {
            assert!(!is_shared(&address("10.0.0.11", own)), "{own:?}");
        }
        assert!(!is_shared(&address("fd00::11", Some(64))));
    }

    #[test]
    fn a_machine_that_has_not_told_who_it_is_is_no_stranger() {
        let expected = Expected { uuid: Some("a".to_owned()), ..Expected::default() };
        let is_mute = matches!(
            maintenance(&Machine::default(), &expected),
            TalosSeen::Mute(what) if what.contains("has not told its SMBIOS UUID")
        );
        assert!(is_mute);
        let other = Machine { uuid: Some("b".to_owned()), ..Machine::default() };
        let seen = maintenance(&other, &expected);
        assert!(matches!(seen, TalosSeen::Maintenance { mismatch: Some(_) }), "{seen:?}");
    }
}
