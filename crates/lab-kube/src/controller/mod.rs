//! Controller manager, scheduler and kubelets. All controllers run one after the other over the store, until no object changes
//! and no timer is due.

mod daemon_set;
mod deployment;
pub(crate) mod disruption;
mod event;
mod garbage_collector;
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

/// Delay before a run of the controllers, in lab time. One run then handles all changes that happen at about the same time.
const PASS_DELAY: Duration = Duration::from_millis(100);
/// Minimum delay before a run of the controllers, in real time, because lab time can be much faster than the controllers.
const MIN_REAL_DELAY: Duration = Duration::from_millis(10);

/// Handle of the running controllers of a cluster. Dropping the handle stops the controllers.
#[derive(Debug)]
pub struct KubeControllers {
    stop: watch::Sender<bool>,
    running: JoinHandle<()>,
}

/// Starts the controllers. Each cluster runs its controllers once, for any number of API servers.
pub fn control(store: Arc<KubeStore>) -> KubeControllers {
    let (stop, stop_signal) = watch::channel(false);
    KubeControllers { stop, running: tokio::spawn(run(store, stop_signal)) }
}

impl KubeControllers {
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // An error means that the task panicked, so the task has ended as well.
        self.running.await.ok();
    }
}

async fn run(store: Arc<KubeStore>, mut stop: watch::Receiver<bool>) {
    let mut revisions = store.revisions();
    let (clock, real) = (store.clock, Clock::real());
    loop {
        revisions.borrow_and_update();
        let due = store.with(pass);
        let now = clock.since_epoch();
        let wait = due.map_or(Duration::MAX, |due| due.saturating_sub(now));
        tokio::select! {
            changed = revisions.changed() => if changed.is_err() { return },
            () = clock.sleep(wait), if due.is_some() => {}
            () = stopped(&mut stop) => return,
        }
        tokio::join!(clock.sleep(PASS_DELAY), real.sleep(MIN_REAL_DELAY));
    }
}

/// Runs every controller once. Returns the time of the next run, which applies if no object changes before.
pub(crate) fn pass(state: &mut State) -> Option<Duration> {
    namespace::pass(state);
    garbage_collector::pass(state);
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
