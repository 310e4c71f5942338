use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use talmox_clock::{Clock, Moment};
use talmox_pve_types::id::NodeName;
use talmox_values::Address;
use tokio::sync::Semaphore;

use super::connection::Pool;

/// How long an endpoint that could not be reached is tried last.
const REST: Duration = Duration::from_secs(15);

/// A host that serves the API of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The name or address in its certificate.
    pub host: String,
    pub port: u16,
    /// Which node this is, if that is known: uploads then go to the node that keeps the file.
    pub node: Option<NodeName>,
    /// The address to connect to instead, behind NAT or in the lab.
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

    /// The address to connect to.
    pub(super) fn target(&self) -> Address {
        self.reach.clone().unwrap_or_else(|| Address::new(&self.host, self.port))
    }
}

/// All endpoints of one cluster, and which of them failed lately.
#[derive(Debug)]
pub(super) struct Endpoints {
    pub(super) all: Vec<Contact>,
    /// The one that worked last.
    favourite: AtomicUsize,
    clock: Clock,
}

#[derive(Debug)]
pub(super) struct Contact {
    pub(super) endpoint: Endpoint,
    pub(super) pool: Pool,
    /// How many requests may be under way at once.
    pub(super) gate: Semaphore,
    rests_until: Mutex<Option<Moment>>,
}

impl Endpoints {
    pub(super) fn new(endpoints: Vec<Endpoint>, requests: usize, clock: Clock) -> Self {
        let contact = |endpoint| Contact {
            endpoint,
            pool: Pool::default(),
            gate: Semaphore::new(requests),
            rests_until: Mutex::default(),
        };
        let all = endpoints.into_iter().map(contact).collect();
        Self { all, favourite: AtomicUsize::new(0), clock }
    }

    /// In which order to try them: first the preferred node, then what worked last, then the rest
    /// in turn; and those that failed lately after all others.
    pub(super) fn order(&self, preferred: Option<&NodeName>) -> Vec<usize> {
        let favourite = self.favourite.load(Ordering::Relaxed);
        let now = self.clock.moment();
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|index| {
            let contact = &self.all[*index];
            let is_preferred = preferred.is_some() && contact.endpoint.node.as_ref() == preferred;
            let turn = (index + self.all.len() - favourite) % self.all.len();
            (contact.rests(now), !is_preferred, turn)
        });
        order
    }

    pub(super) fn worked(&self, index: usize) {
        *self.all[index]
            .rests_until
            .lock()
            .expect("invariant: no code panics while it holds the lock") = None;
        self.favourite.store(index, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, index: usize) {
        let until = self.clock.moment() + REST;
        *self.all[index]
            .rests_until
            .lock()
            .expect("invariant: no code panics while it holds the lock") = Some(until);
    }
}

impl Contact {
    fn rests(&self, now: Moment) -> bool {
        let until =
            *self.rests_until.lock().expect("invariant: no code panics while it holds the lock");
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
    fn what_worked_comes_first_and_what_failed_last() {
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
    async fn rest_is_over_after_a_while() {
        let clock = Clock::scaled(10_000.0);
        let endpoints = endpoints(clock);
        endpoints.failed(0);
        clock.sleep(REST * 2).await;
        assert_eq!(endpoints.order(None), [0, 1, 2]);
    }

    #[test]
    fn ipv6_addresses_have_brackets() {
        assert_eq!(Endpoint::new("fd00::1", 8006).authority(), "[fd00::1]:8006");
        assert_eq!(Endpoint::new("atlas", 8006).authority(), "atlas:8006");
    }
}
