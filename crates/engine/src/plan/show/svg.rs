use std::collections::BTreeMap;

use super::super::Plan;
use super::super::step::StepId;
use super::graph::depths;

const CHAR: usize = 7;
const HEIGHT: usize = 24;
const ROW: usize = 36;
const GAP: usize = 70;
const EDGE: usize = 20;

/// The steps as a picture: a column for each round, in it the steps in their order, and a line from
/// each to what waits for it.
pub fn svg(plan: &Plan) -> String {
    let depths = depths(plan);
    let rounds = depths.values().max().map_or(0, |last| last + 1);
    let mut widths = vec![0; rounds];
    for (id, depth) in &depths {
        widths[*depth] = widths[*depth].max(id.as_str().chars().count() * CHAR + 2 * CHAR);
    }
    let mut lefts = vec![EDGE; rounds];
    for round in 1..rounds {
        lefts[round] = lefts[round - 1] + widths[round - 1] + GAP;
    }
    let mut rows = vec![0; rounds];
    let mut tops: BTreeMap<&StepId, usize> = BTreeMap::new();
    for step in &plan.steps {
        let row = &mut rows[depths[&step.id]];
        tops.insert(&step.id, EDGE + *row * ROW);
        *row += 1;
    }
    let width = lefts.last().zip(widths.last()).map_or(0, |(left, width)| left + width) + EDGE;
    let height = rows.iter().max().copied().unwrap_or_default() * ROW + 2 * EDGE;

    let mut lines = String::new();
    let mut boxes = String::new();
    for step in &plan.steps {
        let depth = depths[&step.id];
        let (left, top, own) = (lefts[depth], tops[&step.id], widths[depth]);
        for before in step.after.iter().filter(|before| depths.contains_key(before)) {
            let from = depths[before];
            let (x1, y1) = (lefts[from] + widths[from], tops[before] + HEIGHT / 2);
            let (x2, y2) = (left, top + HEIGHT / 2);
            let (c1, c2) = (x1 + GAP / 2, x2 - GAP / 2);
            lines.push_str(&format!("<path d=\"M{x1} {y1} C{c1} {y1} {c2} {y2} {x2} {y2}\"/>\n"));
        }
        let text = escaped(step.id.as_str());
        let (x, y) = (left + CHAR, top + HEIGHT * 2 / 3);
        boxes.push_str(&format!(
            "<rect x=\"{left}\" y=\"{top}\" width=\"{own}\" height=\"{HEIGHT}\" rx=\"4\"/>\
             <text x=\"{x}\" y=\"{y}\">{text}</text>\n"
        ));
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n\
         <style>rect{{fill:#fff;stroke:#446}}path{{fill:none;stroke:#99a}}\
         text{{font:11px monospace}}</style>\n\
         {lines}{boxes}</svg>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
