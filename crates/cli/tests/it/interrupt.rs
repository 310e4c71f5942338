//! Signals that arrive before a command has made a change.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::{Cluster, Folder};

const TOKEN: &str = "echo 'talmox@pve!ci=00000000-0000-0000-0000-000000000000'";

/// Inventory with two clusters. The token command of the first cluster sends a signal to talmox. The token command of the
/// second cluster creates a file.
fn clusters(signal: &str) -> Cluster {
    let cluster = Cluster::new();
    let path = "inventory/dev/cluster.yaml";
    let text = cluster.folder.read(path).replace("pve:8006", "127.0.0.1:1");
    let with = |script: &Path| {
        let reference = format!("{{command: [\"{}\"]}}", script.display());
        text.replace("{secret: proxmox.token}", &reference)
    };
    let first = cluster.script("first", &format!("kill -s {signal} $PPID\n{TOKEN}"));
    let second = cluster.script("second", &format!("touch asked\n{TOKEN}"));
    cluster.folder.write(path, &with(&first));
    let other = with(&second).replace("10.0.0.", "10.9.0.");
    let other = other.replace("cp-1", "cp-9").replace("wk-1", "wk-9");
    cluster.folder.write("inventory/ops/cluster.yaml", &other);
    cluster
}

#[test]
fn one_signal_stops_all_clusters_with_a_hint() {
    for (signal, command) in [("TERM", "plan"), ("INT", "up dev ops --yes")] {
        let cluster = clusters(signal);
        let run = cluster.run(&format!("{command} --allow-commands"));
        assert_eq!(run.code, 1, "{command}: {}", run.stderr);
        let printed = "error[interrupted]: interrupted: no step was left unfinished\n\n\
            hint: run the same command to resume\n";
        assert!(run.stderr.ends_with(printed), "{command}: {}", run.stderr);
        assert_eq!(run.stdout, "", "{command}");
        assert!(!cluster.folder.path().join("asked").exists(), "{command} went on to the next");
        assert!(!cluster.folder.path().join("inventory/dev/secrets.sops.yaml").exists());
    }
}

fn count(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// The tasks of a lab own the folder of the lab, so the process must not exit before the tasks end.
#[test]
fn an_interrupted_lab_removes_its_folder() {
    for nth in 0..10 {
        let (here, temporary) = (Folder::new(), Folder::new());
        let mut command = Command::new(env!("CARGO_BIN_EXE_talmox"));
        command.current_dir(here.path()).env("HOME", here.path());
        command.env("TMPDIR", temporary.path()).stdout(Stdio::null()).stderr(Stdio::null());
        // The lab is so slow that the command is still running when the signal arrives.
        command.args(["plan", "--lab", "--lab-speed", "1", "--lab-profile", "slow"]);
        let mut process = command.spawn().unwrap();
        // These are the folder of the inventory and the folder of the lab.
        while count(temporary.path()) < 2 {
            assert!(process.try_wait().unwrap().is_none(), "it ended too early");
            thread::park_timeout(Duration::from_millis(5));
        }
        thread::park_timeout(Duration::from_millis(20 * nth));
        let pid = process.id().to_string();
        assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
        process.wait().unwrap();
        assert_eq!(count(temporary.path()), 0, "{nth}");
    }
}
