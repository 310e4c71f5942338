//! What a node tells of what happens to it.

use std::collections::VecDeque;
use std::time::Duration;

use prost::Message;
use talmox_clock::Clock;
use talmox_talos_api::proto::machine::Event;
use tokio::sync::broadcast;

/// Events that are remembered, as Talos's ring buffer does, or nearly.
const REMEMBERED: usize = 1000;

/// The events of one boot. Ids grow, and sort as texts.
#[derive(Debug)]
pub(crate) struct Events {
    /// Each with its time since 1970.
    log: VecDeque<(Duration, Event)>,
    next: u64,
    prefix: String,
    clock: Clock,
    live: broadcast::Sender<Event>,
}

impl Events {
    /// `prefix` makes ids of this boot greater than those of earlier ones.
    pub(crate) fn new(prefix: String, clock: Clock) -> Self {
        Self { log: VecDeque::new(), next: 0, prefix, clock, live: broadcast::channel(256).0 }
    }

    pub(crate) fn tell<M: Message>(&mut self, name: &str, message: &M, actor: &str) {
        let data = prost_types::Any {
            type_url: format!("talos/runtime/machine.{name}"),
            value: message.encode_to_vec(),
        };
        let event = self.event(data, actor);
        // Nobody may be listening.
        drop(self.live.send(event.clone()));
        self.log.push_back((self.clock.since_epoch(), event));
        if self.log.len() > REMEMBERED {
            self.log.pop_front();
        }
    }

    /// The first event of every stream, which shows the client that the stream has started. It is not remembered.
    pub(crate) fn greeting(&mut self, actor: &str) -> Event {
        self.event(prost_types::Any::default(), actor)
    }

    fn event(&mut self, data: prost_types::Any, actor: &str) -> Event {
        let id = format!("{}{:012x}", self.prefix, self.next);
        self.next += 1;
        Event { metadata: None, data: Some(data), id, actor_id: actor.to_owned() }
    }

    /// What happened so far and when, and all that happens from now on.
    pub(crate) fn subscribe(&self) -> (Vec<(Duration, Event)>, broadcast::Receiver<Event>) {
        (self.log.iter().cloned().collect(), self.live.subscribe())
    }
}
