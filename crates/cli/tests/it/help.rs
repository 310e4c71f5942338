//! Help output of every command.

use crate::support::talmox;

/// Help of a command on a terminal with 80 columns.
fn help(path: &[String]) -> String {
    let output = talmox().env("COLUMNS", "80").args(path).arg("--help").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{path:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// Names and summaries of the commands below `Commands:`.
fn commands(help: &str) -> Vec<(String, String)> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    list.take_while(|line| !line.is_empty())
        .map(|line| {
            let line = line.strip_prefix("  ").unwrap();
            assert!(!line.starts_with(' '), "a summary is longer than a line: {line}");
            let (name, summary) = line.split_once(' ').unwrap();
            (name.to_owned(), summary.trim().to_owned())
        })
        .filter(|(name, _)| name != "help")
        .collect()
}

/// Collects all commands with their help, depth first.
fn all(path: &[String], found: &mut Vec<(String, String)>) {
    let text = help(path);
    let below = commands(&text);
    found.push((format!("talmox {}", path.join(" ")), text));
    for (name, _) in below {
        all(&[path, &[name]].concat(), found);
    }
}

/// Help without the options that many commands share.
fn without_shared(help: &str) -> String {
    let mut is_shared = false;
    let mut out = String::new();
    for line in help.lines() {
        if !line.is_empty() && !line.starts_with(' ') {
            is_shared = matches!(line, "Global options:" | "Lab options:" | "Access options:");
        }
        if !is_shared {
            out.push_str(&format!("{line}\n"));
        }
    }
    out
}

#[test]
fn every_command_explains_itself() {
    let mut found = vec![];
    all(&[], &mut found);
    assert!(found.len() > 35, "{} commands", found.len());
    // Each group of shared options is shown in full for one command.
    let in_full = ["talmox ", "talmox status", "talmox node services"];
    let mut out = String::new();
    for (name, text) in &found {
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{name}: {text}");
        let is_cut = |pair: &[&str]| {
            !pair[0].is_empty() && !pair[0].contains(' ') && !pair[0].ends_with(['.', ':'])
        };
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
        let cut = lines.windows(2).find(|pair| is_cut(pair) && !pair[1].is_empty());
        assert!(cut.is_none(), "{name}: a text is wrapped twice: {cut:?}");
        let examples = text.lines().skip_while(|line| *line != "Examples:").skip(1);
        for line in examples.take_while(|line| !line.is_empty()) {
            let is_whole = line.starts_with("  talmox ") || line.starts_with("  man ");
            assert!(is_whole, "{name}: an example is longer than a line: {line}");
        }
        let shown =
            if in_full.contains(&name.as_str()) { text.clone() } else { without_shared(text) };
        out.push_str(&format!("==== {}\n{}\n\n", name.trim_end(), shown.trim_end()));
    }
    insta::assert_snapshot!(out);
}

#[test]
fn only_options_of_the_lab_are_listed_under_their_heading() {
    let mut found = vec![];
    all(&[], &mut found);
    for (name, text) in &found {
        let listed = text.lines().skip_while(|line| *line != "Lab options:").skip(1);
        let listed = listed.take_while(|line| line.is_empty() || line.starts_with(' '));
        for line in listed.filter(|line| line.trim_start().starts_with("--")) {
            assert!(line.trim_start().starts_with("--lab"), "{name}: {line}");
        }
    }
    for command in ["up", "plan", "node reboot", "node shutdown", "node drain", "node replace"] {
        let path: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let text = help(&path);
        let (_, option) = text.split_once("--max-unavailable <WORKERS>").unwrap();
        let words: Vec<&str> = option.split_whitespace().take(60).collect();
        let words = words.join(" ");
        assert!(words.contains("number of workers") && words.contains("[default: 1]"), "{words}");
    }
}

#[test]
fn a_misspelled_argument_gets_a_hint() {
    for (args, hint) in [
        (vec!["stauts"], "'status'"),
        (vec!["up", "--labb"], "'--lab'"),
        (vec!["lab", "srve"], "'serve'"),
        (vec!["completions", "tcsh"], "bash, zsh, fish"),
    ] {
        let output = talmox().args(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(hint), "{args:?}: {text}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn completions_and_man_pages_contain_all_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = talmox().args(["completions", shell]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("destroy") && text.contains("lab-at"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    assert!(talmox().arg("man").arg(&pages).output().unwrap().status.success());
    let page = std::fs::read_to_string(pages.join("talmox-up.1")).unwrap();
    assert!(page.contains(".SH") && page.contains("talmox up \\-\\-lab"), "{page}");
    assert!(pages.join("talmox-node-get.1").exists());
}

/// Errors of the parser have a code as all other errors do.
#[test]
fn usage_errors_have_a_code() {
    for args in [["up", "--kepe"], ["destory", "dev"]] {
        let output = talmox().args(args).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        assert!(text.starts_with("error[usage]: "), "{text}");
        assert_eq!(text.matches("error").count(), 1, "{text}");
        assert!(text.contains("\n\nUsage: talmox"), "{text}");
    }
}
