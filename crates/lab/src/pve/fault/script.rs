//! Faults as a scenario or a file of their own writes them.

use std::time::Duration;

use serde_json::{Map, Value as Json};

use super::{Action, Fault, PathPattern, When};
use crate::scenario::{FaultSpec, Scenario, ScenarioError};

/// Which calls, tasks or requests a fault fits.
const WHICH: [&str; 8] = ["method", "path", "task", "vmid", "host", "factory", "nth", "times"];
/// What it does to them.
const WHAT: [&str; 10] =
    ["refuse", "delay", "cut", "timeout", "fail", "full", "lock", "down", "revoke", "truncate"];

impl Fault {
    /// Reads a file of faults: a scenario that has nothing but `faults`, for whatever lab.
    pub fn parse(path: &str, text: &str) -> Result<Vec<Self>, ScenarioError> {
        let scenario = Scenario::parse(path, text)?;
        scenario.faults.iter().map(|spec| read_spec(path, spec)).collect()
    }

    /// The faults that a scenario has. What they take away must be there.
    pub fn of_scenario(path: &str, scenario: &Scenario) -> Result<Vec<Self>, ScenarioError> {
        let read = |spec: &FaultSpec| {
            let fault = read_spec(path, spec)?;
            match &fault.action {
                Action::Down { host, .. } if !scenario.has_host(host) => {
                    Err(wrong(path, spec, format!("`down`: there is no host `{host}`")))
                }
                Action::Revoke { token } if !scenario.has_token(token) => {
                    Err(wrong(path, spec, format!("`revoke`: there is no token `{token}`")))
                }
                _ => Ok(fault),
            }
        };
        scenario.faults.iter().map(read).collect()
    }
}

fn read_spec(path: &str, spec: &FaultSpec) -> Result<Fault, ScenarioError> {
    let Json::Object(entry) = &spec.value else {
        return Err(wrong(path, spec, "a fault is a mapping".to_owned()));
    };
    read(entry).map_err(|message| wrong(path, spec, message))
}

const METHODS: [&str; 5] = ["GET", "HEAD", "POST", "PUT", "DELETE"];

fn wrong(path: &str, spec: &FaultSpec, message: String) -> ScenarioError {
    ScenarioError { path: path.to_owned(), line: spec.line, message, hint: None }
}

fn read(entry: &Map<String, Json>) -> Result<Fault, String> {
    let keys = [&WHICH[..], &WHAT].concat();
    if let Some(unknown) = entry.keys().find(|key| !keys.contains(&key.as_str())) {
        return Err(format!("a fault has no `{unknown}`; known are {}", keys.join(", ")));
    }
    let alien = ["path", "task", "vmid", "host"].into_iter().find(|key| entry.contains_key(*key));
    if let (true, Some(alien)) = (entry.contains_key("factory"), alien) {
        return Err(format!("a fault of the factory has no `{alien}`"));
    }
    let method = text(entry, "method")?.map(|method| method.to_ascii_uppercase());
    if let Some(method) = method.as_deref().filter(|method| !METHODS.contains(method)) {
        return Err(format!("no call is a `{method}`; known are {}", METHODS.join(", ")));
    }
    let when = When {
        method,
        path: pattern(entry, "path")?,
        task: text(entry, "task")?,
        vmid: number(entry, "vmid")?,
        host: text(entry, "host")?,
        factory: pattern(entry, "factory")?,
    };
    let times = match entry.get("times") {
        Some(Json::String(always)) if always == "always" => None,
        _ => Some(number(entry, "times")?.unwrap_or(1)),
    };
    Ok(Fault { when, nth: number(entry, "nth")?.unwrap_or(1), times, action: action(entry)? })
}

fn action(entry: &Map<String, Json>) -> Result<Action, String> {
    let mut actions = WHAT.iter().filter_map(|key| Some((*key, entry.get(*key)?)));
    let (name, value) = match (actions.next(), actions.next()) {
        (Some(action), None) => action,
        (None, _) => return Err(format!("a fault does one of {}", WHAT.join(", "))),
        (Some((one, _)), Some((other, _))) => {
            return Err(format!("a fault does one thing, not `{one}` and `{other}`"));
        }
    };
    let wrong = |form: &str| format!("`{name}` is written {form}");
    let fields = value.as_object();
    Ok(match name {
        "refuse" => {
            let fields = fields.ok_or_else(|| wrong("{status: 500, message: …}"))?;
            Action::Refuse {
                status: number(fields, "status")?.unwrap_or(500),
                message: text(fields, "message")?.unwrap_or_else(|| "refused by a fault".into()),
            }
        }
        "delay" => Action::Delay(duration(value).ok_or_else(|| wrong("as a time: 5s, 300ms"))?),
        "cut" => match value.as_str() {
            Some("before") => Action::CutBefore,
            Some("after") => Action::CutAfter,
            _ => return Err(wrong("before or after")),
        },
        "timeout" => match value {
            Json::Bool(true) => Action::TimedOut,
            _ => return Err(wrong("true")),
        },
        "fail" => {
            let fields = fields.ok_or_else(|| wrong("{percent: 40, message: …}"))?;
            let percent: u8 = number(fields, "percent")?.unwrap_or(0);
            let message = text(fields, "message")?.unwrap_or_else(|| "failed by a fault".into());
            Action::Fail { percent: percent.min(100), message }
        }
        "full" => Action::Full {
            storage: value.as_str().ok_or_else(|| wrong("as a storage"))?.to_owned(),
        },
        "lock" => match value.as_str() {
            Some("lost") => Action::LostLock,
            _ => return Err(wrong("lost")),
        },
        "down" => {
            let host = value.as_str().map(str::to_owned);
            let (host, lasts) = match (host, fields) {
                (Some(host), _) => (host, None),
                (None, Some(fields)) => {
                    let host = text(fields, "host")?.ok_or_else(|| wrong("with a `host`"))?;
                    let lasts = fields.get("for").map(|time| {
                        duration(time).ok_or_else(|| wrong("with a time behind `for`: 60s"))
                    });
                    (host, lasts.transpose()?)
                }
                _ => return Err(wrong("as a host, or {host: pve2, for: 60s}")),
            };
            Action::Down { host, lasts }
        }
        "truncate" => {
            let fields = fields.ok_or_else(|| wrong("{percent: 40}"))?;
            if !entry.contains_key("factory") {
                return Err("`truncate` is for requests to the `factory`".to_owned());
            }
            let percent: u8 = number(fields, "percent")?.unwrap_or(50);
            Action::Truncate { percent: percent.min(100) }
        }
        _ => Action::Revoke {
            token: value.as_str().ok_or_else(|| wrong("as a token's id"))?.to_owned(),
        },
    })
}

fn pattern(entry: &Map<String, Json>, key: &str) -> Result<Option<PathPattern>, String> {
    let Some(path) = text(entry, key)? else { return Ok(None) };
    PathPattern::parse(&path).map(Some).map_err(|error| format!("`{key}`: {error}"))
}

fn text(entry: &Map<String, Json>, key: &str) -> Result<Option<String>, String> {
    match entry.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(format!("`{key}` is text, not {other}")),
    }
}

fn number<N: TryFrom<u64>>(entry: &Map<String, Json>, key: &str) -> Result<Option<N>, String> {
    let Some(value) = entry.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
    let number = value.as_u64().and_then(|number| N::try_from(number).ok());
    number.map(Some).ok_or_else(|| format!("`{key}` is a number, not {value}"))
}

/// `5s`, `300ms`, `2m`; a bare number is seconds.
fn duration(value: &Json) -> Option<Duration> {
    let seconds = match value {
        Json::Number(number) => number.as_f64()?,
        Json::String(text) => {
            let unit = text.find(|letter: char| letter.is_ascii_alphabetic())?;
            let (number, unit) = text.split_at(unit);
            let number: f64 = number.trim().parse().ok()?;
            match unit {
                "ms" => number / 1000.0,
                "s" => number,
                "m" | "min" => number * 60.0,
                "h" => number * 3600.0,
                _ => return None,
            }
        }
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}
