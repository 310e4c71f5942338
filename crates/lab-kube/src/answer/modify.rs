//! Requests that create, update, patch and delete objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::options;
use super::read;
use super::{Answer, shown};
use crate::failure::Failure;
use crate::fields;
use crate::object::{self, text};
use crate::patch::{self, Manager, PatchType};
use crate::request::{Request, Target};
use crate::security;
use crate::store::State;
use crate::validate;
use crate::write::{Deleted, Deletion, Part};

fn part(target: &Target) -> Part {
    if target.subresource == "status" && target.kind.status { Part::Status } else { Part::Main }
}

/// Calls `act` with the field manager of a request.
fn with_manager<T>(
    state: &State,
    request: &Request,
    target: &Target,
    act: impl FnOnce(&Manager<'_>) -> T,
) -> T {
    let (time, api_version) = (state.timestamp(), target.kind.api_version(&target.version));
    act(&Manager {
        name: request.manager(),
        subresource: &target.subresource,
        time: &time,
        api_version: &api_version,
    })
}

fn body(state: &mut State, request: &Request, target: &Target) -> Result<Value, Failure> {
    let media = request.content_type.split(';').next().unwrap_or_default().trim();
    let is_known = matches!(
        media,
        "" | "application/json" | "application/yaml" | "application/vnd.kubernetes.protobuf"
    );
    if !is_known && PatchType::parse(media).is_none() {
        return Err(Failure::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        ));
    }
    let mut body = request.json()?;
    if !body.is_object() {
        return Err(Failure::bad_request("the body of the request is not an object"));
    }
    let (kind, api_version) = (text(&body, "/kind"), text(&body, "/apiVersion"));
    let expected = target.kind.api_version(&target.version);
    let is_other = (!kind.is_empty() && kind != target.kind.name)
        || (!api_version.is_empty() && api_version != expected);
    if is_other {
        return Err(Failure::bad_request(format!(
            "{kind} in version \"{api_version}\" cannot be handled as a {}: no kind \"{kind}\" is registered for version \"{expected}\"",
            target.kind.name
        )));
    }
    validate::shape(&target.kind, &body)?;
    if PatchType::parse(media) == Some(PatchType::Apply) {
        fields::check_applied(target, &body)?;
    } else {
        fields::check(state, request, target, &mut body)?;
    }
    object::metadata(&mut body).shift_remove("managedFields");
    Ok(body)
}

pub(super) fn create(
    state: &mut State,
    request: &Request,
    target: &Target,
) -> Result<Answer, Failure> {
    if target.kind.namespaced && target.namespace.is_empty() {
        return Err(Failure::method_not_allowed());
    }
    let mut new = body(state, request, target)?;
    with_manager(state, request, target, |manager| {
        patch::track(&target.kind, &Value::Null, &mut new, manager);
    });
    let made = finish_create(state, request, target, &target.namespace, new)?;
    Ok(shown(state, request, target, 201, &made))
}

fn finish_create(
    state: &mut State,
    request: &Request,
    target: &Target,
    namespace: &str,
    new: Value,
) -> Result<Arc<Value>, Failure> {
    let made = if request.is_dry() {
        state.prepare_new(&target.kind, namespace, new).map(Arc::new)?
    } else {
        state.create(&target.kind, namespace, new)?
    };
    warn(state, target, None, &made);
    Ok(made)
}

/// Adds the PodSecurity warnings about a written object to the answer.
fn warn(state: &mut State, target: &Target, old: Option<&Value>, new: &Value) {
    let warnings = security::warnings(state, &target.kind, old, new);
    state.warnings.extend(warnings);
}

fn existing(state: &State, target: &Target) -> Result<Arc<Value>, Failure> {
    let found = state.get(&target.kind.id, &target.namespace, &target.name).cloned();
    found.ok_or_else(|| Failure::not_found(&target.kind, &target.name))
}

pub(super) fn update(
    state: &mut State,
    request: &Request,
    target: &Target,
) -> Result<Answer, Failure> {
    let new = body(state, request, target)?;
    if object::name(&new).is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        )));
    }
    let namespace = object::namespace(&new);
    if !namespace.is_empty() && namespace != target.namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let old = existing(state, target)?;
    let mut new = state.prepare_update(&target.kind, &old, new, part(target))?;
    with_manager(state, request, target, |manager| {
        patch::track(&target.kind, &old, &mut new, manager);
    });
    Ok(finish_update(state, request, target, &old, new))
}

fn finish_update(
    state: &mut State,
    request: &Request,
    target: &Target,
    old: &Arc<Value>,
    new: Value,
) -> Answer {
    if target.subresource.is_empty() {
        warn(state, target, Some(old), &new);
    }
    let stored =
        if request.is_dry() { Arc::new(new) } else { state.store_update(&target.kind, old, new) };
    shown(state, request, target, 200, &stored)
}

pub(super) fn patch(
    state: &mut State,
    request: &Request,
    target: &Target,
) -> Result<Answer, Failure> {
    let Some(how) = PatchType::parse(&request.content_type) else {
        return Err(Failure::unsupported_media_type("415: Unsupported Media Type"));
    };
    if how == PatchType::Apply {
        return apply(state, request, target);
    }
    let patch = request.json()?;
    let old = existing(state, target)?;
    let mut new = patch::patched(&target.kind, how, &old, &patch)?;
    fields::check_patched(state, request, target, &old, &mut new)?;
    let mut new = state.prepare_update(&target.kind, &old, new, part(target))?;
    with_manager(state, request, target, |manager| {
        patch::track(&target.kind, &old, &mut new, manager);
    });
    Ok(finish_update(state, request, target, &old, new))
}

fn apply(state: &mut State, request: &Request, target: &Target) -> Result<Answer, Failure> {
    let config = body(state, request, target)?;
    let name = object::name(&config);
    if !name.is_empty() && name != target.name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    let force = request.is_set("force");
    let merged = |state: &State, live: &Value| {
        with_manager(state, request, target, |manager| {
            patch::apply(&target.kind, live, &config, manager, force)
        })
    };
    let Ok(old) = existing(state, target) else {
        if !target.subresource.is_empty() {
            return Err(Failure::not_found(&target.kind, &target.name));
        }
        let mut new = merged(state, &json!({}))?;
        object::metadata(&mut new).insert("name".to_owned(), target.name.as_str().into());
        let made = finish_create(state, request, target, &target.namespace, new)?;
        return Ok(shown(state, request, target, 201, &made));
    };
    let mut new = merged(state, &old)?;
    let managed = object::metadata(&mut new).get("managedFields").cloned();
    let mut new = state.prepare_update(&target.kind, &old, new, part(target))?;
    if let Some(managed) = managed {
        object::metadata(&mut new).insert("managedFields".to_owned(), managed);
    }
    Ok(finish_update(state, request, target, &old, new))
}

/// Reads the options of a deletion from the body or the query.
fn deletion(request: &Request) -> Result<Deletion, Failure> {
    let body = if request.body.is_empty() { Value::Null } else { request.json()? };
    let given = |key: &str| {
        let text = body[key].as_str().unwrap_or_else(|| request.parameter(key));
        (!text.is_empty()).then(|| text.to_owned())
    };
    let precondition = |key: &str| body["preconditions"][key].as_str().map(str::to_owned);
    options::check_deletion(&body, given("propagationPolicy").as_deref())?;
    let orphans = body["orphanDependents"].as_bool().unwrap_or(request.is_set("orphanDependents"));
    Ok(Deletion {
        grace: body["gracePeriodSeconds"]
            .as_u64()
            .or_else(|| request.parameter("gracePeriodSeconds").parse().ok()),
        propagation: given("propagationPolicy").or_else(|| orphans.then(|| "Orphan".to_owned())),
        uid: precondition("uid"),
        resource_version: precondition("resourceVersion"),
        dry_run: request.is_dry() || object::list(&body, "/dryRun").iter().any(|how| how == "All"),
    })
}

pub(super) fn delete(
    state: &mut State,
    request: &Request,
    target: &Target,
) -> Result<Answer, Failure> {
    let kind = &target.kind;
    let how = deletion(request)?;
    match state.delete(kind, &target.namespace, &target.name, &how)? {
        Deleted::Going(object) => Ok(shown(state, request, target, 200, &object)),
        Deleted::Gone(object) if kind.id == "pods" => {
            Ok(shown(state, request, target, 200, &object))
        }
        Deleted::Gone(object) => {
            let mut details = json!({
                "name": target.name,
                "kind": kind.plural,
                "uid": object::uid(&object),
            });
            if !kind.group.is_empty() {
                details["group"] = kind.group.as_str().into();
            }
            let status = json!({
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": details,
            });
            Ok(Answer::json(200, &status))
        }
    }
}

pub(super) fn delete_all(
    state: &mut State,
    request: &Request,
    target: &Target,
) -> Result<Answer, Failure> {
    let how = deletion(request)?;
    let objects = read::selected_objects(state, target, &read::selector(request, target)?);
    for object in &objects {
        // The object may have been deleted since it was listed, so an error here is ignored.
        state.delete(&target.kind, object::namespace(object), object::name(object), &how).ok();
    }
    let items: Vec<&Value> = objects.iter().map(AsRef::as_ref).collect();
    Ok(Answer::json(
        200,
        &json!({
            "kind": format!("{}List", target.kind.name),
            "apiVersion": target.kind.api_version(&target.version),
            "metadata": {"resourceVersion": state.revision.to_string()},
            "items": items,
        }),
    ))
}
