//! `/nodes/{node}/tasks`: list, status and log of tasks, and the call that stops a task.

use std::cmp::Reverse;
use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::{Map, Value as Json, json};

use crate::ApiError;
use crate::api::reply::data;
use crate::call::{Call, Outcome, Reply};
use crate::pve_state::{Caller, PveState, Task, TaskState};

const PAGE: i64 = 50;

/// Answers `GET /nodes/{node}/tasks`: finished tasks, running tasks or both, newest first.
pub(super) fn list(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let source = call.params.text("source").unwrap_or("archive");
    let audits = pve_state.allowed(&call.caller, &format!("/nodes/{}", call.node), &["Sys.Audit"]);
    let mut tasks: Vec<&Task> =
        pve_state.tasks.iter().filter(|task| task.node == call.node).collect();
    tasks.sort_by_key(|task| match &task.state {
        TaskState::Running { .. } => (false, Reverse((task.started, task.pid))),
        TaskState::Stopped { ended, .. } => (true, Reverse((*ended, task.pid))),
    });
    let number = |name, default| call.params.number(name).unwrap_or(default);
    let (start, limit) = (number("start", 0), number("limit", PAGE));
    let (mut total, mut shown) = (0, vec![]);
    for task in tasks {
        let runs = matches!(task.state, TaskState::Running { .. });
        if source == "archive" && runs || source == "active" && !runs {
            continue;
        }
        if !(audits || may_see(call, task)) || !matches_filter(call, task) {
            continue;
        }
        total += 1;
        if total > start && total <= start.saturating_add(limit) {
            shown.push(Json::Object(listed(task)));
        }
    }
    let total = u64::try_from(total).unwrap_or_default();
    Ok(Reply::Page { data: json!(shown), total })
}

/// Whether a caller without `Sys.Audit` may see a task in the list.
///
/// - A running task is visible only to the user or token that started it.
/// - A finished task is also visible to the user whose token started it.
fn may_see(call: &Call, task: &Task) -> bool {
    match &task.state {
        TaskState::Running { .. } => task.owner == call.caller.to_string(),
        TaskState::Stopped { .. } => owns(&call.caller, &task.owner),
    }
}

fn owns(caller: &Caller, owner: &str) -> bool {
    let owner = Caller::parse(owner);
    *caller == owner || caller.token.is_none() && caller.user == owner.user
}

fn matches_filter(call: &Call, task: &Task) -> bool {
    let params = &call.params;
    let user = match &task.state {
        TaskState::Running { .. } => task.owner.clone(),
        TaskState::Stopped { .. } => Caller::parse(&task.owner).user,
    };
    let user = user.to_lowercase();
    let given = |name| params.text(name).filter(|text| !text.is_empty());
    let started = i64::try_from(task.started).unwrap_or(i64::MAX);
    given("userfilter").is_none_or(|wanted| user.contains(&wanted.to_lowercase()))
        && given("typefilter").is_none_or(|wanted| task.kind == wanted)
        && given("vmid").is_none_or(|wanted| task.id == wanted)
        && params.number("since").is_none_or(|since| started >= since)
        && params.number("until").is_none_or(|until| started <= until)
        && matches_status_filter(call, task)
}

fn matches_status_filter(call: &Call, task: &Task) -> bool {
    let status = match &task.state {
        TaskState::Running { .. } => "unknown",
        TaskState::Stopped { exit, .. } => match exit.as_str() {
            "OK" => "ok",
            "unexpected status" => "unknown",
            exit if exit.starts_with("WARNINGS: ") => "warning",
            _ => "error",
        },
    };
    if call.params.flag("errors").unwrap_or_default() {
        return status != "ok";
    }
    let wanted = call.params.list("statusfilter");
    wanted.is_empty() || wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(status))
}

fn listed(task: &Task) -> Map<String, Json> {
    let mut entry = decoded(task);
    match &task.state {
        TaskState::Running { .. } => {
            entry.insert("user".to_owned(), json!(task.owner));
            entry.remove("tokenid");
            entry.remove("pstart");
            entry.insert("status".to_owned(), json!("RUNNING"));
        }
        TaskState::Stopped { exit, ended } => {
            entry.insert("endtime".to_owned(), json!(ended));
            entry.insert("status".to_owned(), json!(exit));
        }
    }
    entry
}

/// Fields of a task that its UPID encodes.
pub(in crate::api) fn decoded(task: &Task) -> Map<String, Json> {
    let owner = Caller::parse(&task.owner);
    let mut entry = Map::new();
    let mut add = |name: &str, value: Json| entry.insert(name.to_owned(), value);
    add("upid", json!(task.upid()));
    add("node", json!(task.node));
    add("pid", json!(task.pid));
    add("pstart", json!(task.pstart));
    add("starttime", json!(task.started));
    add("type", json!(task.kind));
    add("id", json!(task.id));
    add("user", json!(owner.user));
    if let Some(token) = owner.token {
        add("tokenid", json!(token));
    }
    entry
}

pub(super) fn status(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let upid = parse(call)?;
    let task = find(call, &pve_state, &upid)?;
    check_owner(call, &pve_state, &upid, "Sys.Audit")?;
    let mut shown = decoded(task);
    match &task.state {
        TaskState::Running { .. } => {
            shown.insert("status".to_owned(), json!("running"));
        }
        TaskState::Stopped { exit, .. } => {
            shown.insert("status".to_owned(), json!("stopped"));
            shown.insert("exitstatus".to_owned(), json!(exit));
        }
    }
    data(shown)
}

/// Answers `GET …/tasks/{upid}/log`: lines numbered from 1. For an empty log, the answer is one line that says so.
pub(super) fn log(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let upid = parse(call)?;
    check_owner(call, &pve_state, &upid, "Sys.Audit")?;
    let line = |number: usize, text: &str| json!({ "n": number, "t": text });
    let alone = |text| Ok(Reply::Page { data: json!([line(1, text)]), total: 1 });
    let Ok(task) = find(call, &pve_state, &upid) else {
        return alone("unable to open file - No such file or directory");
    };
    if task.log.is_empty() {
        return alone("no content");
    }
    let number = |name, default| {
        usize::try_from(call.params.number(name).unwrap_or(default)).unwrap_or_default()
    };
    let (start, limit) = (number("start", 0), number("limit", PAGE));
    let limit = if limit == 0 { usize::MAX } else { limit };
    let lines = task.log.iter().enumerate().skip(start).take(limit);
    let shown: Vec<Json> = lines.map(|(index, text)| line(index + 1, text)).collect();
    let total = u64::try_from(task.log.len()).unwrap_or_default();
    Ok(Reply::Page { data: json!(shown), total })
}

/// Answers `DELETE …/tasks/{upid}`: stops a running task. The call also succeeds for a finished task.
pub(super) fn stop(call: &Call) -> Outcome {
    let mut pve_state = call.pve_state();
    let upid = parse(call)?;
    find(call, &pve_state, &upid)?;
    check_owner(call, &pve_state, &upid, "Sys.Modify")?;
    if let Some(task) = pve_state.tasks.get_mut(&upid.text)
        && let TaskState::Running { interrupted } = &mut task.state
    {
        *interrupted = true;
    }
    Ok(Reply::NULL)
}

/// Parsed UPID of a request.
struct Upid {
    text: String,
    owner: String,
}

fn parse(call: &Call) -> Result<Upid, ApiError> {
    static FORM: LazyLock<Regex> = LazyLock::new(|| {
        let form = "^UPID:[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?:[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8,9}:\
                    [0-9A-Fa-f]{8}:[^:\\s/]+:[^:\\s/]*:([^:\\s/]+):$";
        Regex::new(form).expect("invariant: a valid pattern")
    });
    let text = call.params.text("upid").unwrap_or_default();
    let parts = FORM
        .captures(text)
        .ok_or_else(|| ApiError::parameter("upid", "unable to parse worker upid"))?;
    Ok(Upid { text: text.to_owned(), owner: parts[2].to_owned() })
}

/// Task with this UPID that ran on the host of the request. Other hosts do not have the log of the task.
fn find<'a>(call: &Call, pve_state: &'a PveState, upid: &Upid) -> Result<&'a Task, ApiError> {
    let task = pve_state.tasks.get(&upid.text).filter(|task| task.node == call.node);
    task.ok_or_else(|| ApiError::parameter("upid", "no such task"))
}

fn check_owner(
    call: &Call,
    pve_state: &PveState,
    upid: &Upid,
    privilege: &str,
) -> Result<(), ApiError> {
    if owns(&call.caller, &upid.owner) {
        return Ok(());
    }
    pve_state.check(&call.caller, &format!("/nodes/{}", call.node), &[privilege])
}
