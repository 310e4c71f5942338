//! Actions of faults in a script.

use serde_json::{Map, Value as Json};
use talmox_lab_environment::fault::Action;
use tonic::Code;

use super::kind::Kind;
use super::node;
use super::value::{EntryError, duration, fields, lasts, number, text};

/// Keys of all actions that a fault in a script can have.
pub(super) const NAMES: [&str; 23] = [
    "refuse",
    "delay",
    "cut",
    "hang",
    "timeout",
    "fail",
    "unstarted",
    "full",
    "lock",
    "down",
    "revoke",
    "truncate",
    "crash",
    "unplug",
    "freeze",
    "fill",
    "slow",
    "clock",
    "stall",
    "revert",
    "partition",
    "heal",
    "impostor",
];

/// Action of an entry. Each entry must have exactly one action.
pub(super) fn of(entry: &Map<String, Json>) -> Result<(&'static str, &Json), EntryError> {
    let mut actions = NAMES.iter().filter_map(|key| Some((*key, entry.get(*key)?)));
    match (actions.next(), actions.next()) {
        (Some(action), None) => Ok(action),
        (None, _) => Err(format!("a fault needs one of the actions {}", NAMES.join(", ")).into()),
        (Some((one, _)), Some((other, _))) => {
            Err(format!("a fault has one action, not `{one}` and `{other}`").into())
        }
    }
}

pub(super) fn read(
    kind: Kind,
    entry: &Map<String, Json>,
    name: &str,
    value: &Json,
) -> Result<Action, EntryError> {
    let named =
        |what: &str| value.as_str().map(str::to_owned).ok_or_else(|| EntryError::form(name, what));
    Ok(match name {
        "refuse" if kind == Kind::Talos => reject_call(value)?,
        "refuse" => {
            let fields = fields(name, value, &["status", "message"], "{status: 500, message: …}")?;
            Action::Reject {
                status: number(fields, "status")?.unwrap_or(500),
                message: rejection(fields)?,
            }
        }
        "delay" => Action::Delay(
            duration(value).ok_or_else(|| EntryError::form(name, "a time: 5s, 300ms"))?,
        ),
        "cut" => match value.as_str() {
            Some("before") => Action::CutBefore,
            Some("after") => Action::CutAfter,
            _ => return Err(EntryError::form(name, "before or after")),
        },
        "hang" => is_true(name, value).map(|()| Action::Hang)?,
        "timeout" => is_true(name, value).map(|()| Action::TimedOut)?,
        "fail" => {
            let form = "{percent: 40, message: …}";
            let fields = fields(name, value, &["percent", "message"], form)?;
            let percent: u8 = number(fields, "percent")?.unwrap_or(0);
            let message = text(fields, "message")?.unwrap_or_else(|| "failed by a fault".into());
            Action::Fail { percent: percent.min(100), message }
        }
        "unstarted" => is_true(name, value).map(|()| Action::Unstarted)?,
        "full" => Action::Full { storage: named("a storage")? },
        "lock" => match value.as_str() {
            Some("lost") => Action::LostLock,
            _ => return Err(EntryError::form(name, "lost")),
        },
        "down" => down(value)?,
        "truncate" => {
            let fields = fields(name, value, &["percent"], "{percent: 40}")?;
            let percent: u8 = number(fields, "percent")?.unwrap_or(50);
            Action::Truncate { percent: percent.min(100) }
        }
        "revoke" => Action::Revoke { token: named("a token's id")? },
        _ => Action::Node(node::read(kind, entry, name, value)?),
    })
}

fn down(value: &Json) -> Result<Action, EntryError> {
    if let Some(host) = value.as_str() {
        return Ok(Action::Down { host: host.to_owned(), lasts: None });
    }
    let form = "a host, or {host: pve2, for: 60s}";
    let fields = fields("down", value, &["host", "for"], form)?;
    let host =
        text(fields, "host")?.ok_or_else(|| EntryError::form("down", "a mapping with a `host`"))?;
    Ok(Action::Down { host, lasts: lasts("down", fields)? })
}

pub(super) fn is_true(name: &str, value: &Json) -> Result<(), EntryError> {
    if *value == true { Ok(()) } else { Err(EntryError::form(name, "true")) }
}

fn rejection(fields: &Map<String, Json>) -> Result<String, EntryError> {
    Ok(text(fields, "message")?.unwrap_or_else(|| "rejected by a fault".into()))
}

/// Parses the rejection of a Talos call, which has the name of a gRPC code.
fn reject_call(value: &Json) -> Result<Action, EntryError> {
    let form = "{code: Unavailable, message: …} for Talos calls";
    let fields = fields("refuse", value, &["code", "message"], form)?;
    let message = rejection(fields)?;
    let Some(name) = text(fields, "code")? else {
        return Ok(Action::RejectCall { code: Code::Unavailable, message });
    };
    let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
    // Code 0 means success, so a fault cannot use it.
    let known: Vec<(String, Code)> =
        (1..=16).map(Code::from_i32).map(|code| (format!("{code:?}"), code)).collect();
    if let Some((_, code)) = known.iter().find(|(own, _)| plain(own) == plain(&name)) {
        return Ok(Action::RejectCall { code: *code, message });
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    Err(EntryError::unknown(format!("gRPC has no code `{name}`"), &name, &names))
}
