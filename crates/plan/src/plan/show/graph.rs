use std::collections::BTreeMap;

use super::line::{shortened, wrapped};
use crate::plan::Plan;
use crate::plan::step_id::StepId;

/// Maximum line length.
const WIDTH: usize = 100;
/// Minimum width of the list of dependencies.
const NARROWEST: usize = 40;

/// The round of each step: 0 if the step has no dependencies, otherwise one more than the highest round of its dependencies.
pub(super) fn depths(plan: &Plan) -> BTreeMap<&StepId, usize> {
    let mut depths: BTreeMap<&StepId, usize> = BTreeMap::new();
    // `plan.steps` lists each step after its dependencies.
    for step in &plan.steps {
        let deepest = step.after.iter().filter_map(|id| depths.get(id)).max();
        depths.insert(&step.id, deepest.map_or(0, |depth| depth + 1));
    }
    depths
}

/// The steps as text, grouped by round. The steps of one round can run at the same time.
pub fn graph(plan: &Plan) -> String {
    let depths = depths(plan);
    let last = depths.values().max().copied();
    let mut out = String::new();
    for round in 0..last.map_or(0, |last| last + 1) {
        out.push_str(&format!("{}.\n", round + 1));
        for step in plan.steps.iter().filter(|step| depths.get(&step.id) == Some(&round)) {
            let head = format!("   {}", shortened(step.id.as_str()));
            if step.after.is_empty() {
                out.push_str(&format!("{head}\n"));
                continue;
            }
            let after: Vec<String> =
                step.after.iter().map(|before| shortened(before.as_str())).collect();
            let indent = head.chars().count();
            let room = WIDTH.saturating_sub(indent + 4).max(NARROWEST);
            for (index, line) in wrapped(&after.join(", "), room).iter().enumerate() {
                let (head, arrow) = if index == 0 { (head.as_str(), "←") } else { ("", " ") };
                out.push_str(&format!("{head:indent$}  {arrow} {line}\n"));
            }
        }
    }
    out
}

/// The steps in the language of Graphviz.
pub fn dot(plan: &Plan) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut out = format!("digraph {} {{\n", quoted(&plan.cluster));
    out.push_str("  rankdir=LR;\n  node [shape=box];\n");
    for step in &plan.steps {
        out.push_str(&format!("  {};\n", quoted(step.id.as_str())));
        for before in &step.after {
            let (from, to) = (quoted(before.as_str()), quoted(step.id.as_str()));
            out.push_str(&format!("  {from} -> {to};\n"));
        }
    }
    out.push_str("}\n");
    out
}
