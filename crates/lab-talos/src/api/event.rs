//! `MachineService.Events`: stored events that the request selects, then each new event.

use std::sync::Arc;
use std::time::Duration;

use talmox_talos_api::proto::machine::{Event, EventsRequest};
use talmox_talos_api::server::Status;
use tokio::sync::broadcast::error::RecvError;
use tonic::codegen::BoxStream;

use super::{Session, stream};

pub(super) fn events(
    session: &Arc<Session>,
    request: EventsRequest,
) -> Result<BoxStream<Event>, Status> {
    let (initial_event, (past, mut live)) = session.change(|node| {
        (node.events.initial_event(&request.with_actor_id), node.events.subscribe())
    })?;
    let past = tail(past, &request, session.simulation.now());
    Ok(stream::run(session, |sender| async move {
        let is_wanted = |event: &Event| {
            request.with_actor_id.is_empty() || event.actor_id == request.with_actor_id
        };
        for event in std::iter::once(initial_event).chain(past).filter(is_wanted) {
            if sender.send(Ok(event)).await.is_err() {
                return;
            }
        }
        loop {
            match live.recv().await {
                Ok(event) if !is_wanted(&event) => {}
                Ok(event) => {
                    if sender.send(Ok(event)).await.is_err() {
                        return;
                    }
                }
                Err(RecvError::Lagged(_)) => {
                    let text = "buffer overrun: the client is too slow";
                    drop(sender.send(Err(Status::unknown(text))).await);
                    return;
                }
                Err(RecvError::Closed) => return,
            }
        }
    }))
}

/// Stored events that the request selects: the events after an event id, those of the last seconds, or the last few events. A
/// negative number of events selects all events.
fn tail(past: Vec<(Duration, Event)>, request: &EventsRequest, now: Duration) -> Vec<Event> {
    let mut past = past;
    if !request.tail_id.is_empty() {
        past.retain(|(_, event)| event.id > request.tail_id);
    } else if request.tail_seconds > 0 {
        let seconds = u64::try_from(request.tail_seconds).unwrap_or_default();
        past.retain(|(at, _)| *at >= now.saturating_sub(Duration::from_secs(seconds)));
    } else if request.tail_events >= 0 {
        let wanted = usize::try_from(request.tail_events).unwrap_or_default();
        past.drain(..past.len().saturating_sub(wanted));
    }
    past.into_iter().map(|(_, event)| event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_events_are_selected_by_id_age_or_count() {
        let past: Vec<(Duration, Event)> = [(10, "a"), (20, "b"), (30, "c")]
            .map(|(at, id)| {
                (Duration::from_secs(at), Event { id: id.to_owned(), ..Event::default() })
            })
            .to_vec();
        let now = Duration::from_secs(32);
        let ids = |request: EventsRequest| -> String {
            tail(past.clone(), &request, now).into_iter().map(|event| event.id).collect()
        };
        assert_eq!(ids(EventsRequest::default()), "");
        assert_eq!(ids(EventsRequest { tail_events: 2, ..EventsRequest::default() }), "bc");
        assert_eq!(ids(EventsRequest { tail_events: -1, ..EventsRequest::default() }), "abc");
        assert_eq!(ids(EventsRequest { tail_events: 9, ..EventsRequest::default() }), "abc");
        assert_eq!(ids(EventsRequest { tail_id: "b".into(), ..EventsRequest::default() }), "c");
        assert_eq!(ids(EventsRequest { tail_seconds: 15, ..EventsRequest::default() }), "bc");
    }
}
