//! Timeline of a run: its steps in the order of their start, each with its API calls.

use serde_json::{Value as Json, json};
use talmox_engine::event::{Event, Stamped, StepEnd};
use talmox_engine::run_log::{ApiCall, Calls, RunSummary};

/// Maximum number of calls shown for a step without `--calls`.
const SLOWEST: usize = 3;
/// Minimum duration of a call shown without `--calls`, in seconds.
const SLOW: f64 = 0.1;

/// Timeline of a run.
pub(super) struct Timeline {
    run: RunSummary,
    steps: Vec<StepRow>,
    /// Calls before the run, made to observe the state for the plan. Their start time is negative.
    earlier: Vec<ApiCall>,
    /// Calls outside of steps, such as renewals of the cluster lock.
    other: Vec<ApiCall>,
    lost: u64,
    /// Start time of the run, by the clock of the events.
    started: f64,
}

struct StepRow {
    step: String,
    start: f64,
    /// Duration of the step. `None` for a step that had not ended at the end of the run.
    seconds: Option<f64>,
    end: &'static str,
    /// Time and reason of each retry.
    retries: Vec<(f64, String)>,
    calls: Vec<ApiCall>,
}

impl Timeline {
    pub(super) fn of(run: RunSummary, events: &[Stamped], calls: Calls) -> Self {
        let started = events.first().map_or(run.header.started, |event| event.time);
        let mut steps: Vec<StepRow> = vec![];
        for Stamped { time, what } in events {
            match what {
                Event::StepStarted { step } => steps.push(StepRow::new(step, time - started)),
                Event::StepRetries { step, reason, .. } => {
                    if let Some(row) = find(&mut steps, step) {
                        row.retries.push((time - started, reason.clone()));
                    }
                }
                Event::StepEnded { step, end, seconds } => {
                    if let Some(row) = find(&mut steps, step) {
                        (row.seconds, row.end) = (Some(*seconds), word(end));
                    }
                }
                _ => {}
            }
        }
        let (mut earlier, mut other) = (vec![], vec![]);
        for call in calls.all {
            match call.step.as_ref().and_then(|step| find(&mut steps, step)) {
                Some(row) => row.calls.push(call),
                None if call.time < started => earlier.push(call),
                None => other.push(call),
            }
        }
        Self { run, steps, earlier, other, lost: calls.lost, started }
    }

    /// Text output. If `all` is true, the text contains every call.
    pub(super) fn text(&self, all: bool) -> String {
        let RunSummary { id, header, end, seconds, .. } = &self.run;
        let end = end.map_or("not ended", super::end_word);
        let calls = self.steps.iter().flat_map(|step| &step.calls);
        let calls = calls.chain(&self.earlier).chain(&self.other);
        let started = super::started(&self.run);
        let mut out = format!(
            "{} of {}, started {started}: {end} after {seconds:.1}s{}, {}\n\n     START      TOOK\n",
            header.command,
            header.cluster,
            if header.is_lab { " of lab time" } else { "" },
            counted(calls)
        );
        if !self.earlier.is_empty() {
            let counted = counted(self.earlier.iter());
            out.push_str(&format!("{:20}  before the run  {counted}\n", ""));
            self.push_calls(&self.earlier, all, &mut out);
        }
        for row in &self.steps {
            let took = row.seconds.map(|seconds| format!("{seconds:.1}s")).unwrap_or_default();
            let counted = counted(row.calls.iter());
            let StepRow { step, start, end, .. } = row;
            out.push_str(&format!("{start:9.1}s {took:>9}  {step}  {end}, {counted}\n"));
            for (time, reason) in &row.retries {
                out.push_str(&format!("{time:9.1}s {:9}    retry: {}\n", "", one_line(reason)));
            }
            self.push_calls(&row.calls, all, &mut out);
        }
        if !self.other.is_empty() {
            let counted = counted(self.other.iter());
            out.push_str(&format!("{:20}  outside of steps  {counted}\n", ""));
            self.push_calls(&self.other, all, &mut out);
        }
        if self.lost > 0 {
            out.push_str(&format!("\n{} more calls are not in the log.\n", self.lost));
        }
        let outside = self.earlier.len() + self.other.len();
        if !all && (outside > 0 || self.steps.iter().any(|row| !row.calls.is_empty())) {
            out.push_str(&format!("\n`talmox runs show {id} --calls` shows every call.\n"));
        }
        out
    }

    fn push_calls(&self, calls: &[ApiCall], all: bool, out: &mut String) {
        let mut shown: Vec<&ApiCall> = calls.iter().collect();
        if !all {
            shown.retain(|call| call.seconds >= SLOW);
            shown.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
            shown.truncate(SLOWEST);
            shown.sort_by(|a, b| a.time.total_cmp(&b.time));
        }
        for call in shown {
            let ApiCall { time, api, object, seconds, outcome, retries, .. } = call;
            let start = time - self.started;
            let again = match retries {
                0 => String::new(),
                1 => ", 1 retry".to_owned(),
                _ => format!(", {retries} retries"),
            };
            let outcome = one_line(outcome);
            out.push_str(&format!(
                "{start:9.1}s {seconds:8.3}s    {api:5} {object}: {outcome}{again}\n"
            ));
        }
    }

    /// JSON output, with every call.
    pub(super) fn json(&self) -> Json {
        let call = |call: &ApiCall| {
            let ApiCall { time, api, object, seconds, outcome, retries, .. } = call;
            json!({
                "start": time - self.started,
                "seconds": seconds,
                "api": api,
                "object": object,
                "outcome": outcome,
                "retries": retries,
            })
        };
        let step = |row: &StepRow| {
            let StepRow { step, start, seconds, end, retries, calls } = row;
            let retries = retries.iter().map(|(time, why)| json!({"start": time, "reason": why}));
            json!({
                "step": step,
                "start": start,
                "seconds": seconds,
                "end": end,
                "retries": retries.collect::<Vec<_>>(),
                "calls": calls.iter().map(call).collect::<Vec<_>>(),
            })
        };
        json!({
            "run": self.run,
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
            "earlier_calls": self.earlier.iter().map(call).collect::<Vec<_>>(),
            "other_calls": self.other.iter().map(call).collect::<Vec<_>>(),
            "lost_calls": self.lost,
        })
    }
}

impl StepRow {
    fn new(step: &str, start: f64) -> Self {
        let (retries, calls) = (vec![], vec![]);
        Self { step: step.to_owned(), start, seconds: None, end: "not ended", retries, calls }
    }
}

fn find<'a>(steps: &'a mut [StepRow], step: &str) -> Option<&'a mut StepRow> {
    steps.iter_mut().find(|row| row.step == step)
}

fn word(end: &StepEnd) -> &'static str {
    match end {
        StepEnd::Done => "done",
        StepEnd::Already => "already",
        StepEnd::Failed { .. } => "failed",
        StepEnd::Blocked { .. } => "skipped",
        StepEnd::Cancelled => "stopped",
    }
}

/// Number of calls and of failed calls, for example `14 calls, 2 failed`.
fn counted<'a>(calls: impl Iterator<Item = &'a ApiCall>) -> String {
    let (mut all, mut failed) = (0_usize, 0_usize);
    for call in calls {
        all += 1;
        failed += usize::from(is_failed(&call.outcome));
    }
    let noun = if all == 1 { "call" } else { "calls" };
    match failed {
        0 => format!("{all} {noun}"),
        _ => format!("{all} {noun}, {failed} failed"),
    }
}

/// Whether a call failed. Successful outcomes are `ok` and HTTP statuses below 400.
fn is_failed(outcome: &str) -> bool {
    outcome != "ok" && outcome.parse::<u16>().map_or(true, |status| status >= 400)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use talmox_engine::event::RunEnd;
    use talmox_engine::run_log::Header;

    use super::*;

    fn call(time: f64, seconds: f64, object: &str, outcome: &str, step: Option<&str>) -> ApiCall {
        ApiCall {
            time,
            api: "pve".to_owned(),
            object: object.to_owned(),
            seconds,
            outcome: outcome.to_owned(),
            retries: u64::from(object.starts_with("POST")),
            step: step.map(str::to_owned),
        }
    }

    fn timeline() -> Timeline {
        let header = Header {
            format: 1,
            command: "up".to_owned(),
            cluster: "home".to_owned(),
            started: 1_700_000_000.0,
            is_lab: false,
        };
        let run = RunSummary {
            id: "1-up".to_owned(),
            header,
            end: Some(RunEnd::Failed),
            seconds: 12.5,
            done: 1,
            already: 0,
            failed: 1,
            left: 0,
        };
        let name = |step: &str| step.to_owned();
        let (a, b) = (Some("vm/a/create"), Some("vm/b/create"));
        let failed =
            StepEnd::Failed { code: None, message: String::new(), causes: vec![], hint: None };
        let retry = Event::StepRetries {
            step: name("vm/b/create"),
            attempt: 2,
            seconds: 1.0,
            reason: name("locked\nstill"),
        };
        let events = [
            (100.0, Event::RunStarted { cluster: name("home"), steps: vec![] }),
            (100.5, Event::StepStarted { step: name("vm/a/create") }),
            (101.0, Event::StepStarted { step: name("vm/b/create") }),
            (103.0, retry),
            (
                104.0,
                Event::StepEnded { step: name("vm/a/create"), end: StepEnd::Done, seconds: 3.5 },
            ),
            (112.5, Event::StepEnded { step: name("vm/b/create"), end: failed, seconds: 11.5 }),
        ];
        let events: Vec<Stamped> =
            events.into_iter().map(|(time, what)| Stamped { time, what }).collect();
        let all = vec![
            call(100.0, 0.2, "GET /pools", "200", None),
            call(100.6, 0.05, "GET /nodes/a", "200", a),
            call(100.7, 0.9, "POST /nodes/a/qemu", "200", a),
            call(101.7, 0.3, "GET /1", "200", a),
            call(102.0, 0.2, "GET /2", "ok", a),
            call(102.3, 0.4, "GET /3", "not sent: no", a),
            call(101.5, 0.01, "GET /nodes/b", "500 locked", b),
        ];
        Timeline::of(run, &events, Calls { all, lost: 2 })
    }

    #[test]
    fn the_slowest_calls_are_shown_below_their_steps() {
        insta::assert_snapshot!(timeline().text(false), @r"
        up of home, started 2023-11-14T22:13:20Z: failed after 12.5s, 7 calls, 2 failed

             START      TOOK
              0.5s      3.5s  vm/a/create  done, 5 calls, 1 failed
              0.7s    0.900s    pve   POST /nodes/a/qemu: 200, 1 retry
              1.7s    0.300s    pve   GET /1: 200
              2.3s    0.400s    pve   GET /3: not sent: no
              1.0s     11.5s  vm/b/create  failed, 1 call, 1 failed
              3.0s              retry: locked still
                              outside of steps  1 call
              0.0s    0.200s    pve   GET /pools: 200

        2 more calls are not in the log.

        `talmox runs show 1-up --calls` shows every call.
        ");
    }

    #[test]
    fn lab_time_is_marked() {
        let mut timeline = timeline();
        timeline.run.header.is_lab = true;
        let text = timeline.text(false);
        assert!(text.contains(": failed after 12.5s of lab time, 7 calls"), "{text}");
    }

    #[test]
    fn all_calls_are_shown_on_request_and_in_json() {
        let text = timeline().text(true);
        assert_eq!(text.matches("  pve   ").count(), 7, "{text}");
        assert!(!text.contains("--calls"), "{text}");
        let json = timeline().json();
        assert_eq!(json["steps"][0]["calls"].as_array().unwrap().len(), 5);
        assert_eq!(json["steps"][1]["retries"][0]["reason"], "locked\nstill");
        assert_eq!(json["steps"][1]["calls"][0]["outcome"], "500 locked");
        assert_eq!(
            (&json["other_calls"][0]["object"], &json["lost_calls"]),
            (&json!("GET /pools"), &json!(2))
        );
    }
}
