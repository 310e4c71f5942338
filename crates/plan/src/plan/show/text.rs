use super::group::{Group, groups};
use super::line::{aligned, shortened, wrapped};
use crate::plan::Plan;
use crate::plan::change::{Change, Class, Finding, Severity};

/// Maximum width of a table. A wider table is shown as one block for each row.
const WIDTH: usize = 100;
const INDENT: &str = "    ";

/// The plan as text: changes, findings, and a summary in the last line. Objects with the same change are grouped.
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    for group in groups(&plan.changes) {
        out.push_str(&block(&group));
        out.push('\n');
    }
    out.push_str(&findings(plan));
    if !plan.findings.is_empty() {
        out.push('\n');
    }
    out.push_str(&resets(plan));
    out.push_str(&sum(plan));
    out
}

/// Text about the VMs that the run may reset. It is part of the plan, so that the user can decide before the run.
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

/// The findings as text. Findings that differ only in their node are shown as one.
pub fn findings(plan: &Plan) -> String {
    alike(plan).iter().map(|findings| told(findings)).collect()
}

/// Number of errors, and number of warnings, that [`findings`] shows.
pub fn count_findings(plan: &Plan) -> (usize, usize) {
    let all = alike(plan);
    let errors = all.iter().filter(|findings| findings[0].severity == Severity::Error).count();
    (errors, all.len() - errors)
}

/// The findings in groups. Findings of one group differ only in the object that they are about.
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
    let open = if first.is_planned { "" } else { ", not yet" };
    let mut out = format!("{sign} {}  ({}{open})\n", group.title(), first.class.as_str());
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

/// The differing fields of a group: a table, or blocks if it is too wide.
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

fn told(alike: &[&Finding]) -> String {
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
    if plan.is_empty() {
        return match count_findings(plan).0 {
            0 => format!("{}: nothing to do\n", plan.cluster),
            1 => format!("{}: no plan because of 1 error\n", plan.cluster),
            errors => format!("{}: no plan because of {errors} errors\n", plan.cluster),
        };
    }
    let classes = [
        (Class::Create, "to create"),
        (Class::Live, "to change as they run"),
        (Class::Reboot, "to change with a reboot"),
        (Class::Drain, "to change with a drain and a reboot"),
        (Class::Replace, "to make anew"),
        (Class::Destroy, "to delete"),
    ];
    let count = |class| plan.changes.iter().filter(|change| change.class == class).count();
    let counts: Vec<String> = classes
        .into_iter()
        .map(|(class, words)| (count(class), words))
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    let open: Vec<&Change> = plan.open_changes().collect();
    let steps = match (plan.steps.len(), open.len()) {
        (0, open) if open > 0 => String::new(),
        (1, _) => ", in 1 step".to_owned(),
        (steps, _) => format!(", in {steps} steps"),
    };
    let mut out = format!("{}: {}{steps}\n", plan.cluster, counts.join(", "));
    match open.len() {
        0 => {}
        1 => out.push_str("1 of these changes cannot be carried out yet\n"),
        open => out.push_str(&format!("{open} of these changes cannot be carried out yet\n")),
    }
    out
}
