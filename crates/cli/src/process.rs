//! This process, as other runs on the same machine recognise it, and whether another one still runs.

use std::fs;

use talmox_engine::cluster_lock::{Holder, Life, ProcessMark};
use talmox_plan::ownership::ClusterMark;

use crate::environment;

/// The name of this machine, for people.
pub(crate) fn host() -> String {
    let own = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let own = own.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    own.or_else(|| environment::variable("HOSTNAME")).unwrap_or_else(|| "unknown".to_owned())
}

/// The user who runs this, for people.
pub(crate) fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(environment::variable);
    named.unwrap_or_else(|| "unknown".to_owned())
}

/// How others recognise this process. None where the kernel does not say it as Linux does.
pub(crate) fn own_mark() -> Option<ProcessMark> {
    Some(ProcessMark { space: space()?, started: started("self")? })
}

/// Whether the process of a holder runs. Only a process that this one would see if it ran can be said to be dead.
pub(crate) fn life(holder: &Holder) -> Life {
    let (Some(theirs), Some(own)) = (&holder.process, space()) else { return Life::Unknown };
    if theirs.space != own {
        return Life::Unknown;
    }
    match started(&holder.pid.to_string()) {
        Some(started) if started == theirs.started => Life::Alive,
        // No such process, or its number was given to another one.
        _ => Life::Dead,
    }
}

/// Where the number of a process counts: a boot of a machine; a namespace, as containers on one machine have processes of
/// the same number; and a user, as the processes of others may be hidden.
fn space() -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let user = fs::metadata("/proc/self").ok()?.uid();
    let all = format!("process space {} {} {user} {}", boot.trim(), namespace.display(), host());
    Some(ClusterMark::of(&all).to_string())
}

/// When a process started, in ticks since the machine booted.
fn started(process: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program is in parentheses, and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    // A process that has ended and was not collected by its parent does not run.
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
    fn a_process_is_dead_only_if_this_one_would_see_it() {
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
