//! Events of a run, from which reports and run logs are made.
//!
//! Listeners do not affect the run. Events contain no secrets, because the texts of steps and errors contain none.

use serde::{Deserialize, Serialize};
use talmox_clock::Clock;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    RunStarted {
        cluster: String,
        /// All steps of the plan, so that a view can show the steps that have not started.
        steps: Vec<StepInfo>,
    },
    StepStarted {
        step: String,
    },
    /// A step waits for a condition.
    StepWaits {
        step: String,
        reason: String,
    },
    /// Progress of a transfer. The total is None if it is not known.
    StepProgress {
        step: String,
        bytes: u64,
        total: Option<u64>,
    },
    /// Information about a running step.
    StepNote {
        step: String,
        text: String,
    },
    StepRetries {
        step: String,
        /// Number of the next attempt, counted from 1.
        attempt: u32,
        seconds: f64,
        reason: String,
    },
    StepEnded {
        step: String,
        end: StepEnd,
        seconds: f64,
    },
    /// The run was cancelled: no step is started, and running steps end as soon as they can.
    RunStopping,
    RunEnded {
        end: RunEnd,
        seconds: f64,
    },
}

/// A step in the list of [`Event::RunStarted`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepInfo {
    pub step: String,
    pub node: Option<String>,
    pub after: Vec<String>,
}

/// End of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum StepEnd {
    Done,
    /// The step had nothing to do and nothing to wait for.
    Already,
    Failed {
        /// The code of the error. None in run logs of earlier releases.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        message: String,
        /// The causes of the error. The first one is the direct cause.
        causes: Vec<String>,
        hint: Option<String>,
    },
    /// A step that this step depends on failed or was skipped.
    Blocked {
        by: String,
    },
    Cancelled,
}

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    Done,
    Failed,
    Cancelled,
}

/// An event with its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stamped {
    /// Time of the event, in seconds since 1970.
    pub time: f64,
    pub what: Event,
}

/// Sender of events. All clones send to the same listener.
#[derive(Clone, Debug)]
pub struct Events {
    clock: Clock,
    listener: Option<UnboundedSender<Stamped>>,
}

impl Events {
    /// Creates a sender and the receiver of its events.
    pub fn channel(clock: Clock) -> (Self, UnboundedReceiver<Stamped>) {
        let (listener, receiver) = unbounded_channel();
        (Self { clock, listener: Some(listener) }, receiver)
    }

    /// A sender without a listener.
    pub fn unheard(clock: Clock) -> Self {
        Self { clock, listener: None }
    }

    pub fn send(&self, what: Event) {
        let Some(listener) = &self.listener else { return };
        let time = self.clock.since_epoch().as_secs_f64();
        // A listener may end before the run.
        listener.send(Stamped { time, what }).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_stamped_and_read_back() {
        let (events, mut listener) = Events::channel(Clock::real());
        let end = StepEnd::Failed {
            code: Some("timeout".to_owned()),
            message: "no".to_owned(),
            causes: vec![],
            hint: None,
        };
        let what = Event::StepEnded { step: "vm/a/create".to_owned(), end, seconds: 1.5 };
        events.send(what.clone());
        let heard = listener.try_recv().unwrap();
        assert_eq!(heard.what, what);
        let text = serde_json::to_string(&heard).unwrap();
        assert!(text.contains(r#""event":"step_ended""#), "{text}");
        assert_eq!(serde_json::from_str::<Stamped>(&text).unwrap(), heard);
    }

    #[test]
    fn events_need_no_listener() {
        let (events, listener) = Events::channel(Clock::real());
        drop(listener);
        events.send(Event::StepStarted { step: "x".to_owned() });
        Events::unheard(Clock::real()).send(Event::StepStarted { step: "x".to_owned() });
    }
}
