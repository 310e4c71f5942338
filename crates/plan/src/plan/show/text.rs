use std::collections::BTreeSet;

use super::effect::Effect;
use super::group::{Group, groups};
use super::left::word;
use super::line::{aligned, shortened, wrapped};
use super::removed_node::merged;
use crate::plan::Plan;
use crate::plan::change::{Change, Class, Finding, Left, Severity};

/// Maximum width of a table. A wider table is shown as one block per row.
const WIDTH: usize = 100;
const INDENT: &str = "    ";

/// The plan as text: changes, findings, and a summary in the last lines. Objects with the same change are grouped. Changes
/// that no step makes are shown after the planned changes, with the reason.
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    let planned = merged(plan.changes.iter().filter(|change| change.is_planned));
    let open = merged(plan.open_changes());
    for changes in [&planned, &open] {
        for group in groups(changes.iter().map(|change| &**change)) {
            out.push_str(&block(&group));
            out.push('\n');
        }
    }
    out.push_str(&findings(plan));
    if !plan.findings.is_empty() {
        out.push('\n');
    }
    out.push_str(&resets(plan));
    out.push_str(&sum(plan));
    out
}

/// Text about the VMs that the run may reset. The plan shows it, so that the user can decide before the run.
fn resets(plan: &Plan) -> String {
    let nodes = plan.may_reset();
    if nodes.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = nodes.iter().map(|(name, _)| *name).collect();
    let most = nodes.iter().map(|(_, resets)| *resets).max().unwrap_or_default();
    let text = format!(
        "may reset (new VMs only, at most {most} times, if Talos does not answer on the first boot): {}",
        names.join(", ")
    );
    wrapped(&text, WIDTH).iter().map(|line| format!("{line}\n")).collect::<String>() + "\n"
}

/// The findings as text. Findings that differ only in their subject are shown as one.
pub fn findings(plan: &Plan) -> String {
    alike(plan).iter().map(|findings| finding_text(findings)).collect()
}

/// The number of errors and the number of warnings that [`findings`] shows.
pub fn count_findings(plan: &Plan) -> (usize, usize) {
    let all = alike(plan);
    let errors = all.iter().filter(|findings| findings[0].severity == Severity::Error).count();
    (errors, all.len() - errors)
}

/// The findings in groups. The findings of a group differ only in their subject.
fn alike(plan: &Plan) -> Vec<Vec<&Finding>> {
    let mut groups: Vec<Vec<&Finding>> = vec![];
    for finding in &plan.findings {
        let is_same = |other: &Finding| {
            (other.severity, other.code, &other.message, &other.hint)
                == (finding.severity, finding.code, &finding.message, &finding.hint)
        };
        match groups.iter_mut().find(|group| is_same(group[0])) {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    groups
}

fn block(group: &Group<'_>) -> String {
    let first = group.first();
    let sign = match first.class {
        Class::Create => '+',
        Class::Destroy => '-',
        Class::Live | Class::Reboot | Class::Drain | Class::Replace => '~',
    };
    let effect = Effect::of(first).as_str();
    let effect = if first.is_planned {
        format!("{effect}{}", consequence(first))
    } else {
        format!("{effect}, not done: {}", word(first.left))
    };
    let mut out = format!("{sign} {}  ({effect})\n", group.title());
    let shared: Vec<Vec<String>> =
        group.shared().into_iter().map(|(path, value)| vec![path, shortened(&value)]).collect();
    let own = group.own();
    if own[0].1.is_empty() && own.len() > 1 {
        let names: Vec<&str> = own.iter().map(|(name, _)| *name).collect();
        for line in wrapped(&names.join(", "), WIDTH - INDENT.len()) {
            out.push_str(&format!("{INDENT}{line}\n"));
        }
    }
    out.push_str(&indented(&aligned(&shared)));
    if !own[0].1.is_empty() {
        let gap = if shared.is_empty() { "" } else { "\n" };
        out.push_str(&format!("{gap}{}", rows(&own)));
    }
    if let Some(note) = &first.note {
        out.push_str(&format!("{INDENT}# {note}\n"));
    }
    out
}

/// The consequence of a planned change for the object. Empty if the name of the effect already says it.
fn consequence(change: &Change) -> &'static str {
    match change.class {
        Class::Create | Class::Live | Class::Destroy => "",
        Class::Reboot => ": it is restarted",
        Class::Drain => ": the node is drained and restarted",
        Class::Replace => ": it is deleted and created again; data on its disks is lost",
    }
}

/// The fields of a group that differ between its objects: a table, or one block per object if the table is too wide.
fn rows(own: &[(&str, Vec<(String, String)>)]) -> String {
    let mut table: Vec<Vec<String>> = vec![vec![String::new()]];
    table[0].extend(own[0].1.iter().map(|(path, _)| path.clone()));
    for (name, fields) in own {
        let mut row = vec![(*name).to_owned()];
        row.extend(fields.iter().map(|(_, value)| shortened(value)));
        table.push(row);
    }
    let text = indented(&aligned(&table));
    if text.lines().all(|line| line.chars().count() <= WIDTH) {
        return text;
    }
    let mut out = String::new();
    for (name, fields) in own {
        let lines: Vec<Vec<String>> =
            fields.iter().map(|(path, value)| vec![path.clone(), shortened(value)]).collect();
        out.push_str(&format!("{INDENT}{name}\n{}", indented(&indented(&aligned(&lines)))));
    }
    out
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("{INDENT}{line}\n")).collect()
}

fn finding_text(alike: &[&Finding]) -> String {
    let Finding { severity, code, message, hint, .. } = alike[0];
    let subjects: Vec<&str> = alike.iter().map(|finding| finding.subject.as_str()).collect();
    let subject = subjects.join(", ");
    let severity = match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let mut out = format!("{severity}[{code}]: {subject}: {message}\n");
    for (index, line) in hint.iter().flat_map(|hint| hint.lines()).enumerate() {
        let head = if index == 0 { "  hint: " } else { "        " };
        out.push_str(&format!("{head}{line}\n"));
    }
    out
}

fn sum(plan: &Plan) -> String {
    let errors = plan.blocking_errors().count();
    if plan.is_empty() && !plan.is_partial() {
        return match (count_findings(plan).0, plan.changes.len()) {
            (_, 0) if errors == 0 => format!("{}: nothing to do\n", plan.cluster),
            (_, 1) if errors == 0 => {
                format!("{}: nothing to do; 1 difference is ignored\n", plan.cluster)
            }
            (_, ignored) if errors == 0 => {
                format!("{}: nothing to do; {ignored} differences are ignored\n", plan.cluster)
            }
            (1, _) => format!("{}: no plan because of 1 error\n", plan.cluster),
            (errors, _) => format!("{}: no plan because of {errors} errors\n", plan.cluster),
        };
    }
    let effects = [
        (Effect::Of(Class::Create), "to create"),
        (Effect::Start, "to start"),
        (Effect::Of(Class::Live), "to change without a restart"),
        (Effect::Of(Class::Reboot), "to change with a restart"),
        (Effect::Of(Class::Drain), "to change with a drain and a restart"),
        (Effect::Shutdown, "to shut down"),
        (Effect::Wait, "to wait for"),
        (Effect::Of(Class::Replace), "to replace"),
        (Effect::Of(Class::Destroy), "to delete"),
    ];
    let planned: Vec<Effect> = merged(plan.changes.iter().filter(|change| change.is_planned))
        .iter()
        .map(|change| Effect::of(change))
        .collect();
    let counts: Vec<String> = effects
        .into_iter()
        .map(|(effect, words)| (planned.iter().filter(|one| **one == effect).count(), words))
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    let work = match (counts.is_empty(), plan.steps.len()) {
        (true, 0) => "nothing to change".to_owned(),
        (true, steps) => in_steps(steps),
        (false, 0) => counts.join(", "),
        (false, steps) => format!("{}, {}", counts.join(", "), in_steps(steps)),
    };
    format!("{}: {work}{}\n{}", plan.cluster, blocked(plan), sum_of_left(plan))
}

/// The number of errors that prevent the whole run, so that the last line does not announce steps that no run makes.
fn blocked(plan: &Plan) -> String {
    let is_blocking =
        |finding: &Finding| finding.severity == Severity::Error && !finding.blocks_only_its_node;
    match alike(plan).iter().filter(|findings| is_blocking(findings[0])).count() {
        0 => String::new(),
        1 => ", blocked by 1 error".to_owned(),
        errors => format!(", blocked by {errors} errors"),
    }
}

fn in_steps(steps: usize) -> String {
    if steps == 1 { "in 1 step".to_owned() } else { format!("in {steps} steps") }
}

fn counted(count: usize, left: Option<Left>) -> String {
    match (count, left) {
        (2.., Some(Left::NeedsConsent)) => format!("{count} need --allow-removal"),
        _ => format!("{count} {}", word(left)),
    }
}

/// The number of changes that no step makes, by reason.
fn sum_of_left(plan: &Plan) -> String {
    let mut reasons: Vec<(Option<Left>, usize)> = vec![];
    for change in &merged(plan.open_changes()) {
        match reasons.iter_mut().find(|(left, _)| *left == change.left) {
            Some((_, count)) => *count += 1,
            None => reasons.push((change.left, 1)),
        }
    }
    let mut parts: Vec<String> =
        reasons.into_iter().map(|(left, count)| counted(count, left)).collect();
    if plan.node_errors().next().is_some() {
        let nodes: BTreeSet<&str> =
            plan.node_errors().map(|error| error.subject.as_str()).collect();
        let nodes: Vec<&str> = nodes.into_iter().collect();
        parts.push(format!("no steps for {} because of errors", nodes.join(", ")));
    }
    if parts.is_empty() { String::new() } else { format!("not done: {}\n", parts.join(", ")) }
}
