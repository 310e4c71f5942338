//! Dispatch of an API request to the code that answers it.

mod modify;
mod options;
mod read;
mod review;
mod subresource;

use std::borrow::Cow;
use std::time::Duration;

use hyper::body::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::auth::AccessRequest;
use super::discovery;
use super::failure::Failure;
use super::printer;
use super::request::{ObjectForm, Request, Target};
use super::store::State;
use super::watch::Watch;

/// Answer to a Kubernetes API request.
#[derive(Debug)]
pub(crate) enum Answer {
    Json(u16, Bytes),
    /// Aggregated discovery document, which lists all API groups and resources.
    Aggregated(Bytes),
    /// OpenAPI v2 document as a protocol buffer. Older clients read only this form.
    OldOpenApi(Bytes),
    Text(u16, String),
    Watch(Box<Watch>),
}

impl Answer {
    fn json(code: u16, value: &impl Serialize) -> Self {
        // Serializing a `Value` or a list of them cannot fail.
        Self::Json(code, serde_json::to_vec(value).unwrap_or_default().into())
    }
}

/// Returns the answer to a request, and the texts for its `Warning` headers.
pub(crate) fn answer(state: &mut State, request: &Request) -> (Answer, Vec<String>) {
    state.warnings.clear();
    let answer = match find_answer(state, request) {
        Ok(answer) => answer,
        Err(failure) => Answer::json(failure.code, &failure.to_json()),
    };
    (answer, std::mem::take(&mut state.warnings))
}

/// Answers a request with administrator rights, without a network connection.
pub fn ask(
    store: &super::KubeStore,
    method: &str,
    path: &str,
    media: &str,
    body: &str,
) -> (u16, Value, Vec<String>) {
    use super::request;

    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let steps = path.split('/').filter(|step| !step.is_empty());
    let request = Request {
        method: method.to_owned(),
        path: steps.map(|step| request::decode(step, false)).collect(),
        query: request::query(query),
        accept: String::new(),
        content_type: media.to_owned(),
        user_agent: String::new(),
        server_version: "v1.34.1".into(),
        body: body.as_bytes().to_vec(),
        user: super::auth::User {
            name: "admin".to_owned(),
            groups: vec!["system:masters".to_owned()],
        },
    };
    let (answer, warnings) = store.with(|state| answer(state, &request));
    match answer {
        Answer::Json(code, bytes) => {
            (code, serde_json::from_slice(&bytes).unwrap_or_default(), warnings)
        }
        _ => (200, Value::Null, warnings),
    }
}

fn find_answer(state: &mut State, request: &Request) -> Result<Answer, Failure> {
    if let Some(target) = Target::find(&state.kinds, &request.path) {
        authorize(state, request, &target)?;
        return object_request(state, request, &target);
    }
    let path = format!("/{}", request.path.join("/"));
    if let Some(review) = review::answer(state, request, &path)? {
        return Ok(review);
    }
    let verb = request.method.to_lowercase();
    let access = AccessRequest {
        verb: &verb,
        path: &path,
        group: "",
        resource: "",
        namespace: "",
        name: "",
    };
    if !request.user.may(state, &access) {
        return Err(Failure::forbidden_path(&request.user.name, &verb, &path));
    }
    server_info(state, request).ok_or_else(Failure::no_such_resource)
}

fn server_info(state: &State, request: &Request) -> Option<Answer> {
    let kinds = &state.kinds;
    let steps: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let wants_all =
        request.accept.contains("as=APIGroupDiscoveryList") && request.accept.contains("v=v2;");
    let value = match steps.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => return Some(Answer::Text(200, "ok".to_owned())),
        ["api" | "apis"] if wants_all => {
            let all = discovery::aggregated(kinds, steps[0] == "api");
            return Some(Answer::Aggregated(serde_json::to_vec(&all).unwrap_or_default().into()));
        }
        ["version"] => version(&request.server_version),
        ["api"] => discovery::core_versions(),
        ["apis"] => discovery::groups(kinds),
        ["apis", group] => discovery::one_group(kinds, group)?,
        ["api", version] => discovery::resources(kinds, "", version)?,
        ["apis", group, version] => discovery::resources(kinds, group, version)?,
        ["openapi", "v2"] if request.accept.contains("proto-openapi") => {
            return Some(Answer::OldOpenApi(discovery::OPENAPI_V2.into()));
        }
        ["openapi", "v2"] => discovery::openapi_v2(),
        ["openapi", "v3"] => discovery::openapi_root(kinds),
        ["openapi", "v3", "api", version] => discovery::openapi(kinds, "", version)?,
        ["openapi", "v3", "apis", group, version] => discovery::openapi(kinds, group, version)?,
        _ => return None,
    };
    Some(Answer::json(200, &value))
}

fn version(version: &str) -> Value {
    let mut parts = version.trim_start_matches('v').split('.');
    json!({
        "major": parts.next().unwrap_or_default(),
        "minor": parts.next().unwrap_or_default(),
        "gitVersion": version,
        "gitTreeState": "clean",
        "compiler": "gc",
        "platform": "linux/amd64",
    })
}

fn authorize(state: &State, request: &Request, target: &Target) -> Result<(), Failure> {
    let is_list = target.name.is_empty();
    let verb = match request.method.as_str() {
        "GET" if request.is_set("watch") => "watch",
        "GET" if is_list => "list",
        "GET" | "HEAD" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if is_list => "deletecollection",
        _ => "delete",
    };
    let resource = match target.subresource.as_str() {
        "" => Cow::Borrowed(target.kind.plural.as_str()),
        part => Cow::Owned(format!("{}/{part}", target.kind.plural)),
    };
    let access = AccessRequest {
        verb,
        group: &target.kind.group,
        resource: &resource,
        namespace: &target.namespace,
        name: &target.name,
        path: "",
    };
    if request.user.may(state, &access) {
        return Ok(());
    }
    Err(Failure::forbidden(&target.kind, &target.name, &access.rejection(&request.user.name)))
}

fn object_request(
    state: &mut State,
    request: &Request,
    target: &Target,
) -> Result<Answer, Failure> {
    let is_list = target.name.is_empty();
    let method = request.method.as_str();
    let is_there = match target.subresource.as_str() {
        "status" => target.kind.status,
        "approval" => target.kind.plural == "certificatesigningrequests",
        _ => true,
    };
    if !is_there {
        return Err(Failure::no_such_resource());
    }
    options::check(request, is_list)?;
    match (method, target.subresource.as_str()) {
        ("GET", "" | "status") if request.is_set("watch") => read::watch(state, request, target),
        ("GET", "") if is_list => read::list(state, request, target),
        ("GET", "" | "status" | "approval") => read::get(state, request, target),
        ("POST", "") if is_list => modify::create(state, request, target),
        ("PUT", "" | "status" | "approval") if !is_list => modify::update(state, request, target),
        ("PATCH", "" | "status" | "approval") if !is_list => modify::patch(state, request, target),
        ("DELETE", "") if !is_list => modify::delete(state, request, target),
        ("DELETE", "") if target.kind.supports_delete_collection() => {
            modify::delete_all(state, request, target)
        }
        (_, "") => Err(Failure::method_not_allowed()),
        (_, _) => subresource::answer(state, request, target),
    }
}

/// Converts an object to the API version of a request and to the form that the client accepts: object, table or metadata only.
pub(super) fn show<'o>(
    target: &Target,
    object: &'o Value,
    form: ObjectForm,
    now: Duration,
) -> Cow<'o, Value> {
    let kind = &target.kind;
    match form {
        ObjectForm::Table(include) => {
            let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
            let objects = std::iter::once(object);
            let table = printer::table(kind, &target.version, objects, include, &metadata, now);
            Cow::Owned(table)
        }
        ObjectForm::Metadata => Cow::Owned(json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": object["metadata"],
        })),
        ObjectForm::Full if target.version == kind.versions[0] => Cow::Borrowed(object),
        ObjectForm::Full => {
            let mut other = object.clone();
            other["apiVersion"] = kind.api_version(&target.version).into();
            Cow::Owned(other)
        }
    }
}

/// Builds the answer that shows one object.
fn shown(state: &State, request: &Request, target: &Target, code: u16, object: &Value) -> Answer {
    Answer::json(code, &*show(target, object, request.form(), state.now))
}
