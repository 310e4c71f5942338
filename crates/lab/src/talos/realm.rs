//! The running nodes, and what all that happens to them share.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use talmox_clock::{Chance, Clock};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::dhcp::Dhcp;
use super::fault::{Aftermath, Fate};
use super::land::{Land, Node};
use super::real::{RealClusters, RealKubernetes};
use super::resource::Seen;
use super::wire::Wire;
use crate::factory::Factory;
use crate::fault::Place;
use crate::pve::Site;

/// What is around the nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct RealmSettings {
    /// Routers that lead to the internet; where none are named, every gateway does.
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) dhcp: Option<Dhcp>,
    /// Where installers come from.
    pub(crate) factory: Option<Arc<Factory>>,
    /// Real programs in the place of simulated API servers.
    pub(crate) real: Option<RealKubernetes>,
}

/// The node that a request reached, and what can happen to it there.
#[derive(Clone, Debug)]
pub(crate) struct Victim {
    pub(crate) realm: Arc<Realm>,
    pub(crate) vmid: u32,
}

impl Victim {
    /// What the script has for a request to the Kubernetes API.
    pub(crate) async fn suffer(&self, method: &str, path: &str) -> Result<Aftermath, Fate> {
        self.realm.suffer(self.vmid, Place::Kube(path), method).await
    }

    /// What was to happen after it. True where there is no answer any more.
    pub(crate) fn after(&self, aftermath: &Aftermath) -> bool {
        aftermath.befall(&self.realm, self.vmid)
    }
}

pub(crate) struct Realm {
    pub(crate) site: Arc<Site>,
    pub(crate) wire: Arc<Wire>,
    pub(crate) settings: RealmSettings,
    /// Versions of the nodes' resources.
    pub(crate) seen: Seen,
    /// What runs of the real programs.
    pub(crate) real: RealClusters,
    land: Mutex<Land>,
    /// Counts changes of the land, for whoever waits for one.
    news: watch::Sender<u64>,
    /// What runs for each VM: ends when its power does.
    playing: Mutex<HashMap<u32, AbortHandle>>,
}

impl Realm {
    pub(crate) fn new(site: Arc<Site>, wire: Arc<Wire>, settings: RealmSettings) -> Arc<Self> {
        let (news, _) = watch::channel(0);
        let (land, playing) = (Mutex::default(), Mutex::default());
        let seen = Seen::default();
        Arc::new(Self {
            site,
            wire,
            settings,
            seen,
            real: RealClusters::default(),
            land,
            news,
            playing,
        })
    }

    pub(crate) fn clock(&self) -> Clock {
        self.site.clock
    }

    /// In the lab's time since 1970.
    pub(crate) fn now(&self) -> Duration {
        self.site.clock.since_epoch()
    }

    pub(crate) fn chance(&self, object: &str) -> Chance {
        self.site.chance(object)
    }

    /// Looks at the land. Whoever looks does not wait.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Land) -> T) -> T {
        look(&self.locked())
    }

    /// Changes the land, and tells whoever waits for that.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Land) -> T) -> T {
        let result = change(&mut self.locked());
        self.news.send_modify(|count| *count += 1);
        result
    }

    /// Changes a node, if this is still the boot that the caller began in.
    pub(crate) fn change_node<T>(
        &self,
        vmid: u32,
        boot: u64,
        change: impl FnOnce(&mut Node) -> T,
    ) -> Option<T> {
        self.change(|land| {
            let node = land.of_boot(vmid, boot)?;
            node.revision += 1;
            Some(change(node))
        })
    }

    /// Waits until the land is as wanted.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut(&Land) -> Option<T>) -> T {
        let mut news = self.news.subscribe();
        loop {
            news.borrow_and_update();
            if let Some(found) = self.look(&mut look) {
                return found;
            }
            if news.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// To be told of changes.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    fn locked(&self) -> MutexGuard<'_, Land> {
        self.land.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lab ends, and with it all that runs for VMs.
    pub(super) fn leave_all(&self) {
        let mut all = self.playing.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, playing) in all.drain() {
            playing.abort();
        }
    }

    /// What runs for a VM ends, and this begins in its place.
    pub(super) fn replace(&self, vmid: u32, playing: Option<AbortHandle>) {
        let mut all = self.playing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match playing {
            Some(playing) => all.insert(vmid, playing),
            None => all.remove(&vmid),
        };
        if let Some(before) = before {
            before.abort();
        }
    }
}

impl fmt::Debug for Realm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Realm").finish_non_exhaustive()
    }
}
