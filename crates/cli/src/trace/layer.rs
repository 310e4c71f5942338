//! Tracing subscriber. It writes a trace line and a run log record for each finished API call, and a trace line for each
//! decision.

use std::fmt::Debug;

use talmox_clock::Moment;
use talmox_engine::run_log::ApiCall;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::Trace;
use super::filter::PREFIX;

/// Names of the tracing spans.
const CALL: &str = "call";
const STEP: &str = "step";

pub(super) struct TraceLayer(pub(super) &'static Trace);

/// API call that has started.
struct Started {
    at: Moment,
    /// Start time by the clock of the run. `None` outside of a run.
    run_time: Option<f64>,
    fields: CallFields,
}

#[derive(Debug, Default)]
struct CallFields {
    object: String,
    outcome: String,
    retries: u64,
}

/// Name of a step, stored in the span of the step.
struct StepName(String);

#[derive(Debug, Default)]
struct StepFields {
    step: String,
}

#[derive(Debug, Default)]
struct EventFields {
    subject: String,
    message: String,
}

impl<S> Layer<S> for TraceLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // The interest must not be cached, because recording may start at any time.
        if is_own(metadata) { Interest::sometimes() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _context: Context<'_, S>) -> bool {
        let trace = self.0;
        if !is_own(metadata) {
            return false;
        }
        match metadata.name() {
            // The step is needed for every trace line, because the line names the step.
            STEP => trace.is_recording() || !trace.filter.is_off(),
            // Calls before a run are recorded too, because the run log contains the calls that were made for the plan.
            CALL => true,
            _ => trace.filter.allows(metadata),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        match attributes.metadata().name() {
            CALL => {
                let mut fields = CallFields::default();
                attributes.record(&mut fields);
                let (at, run_time) = (self.0.clock.moment(), self.0.run_time());
                span.extensions_mut().insert(Started { at, run_time, fields });
            }
            STEP => {
                let mut fields = StepFields::default();
                attributes.record(&mut fields);
                span.extensions_mut().insert(StepName(fields.step));
            }
            _ => {}
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(started) = span.extensions_mut().get_mut::<Started>() {
            values.record(&mut started.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let EventFields { subject, message } = fields;
        let step = context.event_scope(event).and_then(step_of);
        let text = format!("{subject}: {message}{}", in_step(step.as_deref()));
        self.say(event.metadata(), &text);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(started) = span.extensions_mut().remove::<Started>() else { return };
        let Started { at, run_time, fields } = started;
        let CallFields { object, outcome, retries } = fields;
        // A call without an outcome was cancelled because its step ended or a timeout was reached.
        let outcome = if outcome.is_empty() { "cancelled".to_owned() } else { one_line(&outcome) };
        let step = context.span_scope(&id).and_then(step_of);
        let metadata = span.metadata();
        if self.0.filter.allows(metadata) {
            let took = self.0.line_duration(at).as_millis();
            let again = match retries {
                0 => String::new(),
                1 => ", 1 retry".to_owned(),
                _ => format!(", {retries} retries"),
            };
            let step = in_step(step.as_deref());
            self.say(metadata, &format!("{object}: {outcome} ({took} ms{again}){step}"));
        }
        let api = area(metadata).to_owned();
        let real = self.0.clock.moment().since(at).as_secs_f64();
        let (time, seconds) = match (run_time, self.0.run_time()) {
            (Some(start), Some(now)) => (start, (now - start).max(0.0)),
            // The run started during the call.
            (None, Some(now)) => (now - real, real),
            // The run has not started yet. The time is set when the run starts.
            (_, None) => (0.0, real),
        };
        self.0.write(at, ApiCall { time, api, object, seconds, outcome, retries, step });
    }
}

impl TraceLayer {
    fn say(&self, metadata: &Metadata<'_>, text: &str) {
        let seconds = self.0.line_time().as_secs_f64();
        self.0.lines.say(&format!("{seconds:8.3}s  {:5} {text}", area(metadata)));
    }
}

fn is_own(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with(PREFIX)
}

fn area<'a>(metadata: &Metadata<'a>) -> &'a str {
    metadata.target().trim_start_matches(PREFIX)
}

/// Name of the step that a span or an event belongs to.
fn step_of<'a, S: LookupSpan<'a>>(mut scope: Scope<'a, S>) -> Option<String> {
    scope.find_map(|span| span.extensions().get::<StepName>().map(|step| step.0.clone()))
}

fn in_step(step: Option<&str>) -> String {
    step.map(|step| format!(" [{step}]")).unwrap_or_default()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Visit for CallFields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "retries" => self.retries = value,
            _ => self.record_debug(field, &value),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "object" => value.clone_into(&mut self.object),
            "outcome" => value.clone_into(&mut self.outcome),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

impl Visit for StepFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == STEP {
            value.clone_into(&mut self.step);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

impl Visit for EventFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "subject" => value.clone_into(&mut self.subject),
            "message" => value.clone_into(&mut self.message),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
