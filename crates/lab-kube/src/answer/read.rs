//! Requests that get, list and watch objects.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Answer, show, shown};
use crate::failure::Failure;
use crate::heartbeat::with_heartbeat;
use crate::object;
use crate::printer;
use crate::request::{ObjectForm, Request, Target};
use crate::selector::Selector;
use crate::store::State;
use crate::watch::Watch;

/// Seconds after which a watch without `timeoutSeconds` ends.
const DEFAULT_WATCH_SECONDS: u64 = 1800;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'l> {
    kind: String,
    api_version: String,
    metadata: Value,
    items: Vec<&'l Value>,
}

pub(super) fn get(state: &State, request: &Request, target: &Target) -> Result<Answer, Failure> {
    let found = state.get(&target.kind.id, &target.namespace, &target.name);
    let found = found.ok_or_else(|| Failure::not_found(&target.kind, &target.name))?;
    let found = with_heartbeat(state, &target.kind.id, found);
    Ok(shown(state, request, target, 200, &found))
}

pub(super) fn selector(request: &Request, target: &Target) -> Result<Selector, Failure> {
    let labels = request.parameter("labelSelector");
    let selector = Selector::parse(labels, request.parameter("fieldSelector"));
    let selector = selector.map_err(Failure::bad_request)?;
    selector.check_fields(&target.kind).map_err(Failure::bad_request)?;
    Ok(selector)
}

/// Objects that a list or a `deletecollection` request selects.
pub(super) fn selected_objects(
    state: &State,
    target: &Target,
    selector: &Selector,
) -> Vec<Arc<Value>> {
    let is_selected = |object: &&Arc<Value>| selector.matches(object);
    if target.namespace.is_empty() {
        state.iter(&target.kind.id).filter(is_selected).cloned().collect()
    } else {
        let inside = state.in_namespace(&target.kind.id, &target.namespace);
        inside.filter(is_selected).cloned().collect()
    }
}

pub(super) fn list(state: &State, request: &Request, target: &Target) -> Result<Answer, Failure> {
    let mut objects = selected_objects(state, target, &selector(request, target)?);
    let key = |object: &Value| format!("{}/{}", object::namespace(object), object::name(object));
    let mut revision = state.revision;
    let token = request.parameter("continue");
    if !token.is_empty() {
        let (seen, after) =
            read_token(token).ok_or_else(|| Failure::bad_request("continue key is not valid"))?;
        let forgotten =
            state.kind_store(&target.kind.id).map_or(0, |kind_store| kind_store.forgotten);
        if seen < forgotten {
            return Err(Failure::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
            ));
        }
        revision = seen;
        objects.retain(|object| key(object) > after);
    }
    let limit = request.parameter("limit").parse().unwrap_or(0_usize);
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if limit > 0 && objects.len() > limit {
        let left = objects.len() - limit;
        objects.truncate(limit);
        let last = objects.last().map(|last| key(last)).unwrap_or_default();
        metadata["continue"] = write_token(revision, &last).into();
        metadata["remainingItemCount"] = left.into();
    }
    let kind = &target.kind;
    let form = request.form();
    if let ObjectForm::Table(include) = form {
        let rows = objects.iter().map(AsRef::as_ref);
        let table = printer::table(kind, &target.version, rows, include, &metadata, state.now);
        return Ok(Answer::json(200, &table));
    }
    let objects: Vec<_> =
        objects.iter().map(|object| with_heartbeat(state, &kind.id, object)).collect();
    let items: Vec<_> =
        objects.iter().map(|object| show(target, object, form, state.now)).collect();
    let (kind_name, api_version) = match form {
        ObjectForm::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
        _ => (kind.name.as_str(), kind.api_version(&target.version)),
    };
    let list = List {
        kind: format!("{kind_name}List"),
        api_version,
        metadata,
        items: items.iter().map(AsRef::as_ref).collect(),
    };
    Ok(Answer::json(200, &list))
}

fn write_token(revision: u64, last: &str) -> String {
    let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": last});
    URL_SAFE_NO_PAD.encode(token.to_string())
}

fn read_token(token: &str) -> Option<(u64, String)> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let token: Value = serde_json::from_slice(&bytes).ok()?;
    Some((token["rv"].as_u64()?, token["start"].as_str()?.to_owned()))
}

pub(super) fn watch(state: &State, request: &Request, target: &Target) -> Result<Answer, Failure> {
    let since = match request.parameter("resourceVersion") {
        "" | "0" => None,
        text => Some(
            text.parse()
                .map_err(|_| Failure::bad_request(format!("invalid resource version {text:?}")))?,
        ),
    };
    let initial_events = request.is_set("sendInitialEvents");
    let oldest = state.kind_store(&target.kind.id).map_or(0, |kind_store| kind_store.forgotten);
    if !initial_events && since.is_some_and(|since| since < oldest) {
        let since = since.unwrap_or_default();
        let message = format!("too old resource version: {since} ({oldest})");
        return Err(Failure::expired(message));
    }
    let timeout = request.parameter("timeoutSeconds").parse().unwrap_or(DEFAULT_WATCH_SECONDS);
    Ok(Answer::Watch(Box::new(Watch {
        target: target.clone(),
        selector: selector(request, target)?,
        form: request.form(),
        since: since.filter(|_| !initial_events),
        bookmarks: request.is_set("allowWatchBookmarks"),
        initial_events,
        timeout: Duration::from_secs(timeout),
    })))
}
