//! Check of the run logs of both checkouts: no run may make a change between two changes of another run.
//!
//! Only the run logs of the same round are compared. Lab time can go back when the lab is killed, and no run lasts longer
//! than a round.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Operations of the Talos API that change a node.
const TALOS_CHANGES: [&str; 13] = [
    "ApplyConfiguration",
    "Bootstrap",
    "EtcdForfeitLeadership",
    "EtcdLeaveCluster",
    "EtcdRecover",
    "EtcdRemoveMemberByID",
    "MetaWrite",
    "Reboot",
    "Reset",
    "Rollback",
    "ServiceRestart",
    "Shutdown",
    "Upgrade",
];

/// Changes of one run, with their start times.
#[derive(Debug)]
struct RunChanges {
    run: String,
    /// Changes in the order of their times.
    changes: Vec<(f64, String)>,
}

/// Hard links to the run logs. They are kept even if the local state of a checkout is deleted.
pub(super) struct RunLogs {
    /// Directory with hard links to the logs of the current round.
    folder: PathBuf,
    /// Run logs that are already linked or checked.
    known: BTreeSet<PathBuf>,
}

impl RunLogs {
    /// Creates the directory for the links.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned(), known: BTreeSet::new() })
    }

    /// Creates hard links to the new run logs of a checkout. A link is the same file that the run writes to, so it stays
    /// complete.
    pub(super) fn keep(&mut self, checkout: &Path) -> io::Result<()> {
        let Ok(logs) = fs::read_dir(checkout.join(".talmox/runs")) else { return Ok(()) };
        for log in logs {
            let path = log?.path();
            if path.extension().is_some_and(|extension| extension == "jsonl")
                && self.known.insert(path.clone())
            {
                let link = self.folder.join(format!("{:06}.jsonl", self.known.len()));
                fs::hard_link(&path, link)?;
            }
        }
        Ok(())
    }

    /// Checks the run logs of a round, and removes their links. All runs of the round must have ended.
    pub(super) fn check(&self) -> io::Result<Vec<String>> {
        let mut links: Vec<PathBuf> = vec![];
        for link in fs::read_dir(&self.folder)? {
            links.push(link?.path());
        }
        links.sort();
        let mut runs = vec![];
        for link in &links {
            // A killed run may have left an incomplete character.
            runs.push(changes(&String::from_utf8_lossy(&fs::read(link)?)));
        }
        let violations = interleaved(&runs);
        // If there is a violation, the run logs are kept in the directory of the experiment.
        if violations.is_empty() {
            for link in &links {
                fs::remove_file(link)?;
            }
        }
        Ok(violations)
    }
}

/// Changes in a run log. A killed run may have left an incomplete line, which is ignored.
fn changes(log: &str) -> RunChanges {
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let header = lines.next().unwrap_or_default();
    let run = format!("{} at {}", header["command"].as_str().unwrap_or("run"), header["started"]);
    let mut changes: Vec<(f64, String)> = lines
        .filter_map(|line| {
            let call = &line["what"];
            let (api, object) = (call["api"].as_str()?, call["object"].as_str()?);
            let time = line["time"].as_f64()?;
            is_change(api, object).then(|| (time, object.to_owned()))
        })
        .collect();
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    RunChanges { run, changes }
}

/// Whether a call changes a cluster. The pools of the locks do not count, because runs write them to decide which run may
/// make changes.
fn is_change(api: &str, object: &str) -> bool {
    let (operation, rest) = object.split_once(' ').unwrap_or((object, ""));
    let is_dry = rest.contains("(dry run)");
    let is_read = is_dry || matches!(operation, "GET" | "HEAD");
    match api {
        "pve" => !is_read && !rest.starts_with("/pools") && !rest.starts_with("/access/"),
        "kube" => !is_read,
        "talos" => !is_dry && TALOS_CHANGES.contains(&operation),
        _ => false,
    }
}

/// Violations: changes of a run between the first and the last change of another run.
fn interleaved(runs: &[RunChanges]) -> Vec<String> {
    let mut violations = vec![];
    for (nth, outer) in runs.iter().enumerate() {
        let (Some((first, _)), Some((last, _))) = (outer.changes.first(), outer.changes.last())
        else {
            continue;
        };
        for (_, inner) in runs.iter().enumerate().filter(|(other, _)| *other != nth) {
            let between = inner.changes.iter().find(|(at, _)| first < at && at < last);
            violations.extend(between.map(|(at, object)| {
                format!(
                    "`{}` made a change between two changes of `{}`: {object} at {at}",
                    inner.run, outer.run
                )
            }));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn log(started: u32, calls: &[(u32, &str, &str)]) -> String {
        let header = json!({"format": 1, "command": "up", "started": started});
        let line = |(time, api, object): &(u32, &str, &str)| {
            let what = json!({"event": "api_call", "api": api, "object": object});
            format!("{}\n", json!({"time": time, "what": what}))
        };
        format!("{header}\n{}", calls.iter().map(line).collect::<String>())
    }

    #[test]
    fn a_change_between_two_changes_of_another_run_is_a_violation() {
        let first = log(
            1,
            &[(10, "pve", "POST /nodes/pve1/qemu"), (30, "pve", "PUT /nodes/pve1/qemu/1/config")],
        );
        let inside = log(2, &[(20, "talos", "Bootstrap on 10.0.0.11:50000")]);
        let found = interleaved(&[changes(&first), changes(&inside)]);
        assert_eq!(
            found,
            [
                "`up at 2` made a change between two changes of `up at 1`: Bootstrap on 10.0.0.11:50000 at 20"
            ]
        );
        let after = log(3, &[(31, "talos", "Bootstrap on 10.0.0.11:50000")]);
        assert!(interleaved(&[changes(&first), changes(&after)]).is_empty());
    }

    #[test]
    fn reads_and_locks_are_not_changes() {
        for (api, object) in [
            ("pve", "GET /version"),
            ("pve", "PUT /pools"),
            ("pve", "POST /pools"),
            ("pve", "DELETE /pools/talmox-lock"),
            ("talos", "Version on 10.0.0.11:50000"),
            ("talos", "Get MachineStatuses.runtime.talos.dev on 10.0.0.11:50000"),
            ("talos", "ApplyConfiguration (dry run) on 10.0.0.11:50000"),
            ("kube", "GET /api/v1/nodes"),
            ("kube", "PATCH /api/v1/namespaces/shop (dry run)"),
            ("web", "POST https://factory.talos.dev/schematics"),
        ] {
            assert!(!is_change(api, object), "{object}");
        }
        assert!(is_change("pve", "DELETE /nodes/pve1/qemu/311"));
        assert!(is_change("kube", "PATCH /api/v1/nodes/cp-1"));
        assert!(is_change("talos", "ApplyConfiguration on 10.0.0.11:50000"));
    }

    #[test]
    fn half_a_line_at_the_end_hides_no_other() {
        let whole = log(1, &[(10, "pve", "POST /nodes/pve1/qemu")]);
        let found = changes(&format!("{whole}{{\"time\":11,\"what\":{{\"ev"));
        assert_eq!(found.changes, [(10.0, "POST /nodes/pve1/qemu".to_owned())]);
    }

    #[test]
    fn logs_of_a_deleted_checkout_are_checked_once() {
        let made = std::process::Command::new("mktemp").arg("-d").output().unwrap();
        let root = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
        let runs = |checkout: &str| root.join(checkout).join(".talmox/runs");
        let mut logs = RunLogs::new(&root.join("run-logs")).unwrap();
        for (checkout, text) in [
            ("a", log(1, &[(10, "pve", "POST /nodes"), (30, "pve", "POST /nodes")])),
            ("b", log(2, &[(20, "pve", "POST /nodes")])),
        ] {
            fs::create_dir_all(runs(checkout)).unwrap();
            fs::write(runs(checkout).join("1-up.jsonl"), text).unwrap();
            logs.keep(&root.join(checkout)).unwrap();
        }
        fs::remove_dir_all(root.join("a")).unwrap();
        assert_eq!(logs.check().unwrap().len(), 1);
        fs::remove_dir_all(root.join("run-logs")).unwrap();
        fs::create_dir(root.join("run-logs")).unwrap();
        logs.keep(&root.join("b")).unwrap();
        assert!(logs.check().unwrap().is_empty(), "a log is not checked twice");
        fs::remove_dir_all(root).unwrap();
    }
}
