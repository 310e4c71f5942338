//! Subresources that are not part of their object: eviction, binding, scale, logs and others.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Answer;
use crate::controller::disruption;
use crate::failure::Failure;
use crate::kind::ScalePaths;
use crate::object::{self, list, number, text};
use crate::patch::{self, PatchType};
use crate::request::{Request, Target};
use crate::selector::Selector;
use crate::store::State;
use crate::token;
use crate::validate;
use crate::write::Deletion;

pub(super) fn answer(
    state: &mut State,
    request: &Request,
    target: &Target,
) -> Result<Answer, Failure> {
    let method = request.method.as_str();
    let subresource = target.subresource.as_str();
    let is_known = match target.kind.id.as_str() {
        "pods" => {
            matches!(
                subresource,
                "eviction" | "binding" | "log" | "exec" | "attach" | "portforward"
            )
        }
        "namespaces" => subresource == "finalize",
        "serviceaccounts" => subresource == "token",
        _ => false,
    } || (subresource == "scale" && target.kind.scale.is_some());
    if !is_known {
        return Err(Failure::no_such_resource());
    }
    let found = state.get(&target.kind.id, &target.namespace, &target.name).cloned();
    let found = found.ok_or_else(|| Failure::not_found(&target.kind, &target.name))?;
    match (method, subresource) {
        ("POST", "eviction") => evict(state, request, target, &found),
        ("POST", "binding") => bind(state, request, target),
        ("POST", "token") => Ok(Answer::json(201, &token::issue(state, &found, &request.json()?)?)),
        ("GET", "log") => logs(state, request, &found),
        ("GET" | "POST", "exec" | "attach" | "portforward") => {
            let problem = format!("error dialing backend: {}", kubelet_error(state, &found));
            Err(Failure::no_kubelet(problem))
        }
        ("PUT", "finalize") => finalize(state, request, target),
        ("GET" | "PUT" | "PATCH", "scale") => scale(state, request, target, &found),
        _ => Err(Failure::method_not_allowed()),
    }
}

/// Error message of a failed connection to the kubelet of a pod. A simulated kubelet listens on no port.
fn kubelet_error(state: &State, pod: &Value) -> String {
    format!("dial tcp {}: connect: connection refused", kubelet(state, pod))
}

fn kubelet(state: &State, pod: &Value) -> String {
    let node = state.get("nodes", "", text(pod, "/spec/nodeName"));
    let address = node.map_or("", |node| text(node, "/status/addresses/0/address"));
    format!("{address}:10250")
}

/// Answers a request for the logs of a pod. The log of an unscheduled pod is empty. For other pods, the connection to the
/// kubelet fails.
fn logs(state: &State, request: &Request, pod: &Value) -> Result<Answer, Failure> {
    if text(pod, "/spec/nodeName").is_empty() {
        return Ok(Answer::Text(200, String::new()));
    }
    let containers = list(pod, "/spec/containers");
    let container = match request.parameter("container") {
        "" => containers.first().map_or("", |first| text(first, "/name")),
        named => named,
    };
    if !containers.iter().any(|one| one["name"] == container) {
        let message = format!("container {container} is not valid for pod {}", object::name(pod));
        return Err(Failure::bad_request(message));
    }
    let path = format!("{}/{}/{container}", object::namespace(pod), object::name(pod));
    Err(Failure::no_kubelet(format!(
        "Get \"https://{}/containerLogs/{path}\": {}",
        kubelet(state, pod),
        kubelet_error(state, pod)
    )))
}

fn success(code: u16) -> Answer {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": code,
    });
    Answer::json(code, &status)
}

fn evict(
    state: &mut State,
    request: &Request,
    target: &Target,
    pod: &Arc<Value>,
) -> Result<Answer, Failure> {
    let eviction = request.json()?;
    disruption::check(state, pod)?;
    let options = &eviction["deleteOptions"];
    let how = Deletion {
        grace: options["gracePeriodSeconds"].as_u64(),
        uid: options["preconditions"]["uid"].as_str().map(str::to_owned),
        dry_run: request.is_dry() || list(options, "/dryRun").iter().any(|how| how == "All"),
        ..Deletion::default()
    };
    state.delete(&target.kind, &target.namespace, &target.name, &how)?;
    Ok(success(201))
}

fn bind(state: &mut State, request: &Request, target: &Target) -> Result<Answer, Failure> {
    let binding = request.json()?;
    let node = text(&binding, "/target/name");
    state.change("pods", &target.namespace, &target.name, |pod| {
        pod["spec"]["nodeName"] = node.into();
    });
    Ok(success(201))
}

fn finalize(state: &mut State, request: &Request, target: &Target) -> Result<Answer, Failure> {
    let wanted = request.json()?;
    let finalizers = wanted["spec"].get("finalizers").cloned().unwrap_or_else(|| json!([]));
    state.change("namespaces", "", &target.name, |namespace| {
        namespace["spec"]["finalizers"] = finalizers;
    });
    Ok(Answer::json(200, &wanted))
}

fn scale(
    state: &mut State,
    request: &Request,
    target: &Target,
    found: &Value,
) -> Result<Answer, Failure> {
    let paths = target.kind.scale.clone().unwrap_or_else(ScalePaths::built_in);
    let shown = |object: &Value| {
        let selector = match &paths.selector {
            Some(path) => text(object, path).to_owned(),
            None => Selector::of_object(&object["spec"]["selector"]).to_string(),
        };
        json!({
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {
                "name": object::name(object),
                "namespace": object::namespace(object),
                "uid": object::uid(object),
                "resourceVersion": object["metadata"]["resourceVersion"],
                "creationTimestamp": object["metadata"]["creationTimestamp"],
            },
            "spec": {"replicas": number(object, &paths.wanted).unwrap_or_default()},
            "status": {
                "replicas": number(object, &paths.current).unwrap_or_default(),
                "selector": selector,
            },
        })
    };
    let now = shown(found);
    let wanted = match request.method.as_str() {
        "GET" => return Ok(Answer::json(200, &now)),
        "PUT" => request.json()?,
        _ => {
            let how = PatchType::parse(&request.content_type).unwrap_or(PatchType::Merge);
            patch::patched(&target.kind, how, &now, &request.json()?)?
        }
    };
    let seen = text(&wanted, "/metadata/resourceVersion");
    if !seen.is_empty() && seen != text(&now, "/metadata/resourceVersion") {
        return Err(Failure::modified(&target.kind, &target.name));
    }
    if let Some(problem) = validate::negative(&wanted["spec"]["replicas"]) {
        return Err(Failure::invalid_scale(&target.name, &problem));
    }
    let replicas = number(&wanted, "/spec/replicas").unwrap_or_default();
    if request.is_dry() {
        let mut would = now;
        would["spec"]["replicas"] = replicas.into();
        return Ok(Answer::json(200, &would));
    }
    state.change(&target.kind.id, &target.namespace, &target.name, |object| {
        let mut place = object;
        for field in paths.wanted.split('/').skip(1) {
            if !place.is_object() && !place.is_null() {
                return;
            }
            place = &mut place[field];
        }
        *place = replicas.into();
    });
    let after = state.get(&target.kind.id, &target.namespace, &target.name);
    Ok(Answer::json(200, &after.map_or(now, |after| shown(after))))
}
