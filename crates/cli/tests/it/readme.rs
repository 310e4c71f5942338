//! Comparison of the README transcripts with the output of the program.

use std::fs;

use crate::support::{Folder, repository, talmox};

/// Arguments and output of each transcript in the README.
fn transcripts() -> Vec<(String, String)> {
    let text = fs::read_to_string(repository().join("README.md")).unwrap();
    let blocks = text.split("```console\n").skip(1).filter_map(|rest| rest.split_once("```"));
    blocks
        .map(|(block, _)| {
            let (command, printed) = block.split_once('\n').unwrap();
            let args = command.strip_prefix("$ talmox ").expect("a run of talmox");
            (args.to_owned(), printed.to_owned())
        })
        .collect()
}

const CLUSTER: &str = "\
cluster_name: dev
talos_version: v1.8.2
kubernetes_version: v1.30.1

network:
  subnet: 10.0.10.0/24
  gateway: 10.0.10.1
proxmox: {endpoint: https://pve1:8006, token: {env: PROXMOX_TOKEN}, node: pve1}
";

const NODES: &str = "\
controlplane:
  - name: dev-cp-1
    ip: 10.0.10.11
    cpu: 4
    ram: 8192
    disk: 40G

workers:
  - name: dev-wk-1
    ip: 10.0.11.21
    cpu: 4
    rma: 8192
    disk: 60G
";

#[test]
fn the_transcripts_match_the_output() {
    let transcripts = transcripts();
    assert_eq!(transcripts.len(), 3);
    for (args, shown) in transcripts {
        let printed = if args.contains("examples/") {
            let output = talmox().current_dir(repository()).args(args.split(' ')).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        } else {
            let folder = Folder::new();
            folder.write("inventory/dev/cluster.yaml", CLUSTER);
            folder.write("inventory/dev/nodes.yaml", NODES);
            let run = folder.talmox(&args);
            format!("{}{}", run.stderr, run.stdout)
        };
        // An ellipsis at the end shows that the transcript is shortened.
        match shown.strip_suffix("…\n") {
            Some(start) => assert!(printed.starts_with(start), "{args}:\n{printed}"),
            None => assert_eq!(printed, shown, "{args}"),
        }
    }
}

/// docs/TIMEOUTS.md lists every key of `timeouts:` with its default.
#[test]
fn the_documented_timeouts_are_the_built_in_ones() {
    let read = |path: &str| fs::read_to_string(repository().join(path)).unwrap();
    let builtin = read("crates/model/src/builtin.yaml");
    let line = builtin.lines().find_map(|line| line.strip_prefix("timeouts: {")).unwrap();
    let documented = read("docs/TIMEOUTS.md");
    let all: Vec<(&str, &str)> = line
        .trim_end_matches('}')
        .split(", ")
        .map(|entry| entry.split_once(": ").unwrap())
        .collect();
    assert_eq!(all.len(), 5, "{line}");
    for (key, default) in all {
        let row = format!("\n| `{key}` | {default} | ");
        assert!(documented.contains(&row), "{row}");
    }
    assert!(read("README.md").contains("](docs/TIMEOUTS.md)"), "the README must link it");
}
