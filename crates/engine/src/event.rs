//! What happens while a plan is carried out: the only thing that reporters see.
//!
//! Take all listeners away and nothing changes. Events carry texts that may be shown to anybody:
//! no secret gets here, because none is in the texts of steps and errors.

use serde::{Deserialize, Serialize};
use talmox_clock::Clock;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    RunStarted {
        cluster: String,
        /// Every step there is, so that a view can show what is still to come.
        steps: Vec<StepInfo>,
    },
    StepStarted {
        step: String,
    },
    /// What a step waits for now.
    StepWaits {
        step: String,
        reason: String,
    },
    /// How many bytes have gone over, of how many if that is known.
    StepProgress {
        step: String,
        bytes: u64,
        total: Option<u64>,
    },
    /// Something that a person should know, though the step goes on.
    StepNote {
        step: String,
        text: String,
    },
    StepRetries {
        step: String,
        /// The attempt that comes next, counted from 1.
        attempt: u32,
        seconds: f64,
        reason: String,
    },
    StepEnded {
        step: String,
        end: StepEnd,
        seconds: f64,
    },
    /// Somebody wants to stop: nothing new is begun, and what has begun ends as soon as it can.
    RunStopping,
    RunEnded {
        end: RunEnd,
        seconds: f64,
    },
}

/// A step as it is announced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepInfo {
    pub step: String,
    pub node: Option<String>,
    pub after: Vec<String>,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum StepEnd {
    Done,
    /// There was nothing to do, and nothing to wait for.
    Already,
    Failed {
        /// The code of the error; logs of earlier releases have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        message: String,
        /// What it came from, the nearest first.
        causes: Vec<String>,
        hint: Option<String>,
    },
    /// A step that it needs failed or was blocked.
    Blocked {
        by: String,
    },
    Cancelled,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    Done,
    Failed,
    Cancelled,
}

/// An event and when it happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stamped {
    /// In seconds since 1970.
    pub time: f64,
    pub what: Event,
}

/// Where events go. Clones lead to the same listener.
#[derive(Clone, Debug)]
pub struct Events {
    clock: Clock,
    listener: Option<UnboundedSender<Stamped>>,
}

impl Events {
    /// The sending and the listening end.
    pub fn channel(clock: Clock) -> (Self, UnboundedReceiver<Stamped>) {
        let (listener, receiver) = unbounded_channel();
        (Self { clock, listener: Some(listener) }, receiver)
    }

    /// Nobody listens.
    pub fn unheard(clock: Clock) -> Self {
        Self { clock, listener: None }
    }

    pub fn send(&self, what: Event) {
        let Some(listener) = &self.listener else { return };
        let time = self.clock.since_epoch().as_secs_f64();
        // Who stopped listening has heard enough.
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
    fn nobody_needs_to_listen() {
        let (events, listener) = Events::channel(Clock::real());
        drop(listener);
        events.send(Event::StepStarted { step: "x".to_owned() });
        Events::unheard(Clock::real()).send(Event::StepStarted { step: "x".to_owned() });
    }
}
