//! What a machine tells about itself while it works.

use prost::Message as _;

use super::{Actor, Answers, Client};
use crate::error::TalosError;
use crate::proto::machine::{
    AddressEvent, ConfigLoadErrorEvent, ConfigValidationErrorEvent, EventsRequest,
    MachineStatusEvent, PhaseEvent, RestartEvent, SequenceEvent, ServiceStateEvent, TaskEvent,
};

/// Where the story begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Since {
    #[default]
    Now,
    /// With all that the node still remembers.
    TheBeginning,
    /// With the last so many.
    Last(u16),
    /// After the event with this id.
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
    /// One that we do not know, by its type.
    Other(String),
}

/// Events as they come. Ends when the machine does: after a reboot, ask again.
#[derive(Debug)]
pub struct EventStream(Answers<crate::proto::machine::Event>);

impl Client {
    /// Events from now on or from before, of one actor or of all.
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
}

impl EventStream {
    /// The next event, however long it takes to come.
    pub async fn next(&mut self) -> Result<Option<Event>, TalosError> {
        let Some(event) = self.0.next().await? else { return Ok(None) };
        let data = event.data.unwrap_or_default();
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
