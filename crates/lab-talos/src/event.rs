//! Events of a node.

use std::collections::VecDeque;
use std::time::Duration;

use prost::Message;
use talmox_clock::Clock;
use talmox_talos_api::proto::machine::Event;
use tokio::sync::broadcast;

/// Maximum number of stored events. It is close to the size of the ring buffer in Talos.
const MAX_EVENTS: usize = 1000;

/// Events of one boot. The ids of later events are greater, also if they are compared as texts.
#[derive(Debug)]
pub(crate) struct Events {
    /// Stored events, each with its time since 1970.
    log: VecDeque<(Duration, Event)>,
    next: u64,
    prefix: String,
    clock: Clock,
    live: broadcast::Sender<Event>,
}

impl Events {
    /// Creates an empty log. `prefix` ensures that the ids of this boot are greater than those of earlier boots.
    pub(crate) fn new(prefix: String, clock: Clock) -> Self {
        Self { log: VecDeque::new(), next: 0, prefix, clock, live: broadcast::channel(256).0 }
    }

    pub(crate) fn publish<M: Message>(&mut self, name: &str, message: &M, actor: &str) {
        let data = prost_types::Any {
            type_url: format!("talos/runtime/machine.{name}"),
            value: message.encode_to_vec(),
        };
        let event = self.event(data, actor);
        // Sending fails if there is no subscriber.
        drop(self.live.send(event.clone()));
        self.log.push_back((self.clock.since_epoch(), event));
        if self.log.len() > MAX_EVENTS {
            self.log.pop_front();
        }
    }

    /// First event of every stream. It shows the client that the stream has started, and is not stored.
    pub(crate) fn initial_event(&mut self, actor: &str) -> Event {
        self.event(prost_types::Any::default(), actor)
    }

    fn event(&mut self, data: prost_types::Any, actor: &str) -> Event {
        let id = format!("{}{:012x}", self.prefix, self.next);
        self.next += 1;
        Event { metadata: None, data: Some(data), id, actor_id: actor.to_owned() }
    }

    /// Stored events with their times, and a receiver of new events.
    pub(crate) fn subscribe(&self) -> (Vec<(Duration, Event)>, broadcast::Receiver<Event>) {
        (self.log.iter().cloned().collect(), self.live.subscribe())
    }
}
