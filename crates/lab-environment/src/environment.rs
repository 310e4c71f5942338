//! Clock, random numbers, faults and network of a lab, shared by all simulated APIs.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use talmox_clock::{Chance, Clock};

use crate::fault::Faults;
use crate::fetch::Outside;
use crate::latency::{Profile, Work};

pub struct Environment {
    pub clock: Clock,
    /// Addresses outside the lab that simulated machines can reach.
    pub outside: Outside,
    pub faults: Faults,
    profile: Profile,
    chance: Chance,
    /// Number of operations so far on each object. It selects the random numbers of the next operation on the object.
    operations: Mutex<HashMap<String, u64>>,
}

impl Environment {
    pub fn new(clock: Clock, chance: Chance, profile: Profile) -> Self {
        Self {
            clock,
            outside: Outside::default(),
            faults: Faults::default(),
            profile,
            chance,
            operations: Mutex::default(),
        }
    }

    #[must_use]
    pub fn with_outside(self, outside: Outside) -> Self {
        Self { outside, ..self }
    }

    /// Random numbers for the next operation on an object.
    pub fn chance(&self, object: &str) -> Chance {
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        let nth = operations.entry(object.to_owned()).or_default();
        *nth += 1;
        self.chance.of(object, *nth)
    }

    /// Waits for the time that this work takes in the profile of the lab, with jitter.
    pub async fn wait(&self, work: Work, object: &str) {
        let time = self.profile.time(work);
        if !time.is_zero() {
            self.clock.sleep(self.chance(object).jitter(time)).await;
        }
    }

    /// Whether races between the programs of a machine are decided at random. They are if the profile has races and the lab has
    /// jitter.
    pub fn has_races(&self) -> bool {
        self.profile.has_races() && !self.chance.is_even()
    }

    /// Time that this work takes in the profile of the lab, without jitter.
    pub fn time(&self, work: Work) -> Duration {
        self.profile.time(work)
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("clock", &self.clock).finish_non_exhaustive()
    }
}
