//! What the controller manager, the scheduler and the kubelets do: all passes over the store, one
//! after the other, until nothing changes and nothing is due.

mod daemon_set;
mod deployment;
pub(crate) mod disruption;
mod event;
mod garbage;
mod job;
mod kubelet;
mod machine;
mod namespace;
mod network;
mod node;
mod pod;
mod replica_set;
mod scheduler;
mod stateful_set;
mod taint;

use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::store::{KubeStore, State};
use crate::server::stopped;

pub use machine::Machine;
pub(crate) use machine::Machines;

/// In lab time: what happens together is looked at together.
const GATHER: Duration = Duration::from_millis(100);
/// In real time: however fast the lab's time passes, passes take some.
const SHORTEST: Duration = Duration::from_millis(10);

/// The controllers of a cluster, until they are stopped or dropped.
#[derive(Debug)]
pub struct KubeControllers {
    stop: watch::Sender<bool>,
    running: JoinHandle<()>,
}

/// Starts the controllers. A cluster has them once, however many servers it has.
pub fn control(store: Arc<KubeStore>) -> KubeControllers {
    let (stop, told) = watch::channel(false);
    KubeControllers { stop, running: tokio::spawn(run(store, told)) }
}

impl KubeControllers {
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // It ends by itself; if it panicked, it is gone as well.
        self.running.await.ok();
    }
}

async fn run(store: Arc<KubeStore>, mut stop: watch::Receiver<bool>) {
    let mut news = store.news();
    let (clock, real) = (store.clock, Clock::real());
    loop {
        news.borrow_and_update();
        let due = store.with(pass);
        let now = clock.since_epoch();
        let wait = due.map_or(Duration::MAX, |due| due.saturating_sub(now));
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return },
            () = clock.sleep(wait), if due.is_some() => {}
            () = stopped(&mut stop) => return,
        }
        tokio::join!(clock.sleep(GATHER), real.sleep(SHORTEST));
    }
}

/// Everything once; when there is something to do again though nothing changes.
pub(crate) fn pass(state: &mut State) -> Option<Duration> {
    namespace::pass(state);
    garbage::pass(state);
    deployment::pass(state);
    replica_set::pass(state);
    stateful_set::pass(state);
    daemon_set::pass(state);
    job::pass(state);
    scheduler::pass(state);
    let kubelets = kubelet::pass(state);
    let nodes = node::pass(state);
    let leaving = taint::pass(state);
    disruption::pass(state);
    kubelets.into_iter().chain(nodes).chain(leaving).min()
}
