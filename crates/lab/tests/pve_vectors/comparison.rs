//! Comparison of the results of a step with the expected results, on three levels.

use std::collections::BTreeSet;

use regex_lite::Regex;
use serde_json::{Value as Json, json};

use crate::replay::{Observation, ObservedVm, own_file};
use crate::vector::Step;
use crate::wildcard::{difference, text_matches};

/// Level on which a vector is compared with the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// First level: the status code.
    Status = 1,
    /// Second level: rejected parameters and changes of the state.
    State = 2,
    /// Third level: all texts and data.
    Text = 3,
}

impl Level {
    pub(crate) const ALL: [Self; 3] = [Self::Status, Self::State, Self::Text];
}

#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) level: Level,
    pub(crate) text: String,
    /// Whether clients choose their next action by this text.
    pub(crate) classified: bool,
}

/// Known fields of an expectation. A field that is unknown would not be compared, without any message.
const FIELDS: [&str; 9] = [
    "status",
    "message",
    "errors",
    "data",
    "task",
    "config_after",
    "volumes_added",
    "volumes_removed",
    "vm_status_after",
];

/// Texts by which a client decides whether to retry, to wait, or to report an error.
const CLASSIFIED: [&str; 22] = [
    r"can't lock file",
    r"got timeout",
    r"got lock request timeout",
    r"VM is locked",
    r"does not exist",
    r"already exists",
    r"checksum mismatch",
    r"Permission check failed",
    r"is running",
    r"not running",
    r"protection mode enabled",
    r"refusing to override",
    r"no such logical volume",
    r"only root can",
    r"Only root ",
    r"unable to find configuration file",
    r"no such task",
    r"already used",
    r"file changed? by other user",
    r"guest agent",
    r"is not available on node",
    r"is disabled",
];

pub(crate) struct Comparison {
    classified: Regex,
}

impl Comparison {
    pub(crate) fn new() -> Self {
        let classified = Regex::new(&CLASSIFIED.join("|"));
        Self { classified: classified.expect("invariant: the patterns are fixed") }
    }

    /// Number of expected texts of this step by which clients choose their next action.
    pub(crate) fn classified_texts(&self, expect: &Json) -> usize {
        let texts = [&expect["message"], &expect["task"]["exitstatus"]].into_iter();
        let errors = expect["errors"].as_object().into_iter().flat_map(|errors| errors.values());
        let texts = texts.chain(errors).filter_map(Json::as_str);
        texts.filter(|text| self.classified.is_match(text)).count()
    }

    pub(crate) fn differences(
        &self,
        step: &Step,
        expect: &Json,
        seen: &Observation,
    ) -> Vec<Difference> {
        let mut found = Found { comparison: self, differences: vec![] };
        let status = expect["status"].as_u64().unwrap_or_default();
        if status != u64::from(seen.answer.status) {
            let message = seen.answer.message();
            let text = format!("status {status}, found {} {message:?}", seen.answer.status);
            found.add(Level::Status, text);
        }
        for state in [&seen.before, &seen.after] {
            if let Some(reason) = &state.unreadable {
                found.add(Level::State, reason.clone());
            }
        }
        let fields = expect.as_object().into_iter().flat_map(|fields| fields.keys());
        for field in fields.filter(|field| !FIELDS.contains(&field.as_str())) {
            found.add(Level::Text, format!("the expected field `{field}` is not compared"));
        }
        errors(expect, seen, &mut found);
        task(expect, seen, &mut found);
        configs(step, expect, seen, &mut found);
        volumes(expect, seen, &mut found);
        if let Some(expected) = expect["message"].as_str() {
            let message = seen.answer.message().lines().next().unwrap_or_default();
            found.text("message", expected, message);
        }
        if let Some(expected) = expect.get("data")
            && let Some(text) = difference(expected, &seen.answer.body["data"])
        {
            found.add(Level::Text, format!("data{text}"));
        }
        found.differences
    }
}

struct Found<'j> {
    comparison: &'j Comparison,
    differences: Vec<Difference>,
}

impl Found<'_> {
    fn add(&mut self, level: Level, text: String) {
        self.differences.push(Difference { level, text, classified: false });
    }

    fn text(&mut self, what: &str, expected: &str, found: &str) {
        if !text_matches(expected, found) {
            let text = format!("{what} {expected:?}, found {found:?}");
            let classified = self.comparison.classified.is_match(expected);
            self.differences.push(Difference { level: Level::Text, text, classified });
        }
    }
}

fn errors(expect: &Json, seen: &Observation, found: &mut Found<'_>) {
    let none = serde_json::Map::new();
    let expected = expect["errors"].as_object().unwrap_or(&none);
    let actual = seen.answer.body["errors"].as_object().unwrap_or(&none);
    let keys = |map: &serde_json::Map<String, Json>| map.keys().cloned().collect::<BTreeSet<_>>();
    if keys(expected) != keys(actual) {
        let (expected, actual) = (keys(expected), keys(actual));
        found.add(Level::State, format!("errors for {expected:?}, found {actual:?}"));
    }
    for (key, text) in expected {
        if let (Some(text), Some(other)) = (text.as_str(), actual.get(key).and_then(Json::as_str)) {
            found.text(&format!("errors.{key}"), text, other);
        }
    }
}

fn task(expect: &Json, seen: &Observation, found: &mut Found<'_>) {
    let expected = &expect["task"];
    let task = match (expected.is_object(), &seen.task) {
        (false, None) => return,
        (true, Some(task)) => task,
        (true, None) => return found.add(Level::State, "a task, found none".to_owned()),
        (false, Some(task)) => {
            return found.add(Level::State, format!("no task, found {}", task.kind));
        }
    };
    let text = |key: &str| expected[key].as_str();
    found.text("task type", text("type").unwrap_or_default(), &task.kind);
    found.text("task id", text("id").unwrap_or_default(), &task.id);
    if let Some(exit) = text("exitstatus") {
        if succeeded(exit) != succeeded(&task.exit) {
            found.add(Level::State, format!("task {exit:?}, found {:?}", task.exit));
        }
        found.text("exit status", exit, &task.exit);
    }
    if let Some(line) = text("last_log_line") {
        found.text("last log line", line, &task.last_line);
    }
}

fn succeeded(exit: &str) -> bool {
    exit == "OK" || exit.starts_with("WARNINGS")
}

fn configs(step: &Step, expect: &Json, seen: &Observation, found: &mut Found<'_>) {
    let none = serde_json::Map::new();
    let expected = expect["config_after"].as_object().unwrap_or(&none);
    for (vmid, config) in expected {
        match (config.is_null(), seen.after.vms.get(vmid)) {
            (true, None) => {}
            (true, Some(_)) => found.add(Level::State, format!("VM {vmid} gone, found it")),
            (false, None) => found.add(Level::State, format!("VM {vmid}, found none")),
            (false, Some(vm)) => {
                let actual = as_expected(vm, config.get("pending").is_some());
                if let Some(text) = difference(config, &actual) {
                    found.add(Level::State, format!("VM {vmid}{text}"));
                }
            }
        }
    }
    let vmids: BTreeSet<&String> = seen.before.vms.keys().chain(seen.after.vms.keys()).collect();
    let statuses = expect["vm_status_after"].as_object().unwrap_or(&none);
    // A vector does not contain whether a guest really starts.
    let starts = ["/start", "/reboot"].iter().any(|end| step.path.ends_with(end))
        || (expect["task"].is_object() && expect["task"].get("exitstatus").is_none());
    for vmid in vmids {
        let (before, after) = (seen.before.vms.get(vmid), seen.after.vms.get(vmid));
        if !expected.contains_key(vmid) && changed(before, after) {
            let text = match (before, after) {
                (Some(before), Some(after)) => {
                    difference(&as_expected(before, true), &as_expected(after, true))
                }
                _ => None,
            };
            let text = text.unwrap_or_else(|| format!(" there: {}", after.is_some()));
            found.add(Level::State, format!("VM {vmid} unchanged, found{text}"));
        }
        let status = |vm: Option<&ObservedVm>| vm.map(|vm| vm.status.clone()).unwrap_or_default();
        match statuses.get(vmid).and_then(Json::as_str) {
            Some(expected) if expected != status(after) => {
                let text = format!("VM {vmid} {expected}, found {}", status(after));
                found.add(Level::State, text);
            }
            None if !starts
                && before.is_some()
                && after.is_some()
                && status(before) != status(after) =>
            {
                let (before, after) = (status(before), status(after));
                found.add(Level::State, format!("VM {vmid} still {before}, found {after}"));
            }
            _ => {}
        }
    }
}

fn changed(before: Option<&ObservedVm>, after: Option<&ObservedVm>) -> bool {
    let shape = |vm: &ObservedVm| {
        let mut shape = as_expected(vm, true);
        shape["config"]["digest"] = Json::Null;
        shape
    };
    before.map(shape) != after.map(shape)
}

/// VM in the form of `config_after`. Of the pending entries, it contains only those that change something.
fn as_expected(vm: &ObservedVm, with_pending: bool) -> Json {
    let waits = |entry: &&Json| entry.get("pending").is_some() || entry.get("delete").is_some();
    let entries = vm.pending.as_array().into_iter().flatten();
    let pending: Vec<Json> = entries.filter(waits).cloned().collect();
    let mut shape = json!({"node": vm.node, "config": vm.config});
    if with_pending || !pending.is_empty() {
        shape["pending"] = Json::Array(pending);
    }
    shape
}

fn volumes(expect: &Json, seen: &Observation, found: &mut Found<'_>) {
    let expected = |key: &str| -> BTreeSet<String> {
        let volids = expect[key].as_array().into_iter().flatten();
        volids.filter_map(Json::as_str).map(own_file).collect()
    };
    let (before, after) = (&seen.before.volumes, &seen.after.volumes);
    for (key, actual) in [("volumes_added", after - before), ("volumes_removed", before - after)] {
        let expected = expected(key);
        if expected != actual {
            found.add(Level::State, format!("{key} {expected:?}, found {actual:?}"));
        }
    }
}
