//! Tests of the trace output with `-v` and in run logs, and that it contains no secrets.

use std::fs;
use std::process::Command;

use serde_json::Value as Json;

use crate::lab::{IN_FILE, ServedLab};
use crate::secrets::private_values;
use crate::support::{Cluster, Run, skip_test};

const LAB: &str = "--inventory inventory/dev --speed 20";

#[track_caller]
fn fine(run: Run) -> Run {
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    run
}

/// Texts of all run logs.
fn logs(cluster: &Cluster) -> String {
    let folder = cluster.folder.path().join("inventory/dev/.talmox/runs");
    let files = fs::read_dir(folder).unwrap().flatten();
    files.map(|file| fs::read_to_string(file.path()).unwrap()).collect()
}

/// Searches texts for secrets, as plain text and in base64.
#[track_caller]
pub(crate) fn assert_no_secret(secrets: &[String], texts: &[(&str, &str)]) {
    let signs = ["PRIVATE KEY", "LS0tLS1CRUdJTi", "PVEAPIToken=", "PVEAuthCookie"];
    for secret in secrets.iter().map(String::as_str).chain(signs) {
        assert!(secret.len() > 6, "`{secret}` would be found anywhere");
        for (name, text) in texts {
            let leak = text.lines().find(|line| line.contains(secret));
            assert_eq!(leak, None, "{name} holds a secret");
        }
    }
}

/// `adopt` needs a cluster without an inventory. Its traces are searched in `adopt.rs`.
#[test]
fn no_trace_holds_a_secret() {
    const VALUE: &str = "a-value-of-secrets-set";
    let cluster = Cluster::with_secrets();
    let lab = ServedLab::in_file(&cluster, LAB);
    let mut reported = String::new();
    for (command, stdin) in [
        ("check".to_owned(), ""),
        (format!("check --live {IN_FILE}"), ""),
        ("secrets set values.test".to_owned(), VALUE),
        ("render".to_owned(), ""),
        (format!("plan {IN_FILE}"), ""),
        (format!("up --yes {IN_FILE}"), ""),
        (format!("plan {IN_FILE}"), ""),
        (format!("status {IN_FILE}"), ""),
        (format!("node get cp-1 members {IN_FILE}"), ""),
        (format!("node get cp-1 machineconfig --admin {IN_FILE}"), ""),
        (format!("node apply generated/wk-1.yaml wk-1 --dry-run {IN_FILE}"), ""),
        (format!("node apply generated/wk-1.yaml wk-1 --mode staged {IN_FILE}"), ""),
        (format!("node reboot wk-1 --yes {IN_FILE}"), ""),
        (format!("node replace wk-1 --allow-removal --yes {IN_FILE}"), ""),
        (format!("etcd members {IN_FILE}"), ""),
        (format!("etcd defrag --yes {IN_FILE}"), ""),
        (format!("etcd alarms {IN_FILE}"), ""),
        (format!("unlock --yes {IN_FILE}"), ""),
        ("kubeconfig --force --output kubeconfig.test".to_owned(), ""),
        (format!("destroy --yes {IN_FILE}"), ""),
    ] {
        let run = fine(cluster.run_with(&format!("-vv {command}"), stdin));
        reported.push_str(&format!("== {command}\n{}", run.stderr));
    }
    let template = cluster.checkout();
    let text = template.folder.read("inventory/dev/cluster.yaml");
    let text = text.replace("1}\n", "1, template: talos-v1.11.2-base}\n");
    template.folder.write("inventory/dev/cluster.yaml", &format!("{text}boot: template\n"));
    let run = fine(template.run(&format!("-vv template create --yes {IN_FILE}")));
    reported.push_str(&format!("== template create\n{}", run.stderr));
    let logs = format!("{}{}", logs(&cluster), logs(&template));

    // Calls to each API are logged with the outcome and the step.
    let has = |start: &str, end: &str| {
        reported.lines().any(|line| line.contains(start) && line.ends_with(end))
    };
    assert!(has("  pve   POST /nodes/pve/qemu: 200 (", " ms) [vm/cp-1/create]"), "{reported}");
    assert!(has("  pve   GET /cluster/resources: 200 (", " ms)"), "{reported}");
    assert!(
        has("  talos Bootstrap on 10.0.0.11:50000: ok (", " ms) [etcd/bootstrap]"),
        "{reported}"
    );
    assert!(has("  kube  GET /version: 200 (", ""), "{reported}");
    assert!(has("  web   POST https://factory.talos.dev/schematics: ", "]"), "{reported}");
    assert!(has("  plan  cp-1: skipped: its VM ", " is as desired"), "{reported}");
    assert!(has("  talos ApplyConfiguration (dry run) on 10.0.0.21:50000: ok (", ""), "{reported}");
    assert!(has("  talos ApplyConfiguration on 10.0.0.21:50000: ok (", ""), "{reported}");
    assert!(has("  pve   POST /nodes/pve/qemu/9000/template: 200 (", ""), "{reported}");
    for area in ["pve", "talos", "kube", "web"] {
        assert!(logs.contains(&format!("\"api\":\"{area}\"")), "{area}: {logs}");
    }

    let mut secrets = private_values(&cluster);
    assert!(secrets.len() >= 9, "{}", secrets.len());
    secrets.extend([lab.pve("token_secret"), lab.pve("password")].map(str::to_owned));
    secrets.push(VALUE.to_owned());
    assert_no_secret(
        &secrets,
        &[("stderr", reported.as_str()), ("the log of a run", logs.as_str())],
    );
}

#[test]
fn trace_output_does_not_change_results_and_can_be_filtered() {
    let mut cluster = Cluster::of_one_node();
    let _lab = ServedLab::in_file(&cluster, LAB);
    let plain = fine(cluster.run(&format!("plan {IN_FILE}")));
    let loud = fine(cluster.run(&format!("plan -vv {IN_FILE}")));
    assert_eq!(plain.stdout, loud.stdout);
    let is_line = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let rest: Vec<&str> = loud.stderr.lines().filter(|line| !is_line(line)).collect();
    assert_eq!(plain.stderr.lines().collect::<Vec<_>>(), rest, "lines are added, and none changed");
    assert!(loud.stderr.contains("  pve   GET /version: 200 ("), "{}", loud.stderr);

    // `-v` does not show reads.
    let brief = fine(cluster.run(&format!("plan -v {IN_FILE}"))).stderr;
    assert!(!brief.contains(" GET "), "{brief}");
    let quiet = fine(cluster.run(&format!("up --quiet --yes {IN_FILE}")));
    assert!(
        quiet.stdout.contains("is Ready") || quiet.stdout.contains("are Ready"),
        "{}",
        quiet.stdout
    );
    let printed: Vec<&str> = quiet.stderr.lines().filter(|line| line.contains("s  ")).collect();
    assert!(!quiet.stderr.contains("✓") && !quiet.stderr.contains(" steps done"), "{printed:?}");

    cluster.set("TALMOX_LOG", "web=info,plan=info");
    let chosen = fine(cluster.run(&format!("plan {IN_FILE}"))).stderr;
    assert!(chosen.contains("  plan  cp-1: skipped: "), "{chosen}");
    assert!(!chosen.contains("  pve   "), "{chosen}");
    cluster.set("TALMOX_LOG", "h2=trace");
    let wrong = cluster.run(&format!("plan {IN_FILE}"));
    assert_eq!(wrong.code, 64, "{}", wrong.stderr);
    assert!(
        wrong.stderr.contains("`h2` is neither an area of talmox nor a level"),
        "{}",
        wrong.stderr
    );
    assert!(wrong.stderr.contains("hint: for example TALMOX_LOG=info"), "{}", wrong.stderr);
    assert_eq!(cluster.run("check -q -v").code, 64);
}

#[test]
fn runs_show_prints_the_timeline_with_api_calls() {
    let cluster = Cluster::of_one_node();
    let _lab = ServedLab::in_file(&cluster, LAB);
    assert_eq!(cluster.run("runs show").code, 1);
    for command in ["runs 1", "runs show 1", "runs 1 --format json"] {
        let run = cluster.run(command);
        assert_eq!(run.code, 1, "{command}");
        let error = "error[run-unknown]: there is no run 1\n\nhint: run `talmox runs`";
        assert!(run.stderr.starts_with(error), "{command}: {}", run.stderr);
    }
    fine(cluster.run(&format!("up --yes {IN_FILE}")));
    let brief = fine(cluster.run("runs show last")).stdout;
    assert!(brief.starts_with("up of dev, started "), "{brief}");
    assert!(brief.contains("  vm/cp-1/create  done, "), "{brief}");
    assert!(brief.contains("  etcd/bootstrap  done, "), "{brief}");
    let all = fine(cluster.run("runs show --calls")).stdout;
    assert!(all.contains("    pve   POST /nodes/pve/qemu: 200\n"), "{all}");
    assert!(all.lines().count() > brief.lines().count(), "{all}");

    let json: Json =
        serde_json::from_str(&fine(cluster.run("runs show --format json")).stdout).unwrap();
    let id = json["run"]["id"].as_str().unwrap();
    let shown = fine(cluster.run(&format!("runs show {id}"))).stdout;
    assert_eq!(shown, brief);
    let step = |name: &str| {
        let steps = json["steps"].as_array().unwrap().iter();
        steps.filter(|step| step["step"] == name).collect::<Vec<_>>()[0].clone()
    };
    let create = step("vm/cp-1/create");
    assert_eq!((&create["end"], create["seconds"].is_f64()), (&"done".into(), true), "{create:#}");
    let calls = create["calls"].as_array().unwrap();
    let post = calls.iter().find(|call| call["object"] == "POST /nodes/pve/qemu").unwrap();
    assert_eq!((&post["outcome"], &post["retries"]), (&"200".into(), &0.into()), "{post:#}");
    let (from, to) = (create["start"].as_f64().unwrap(), post["start"].as_f64().unwrap());
    assert!(from <= to && post["seconds"].as_f64().unwrap() >= 0.0, "{create:#}");

    // `runs last` prints the same output as `runs` with the ID. The run log has a JSON line for each event and each call.
    let replayed = fine(cluster.run("runs last")).stdout;
    assert_eq!(replayed, fine(cluster.run(&format!("runs {id}"))).stdout);
    assert!(replayed.contains("✓ vm/cp-1/create") && !replayed.contains("POST"), "{replayed}");
    let raw = fine(cluster.run(&format!("runs {id} --format json"))).stdout;
    let lines: Vec<Json> = raw.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let in_log = lines.iter().filter(|line| line["what"]["event"] == "api_call").count();
    let steps = json["steps"].as_array().unwrap().iter();
    let in_steps: usize = steps.map(|step| step["calls"].as_array().unwrap().len()).sum();
    let others = json["other_calls"].as_array().unwrap().len();
    let earlier = json["earlier_calls"].as_array().unwrap();
    let version = earlier.iter().find(|call| call["object"] == "GET /version").unwrap();
    assert!(version["start"].as_f64().unwrap() < 0.0, "the plan was made from it: {version:#}");
    assert!(brief.contains("  before the run  "), "{brief}");
    assert_eq!((in_steps + others + earlier.len(), &json["lost_calls"]), (in_log, &0.into()));
    assert!(in_steps > 20, "{in_steps}");
    assert_eq!(cluster.run("runs x show last").code, 64);
}

#[test]
fn trace_lines_are_above_the_live_view() {
    let cluster = Cluster::of_one_node();
    let program = env!("CARGO_BIN_EXE_talmox");
    let up = format!(
        "stty cols 120 rows 30; TERM=xterm NO_COLOR=1 {program} up --lab --lab-speed 20 -vv"
    );
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &up, "/dev/null"])
        .current_dir(cluster.folder.path())
        .env("HOME", cluster.folder.path().join("home"))
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return skip_test(&format!("a terminal needs util-linux's script: {error}")),
    };
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(shown.contains("\u{1b}[J") && shown.contains(" steps, "), "there is a view: {shown}");
    // A trace line starts after the sequence that erases the live view or the progress line, or after the previous line.
    let start =
        |line: &str| line.rfind("\u{1b}[J").max(line.rfind("\u{1b}[K")).map_or(0, |at| at + 3);
    let lines = shown.split("\r\n").map(|line| &line[start(line)..]);
    let traced: Vec<&str> = lines.filter(|line| line.contains("s  pve   ")).collect();
    assert!(traced.len() > 20, "{shown}");
    for line in traced {
        let (time, _) = line.split_once("s  pve   ").unwrap();
        assert!(time.trim_start().parse::<f64>().is_ok(), "{line:?}");
    }
}
