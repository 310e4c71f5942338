//! Heartbeats of kubelets: lease renewals, and the heartbeat times of node conditions. The times are computed when an object is
//! read, so that hundreds of idle nodes cause no work.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;
use talmox_talos_config::time::UnixTime;

use super::object::{name, namespace, text};
use super::store::State;

/// Seconds between renewals of a lease.
const LEASE: u64 = 10;
/// Seconds between status reports of a node whose conditions do not change.
const REPORT: u64 = 300;

/// Formats a time with microseconds, as in leases.
pub fn micro_time(time: Duration) -> String {
    second(time).replace('Z', &format!(".{:06}Z", time.subsec_micros()))
}

fn second(time: Duration) -> String {
    UnixTime::from_seconds(i64::try_from(time.as_secs()).unwrap_or(i64::MAX)).to_string()
}

/// Rounds a time down to a multiple of `every` seconds.
fn last(time: Duration, every: u64) -> Duration {
    time.saturating_sub(Duration::from_secs(time.as_secs() % every))
}

/// Returns the object with the current heartbeat times of its kubelet. Objects other than nodes and their leases stay
/// unchanged.
pub(super) fn with_heartbeat<'o>(state: &State, id: &str, object: &'o Value) -> Cow<'o, Value> {
    let is_lease = id == "leases.coordination.k8s.io" && namespace(object) == "kube-node-lease";
    let last_heartbeat =
        (is_lease || id == "nodes").then(|| state.machines.last_heartbeat(name(object), state.now));
    let Some(last_heartbeat) = last_heartbeat.flatten() else { return Cow::Borrowed(object) };
    let mut object = object.clone();
    if is_lease {
        object["spec"]["renewTime"] = micro_time(last(last_heartbeat, LEASE)).into();
        return Cow::Owned(object);
    }
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let changed = text(condition, "/lastTransitionTime").to_owned();
        let is_lost = condition["status"] == "Unknown";
        let reported = second(last(last_heartbeat, REPORT));
        // RFC 3339 times can be compared as text. A lost node sent its last heartbeat before its condition changed.
        let time = if is_lost { reported } else { reported.max(changed) };
        condition["lastHeartbeatTime"] = time.into();
    }
    Cow::Owned(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_have_microseconds() {
        let time = Duration::from_micros(1_700_000_000_000_042);
        assert_eq!(micro_time(time), "2023-11-14T22:13:20.000042Z");
        assert_eq!(micro_time(last(time + Duration::from_secs(7), LEASE)), micro_time(time));
    }
}
