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

/// The inventory files of the README: path and content.
fn inventory() -> Vec<(String, String)> {
    let text = fs::read_to_string(repository().join("README.md")).unwrap();
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split_once("```"));
    blocks
        .map(|(block, _)| {
            let path = block.lines().next().unwrap().strip_prefix("# ").expect("a path");
            (path.to_owned(), block.to_owned())
        })
        .collect()
}

/// The last node of the README, and the same node with the mistakes that the transcript shows.
const NODE: &str = "ip: 10.0.10.21, cpu: 4, ram: 8G";
const MISTAKES: &str = "ip: 10.0.11.21, cpu: 4, rma: 8G";

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
            let files = inventory();
            assert!(files.iter().any(|(_, text)| text.contains(NODE)), "{files:?}");
            for (path, text) in files {
                folder.write(&path, &text.replace(NODE, MISTAKES));
            }
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
