//! Simulation of another machine: `talmox` runs in a PID namespace of its own.
//!
//! On the same machine, `talmox` can check by the process ID that a run was killed, and takes over its lock at once. In
//! another PID namespace, `talmox` cannot see the process, and waits for the end of the lease.

use std::path::Path;
use std::process::{Command, Stdio};

/// Options of `unshare` for root. `--kill-child` ends the run together with `unshare`. So a kill of `unshare` also kills
/// the run.
const AS_ROOT: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];
/// Additional options for other users. They may create a PID namespace only inside a user namespace.
const AS_USER: [&str; 2] = ["--user", "--map-root-user"];

/// Options of `unshare` that run a program in a PID namespace of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OtherMachine {
    options: Vec<&'static str>,
}

impl OtherMachine {
    /// Finds options of `unshare` that work on this system. `None` if no options work.
    pub(super) fn find() -> Option<Self> {
        let as_root = AS_ROOT.to_vec();
        let as_user = AS_USER.into_iter().chain(AS_ROOT).collect();
        [as_root, as_user].into_iter().map(|options| Self { options }).find(Self::works)
    }

    fn works(&self) -> bool {
        let mut probe = self.command(Path::new("true"));
        probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    }

    /// Command that runs a program in a PID namespace of its own.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("unshare");
        command.args(&self.options).arg("--").arg(program);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_on_another_machine_has_its_own_process_ids() {
        // On systems that allow no namespaces, both checkouts run on one machine.
        let Some(other) = OtherMachine::find() else { return };
        let mut shell = other.command(Path::new("sh"));
        let printed = shell.args(["-c", "echo $$; readlink /proc/self/ns/pid"]).output().unwrap();
        let printed = String::from_utf8(printed.stdout).unwrap();
        let mut lines = printed.lines();
        assert_eq!(lines.next(), Some("1"), "{printed}");
        let own = std::fs::read_link("/proc/self/ns/pid").unwrap();
        assert_ne!(lines.next().map(std::path::PathBuf::from), Some(own));
    }
}
