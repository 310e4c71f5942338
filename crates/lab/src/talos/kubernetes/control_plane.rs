//! A control plane beside its etcd member: the API server, the controllers while it leads, and the
//! manifests that a cluster begins with.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::api_server::{self, Behind, Start};
use super::component::API_SERVER;
use super::manifest;
use crate::kube::{KubeStore, Memory, control};
use crate::pve::Work;
use crate::talos::config::Applied;
use crate::talos::land::{Land, Membership};
use crate::talos::realm::Realm;
use crate::talos::{etcd, real, vip};

/// How long it is before an API server that cannot start is started again.
const BACK_OFF: Duration = Duration::from_secs(10);

/// Runs all of it, for as long as the node does.
pub(crate) async fn run_control_plane(realm: Arc<Realm>, vmid: u32, boot: u64) {
    // What the shared address leads to, while there is an API server.
    let (serving, served) = watch::channel(None);
    let node = ControlPlane { realm: &realm, vmid, boot };
    tokio::join!(
        etcd::run(&realm, vmid, boot),
        node.count_components(),
        node.serve(serving),
        node.lead(),
        vip::run(&realm, vmid, boot, served),
    );
}

struct ControlPlane<'r> {
    realm: &'r Arc<Realm>,
    vmid: u32,
    boot: u64,
}

/// What the API server depends on.
#[derive(Clone, Debug)]
struct View {
    membership: Membership,
    config: Arc<Applied>,
    store: Arc<KubeStore>,
    start: Start,
    memory: Memory,
}

impl ControlPlane<'_> {
    /// Counts the versions of what the config wants to run, from the first config on.
    async fn count_components(&self) {
        let mut known = None;
        loop {
            let next = self
                .realm
                .until(|land| {
                    let config = self.config(land)?;
                    let before = land.components.get(&self.vmid).cloned().unwrap_or_default();
                    let next = before.next(&config.facts);
                    (Some(&next) != known.as_ref() || before != next).then_some(next)
                })
                .await;
            self.realm.change(|land| land.components.insert(self.vmid, next.clone()));
            known = Some(next);
        }
    }

    fn config<'l>(&self, land: &'l Land) -> Option<&'l Arc<Applied>> {
        land.nodes.get(&self.vmid).filter(|node| node.boot == self.boot)?.config.as_ref()
    }

    fn view(&self, land: &Land) -> Option<View> {
        let config = Arc::clone(self.config(land)?);
        let node = land.nodes.get(&self.vmid)?;
        let membership = node.etcd?;
        let cluster = land.etcds.get(&membership.cluster)?;
        let own = cluster.members.get(&membership.member)?;
        // A learner does not answer an API server; a member that is down leaves nobody to ask.
        if own.is_learner || !own.is_up {
            return None;
        }
        let component = land.components.get(&self.vmid)?.0.get(API_SERVER)?.clone();
        let addresses: Vec<_> = node.network.addresses().collect();
        let names = api_server::names(&config.facts, node.hostname(), &addresses);
        let memory = match (land.serves(membership), land.takes_writes(membership)) {
            (false, _) => Memory::Lost,
            (true, false) => Memory::Full,
            (true, true) => Memory::Good,
        };
        let store = Arc::clone(&cluster.store);
        let start = Start { image: component.image, version: component.version, names, addresses };
        Some(View { membership, config, store, start, memory })
    }

    /// Runs the API server whenever there is what it needs.
    async fn serve(&self, serving: watch::Sender<Option<Behind>>) {
        let name = format!("api-server/{}", self.vmid);
        let mut wait = Work::Pull;
        loop {
            self.realm
                .until(|land| self.view(land).filter(|view| view.memory != Memory::Lost))
                .await;
            self.realm.site.wait(wait, &name).await;
            self.realm.site.wait(Work::Service, &name).await;
            if let Some(view) = self.realm.look(|land| self.view(land)) {
                self.serve_once(&view, &serving).await;
            }
            serving.send_replace(None);
            // The next image was pulled before it was asked for, or is the same.
            wait = Work::Service;
        }
    }

    /// Until it has to start anew.
    async fn serve_once(&self, view: &View, serving: &watch::Sender<Option<Behind>>) {
        let (remember, memory) = watch::channel(view.memory);
        let who = (view.membership, self.vmid);
        let facts = &view.config.facts;
        let started = api_server::start(self.realm, who, &view.start, facts, &view.store, memory);
        let running = match started {
            Ok(running) => running,
            Err(problem) => {
                self.log(&format!("kube-apiserver does not start: {problem}"));
                self.realm.clock().sleep(BACK_OFF).await;
                return;
            }
        };
        serving.send_replace(Some(running.behind.clone()));
        let follow = async {
            let mut memory = view.memory;
            loop {
                let next = self
                    .realm
                    .until(|land| match self.view(land) {
                        Some(next) if next.start == view.start && next.memory == memory => None,
                        other => Some(other),
                    })
                    .await;
                match next {
                    Some(next) if next.start == view.start => {
                        memory = next.memory;
                        remember.send_replace(memory);
                    }
                    _ => return,
                }
            }
        };
        tokio::select! {
            () = follow => {}
            () = self.begin_cluster(view) => {}
        }
    }

    /// Brings the manifests of the config into the cluster, again whenever they change.
    async fn begin_cluster(&self, view: &View) {
        let mut done: Option<Arc<Applied>> = None;
        loop {
            let config = self
                .realm
                .until(|land| {
                    let config = self.config(land)?;
                    let is_done = done.as_ref().is_some_and(|done| Arc::ptr_eq(done, config));
                    let takes_it = land.takes_writes(view.membership);
                    (takes_it && !is_done).then(|| Arc::clone(config))
                })
                .await;
            manifest::apply(self.realm, self.vmid, self.boot, &config, &view.store).await;
            done = Some(config);
        }
    }

    /// The controllers of a cluster run once: here, while this node's member leads.
    async fn lead(&self) {
        loop {
            let (membership, store) = self
                .realm
                .until(|land| {
                    let view = self.view(land)?;
                    self.leads(land, view.membership).then_some((view.membership, view.store))
                })
                .await;
            let ends = self.realm.until(|land| (!self.leads(land, membership)).then_some(()));
            if let Some(cluster) = self.realm.real.get(membership.cluster) {
                tokio::select! {
                    () = ends => {}
                    () = real::tell(cluster, store, |line| self.log(line)) => {}
                }
            } else {
                let controllers = control(store);
                ends.await;
                controllers.stop().await;
            }
        }
    }

    fn leads(&self, land: &Land, membership: Membership) -> bool {
        let cluster = land.etcds.get(&membership.cluster);
        let has_server = cluster.is_some_and(|cluster| !cluster.api_servers.is_empty());
        has_server
            && land.takes_writes(membership)
            && land.leader_of(membership) == Some(membership.member)
    }

    fn log(&self, line: &str) {
        let now = self.realm.now();
        self.realm.change_node(self.vmid, self.boot, |node| node.dmesg(now, line));
    }
}
