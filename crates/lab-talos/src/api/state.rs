//! COSI state API. Resources of a node can be read, listed and watched, but not written.

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
use crate::resource::{self, Definition, ResourceContext, Spec, VersionedResource};

#[tonic::async_trait]
impl State for NodeApi {
    async fn get(&self, request: Asked<GetRequest>) -> Result<Answered<GetResponse>, Status> {
        let request = request.into_inner();
        let kind = authorize(&self.0, &request.namespace, &request.r#type)?;
        let found = list(&self.0, kind, &request.namespace)?;
        let matching = found.into_iter().find(|found| found.item.id == request.id);
        let Some(found) = matching else {
            let GetRequest { namespace, r#type, id, .. } = request;
            let text = format!("resource {type}({namespace}/{id}@undefined) doesn't exist");
            return Err(Status::not_found(text));
        };
        Ok(Answered::new(GetResponse { resource: Some(to_resource(kind, &found)) }))
    }

    async fn list(
        &self,
        request: Asked<ListRequest>,
    ) -> Result<Answered<BoxStream<ListResponse>>, Status> {
        let request = request.into_inner();
        let kind = authorize(&self.0, &request.namespace, &request.r#type)?;
        let found = list(&self.0, kind, &request.namespace)?;
        let answers =
            found.iter().map(|found| ListResponse { resource: Some(to_resource(kind, found)) });
        Ok(Answered::new(stream::all(answers.collect())))
    }

    async fn watch(
        &self,
        request: Asked<WatchRequest>,
    ) -> Result<Answered<BoxStream<WatchResponse>>, Status> {
        let request = request.into_inner();
        let kind = authorize(&self.0, &request.namespace, &request.r#type)?;
        let wants_bootstrap = request.options.is_some_and(|options| options.bootstrap_contents);
        if request.id.is_some() && wants_bootstrap {
            let text = "bootstrap contents is not implemented for resource watch";
            return Err(Status::unimplemented(text));
        }
        let watch = ResourceWatch { session: Arc::clone(&self.0), kind, request };
        Ok(Answered::new(stream::run(&self.0, |sender| watch.run(sender))))
    }
}

/// Definition of the resource type, if the caller may read it.
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

/// Resources of a type. All resources of a type are in one namespace; in other namespaces the list is empty.
fn list(
    session: &Session,
    kind: &'static Definition,
    namespace: &str,
) -> Result<Vec<VersionedResource>, Status> {
    let simulation = &session.simulation;
    let now = simulation.now();
    let mut found = session.look(|talos, node| {
        simulation.resource_versions.list(&ResourceContext { talos, node, now }, kind)
    })?;
    if namespace != kind.namespace {
        found.clear();
    }
    found.sort_by(|one, other| one.item.id.cmp(&other.item.id));
    Ok(found)
}

fn to_resource(kind: &Definition, found: &VersionedResource) -> Resource {
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

struct ResourceWatch {
    session: Arc<Session>,
    kind: &'static Definition,
    request: WatchRequest,
}

impl ResourceWatch {
    async fn run(self, sender: stream::Sender<WatchResponse>) {
        let mut state_changes = self.session.simulation.state_changes();
        state_changes.borrow_and_update();
        let Ok(mut known) = self.look() else { return };
        // An empty first answer confirms that the watch has started.
        let mut waiting = vec![WatchResponse::default()];
        waiting.extend(self.initial_events(&known).into_iter().map(single_event));
        loop {
            for answer in waiting.drain(..) {
                if sender.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
            if state_changes.changed().await.is_err() {
                return;
            }
            let Ok(now) = self.look() else { return };
            waiting.extend(self.changes(&known, &now).into_iter().map(single_event));
            known = now;
        }
    }

    fn look(&self) -> Result<BTreeMap<String, VersionedResource>, Status> {
        let found = list(&self.session, self.kind, &self.request.namespace)?;
        let is_meant = |found: &VersionedResource| {
            self.request.id.as_ref().is_none_or(|id| found.item.id == *id)
        };
        let meant = found.into_iter().filter(is_meant);
        Ok(meant.map(|found| (found.item.id.clone(), found)).collect())
    }

    /// Initial events of a watch. A watch of a single resource always starts with an event about that resource. If the resource
    /// does not exist, the event is of type destroyed. A watch of a type starts with events about all resources only if the
    /// client requests them.
    fn initial_events(&self, known: &BTreeMap<String, VersionedResource>) -> Vec<Event> {
        if let Some(id) = &self.request.id {
            return vec![known.get(id).map_or_else(
                || self.event(EventType::Destroyed, self.tombstone(id)),
                |found| self.event(EventType::Created, to_resource(self.kind, found)),
            )];
        }
        if !self.request.options.is_some_and(|options| options.bootstrap_contents) {
            return vec![];
        }
        let created = known
            .values()
            .map(|found| self.event(EventType::Created, to_resource(self.kind, found)));
        let mut events: Vec<Event> = created.collect();
        // Clients with an older version of the API do not support this event.
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
        before: &BTreeMap<String, VersionedResource>,
        now: &BTreeMap<String, VersionedResource>,
    ) -> Vec<Event> {
        let mut events = vec![];
        for (id, found) in before {
            let is_other = now.get(id).is_none_or(|now| now.created != found.created);
            if is_other {
                events.push(self.event(EventType::Destroyed, to_resource(self.kind, found)));
            }
        }
        for (id, found) in now {
            match before.get(id).filter(|before| before.created == found.created) {
                None => events.push(self.event(EventType::Created, to_resource(self.kind, found))),
                Some(old) if old.version == found.version => {}
                Some(old) => events.push(Event {
                    old: Some(to_resource(self.kind, old)),
                    ..self.event(EventType::Updated, to_resource(self.kind, found))
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

fn single_event(event: Event) -> WatchResponse {
    WatchResponse { event: vec![event] }
}
