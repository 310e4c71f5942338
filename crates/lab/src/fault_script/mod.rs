//! Parser of faults in a scenario or a fault file.

mod action;
mod kind;
mod known;
mod node;
mod value;

use serde_json::{Map, Value as Json};
use talmox_lab_environment::fault::{Action, Boot, Fault, PathPattern, When};

use self::kind::Kind;
pub use self::known::Known;
use self::value::{EntryError, duration, name, number, text};
use crate::scenario::{FaultSpec, Scenario, ScenarioError};

/// Keys that select the events that a fault matches.
const CONDITION_KEYS: [&str; 13] = [
    "method", "path", "task", "vmid", "host", "factory", "talos", "kube", "boot", "node", "after",
    "nth", "times",
];

/// Parsing of faults from scenarios and fault files.
pub trait FaultScript: Sized {
    /// Parses a fault file, which is a scenario with `faults` as its only section.
    fn parse(path: &str, text: &str) -> Result<Vec<Self>, ScenarioError>;

    /// Parses a fault file, and checks that the objects named in it exist in the lab.
    fn parse_for(path: &str, text: &str, known: &Known) -> Result<Vec<Self>, ScenarioError>;

    /// Parses the faults of a scenario. The hosts and the revoked tokens that the faults name must exist.
    fn of_scenario(scenario: &Scenario) -> Result<Vec<Self>, ScenarioError>;
}

impl FaultScript for Fault {
    fn parse(path: &str, text: &str) -> Result<Vec<Self>, ScenarioError> {
        Self::parse_for(path, text, &Known::default())
    }

    fn parse_for(path: &str, text: &str, known: &Known) -> Result<Vec<Self>, ScenarioError> {
        let scenario = Scenario::parse(path, text)?;
        scenario.faults.iter().map(|spec| read_spec(spec, known)).collect()
    }

    fn of_scenario(scenario: &Scenario) -> Result<Vec<Self>, ScenarioError> {
        let known = Known { hosts: Some(scenario.hosts()), ..Known::default() };
        let read = |spec: &FaultSpec| {
            let fault = read_spec(spec, &known)?;
            match &fault.action {
                Action::Revoke { token } if !scenario.has_token(token) => {
                    Err(wrong(spec, format!("`revoke`: there is no token `{token}`").into()))
                }
                _ => Ok(fault),
            }
        };
        scenario.faults.iter().map(read).collect()
    }
}

fn read_spec(spec: &FaultSpec, known: &Known) -> Result<Fault, ScenarioError> {
    let Json::Object(entry) = &spec.value else {
        return Err(wrong(spec, "a fault must be a mapping".into()));
    };
    let read = read(entry).and_then(|fault| known.check(&fault).map(|()| fault));
    let fault = read.map_err(|problem| wrong(spec, problem))?;
    Ok(Fault { written: Some(format!("{}:{}", spec.path, spec.line)), ..fault })
}

fn wrong(spec: &FaultSpec, problem: EntryError) -> ScenarioError {
    let EntryError { message, hint } = problem;
    ScenarioError { path: spec.path.clone(), line: spec.line, message, hint }
}

fn read(entry: &Map<String, Json>) -> Result<Fault, EntryError> {
    let keys = [&CONDITION_KEYS[..], &action::NAMES].concat();
    if let Some(unknown) = entry.keys().find(|key| !keys.contains(&key.as_str())) {
        return Err(EntryError::unknown(format!("a fault has no `{unknown}`"), unknown, &keys));
    }
    let (does, value) = action::of(entry)?;
    let kind = Kind::of(entry, does)?;
    kind.check(entry, does)?;
    let method = text(entry, "method")?.map(|method| method.to_ascii_uppercase());
    if let Some(method) = method.as_deref().filter(|method| !kind.methods().contains(method)) {
        let message = format!("unknown method `{method}` of a {}", kind.noun());
        return Err(EntryError::unknown(message, method, kind.methods()));
    }
    let when = When {
        method,
        path: pattern(entry, "path")?,
        task: text(entry, "task")?,
        vmid: number(entry, "vmid")?,
        host: text(entry, "host")?,
        factory: pattern(entry, "factory")?,
        talos: kind::talos_method(entry)?,
        kube: pattern(entry, "kube")?,
        boot: (kind == Kind::Boot).then(|| boot(does)),
        node: name(entry, "node")?,
        after: after(entry)?,
    };
    let times = match entry.get("times") {
        Some(Json::String(always)) if always == "always" => None,
        _ => Some(number(entry, "times")?.unwrap_or(1)),
    };
    let nth = number(entry, "nth")?.unwrap_or(1);
    let action = action::read(kind, entry, does, value)?;
    Ok(Fault { when, nth, times, action, written: None })
}

/// Kind of boot that an action affects.
fn boot(does: &str) -> Boot {
    match does {
        "stall" => Boot::Bare,
        "revert" => Boot::Upgraded,
        _ => Boot::Any,
    }
}

fn after(entry: &Map<String, Json>) -> Result<Option<std::time::Duration>, EntryError> {
    let Some(value) = entry.get("after") else { return Ok(None) };
    let wrong = || EntryError::from("`after` must be a time: 5s, 300ms, 2m");
    duration(value).map(Some).ok_or_else(wrong)
}

fn pattern(entry: &Map<String, Json>, key: &str) -> Result<Option<PathPattern>, EntryError> {
    let Some(path) = text(entry, key)? else { return Ok(None) };
    PathPattern::parse(&path).map(Some).map_err(|error| format!("`{key}`: {error}").into())
}

#[cfg(test)]
mod tests;
