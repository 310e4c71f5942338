//! `talmox explain`

use serde_json::Value as Json;

use crate::support::Folder;

#[test]
fn a_code_is_explained_for_people_and_for_programs() {
    let folder = Folder::new();
    let run = folder.talmox("explain vm-foreign");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let (title, rest) = run.stdout.split_once("\n\n").unwrap();
    assert!(title.starts_with("vm-foreign: A VM that talmox does not manage"), "{title}");
    assert!(rest.contains("\n\nWhat to do: Give the node another `vmid:`"), "{rest}");
    let run = folder.talmox("explain vm-foreign --format json");
    let json: Json = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&json["code"], &json["group"]), (&"vm-foreign".into(), &"plan".into()));
    assert!(json["meaning"].as_str().unwrap().contains("marker"), "{json}");
    assert!(json["action"].as_str().unwrap().starts_with("Give the node"), "{json}");
}

#[test]
fn all_codes_are_listed_in_their_groups() {
    let folder = Folder::new();
    let listed = folder.talmox("explain").stdout;
    let mut groups = listed.split("\n\n");
    for (name, code) in [
        ("inventory", "unknown-key"),
        ("plan", "right-missing"),
        ("run", "task-failed"),
        ("command", "cluster-locked"),
    ] {
        let group = groups.next().unwrap();
        assert!(group.starts_with(&format!("{name}: ")), "{group}");
        assert!(group.contains(&format!("\n  {code} ")), "{group}");
    }
    assert_eq!(groups.next(), None);
    let run = folder.talmox("explain --format json");
    let json: Json = serde_json::from_str(&run.stdout).unwrap();
    let codes = json["codes"].as_array().unwrap();
    let lines = listed.lines().filter(|line| line.starts_with("  ")).count();
    assert_eq!(codes.len(), lines);
}

#[test]
fn an_unknown_code_is_wrong_usage() {
    let run = Folder::new().talmox("explain vm-foriegn");
    assert_eq!(run.code, 64);
    assert_eq!(run.stdout, "");
    let printed =
        "error[code-unknown]: there is no code `vm-foriegn`\n\nhint: did you mean `vm-foreign`?\n";
    assert_eq!(run.stderr, printed);
}

#[test]
fn shells_complete_codes() {
    for shell in ["bash", "zsh"] {
        let script = Folder::new().talmox(&format!("completions {shell}")).stdout;
        assert!(script.contains("vm-foreign"), "{shell}");
    }
}
