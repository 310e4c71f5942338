//! Events of a machine.

use prost::Message as _;

use super::{Actor, Answers, Client};
use crate::error::TalosError;
use crate::proto::machine::{
    AddressEvent, ConfigLoadErrorEvent, ConfigValidationErrorEvent, EventsRequest,
    MachineStatusEvent, PhaseEvent, RestartEvent, SequenceEvent, ServiceStateEvent, TaskEvent,
};

/// Start of an event stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Since {
    #[default]
    Now,
    /// All events that the node still stores.
    TheBeginning,
    /// At most this number of the most recent events.
    Last(u16),
    /// Events after the event with this ID.
    Event(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: String,
    pub actor: Actor,
    pub payload: Payload,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    Sequence(SequenceEvent),
    Phase(PhaseEvent),
    Task(TaskEvent),
    Service(ServiceStateEvent),
    Machine(MachineStatusEvent),
    ConfigLoadError(ConfigLoadErrorEvent),
    ConfigValidationError(ConfigValidationErrorEvent),
    Address(AddressEvent),
    Restart(RestartEvent),
    /// Payload of an unknown type. The value is the name of the type.
    Other(String),
}

/// Stream of events. The stream ends when the machine goes down; open another stream after the reboot.
#[derive(Debug)]
pub struct EventStream(Answers<crate::proto::machine::Event>);

impl Client {
    /// Opens a stream of past or new events, of one actor or of all actors.
    pub async fn events(
        &self,
        since: &Since,
        actor: Option<&Actor>,
    ) -> Result<EventStream, TalosError> {
        let mut request = EventsRequest {
            with_actor_id: actor.map(|actor| actor.0.clone()).unwrap_or_default(),
            ..EventsRequest::default()
        };
        match since {
            Since::Now => {}
            Since::TheBeginning => request.tail_events = -1,
            Since::Last(count) => request.tail_events = (*count).into(),
            Since::Event(id) => request.tail_id.clone_from(id),
        }
        let mut machine = self.machine();
        Ok(EventStream(self.stream("Events", machine.events(request)).await?))
    }

    /// All events that the node stores, oldest first. A node stores the events since its boot, up to about a thousand.
    pub async fn past_events(&self) -> Result<Vec<Event>, TalosError> {
        // The stream does not mark where the past events end and the new events start, so the last past event is read
        // first.
        let Some(last) = self.events(&Since::Last(1), None).await?.next_in_time().await? else {
            return Ok(vec![]);
        };
        let mut stream = self.events(&Since::TheBeginning, None).await?;
        let mut past = vec![];
        while let Some(event) = stream.next_in_time().await? {
            let is_last = event.id == last.id;
            past.push(event);
            if is_last {
                break;
            }
        }
        Ok(past)
    }
}

impl EventStream {
    /// Next event, without a timeout; `None` at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<Event>, TalosError> {
        while let Some(event) = self.0.next().await? {
            if let Some(event) = self.read(event)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Next event, with the timeout of the client; `None` at the end of the stream.
    async fn next_in_time(&mut self) -> Result<Option<Event>, TalosError> {
        while let Some(event) = self.0.next_in_time().await? {
            if let Some(event) = self.read(event)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Parses an event; `None` for the first event of every stream, which has no payload.
    fn read(&self, event: crate::proto::machine::Event) -> Result<Option<Event>, TalosError> {
        let data = event.data.unwrap_or_default();
        if data.type_url.is_empty() {
            return Ok(None);
        }
        let payload = Payload::read(&data).map_err(|error| TalosError::Unreadable {
            call: self.0.call().clone(),
            what: format!("{}: {error}", data.type_url),
        })?;
        Ok(Some(Event { id: event.id, actor: Actor(event.actor_id), payload }))
    }
}

impl Payload {
    fn read(data: &prost_types::Any) -> Result<Self, prost::DecodeError> {
        let bytes = data.value.as_slice();
        let name = data.type_url.rsplit('/').next().unwrap_or_default();
        Ok(match name {
            "machine.SequenceEvent" => Self::Sequence(SequenceEvent::decode(bytes)?),
            "machine.PhaseEvent" => Self::Phase(PhaseEvent::decode(bytes)?),
            "machine.TaskEvent" => Self::Task(TaskEvent::decode(bytes)?),
            "machine.ServiceStateEvent" => Self::Service(ServiceStateEvent::decode(bytes)?),
            "machine.MachineStatusEvent" => Self::Machine(MachineStatusEvent::decode(bytes)?),
            "machine.ConfigLoadErrorEvent" => {
                Self::ConfigLoadError(ConfigLoadErrorEvent::decode(bytes)?)
            }
            "machine.ConfigValidationErrorEvent" => {
                Self::ConfigValidationError(ConfigValidationErrorEvent::decode(bytes)?)
            }
            "machine.AddressEvent" => Self::Address(AddressEvent::decode(bytes)?),
            "machine.RestartEvent" => Self::Restart(RestartEvent::decode(bytes)?),
            _ => Self::Other(data.type_url.clone()),
        })
    }
}
