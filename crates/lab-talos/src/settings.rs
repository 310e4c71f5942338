//! What is around the nodes when a lab starts.

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
use super::real::RealKubernetes;
use super::simulation::{Simulation, SimulationSettings};
use super::wire::Wire;

/// The network of a lab that was told of none.
const USUAL: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);

/// The network that nodes are in, and what is around it.
#[derive(Clone, Debug, Default)]
pub struct NodeSettings {
    /// Clients find nodes whose first three numbers are those of one of these.
    pub networks: Vec<Ipv4Addr>,
    /// Routers that lead to the internet, and that DHCP offers; where none are named, every gateway does.
    pub gateways: Vec<IpAddr>,
    /// What a DHCP server gives: MAC in lower case, address with prefix length.
    pub leases: BTreeMap<String, String>,
    /// All nodes are on ports of 127.0.0.1, as where a system has no other loopback address.
    pub has_one_loopback: bool,
    /// Real programs in the place of simulated API servers.
    pub real: Option<RealKubernetes>,
}

impl NodeSettings {
    /// `kept` tells one lab that is kept from another: as long as nobody else took them, its nodes are where they were.
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
        let wire = Wire::new(chance, self.has_one_loopback);
        let usual = self.networks.is_empty().then_some(USUAL);
        for network in self.networks.iter().copied().chain(usual) {
            let [a, b, c, _] = network.octets();
            wire.add([a, b, c])?;
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
        Ok(Simulation::new(Arc::clone(environment), Arc::clone(hypervisor), wire, settings))
    }
}
