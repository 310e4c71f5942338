//! Settings of the nodes and their networks at the start of a lab.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use talmox_clock::Chance;
use talmox_lab_environment::Environment;

use super::config::prefix;
use super::dhcp::Dhcp;
use super::factory::Factory;
use super::hypervisor::Hypervisor;
use super::loopback_network::LoopbackNetwork;
use super::real_kubernetes::RealKubernetes;
use super::simulation::{Simulation, SimulationSettings};

/// Default network of a lab.
const DEFAULT_NETWORK: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);

/// Networks of the nodes and their environment.
#[derive(Clone, Debug, Default)]
pub struct NodeSettings {
    /// Networks of 256 addresses each, in which clients can reach nodes.
    pub networks: Vec<Ipv4Addr>,
    /// Routers with internet access, which DHCP offers as gateways. If the list is empty, every gateway has internet access.
    pub gateways: Vec<IpAddr>,
    /// DHCP leases: the address with its prefix length, by MAC address in lower case.
    pub leases: BTreeMap<String, String>,
    /// Whether all nodes use ports of 127.0.0.1, as on a system that has no other loopback address.
    pub has_one_loopback: bool,
    /// Real programs that replace the simulated API servers.
    pub real: Option<RealKubernetes>,
}

impl NodeSettings {
    /// Creates the simulation. `kept` identifies a permanent lab. Its nodes keep their loopback addresses, unless another
    /// program uses these addresses.
    pub fn simulation(
        &self,
        environment: &Arc<Environment>,
        hypervisor: &Arc<dyn Hypervisor>,
        factory: &Arc<Factory>,
        kept: Option<&str>,
    ) -> io::Result<Arc<Simulation>> {
        let chance = match kept {
            Some(kept) => Chance::new(0).of(kept, 0),
            None => environment.chance("wire").of("process", std::process::id().into()),
        };
        let loopback_network = LoopbackNetwork::new(chance, self.has_one_loopback);
        let usual = self.networks.is_empty().then_some(DEFAULT_NETWORK);
        for network in self.networks.iter().copied().chain(usual) {
            let [a, b, c, _] = network.octets();
            loopback_network.add([a, b, c])?;
        }
        let leases = self
            .leases
            .iter()
            .filter_map(|(mac, lease)| Some((mac.to_lowercase(), prefix(lease)?)));
        let leases: BTreeMap<_, _> = leases.collect();
        let dhcp = (!leases.is_empty()).then(|| Dhcp { leases, routers: self.gateways.clone() });
        let settings = SimulationSettings {
            gateways: self.gateways.clone(),
            dhcp,
            factory: Some(Arc::clone(factory)),
            real: self.real.clone(),
        };
        Ok(Simulation::new(
            Arc::clone(environment),
            Arc::clone(hypervisor),
            loopback_network,
            settings,
        ))
    }
}
