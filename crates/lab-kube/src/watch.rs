//! Watching: what happened since a revision, and then what happens.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use serde_json::{Value, json};
use talmox_clock::Clock;
use tokio::sync::mpsc;
use tokio::sync::watch::Receiver;

use super::answer::show;
use super::failure::Failure;
use super::request::{Form, Target};
use super::selector::Selector;
use super::store::{Change, KubeStore, State};
use crate::server::stopped;

/// How often a bookmark comes, in real time.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);

/// What is watched.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) target: Target,
    pub(crate) selector: Selector,
    pub(crate) form: Form,
    /// Changes after this are told; none to begin with what is there.
    pub(crate) since: Option<u64>,
    pub(crate) bookmarks: bool,
    /// The first objects end with a bookmark that says so.
    pub(crate) initial_events: bool,
    pub(crate) timeout: Duration,
}

impl Watch {
    /// Sends events until the client goes, the time is up or the server stops.
    pub(crate) async fn run(
        mut self,
        store: Arc<KubeStore>,
        events: mpsc::Sender<Bytes>,
        mut stop: Receiver<bool>,
    ) {
        let mut news = store.news();
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
                changed = news.changed() => if changed.is_err() { return },
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

    /// The lines for what is new, and whether there can be more.
    fn collect(&mut self, state: &State) -> (Vec<u8>, bool) {
        let mut lines = vec![];
        if state.kinds.get(&self.target.kind.id).is_none() {
            return (lines, false);
        }
        let now = state.now;
        let Some(since) = self.since else {
            for object in state.iter(&self.target.kind.id) {
                if self.is_meant(object) {
                    self.line(&mut lines, "ADDED", object, now);
                }
            }
            if self.initial_events && self.bookmarks {
                lines.extend(self.bookmark(state.revision, true));
            }
            self.since = Some(state.revision);
            return (lines, true);
        };
        let Some(shelf) = state.shelf(&self.target.kind.id) else { return (lines, true) };
        if since < shelf.forgotten {
            let message = format!("too old resource version: {since} ({})", shelf.forgotten);
            event(&mut lines, "ERROR", &Failure::expired(message).to_json());
            return (lines, false);
        }
        let start = shelf.history.partition_point(|change| change.revision <= since);
        for change in shelf.history.iter().skip(start) {
            if let Some(kind) = self.kind_of(change) {
                self.line(&mut lines, kind, &change.after, now);
            }
        }
        self.since = Some(state.revision.max(since));
        (lines, true)
    }

    fn is_meant(&self, object: &Value) -> bool {
        let namespace = &self.target.namespace;
        (namespace.is_empty() || super::object::namespace(object) == namespace)
            && (self.target.name.is_empty() || super::object::name(object) == self.target.name)
            && self.selector.matches(object)
    }

    /// What a change is to somebody who sees only the objects that are meant.
    fn kind_of(&self, change: &Change) -> Option<&'static str> {
        let before = change.before.as_ref().is_some_and(|before| self.is_meant(before));
        let after = !change.gone && self.is_meant(&change.after);
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
    // Writing JSON into memory does not fail.
    serde_json::to_writer(&mut *lines, &json!({"type": kind, "object": object})).ok();
    lines.push(b'\n');
}
