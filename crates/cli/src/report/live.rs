//! Live view of a run on a terminal. A block at the bottom shows the running steps; the lines of finished steps are
//! printed above the block.
//!
//! The block is drawn several times a second. It is written in one write, so that it does not flicker. Its lines fit the
//! terminal, so that they do not wrap.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use talmox_engine::event::{Event, Stamped};

use super::RunTarget;
use super::plain::{Line, Plain};
use crate::printer::{Printer, Size};
use crate::words;

/// Maximum number of running steps in the block; further steps are only counted.
const MOST: usize = 16;

/// Activity of a step that has not reported one.
const STARTING: &str = "starting";

/// Row of the block for a running step.
#[derive(Debug)]
struct Row {
    step: String,
    node: String,
    started: f64,
    /// Current activity of the step: the reason why it waits, or the progress of a transfer.
    activity: String,
}

#[derive(Debug, Default)]
pub(super) struct Live {
    plain: Plain,
    nodes: BTreeMap<String, String>,
    rows: Vec<Row>,
    finished: Vec<Line>,
    /// Trace lines (`-v`) to show above the block.
    trace_lines: Vec<String>,
    is_stopping: bool,
    /// Lengths of the lines of the block that is on the screen.
    drawn: Vec<usize>,
}

impl Live {
    /// View of a run.
    pub(super) fn new(target: RunTarget) -> Self {
        Self { plain: Plain::new(target), ..Self::default() }
    }

    pub(super) fn take(&mut self, event: &Stamped) {
        if let Some(line) = self.plain.take(event)
            && !line.is_passing
        {
            self.finished.push(line);
        }
        match &event.what {
            Event::RunStarted { steps, .. } => {
                let of_nodes =
                    steps.iter().filter_map(|one| Some((one.step.clone(), one.node.clone()?)));
                self.nodes = of_nodes.collect();
            }
            Event::StepStarted { step } => {
                let node = self.nodes.get(step).cloned().unwrap_or_default();
                let (started, activity) = (event.time, STARTING.to_owned());
                let row = Row { step: step.clone(), node, started, activity };
                // Rows are sorted by node, so that steps of the same node are adjacent.
                let at = self.rows.partition_point(|known| known.node <= row.node);
                self.rows.insert(at, row);
            }
            Event::StepWaits { step, reason } => self.set(step, reason.clone()),
            Event::StepRetries { step, attempt, reason, .. } => {
                self.set(step, format!("attempt {attempt}: {reason}"));
            }
            Event::StepProgress { step, bytes, total } => self.set(step, transfer(*bytes, *total)),
            Event::StepEnded { step, .. } => self.rows.retain(|row| row.step != *step),
            Event::RunStopping => self.is_stopping = true,
            Event::StepNote { .. } | Event::RunEnded { .. } => {}
        }
    }

    fn set(&mut self, step: &str, activity: String) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.step == step) {
            row.activity = activity;
        }
    }

    /// Adds trace lines. The next drawing prints them above the block.
    pub(super) fn add_trace_lines(&mut self, lines: Vec<String>) {
        self.trace_lines.extend(lines);
    }

    /// Output that updates the screen. It erases the old block, prints the new lines, and draws the new block.
    pub(super) fn draw(&mut self, now: f64, size: Size, printer: &Printer) -> String {
        let mut out = self.erased(size);
        self.push_trace_lines(&mut out);
        let finished: Vec<Line> = self.finished.drain(..).collect();
        for line in &finished {
            out.push_str(&self.plain.text(line, Some(size.columns), printer));
        }
        let block = self.block(now, size);
        for (index, line) in block.iter().enumerate() {
            let line = if index == 0 { printer.paint(line, "1") } else { line.clone() };
            // Writing to a string cannot fail.
            writeln!(out, "{line}").ok();
        }
        self.drawn = block.iter().map(|line| line.chars().count()).collect();
        out
    }

    /// Output at the end of the run. It erases the block and prints the remaining lines.
    pub(super) fn finish(&mut self, size: Size, printer: &Printer) -> String {
        let mut out = self.erased(size);
        self.push_trace_lines(&mut out);
        for line in self.finished.drain(..) {
            out.push_str(&self.plain.text(&line, Some(size.columns), printer));
        }
        out
    }

    fn push_trace_lines(&mut self, out: &mut String) {
        for line in self.trace_lines.drain(..) {
            out.push_str(&line);
            out.push('\n');
        }
    }

    /// Output that erases the block. If the terminal became narrower, a line of the block occupies several rows.
    fn erased(&mut self, size: Size) -> String {
        let columns = size.columns.max(1);
        let rows = self.drawn.drain(..).map(|length| length.div_ceil(columns).max(1));
        match rows.sum::<usize>() {
            0 => String::new(),
            rows => format!("\r\x1b[{rows}A\x1b[J"),
        }
    }

    fn block(&self, now: f64, size: Size) -> Vec<String> {
        let (done, steps) = self.plain.count();
        let columns = size.columns.saturating_sub(1);
        let seconds = self.plain.elapsed(now).max(0.0);
        let progress = format!("{done} of {steps} steps, {seconds:.0}s{}", self.plain.time_unit());
        let mut lines = vec![if self.is_stopping {
            format!("Stopping: Ctrl-C again quits at once. {progress}")
        } else {
            progress
        }];
        let most = MOST.min(size.rows.saturating_sub(4));
        let width = self.rows.iter().take(most).map(|row| row.step.chars().count()).max();
        let width = width.unwrap_or_default().min(columns / 2);
        for row in self.rows.iter().take(most) {
            let seconds = (now - row.started).max(0.0);
            let step = words::shortened(&row.step, width);
            lines.push(format!("  {seconds:4.0}s  {step:width$}  {}", row.activity));
        }
        if self.rows.len() > most {
            lines.push(format!("  and {} more steps", self.rows.len() - most));
        }
        lines.iter().map(|line| words::shortened(line.trim_end(), columns)).collect()
    }
}

fn transfer(bytes: u64, total: Option<u64>) -> String {
    match total {
        Some(total) if total > 0 => {
            format!("{}, {}%", words::transferred(bytes, total), bytes * 100 / total)
        }
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use talmox_engine::event::{StepEnd, StepInfo};

    use super::*;
    use crate::args::{Color, Format};

    const SIZE: Size = Size { columns: 50, rows: 24 };

    fn live(events: Vec<(f64, Event)>) -> Live {
        let mut live = Live::default();
        for (time, what) in events {
            live.take(&Stamped { time, what });
        }
        live
    }

    fn two_running_steps() -> Vec<(f64, Event)> {
        let info = |step: &str, node: &str| StepInfo {
            step: step.to_owned(),
            node: Some(node.to_owned()),
            after: vec![],
        };
        let steps = vec![info("vm/b/create", "b"), info("vm/a/create", "a")];
        let started = |step: &str| Event::StepStarted { step: step.to_owned() };
        vec![
            (100.0, Event::RunStarted { cluster: "home".to_owned(), steps }),
            (100.0, started("vm/b/create")),
            (101.0, started("vm/a/create")),
        ]
    }

    #[test]
    fn steps_are_grouped_by_node_with_their_activity() {
        let mut events = two_running_steps();
        let reason = "a very long reason that does not fit into the width of this".to_owned();
        events.push((102.0, Event::StepWaits { step: "vm/b/create".to_owned(), reason }));
        let bytes = Event::StepProgress {
            step: "vm/a/create".to_owned(),
            bytes: 1 << 20,
            total: Some(4 << 20),
        };
        events.push((103.0, bytes));
        let printer = Printer::new(Format::Text, Color::Never);
        let mut live = live(events);
        let drawn = live.draw(105.0, SIZE, &printer);
        assert_eq!(
            drawn.lines().collect::<Vec<_>>(),
            [
                "0 of 2 steps, 5s",
                "     4s  vm/a/create  1 of 4 MiB, 25%",
                "     5s  vm/b/create  a very long reason that do…",
            ]
        );
        assert!(drawn.lines().all(|line| line.chars().count() < SIZE.columns), "{drawn}");
    }

    #[test]
    fn lab_time_is_marked() {
        let printer = Printer::new(Format::Text, Color::Never);
        let mut live = Live::new(RunTarget::OwnLab);
        for (time, what) in two_running_steps() {
            live.take(&Stamped { time, what });
        }
        let drawn = live.draw(105.0, SIZE, &printer);
        assert!(drawn.starts_with("    0.0s  - all times are lab time\n"), "{drawn}");
        assert!(drawn.contains("\n0 of 2 steps, 5s of lab time\n"), "{drawn}");
    }

    #[test]
    fn finished_steps_are_printed_above_the_block() {
        let printer = Printer::new(Format::Text, Color::Never);
        let mut live = live(two_running_steps());
        assert_eq!(live.draw(101.0, SIZE, &printer).lines().count(), 3);
        let end =
            Event::StepEnded { step: "vm/b/create".to_owned(), end: StepEnd::Done, seconds: 2.5 };
        live.take(&Stamped { time: 102.5, what: end });
        let drawn = live.draw(103.0, SIZE, &printer);
        assert!(
            drawn.starts_with("\r\x1b[3A\x1b[J    2.5s  ✓ vm/b/create  done 2.5s  1/2\n"),
            "{drawn:?}"
        );
        assert_eq!(live.finish(SIZE, &printer), "\r\x1b[2A\x1b[J");
    }

    #[test]
    fn trace_lines_are_printed_above_the_block() {
        let printer = Printer::new(Format::Text, Color::Never);
        let mut live = live(two_running_steps());
        live.draw(101.0, SIZE, &printer);
        live.add_trace_lines(vec!["   0.1s  pve   GET /version: 200 (3 ms)".to_owned()]);
        let drawn = live.draw(102.0, SIZE, &printer);
        let expected = "\r\x1b[3A\x1b[J   0.1s  pve   GET /version: 200 (3 ms)\n0 of 2 steps, 2s\n";
        assert!(drawn.starts_with(expected), "{drawn:?}");
        assert!(!live.draw(103.0, SIZE, &printer).contains("GET"), "once");
        live.add_trace_lines(vec!["the last one".to_owned()]);
        assert_eq!(live.finish(SIZE, &printer), "\r\x1b[3A\x1b[Jthe last one\n");
    }

    #[test]
    fn one_long_step_name_does_not_move_all_texts_to_the_next_line() {
        let info = |step: &str| StepInfo { step: step.to_owned(), node: None, after: vec![] };
        let image = "image/pve/local/talos-v1.13.6-nocloud-amd64-ce4c980550dd2ab1.qcow2";
        let steps = vec![info(image), info("vm/a/create")];
        let ended = |step: &str| Event::StepEnded {
            step: step.to_owned(),
            end: StepEnd::Done,
            seconds: 2.5,
        };
        let mut live = live(vec![
            (100.0, Event::RunStarted { cluster: "home".to_owned(), steps }),
            (102.5, ended(image)),
            (105.0, ended("vm/a/create")),
        ]);
        let printer = Printer::new(Format::Text, Color::Never);
        let drawn = live.finish(Size { columns: 60, rows: 24 }, &printer);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[1], "            done 2.5s  1/2");
        assert_eq!(lines[2], "    5.0s  ✓ vm/a/create       done 2.5s  2/2");
    }

    #[test]
    fn an_interrupt_names_the_running_steps() {
        let printer = Printer::new(Format::Text, Color::Never);
        let mut live = live(two_running_steps());
        live.draw(101.0, SIZE, &printer);
        live.take(&Stamped { time: 102.0, what: Event::RunStopping });
        let drawn = live.draw(102.0, SIZE, &printer);
        let block: Vec<&str> = drawn.lines().rev().take(3).collect();
        assert_eq!(block[2], "Stopping: Ctrl-C again quits at once. 0 of 2 ste…");
        assert_eq!(block[0], "     2s  vm/b/create  starting");
        let unwrapped = drawn.replace("\n            ", " ");
        assert!(
            unwrapped.contains(
                "! Stopping: 0 of 2 steps are done, and vm/a/create and vm/b/create are finishing. \
                 The same command resumes the run. Ctrl-C again quits at once; Proxmox still"
            ),
            "{drawn}"
        );
        let never_started = Event::StepEnded {
            step: "vm/c/create".to_owned(),
            end: StepEnd::Cancelled,
            seconds: 0.0,
        };
        live.take(&Stamped { time: 102.0, what: never_started });
        assert!(!live.draw(102.0, SIZE, &printer).contains("vm/c"));
    }

    #[test]
    fn the_counter_of_a_cancelled_run_counts_done_steps() {
        let ended = |step: &str, end| Event::StepEnded { step: step.to_owned(), end, seconds: 1.0 };
        let mut events = two_running_steps();
        events.push((102.0, ended("vm/a/create", StepEnd::Done)));
        events.push((102.0, Event::RunStopping));
        events.push((103.0, ended("vm/b/create", StepEnd::Cancelled)));
        let mut live = live(events);
        let printer = Printer::new(Format::Text, Color::Never);
        let drawn = live.draw(103.0, Size { columns: 80, rows: 24 }, &printer);
        assert!(drawn.ends_with("quits at once. 1 of 2 steps, 3s\n"), "{drawn}");
        assert!(!drawn.contains("2/2"), "{drawn}");
    }

    #[test]
    fn the_block_is_erased_on_a_terminal_that_became_narrower() {
        let printer = Printer::new(Format::Text, Color::Never);
        let mut live = live(two_running_steps());
        let drawn = live.draw(101.0, SIZE, &printer);
        let longest = drawn.lines().map(|line| line.chars().count()).max().unwrap();
        let narrow = Size { columns: longest - 1, rows: 5 };
        let drawn = live.draw(102.0, narrow, &printer);
        // Two of the three lines are wrapped.
        assert!(drawn.starts_with("\r\x1b[5A\x1b[J"), "{drawn:?}");
        assert!(drawn.lines().all(|line| line.chars().count() <= narrow.columns + 8), "{drawn:?}");
        assert!(drawn.lines().last().unwrap().contains("more"), "{drawn:?}");
    }
}
