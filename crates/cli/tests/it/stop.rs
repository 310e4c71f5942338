//! Signals that stop a command which has begun nothing yet.

use crate::support::Cluster;

const TOKEN: &str = "echo 'talmox@pve!ci=00000000-0000-0000-0000-000000000000'";

/// Two clusters. Whoever asks for the token of the first sends a signal to the program, before it can go on; whoever asks
/// for that of the second leaves a trace.
fn clusters(signal: &str) -> Cluster {
    let cluster = Cluster::new();
    let path = "inventory/dev/cluster.yaml";
    let text = cluster.folder.read(path).replace("pve:8006", "127.0.0.1:1");
    let with = |script: &std::path::Path| {
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
fn one_signal_stops_all_clusters_and_says_how_to_go_on() {
    for (signal, command) in [("TERM", "plan"), ("INT", "up dev ops --yes")] {
        let cluster = clusters(signal);
        let run = cluster.run(&format!("{command} --allow-commands"));
        assert_eq!(run.code, 1, "{command}: {}", run.stderr);
        let said = "error: stopped: nothing was begun that is not done\n\n\
            hint: the same command goes on from here\n";
        assert!(run.stderr.ends_with(said), "{command}: {}", run.stderr);
        assert_eq!(run.stdout, "", "{command}");
        assert!(!cluster.folder.path().join("asked").exists(), "{command} went on to the next");
        assert!(!cluster.folder.path().join("inventory/dev/secrets.sops.yaml").exists());
    }
}
