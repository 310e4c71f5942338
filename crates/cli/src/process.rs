//! Identification of processes, to find out whether the holder of a lock still runs.

use std::fs;

use talmox_engine::cluster_lock::{Holder, Life, ProcessMark};
use talmox_plan::ownership::ClusterMark;

use crate::environment;

/// Name of this machine, for messages.
pub(crate) fn host() -> String {
    let own = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let own = own.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    own.or_else(|| environment::variable("HOSTNAME")).unwrap_or_else(|| "unknown".to_owned())
}

/// Name of the current user, for messages.
pub(crate) fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(environment::variable);
    named.unwrap_or_else(|| "unknown".to_owned())
}

/// Identification of this process. `None` on systems other than Linux.
pub(crate) fn own_mark() -> Option<ProcessMark> {
    Some(ProcessMark { space: space()?, started: started("self")? })
}

/// Whether the process that holds a lock is running. `Dead` is returned only if an existing process would be visible to
/// this process.
pub(crate) fn life(holder: &Holder) -> Life {
    let (Some(theirs), Some(own)) = (&holder.process, space()) else { return Life::Unknown };
    if theirs.space != own {
        return Life::Unknown;
    }
    match started(&holder.pid.to_string()) {
        Some(started) if started == theirs.started => Life::Alive,
        // The process does not exist, or its pid was reused.
        _ => Life::Dead,
    }
}

/// Scope in which a pid is unique and visible. It consists of the boot of a machine, the pid namespace and the user.
/// Containers reuse pids, and the processes of other users may be hidden.
fn space() -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let user = fs::metadata("/proc/self").ok()?.uid();
    let all = format!("process space {} {} {user} {}", boot.trim(), namespace.display(), host());
    Some(ClusterMark::of(&all).to_string())
}

/// Start time of a process, in clock ticks since boot.
fn started(process: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program name is in parentheses, and may contain any character.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    // A zombie process counts as not running.
    let is_running = !matches!(fields.next()?, "Z" | "X");
    fields.nth(18).filter(|_| is_running).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(pid: u32, process: Option<ProcessMark>) -> Holder {
        let text = || "x".to_owned();
        Holder {
            cluster: text(),
            command: text(),
            user: text(),
            host: text(),
            pid,
            run: text(),
            since: text(),
            process,
        }
    }

    #[test]
    fn a_process_is_dead_only_if_it_would_be_visible() {
        let Some(own) = own_mark() else { return };
        assert_eq!(life(&holder(std::process::id(), Some(own.clone()))), Life::Alive);
        let earlier = ProcessMark { started: "0".to_owned(), ..own.clone() };
        assert_eq!(life(&holder(std::process::id(), Some(earlier))), Life::Dead, "another process");
        assert_eq!(life(&holder(u32::MAX, Some(own.clone()))), Life::Dead, "no such process");
        let elsewhere = ProcessMark { space: "elsewhere".to_owned(), ..own };
        assert_eq!(life(&holder(u32::MAX, Some(elsewhere))), Life::Unknown);
        assert_eq!(life(&holder(u32::MAX, None)), Life::Unknown);
    }
}
