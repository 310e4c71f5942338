//! Watches: the changes since a revision first, then each new change.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use serde_json::{Value, json};
use talmox_clock::Clock;
use tokio::sync::mpsc;
use tokio::sync::watch::Receiver;

use super::answer::show;
use super::failure::Failure;
use super::request::{ObjectForm, Target};
use super::selector::Selector;
use super::store::{Change, KubeStore, State};
use crate::server::stopped;

/// Real-time interval between the bookmarks of a watch.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);

/// Watch request of a client.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) target: Target,
    pub(crate) selector: Selector,
    pub(crate) form: ObjectForm,
    /// Revision after which changes are sent; `None` to send the existing objects first.
    pub(crate) since: Option<u64>,
    pub(crate) bookmarks: bool,
    /// Whether a bookmark is sent after the existing objects.
    pub(crate) initial_events: bool,
    pub(crate) timeout: Duration,
}

impl Watch {
    /// Sends events until the client disconnects, the timeout expires or the server stops.
    pub(crate) async fn run(
        mut self,
        store: Arc<KubeStore>,
        events: mpsc::Sender<Bytes>,
        mut stop: Receiver<bool>,
    ) {
        let mut revisions = store.revisions();
        let clock = Clock::real();
        let end = clock.moment() + self.timeout;
        loop {
            let (lines, goes_on) = store.with(|state| self.collect(state));
            if !lines.is_empty() && events.send(lines.into()).await.is_err() {
                return;
            }
            if !goes_on {
                return;
            }
            tokio::select! {
                changed = revisions.changed() => if changed.is_err() { return },
                () = events.closed() => return,
                () = stopped(&mut stop) => return,
                () = clock.sleep_until(end) => return,
                () = clock.sleep(BOOKMARK_EVERY), if self.bookmarks => {
                    let line = store.with(|state| self.bookmark(state.revision, false));
                    if events.send(line.into()).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Returns the event lines for the changes since the last call, and whether the watch continues.
    fn collect(&mut self, state: &State) -> (Vec<u8>, bool) {
        let mut lines = vec![];
        if state.kinds.get(&self.target.kind.id).is_none() {
            return (lines, false);
        }
        let now = state.now;
        let Some(since) = self.since else {
            for object in state.iter(&self.target.kind.id) {
                if self.is_selected(object) {
                    self.line(&mut lines, "ADDED", object, now);
                }
            }
            if self.initial_events && self.bookmarks {
                lines.extend(self.bookmark(state.revision, true));
            }
            self.since = Some(state.revision);
            return (lines, true);
        };
        let Some(kind_store) = state.kind_store(&self.target.kind.id) else { return (lines, true) };
        if since < kind_store.forgotten {
            let message = format!("too old resource version: {since} ({})", kind_store.forgotten);
            event(&mut lines, "ERROR", &Failure::expired(message).to_json());
            return (lines, false);
        }
        let start = kind_store.history.partition_point(|change| change.revision <= since);
        for change in kind_store.history.iter().skip(start) {
            if let Some(kind) = self.kind_of(change) {
                self.line(&mut lines, kind, &change.after, now);
            }
        }
        self.since = Some(state.revision.max(since));
        (lines, true)
    }

    fn is_selected(&self, object: &Value) -> bool {
        let namespace = &self.target.namespace;
        (namespace.is_empty() || super::object::namespace(object) == namespace)
            && (self.target.name.is_empty() || super::object::name(object) == self.target.name)
            && self.selector.matches(object)
    }

    /// Event type of a change for a client that watches only the selected objects; `None` if the client gets no event.
    fn kind_of(&self, change: &Change) -> Option<&'static str> {
        let before = change.before.as_ref().is_some_and(|before| self.is_selected(before));
        let after = !change.gone && self.is_selected(&change.after);
        match (before, after) {
            (false, true) => Some("ADDED"),
            (true, true) => Some("MODIFIED"),
            (true, false) => Some("DELETED"),
            (false, false) => None,
        }
    }

    fn line(&self, lines: &mut Vec<u8>, kind: &str, object: &Value, now: Duration) {
        event(lines, kind, &show(&self.target, object, self.form, now));
    }

    fn bookmark(&self, revision: u64, ends_initial: bool) -> Vec<u8> {
        let mut object = json!({
            "kind": self.target.kind.name,
            "apiVersion": self.target.kind.api_version(&self.target.version),
            "metadata": {"resourceVersion": revision.to_string(), "creationTimestamp": null},
        });
        if ends_initial {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut lines = vec![];
        event(&mut lines, "BOOKMARK", &object);
        lines
    }
}

fn event(lines: &mut Vec<u8>, kind: &str, object: &Value) {
    // Writing JSON to a `Vec` cannot fail.
    serde_json::to_writer(&mut *lines, &json!({"type": kind, "object": object})).ok();
    lines.push(b'\n');
}
