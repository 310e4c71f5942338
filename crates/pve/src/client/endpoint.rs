use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use talmox_clock::{Clock, Moment};
use talmox_pve_types::id::NodeName;
use talmox_values::Address;
use tokio::sync::Semaphore;

use super::connection::Pool;

/// Time after a failed connection for which an endpoint is tried only after all others.
const DEMOTION: Duration = Duration::from_secs(15);

/// Host of the Proxmox cluster that serves the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address. The certificate must contain it.
    pub host: String,
    pub port: u16,
    /// Name of the Proxmox node, if known. An upload is sent directly to the node that stores the file.
    pub node: Option<NodeName>,
    /// Address to connect to instead of `host`, for example behind NAT or in the lab.
    pub reach: Option<Address>,
}

impl Endpoint {
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, node: None, reach: None }
    }

    /// Host and port as in a URL.
    pub(super) fn authority(&self) -> String {
        Address::new(&self.host, self.port).to_string()
    }

    /// Address to connect to.
    pub(super) fn target(&self) -> Address {
        self.reach.clone().unwrap_or_else(|| Address::new(&self.host, self.port))
    }
}

/// All endpoints of one Proxmox cluster, with their recent failures.
#[derive(Debug)]
pub(super) struct Endpoints {
    pub(super) all: Vec<Contact>,
    /// Index of the endpoint that answered last.
    favourite: AtomicUsize,
    clock: Clock,
}

#[derive(Debug)]
pub(super) struct Contact {
    pub(super) endpoint: Endpoint,
    pub(super) pool: Pool,
    /// Limit of concurrent requests.
    pub(super) gate: Semaphore,
    demoted_until: Mutex<Option<Moment>>,
}

impl Endpoints {
    pub(super) fn new(endpoints: Vec<Endpoint>, requests: usize, clock: Clock) -> Self {
        let contact = |endpoint| Contact {
            endpoint,
            pool: Pool::default(),
            gate: Semaphore::new(requests),
            demoted_until: Mutex::default(),
        };
        let all = endpoints.into_iter().map(contact).collect();
        Self { all, favourite: AtomicUsize::new(0), clock }
    }

    /// Order in which the endpoints are tried: first the preferred node, then the endpoint that answered last, then the
    /// others. Endpoints that failed recently come last.
    pub(super) fn order(&self, preferred: Option<&NodeName>) -> Vec<usize> {
        let favourite = self.favourite.load(Ordering::Relaxed);
        let now = self.clock.moment();
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|index| {
            let contact = &self.all[*index];
            let is_preferred = preferred.is_some() && contact.endpoint.node.as_ref() == preferred;
            let turn = (index + self.all.len() - favourite) % self.all.len();
            (contact.is_demoted(now), !is_preferred, turn)
        });
        order
    }

    pub(super) fn worked(&self, index: usize) {
        *self.all[index]
            .demoted_until
            .lock()
            .expect("invariant: no code panics while it holds the lock") = None;
        self.favourite.store(index, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, index: usize) {
        let until = self.clock.moment() + DEMOTION;
        *self.all[index]
            .demoted_until
            .lock()
            .expect("invariant: no code panics while it holds the lock") = Some(until);
    }
}

impl Contact {
    fn is_demoted(&self, now: Moment) -> bool {
        let until =
            *self.demoted_until.lock().expect("invariant: no code panics while it holds the lock");
        until.is_some_and(|until| until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(clock: Clock) -> Endpoints {
        let mut all = ["a", "b", "c"].map(|host| Endpoint::new(host, 8006));
        all[2].node = Some("pve3".parse().unwrap());
        Endpoints::new(all.into(), 4, clock)
    }

    #[test]
    fn the_last_working_endpoint_comes_first_and_failed_ones_last() {
        let endpoints = endpoints(Clock::real());
        assert_eq!(endpoints.order(None), [0, 1, 2]);
        endpoints.failed(0);
        assert_eq!(endpoints.order(None), [1, 2, 0]);
        endpoints.worked(1);
        assert_eq!(endpoints.order(None), [1, 2, 0]);
        endpoints.worked(0);
        assert_eq!(endpoints.order(Some(&"pve3".parse().unwrap())), [2, 0, 1]);
        assert_eq!(endpoints.order(Some(&"pve9".parse().unwrap())), [0, 1, 2]);
    }

    #[tokio::test]
    async fn a_failed_endpoint_is_preferred_again_after_a_while() {
        let clock = Clock::scaled(10_000.0);
        let endpoints = endpoints(clock);
        endpoints.failed(0);
        clock.sleep(DEMOTION * 2).await;
        assert_eq!(endpoints.order(None), [0, 1, 2]);
    }

    #[test]
    fn ipv6_addresses_are_written_in_brackets() {
        assert_eq!(Endpoint::new("fd00::1", 8006).authority(), "[fd00::1]:8006");
        assert_eq!(Endpoint::new("atlas", 8006).authority(), "atlas:8006");
    }
}
