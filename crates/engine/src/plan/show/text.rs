use std::collections::BTreeMap;

use super::super::Plan;
use super::super::change::{Change, Class, FieldChange, Finding, Severity};

/// The plan as people read it: what changes, what stands in the way, and a last line that sums it
/// up.
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    for change in &plan.changes {
        out.push_str(&block(change));
        out.push('\n');
    }
    for finding in &plan.findings {
        out.push_str(&told(finding));
    }
    if !plan.findings.is_empty() {
        out.push('\n');
    }
    out.push_str(&sum(plan));
    out
}

/// What stands in the way, or may, one finding after the other.
pub fn findings(plan: &Plan) -> String {
    plan.findings.iter().map(told).collect()
}

fn block(change: &Change) -> String {
    let sign = match change.class {
        Class::Create => '+',
        Class::Destroy => '-',
        Class::Live | Class::Reboot | Class::Drain | Class::Replace => '~',
    };
    let mut out = format!("{sign} {}  ({})\n", change.object, change.class.as_str());
    let width = change.fields.iter().map(|field| field.path.chars().count()).max();
    let width = width.unwrap_or_default().min(40);
    for field in &change.fields {
        out.push_str(&format!("    {:width$}  {}\n", field.path, value(field)));
    }
    if let Some(note) = &change.note {
        out.push_str(&format!("    # {note}\n"));
    }
    out
}

fn value(field: &FieldChange) -> String {
    match (&field.old, &field.new) {
        (None, Some(new)) => new.clone(),
        (old, new) => {
            let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
            format!("{} → {}", shown(old), shown(new))
        }
    }
}

fn told(finding: &Finding) -> String {
    let Finding { severity, subject, message, hint } = finding;
    let severity = match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let mut out = format!("{severity}: {subject}: {message}\n");
    for (index, line) in hint.iter().flat_map(|hint| hint.lines()).enumerate() {
        let head = if index == 0 { "  hint: " } else { "        " };
        out.push_str(&format!("{head}{line}\n"));
    }
    out
}

fn sum(plan: &Plan) -> String {
    if plan.is_empty() {
        return format!("{}: nothing to do\n", plan.cluster);
    }
    let mut counts: BTreeMap<Class, usize> = BTreeMap::new();
    for change in &plan.changes {
        *counts.entry(change.class).or_default() += 1;
    }
    let counts: Vec<String> =
        counts.iter().map(|(class, count)| format!("{count} {}", class.as_str())).collect();
    let steps = plan.steps.len();
    let plural = if steps == 1 { "" } else { "s" };
    let mut out = format!("{}: {} in {steps} step{plural}\n", plan.cluster, counts.join(", "));
    let open = plan.open_changes().count();
    if open > 0 {
        out.push_str(&format!("{open} of these changes cannot be carried out yet\n"));
    }
    out
}
