//! Waiting with a deadline and a reason that can be shown all the time; and how long everything is
//! waited for, in one place.
//!
//! A step has one deadline for all its attempts together, by the inventory's `timeouts:`.
//!
//! | what a step does | its deadline |
//! |---|---|
//! | fetch an image; create or clone a VM; make a template | `image` |
//! | any other call or task of Proxmox; tell the factory; write files | `task` |
//! | give a node its config, and see it come back as a node of the cluster | at most two starts of a new VM that stall, then `boot`, then `bootstrap` |
//! | bootstrap etcd; join; the shared address; another system than Talos | `bootstrap` |
//! | the health of the cluster; an add-on | `health` |
//!
//! Within that, what is below ends a wait sooner, where waiting longer would not help. Sockets have
//! limits of their own, which do not scale with the clock: the clients of Proxmox, Talos, Kubernetes
//! and the web have them.

use std::fmt;
use std::time::Duration;

use talmox_clock::{Clock, Deadline};

/// Between two looks at a node or a cluster.
pub(crate) const LOOK: Duration = Duration::from_secs(1);
/// Between two looks at something of Proxmox that changes by itself.
pub(crate) const LOOK_AT_PROXMOX: Duration = Duration::from_secs(3);

/// The first pause between two attempts; each further one is twice as long, up to the longest.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_secs(1);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// More attempts than this are none the wiser, however much time is left. With their pauses they
/// take about three minutes. Attempts that end at a lock do not count: who holds it is at work, and a slow disk
/// of one may hold up others for longer.
pub(crate) const ATTEMPTS: u32 = 12;
/// An image that came out wrong so often is wrong where it comes from.
pub(crate) const FETCHES: u32 = 4;
/// How often a guest is asked to let go of a volume before that is left to its next stop, and the
/// pause in between.
pub(crate) const DETACHES: u32 = 4;
pub(crate) const DETACH_PAUSE: Duration = Duration::from_secs(10);

/// How long the host of a running task may be silent before the task is given up.
pub(crate) const SILENT_HOST: Duration = Duration::from_mins(3);
/// How long a control plane that must be asked for etcd's data may take to answer: it may be booting.
pub(crate) const WITNESS: Duration = Duration::from_mins(3);
/// How long a VM that this run created may boot without an answer before it is reset. Talos stalls in up to a third of its
/// first boots from a cloud-init drive, until the VM is reset; a boot that does not stall takes less than this.
pub(crate) const STALL: Duration = Duration::from_secs(150);
/// A node that does not answer for so long is looked up in Proxmox, again and again: its host may be
/// down, or its VM off.
pub(crate) const GLANCE: Duration = Duration::from_mins(2);
/// How long a further network card is waited for that has its address from DHCP: there may be none.
pub(crate) const DHCP: Duration = Duration::from_mins(1);
/// How long add-ons that were applied may take until one of them shows a network for pods: operators
/// make it by and by.
pub(crate) const NETWORK: Duration = Duration::from_mins(1);
/// How long the Kubernetes API may take to learn the fields of a kind whose definition has just changed.
pub(crate) const SCHEMA: Duration = Duration::from_mins(1);
/// What a step may take beyond its deadline before it is broken off: for a last answer to come.
pub(crate) const OVERTIME: Duration = Duration::from_mins(5);

/// How long to wait, how often to look, and who hears why.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    pub clock: Clock,
    pub deadline: Deadline,
    pub pause: Duration,
    /// Hears the reason whenever it changes.
    pub tell: &'a (dyn Fn(&str) + Send + Sync),
}

/// One wait: whoever waits looks, and if it is not so yet, says why and is let go on.
#[derive(Debug)]
pub struct Waiting<'a> {
    patience: Patience<'a>,
    told: String,
}

/// The time is up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time is up, and still: {reason}")]
pub struct Late {
    /// What was missing at the last look.
    pub reason: String,
}

impl<'a> Patience<'a> {
    pub fn begin(self) -> Waiting<'a> {
        Waiting { patience: self, told: String::new() }
    }
}

impl Waiting<'_> {
    /// Waits a little before the next look; there is a last one when the time is just up.
    pub async fn not_yet(&mut self, reason: impl Into<String>) -> Result<(), Late> {
        let reason = reason.into();
        let Patience { clock, deadline, pause, tell } = self.patience;
        if deadline.has_passed() {
            return Err(Late { reason });
        }
        if reason != self.told {
            tell(&reason);
            self.told = reason;
        }
        clock.sleep(pause.min(deadline.left())).await;
        Ok(())
    }
}

impl fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deadline, pause, .. } = self;
        f.debug_struct("Patience").field("deadline", deadline).field("pause", pause).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[tokio::test]
    async fn reasons_are_told_once_and_the_last_one_is_kept() {
        let clock = Clock::scaled(1000.0);
        let told = Mutex::new(vec![]);
        let tell = |reason: &str| told.lock().unwrap().push(reason.to_owned());
        let (deadline, pause) = (clock.deadline(Duration::from_hours(9)), Duration::from_secs(1));
        let patience = Patience { clock, deadline, pause, tell: &tell };
        let mut wait = patience.begin();
        for reason in ["no disk", "no disk", "no address", "no disk"] {
            wait.not_yet(reason).await.unwrap();
        }
        assert_eq!(*told.lock().unwrap(), ["no disk", "no address", "no disk"]);
        let over = Patience { deadline: clock.deadline(Duration::ZERO), ..patience };
        let late = over.begin().not_yet("no address").await.unwrap_err();
        assert_eq!(late.to_string(), "the time is up, and still: no address");
        assert_eq!(told.lock().unwrap().len(), 3);
    }
}
