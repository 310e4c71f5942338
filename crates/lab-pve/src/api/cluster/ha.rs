//! `/cluster/ha`: high-availability resources and the state of the HA manager.

use serde_json::{Map, Value as Json, json};

use crate::api::index as names;
use crate::api::reply::{data, flag, prefix_error};
use crate::call::{Call, Outcome, Reply};
use crate::pve_state::{HaServiceState, PveState, Section, Vm};
use crate::{ApiError, Release, digest, ha};

const OPTIONS: [&str; 6] = ["comment", "failback", "group", "max_relocate", "max_restart", "state"];

pub(super) fn index(call: &Call) -> Outcome {
    match call.release {
        Release::V8 => names::of("id", &["status", "resources", "groups"]),
        Release::V9 => names::of("id", &["status", "resources", "groups", "rules"]),
    }
}

pub(super) fn status_index(call: &Call) -> Outcome {
    match call.release {
        Release::V8 => names::of("name", &["current", "manager_status"]),
        Release::V9 => names::of("name", &["current", "manager_status", "disarm-ha", "arm-ha"]),
    }
}

pub(super) fn list(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let kind = call.params.text("type");
    let resources = pve_state.ha.resources.keys();
    let wanted = resources.filter(|sid| kind.is_none_or(|kind| kind == kind_of(sid)));
    let shown: Result<Vec<Json>, ApiError> = wanted.map(|sid| shown(&pve_state, sid)).collect();
    data(shown?)
}

pub(super) fn read(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let sid = sid(call, &pve_state)?;
    data(shown(&pve_state, &sid)?)
}

fn shown(pve_state: &PveState, sid: &str) -> Result<Json, ApiError> {
    let options = pve_state.ha.resources.get(sid).ok_or_else(|| missing(sid))?;
    let mut shown = options_json(options);
    shown.insert("sid".to_owned(), json!(sid));
    shown.insert("type".to_owned(), json!(kind_of(sid)));
    shown.insert("digest".to_owned(), json!(digest::of_sections(&pve_state.ha.resources)));
    Ok(Json::Object(shown))
}

/// Options of an HA resource, group or rule as JSON. Options that Proxmox returns as numbers are JSON numbers.
pub(super) fn options_json(options: &Section) -> Map<String, Json> {
    let options_json = options.iter().map(|(name, value)| {
        let number = match name.as_str() {
            "comment" | "group" | "state" | "nodes" | "resources" | "affinity" | "type" => None,
            _ => value.parse::<i64>().ok(),
        };
        (name.clone(), number.map_or_else(|| json!(value), |number| json!(number)))
    });
    options_json.collect()
}

pub(super) fn create(call: &Call) -> Outcome {
    let mut pve_state = call.pve_state();
    let sid = sid(call, &pve_state)?;
    check_kind(call, &sid)?;
    if call.params.has("group") && call.release >= Release::V9 {
        return Err(groups_are_rules("invalid parameter 'group'"));
    }
    let vmid = sid.strip_prefix("vm:").and_then(|id| id.parse().ok());
    if !vmid.is_some_and(|vmid: u32| pve_state.vms.contains_key(&vmid)) {
        return Err(ApiError::failed(format!("resource '{sid}' does not exist in cluster")));
    }
    if pve_state.ha.resources.contains_key(&sid) {
        let taken = ApiError::failed(format!("resource ID '{sid}' already defined"));
        return prefix_error("create resource failed", Err(taken));
    }
    let mut options = Section::new();
    change(call, &mut options, &OPTIONS);
    pve_state.ha.resources.insert(sid, options);
    Ok(Reply::NULL)
}

pub(super) fn update(call: &Call) -> Outcome {
    let mut pve_state = call.pve_state();
    let sid = sid(call, &pve_state)?;
    check_kind(call, &sid)?;
    if let Some(group) = call.params.text("group") {
        if call.release >= Release::V9 {
            return Err(groups_are_rules("invalid parameter 'group'"));
        }
        if !pve_state.ha.groups.contains_key(group) {
            return Err(ApiError::failed(format!("HA group '{group}' does not exist")));
        }
    }
    check_no_error(&pve_state, &sid, call.params.text("state"))?;
    let digest = digest::of_sections(&pve_state.ha.resources);
    let unchanged = digest::check_unchanged(&digest, call.params.text("digest"));
    let attempt = "update resources config failed";
    prefix_error(attempt, unchanged)?;
    let Some(options) = pve_state.ha.resources.get_mut(&sid) else {
        return prefix_error(attempt, Err(missing(&sid)));
    };
    prefix_error(attempt, remove(call, options, &OPTIONS, &[]))?;
    change(call, options, &OPTIONS);
    if call.params.text("state") == Some("disabled") {
        ha::clear_error(&mut pve_state, &sid);
    }
    Ok(Reply::NULL)
}

/// Answers `DELETE /cluster/ha/resources/{sid}`. The resource is also removed from HA rules, and rules without other resources
/// are deleted.
pub(super) fn delete(call: &Call) -> Outcome {
    let mut pve_state = call.pve_state();
    let sid = sid(call, &pve_state)?;
    if pve_state.ha.resources.remove(&sid).is_none() {
        return Err(ApiError::failed(format!("cannot delete service '{sid}', not HA managed!")));
    }
    pve_state.ha.services.remove(&sid);
    if call.params.flag("purge").unwrap_or(true) {
        ha::remove_from_rules(&mut pve_state, &sid);
    }
    Ok(Reply::NULL)
}

/// Records a request to the HA manager: to migrate the resource live (`online`), or to relocate it with a stop and a start.
pub(super) fn migrate(call: &Call, online: bool) -> Outcome {
    let mut pve_state = call.pve_state();
    let sid = sid(call, &pve_state)?;
    let target = call.params.text("node").unwrap_or_default();
    if !ha::is_managed(&pve_state, &sid) {
        return Err(ApiError::failed(format!("resource '{sid}' is not HA managed")));
    }
    check_no_error(&pve_state, &sid, None)?;
    ha::record_migration_request(&mut pve_state, &sid, target, online);
    match call.release {
        Release::V8 => Ok(Reply::NULL),
        Release::V9 => data(json!({ "sid": sid, "requested-node": target })),
    }
}

/// Answers `GET /cluster/ha/status/current`: quorum, the master node, the state of each host and of
/// each resource.
pub(super) fn current(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let quorate = pve_state.is_quorate();
    let status =
        if quorate { "OK".to_owned() } else { format!("No quorum on node '{}'!", call.node) };
    let mut entries = vec![json!({
        "id": "quorum",
        "type": "quorum",
        "node": call.node,
        "status": status,
        "quorate": flag(quorate),
    })];
    if pve_state.ha.is_used() {
        entries.extend(hosts(call, &pve_state));
    }
    for (sid, options) in &pve_state.ha.resources {
        entries.push(service(&pve_state, sid, options));
    }
    data(entries)
}

fn hosts(call: &Call, pve_state: &PveState) -> Vec<Json> {
    let now = call.now();
    let time = ha::local_time(now);
    let master = pve_state.hosts.iter().find(|(_, host)| host.online).map(|(name, _)| name);
    let master = master.unwrap_or(&call.node);
    let mut entries = vec![json!({
        "id": "master",
        "type": "master",
        "node": master,
        "status": format!("{master} (active, {time})"),
        "timestamp": now,
    })];
    let watchdog = call.release >= Release::V9;
    if watchdog {
        entries.push(json!({
            "id": "fencing",
            "type": "fencing",
            "node": master,
            "status": "armed (CRM watchdog active)",
            "armed-state": "armed",
        }));
    }
    for (name, host) in &pve_state.hosts {
        let is_active = pve_state.ha.services.values().any(|service| service.node == *name);
        let (state, dog) = match (host.online, is_active) {
            (false, _) => ("old timestamp - dead?", "watchdog standby"),
            (true, true) => ("active", "watchdog active"),
            (true, false) => ("idle", "watchdog standby"),
        };
        let dog = if watchdog { format!(", {dog}") } else { String::new() };
        entries.push(json!({
            "id": format!("lrm:{name}"),
            "type": "lrm",
            "node": name,
            "status": format!("{name} ({state}{dog}, {time})"),
            "timestamp": now,
        }));
    }
    entries
}

fn service(pve_state: &PveState, sid: &str, options: &Section) -> Json {
    let known = pve_state.ha.services.get(sid);
    let vmid = sid.strip_prefix("vm:").and_then(|id| id.parse::<u32>().ok());
    let vm = vmid.and_then(|vmid| pve_state.vms.get(&vmid));
    let node = known.map(|service| &service.node).or_else(|| vm.map(|vm| &vm.node));
    let requested = ha::requested(options);
    let state = match (requested, known.map(|service| &service.state)) {
        ("ignored", _) => "ignored",
        _ if vm.is_none() => "not found",
        (_, None) => "queued",
        ("started", Some(HaServiceState::Stopped)) => "starting",
        ("disabled", Some(HaServiceState::Stopped)) => "disabled",
        ("stopped" | "disabled", Some(HaServiceState::Started)) => "stopping",
        (_, Some(HaServiceState::Started)) if !vm.is_some_and(Vm::is_running) => "starting",
        (_, Some(state)) => state.name(),
    };
    let shown_node = node.map_or("---", String::as_str);
    let mut entry = options_json(options);
    entry.remove("state");
    entry.insert("id".to_owned(), json!(format!("service:{sid}")));
    entry.insert("type".to_owned(), json!("service"));
    entry.insert("sid".to_owned(), json!(sid));
    entry.insert("node".to_owned(), json!(node));
    entry.insert("state".to_owned(), json!(state));
    entry.insert("status".to_owned(), json!(format!("{sid} ({shown_node}, {state})")));
    entry.insert("request_state".to_owned(), json!(requested));
    for (name, default) in [("max_restart", 1), ("max_relocate", 1), ("failback", 1)] {
        if name != "failback" || pve_state.release >= Release::V9 {
            entry.entry(name).or_insert(json!(default));
        }
    }
    if let Some(service) = known {
        entry.insert("crm_state".to_owned(), json!(service.state.name()));
    }
    Json::Object(entry)
}

/// Service id in a request, such as `vm:101`. Proxmox also accepts a plain vmid (`101`) if the VM exists.
fn sid(call: &Call, pve_state: &PveState) -> Result<String, ApiError> {
    let sent = call.params.text("sid").unwrap_or_default();
    match sent.parse::<u32>() {
        Ok(vmid) if pve_state.vms.contains_key(&vmid) => Ok(format!("vm:{vmid}")),
        Ok(vmid) => Err(ApiError::failed(format!(
            "unable to detect SID from VMID - VM/CT {vmid} does not exist"
        ))),
        Err(_) if sent.contains(':') => Ok(sent.to_owned()),
        Err(_) => Err(ApiError::failed(format!("unable to parse service id '{sent}'"))),
    }
}

fn kind_of(sid: &str) -> &str {
    sid.split(':').next().unwrap_or_default()
}

fn check_kind(call: &Call, sid: &str) -> Result<(), ApiError> {
    match call.params.text("type") {
        Some(kind) if kind != kind_of(sid) => Err(ApiError::failed("types does not match")),
        _ => Ok(()),
    }
}

fn check_no_error(pve_state: &PveState, sid: &str, wanted: Option<&str>) -> Result<(), ApiError> {
    let failed = pve_state
        .ha
        .services
        .get(sid)
        .is_some_and(|service| service.state == HaServiceState::Error);
    if failed && wanted != Some("disabled") {
        return Err(ApiError::failed(format!(
            "service '{sid}' in error state, must be disabled and fixed first"
        )));
    }
    Ok(())
}

/// Copies the parameters that are in `known` from the request to the options.
pub(super) fn change(call: &Call, options: &mut Section, known: &[&str]) {
    for (name, value) in call.params.iter().filter(|(name, _)| known.contains(name)) {
        options.insert(name.to_owned(), value.to_owned());
    }
}

/// Removes the options that the parameter `delete` lists. Unknown and required options are rejected.
pub(super) fn remove(
    call: &Call,
    options: &mut Section,
    known: &[&str],
    required: &[&str],
) -> Result<(), ApiError> {
    for name in call.params.list("delete") {
        if !known.contains(&name) {
            return Err(ApiError::failed(format!("no such option '{name}'")));
        }
        if required.contains(&name) {
            return Err(ApiError::failed(format!("unable to delete required option '{name}'")));
        }
        options.remove(name);
    }
    Ok(())
}

pub(super) fn groups_are_rules(attempt: &str) -> ApiError {
    ApiError::failed(format!("{attempt}: ha groups have been migrated to rules"))
}

fn missing(sid: &str) -> ApiError {
    ApiError::failed(format!("no such resource '{sid}'"))
}
