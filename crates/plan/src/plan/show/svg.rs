use std::collections::BTreeMap;

use super::graph::depths;
use super::line::shortened;
use crate::plan::Plan;
use crate::plan::step::Step;
use crate::plan::step_id::StepId;

const CHAR: usize = 7;
const HEIGHT: usize = 24;
const ROW: usize = 34;
const GAP: usize = 56;
const EDGE: usize = 16;

/// The steps as SVG. Each round is a column. The cluster has a lane at the top, and each node has a lane below it. A line
/// leads from each step to the steps that depend on it.
pub fn svg(plan: &Plan) -> String {
    let depths = depths(plan);
    let columns = Columns::of(plan, &depths);
    let lanes = lanes(plan, &depths);
    let height = EDGE + lanes.last().map_or(0, |lane| lane.top + lane.rows * ROW);

    let mut tops: BTreeMap<&StepId, usize> = BTreeMap::new();
    let mut bands = String::new();
    for (index, lane) in lanes.iter().enumerate() {
        let mut rows = vec![0; columns.lefts.len()];
        for step in plan.steps.iter().filter(|step| step.node.as_deref() == lane.node) {
            let row = &mut rows[depths[&step.id]];
            tops.insert(&step.id, lane.top + *row * ROW + (ROW - HEIGHT) / 2);
            *row += 1;
        }
        if index % 2 == 0 {
            let (top, width, height) = (lane.top, columns.width, lane.rows * ROW);
            bands.push_str(&format!(
                "<rect class=\"lane\" x=\"0\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/>\n"
            ));
        }
    }
    let mut lines = String::new();
    let mut boxes = String::new();
    for step in &plan.steps {
        let depth = depths[&step.id];
        let (left, top, own) = (columns.lefts[depth], tops[&step.id], columns.widths[depth]);
        for before in step.after.iter().filter(|before| depths.contains_key(before)) {
            let from = depths[before];
            let (x1, y1) = (columns.lefts[from] + columns.widths[from], tops[before] + HEIGHT / 2);
            let (x2, y2) = (left, top + HEIGHT / 2);
            let (c1, c2) = (x1 + GAP / 2, x2 - GAP / 2);
            lines.push_str(&format!("<path d=\"M{x1} {y1} C{c1} {y1} {c2} {y2} {x2} {y2}\"/>\n"));
        }
        let text = escaped(&shortened(step.id.as_str()));
        let (x, y) = (left + CHAR, top + HEIGHT * 2 / 3);
        boxes.push_str(&format!(
            "<rect x=\"{left}\" y=\"{top}\" width=\"{own}\" height=\"{HEIGHT}\" rx=\"4\"/>\
             <text x=\"{x}\" y=\"{y}\">{text}</text>\n"
        ));
    }
    let width = columns.width;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n\
         <style>svg{{background:#fff}}rect{{fill:#fff;stroke:#446}}.lane{{fill:#eef1f6;stroke:none}}\
         path{{fill:none;stroke:#99a}}text{{font:11px monospace}}</style>\n\
         {bands}{lines}{boxes}</svg>\n"
    )
}

/// Left edge and width of each column. A column contains the steps of one round.
struct Columns {
    lefts: Vec<usize>,
    widths: Vec<usize>,
    /// Width of the whole image.
    width: usize,
}

impl Columns {
    fn of(plan: &Plan, depths: &BTreeMap<&StepId, usize>) -> Self {
        let mut widths = vec![0; depths.values().max().map_or(0, |last| last + 1)];
        for step in &plan.steps {
            let own = (shortened(step.id.as_str()).chars().count() + 2) * CHAR;
            let widest = &mut widths[depths[&step.id]];
            *widest = own.max(*widest);
        }
        let mut left = EDGE;
        let mut lefts = vec![];
        for width in &widths {
            lefts.push(left);
            left += width + GAP;
        }
        Self { lefts, widths, width: (left + EDGE).saturating_sub(GAP) }
    }
}

/// The rows of the steps of a node, or of the steps without a node.
struct Lane<'a> {
    node: Option<&'a str>,
    top: usize,
    rows: usize,
}

fn lanes<'a>(plan: &'a Plan, depths: &BTreeMap<&StepId, usize>) -> Vec<Lane<'a>> {
    let mut nodes: Vec<Option<&str>> = vec![None];
    for step in &plan.steps {
        if !nodes.contains(&step.node.as_deref()) {
            nodes.push(step.node.as_deref());
        }
    }
    let mut lanes: Vec<Lane<'_>> = vec![];
    for node in nodes {
        let mut rows: BTreeMap<usize, usize> = BTreeMap::new();
        let own = |step: &&Step| step.node.as_deref() == node;
        for step in plan.steps.iter().filter(own) {
            *rows.entry(depths[&step.id]).or_default() += 1;
        }
        let top = lanes.last().map_or(EDGE, |lane| lane.top + lane.rows * ROW);
        lanes.push(Lane { node, top, rows: rows.values().max().copied().unwrap_or_default() });
    }
    lanes
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
