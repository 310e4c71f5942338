//! The resources of a node: read, listed, watched; never written.

use std::collections::BTreeMap;
use std::sync::Arc;

use talmox_talos_api::proto::cosi::resource::state_server::State;
use talmox_talos_api::proto::cosi::resource::{
    Event, EventType, GetRequest, GetResponse, ListRequest, ListResponse, Metadata, Resource,
    Spec as WireSpec, WatchRequest, WatchResponse,
};
use talmox_talos_api::server::{Answered, Asked, Status};
use tonic::codegen::BoxStream;

use super::status::timestamp;
use super::stream;
use super::{NodeApi, Session};
use crate::resource::{self, Definition, Found, Spec, View};

#[tonic::async_trait]
impl State for NodeApi {
    async fn get(&self, request: Asked<GetRequest>) -> Result<Answered<GetResponse>, Status> {
        let request = request.into_inner();
        let kind = authorize(&self.0, &request.namespace, &request.r#type)?;
        let found = list(&self.0, kind, &request.namespace)?;
        let one = found.into_iter().find(|found| found.item.id == request.id);
        let Some(found) = one else {
            let GetRequest { namespace, r#type, id, .. } = request;
            let text = format!("resource {type}({namespace}/{id}@undefined) doesn't exist");
            return Err(Status::not_found(text));
        };
        Ok(Answered::new(GetResponse { resource: Some(wire(kind, &found)) }))
    }

    async fn list(
        &self,
        request: Asked<ListRequest>,
    ) -> Result<Answered<BoxStream<ListResponse>>, Status> {
        let request = request.into_inner();
        let kind = authorize(&self.0, &request.namespace, &request.r#type)?;
        let found = list(&self.0, kind, &request.namespace)?;
        let answers = found.iter().map(|found| ListResponse { resource: Some(wire(kind, found)) });
        Ok(Answered::new(stream::all(answers.collect())))
    }

    async fn watch(
        &self,
        request: Asked<WatchRequest>,
    ) -> Result<Answered<BoxStream<WatchResponse>>, Status> {
        let request = request.into_inner();
        let kind = authorize(&self.0, &request.namespace, &request.r#type)?;
        let tells_past = request.options.is_some_and(|options| options.bootstrap_contents);
        if request.id.is_some() && tells_past {
            let text = "bootstrap contents is not implemented for resource watch";
            return Err(Status::unimplemented(text));
        }
        let watch = Watch { session: Arc::clone(&self.0), kind, request };
        Ok(Answered::new(stream::run(&self.0, |sender| watch.run(sender))))
    }
}

/// The kind, if the caller may see resources of it.
fn authorize(
    session: &Session,
    namespace: &str,
    name: &str,
) -> Result<&'static Definition, Status> {
    let denied = |text: String| Err(Status::permission_denied(text));
    let (found, has_namespace) = session.node(|node| {
        (resource::definition(node, name), resource::has_namespace(node, namespace))
    })?;
    let Some(kind) = found else {
        return denied(format!("resource type \"{name}\" is not supported"));
    };
    if kind.is_sensitive && !session.caller.is_admin() {
        return denied("not authorized".to_owned());
    }
    if !has_namespace {
        return denied(format!("namespace \"{namespace}\" is not supported"));
    }
    Ok(kind)
}

/// Resources live in one namespace each; in others there are none of their kind.
fn list(
    session: &Session,
    kind: &'static Definition,
    namespace: &str,
) -> Result<Vec<Found>, Status> {
    let simulation = &session.simulation;
    let (now, hypervisor) = (simulation.now(), &*simulation.hypervisor);
    let mut found = session
        .look(|talos, node| simulation.seen.list(&View { talos, node, hypervisor, now }, kind))?;
    if namespace != kind.namespace {
        found.clear();
    }
    found.sort_by(|one, other| one.item.id.cmp(&other.item.id));
    Ok(found)
}

fn wire(kind: &Definition, found: &Found) -> Resource {
    let spec = match &found.item.spec {
        Spec::Value(value) => {
            WireSpec { proto_spec: kind.to_proto(value), yaml_spec: resource::to_yaml(value) }
        }
        Spec::Text(text) => {
            let proto_spec = kind.to_proto(&text.as_str().into());
            WireSpec { proto_spec, yaml_spec: text.clone() }
        }
    };
    let annotations = found.item.annotations.iter();
    Resource {
        metadata: Some(Metadata {
            namespace: kind.namespace.to_owned(),
            r#type: kind.name.to_owned(),
            id: found.item.id.clone(),
            version: found.version.to_string(),
            owner: found.item.owner.unwrap_or(kind.owner).to_owned(),
            phase: "running".to_owned(),
            created: Some(timestamp(found.created)),
            updated: Some(timestamp(found.updated)),
            annotations: annotations.map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            ..Metadata::default()
        }),
        spec: Some(spec),
    }
}

struct Watch {
    session: Arc<Session>,
    kind: &'static Definition,
    request: WatchRequest,
}

impl Watch {
    async fn run(self, sender: stream::Sender<WatchResponse>) {
        let mut news = self.session.simulation.news();
        news.borrow_and_update();
        let Ok(mut known) = self.look() else { return };
        // An empty answer says that the watch has begun.
        let mut waiting = vec![WatchResponse::default()];
        waiting.extend(self.beginning(&known).into_iter().map(one));
        loop {
            for answer in waiting.drain(..) {
                if sender.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
            if news.changed().await.is_err() {
                return;
            }
            let Ok(now) = self.look() else { return };
            waiting.extend(self.changes(&known, &now).into_iter().map(one));
            known = now;
        }
    }

    fn look(&self) -> Result<BTreeMap<String, Found>, Status> {
        let found = list(&self.session, self.kind, &self.request.namespace)?;
        let is_meant =
            |found: &Found| self.request.id.as_ref().is_none_or(|id| found.item.id == *id);
        let meant = found.into_iter().filter(is_meant);
        Ok(meant.map(|found| (found.item.id.clone(), found)).collect())
    }

    /// One resource is told in any case, as missing if need be; all of a kind where it is wanted.
    fn beginning(&self, known: &BTreeMap<String, Found>) -> Vec<Event> {
        if let Some(id) = &self.request.id {
            return vec![known.get(id).map_or_else(
                || self.event(EventType::Destroyed, self.tombstone(id)),
                |found| self.event(EventType::Created, wire(self.kind, found)),
            )];
        }
        if !self.request.options.is_some_and(|options| options.bootstrap_contents) {
            return vec![];
        }
        let created =
            known.values().map(|found| self.event(EventType::Created, wire(self.kind, found)));
        let mut events: Vec<Event> = created.collect();
        // Older clients do not know this one.
        if self.request.api_version >= 1 {
            let done = Resource {
                metadata: Some(Metadata {
                    namespace: self.kind.namespace.to_owned(),
                    r#type: self.kind.name.to_owned(),
                    version: "undefined".to_owned(),
                    phase: "running".to_owned(),
                    ..Metadata::default()
                }),
                spec: Some(WireSpec::default()),
            };
            events.push(self.event(EventType::Bootstrapped, done));
        }
        events
    }

    fn changes(
        &self,
        before: &BTreeMap<String, Found>,
        now: &BTreeMap<String, Found>,
    ) -> Vec<Event> {
        let mut events = vec![];
        for (id, found) in before {
            let is_other = now.get(id).is_none_or(|now| now.created != found.created);
            if is_other {
                events.push(self.event(EventType::Destroyed, wire(self.kind, found)));
            }
        }
        for (id, found) in now {
            match before.get(id).filter(|before| before.created == found.created) {
                None => events.push(self.event(EventType::Created, wire(self.kind, found))),
                Some(old) if old.version == found.version => {}
                Some(old) => events.push(Event {
                    old: Some(wire(self.kind, old)),
                    ..self.event(EventType::Updated, wire(self.kind, found))
                }),
            }
        }
        events
    }

    fn event(&self, kind: EventType, resource: Resource) -> Event {
        Event { resource: Some(resource), event_type: kind.into(), old: None, error: None }
    }

    fn tombstone(&self, id: &str) -> Resource {
        Resource {
            metadata: Some(Metadata {
                namespace: self.kind.namespace.to_owned(),
                r#type: self.kind.name.to_owned(),
                id: id.to_owned(),
                version: "undefined".to_owned(),
                phase: "tearingDown".to_owned(),
                ..Metadata::default()
            }),
            spec: Some(WireSpec::default()),
        }
    }
}

fn one(event: Event) -> WatchResponse {
    WatchResponse { event: vec![event] }
}
