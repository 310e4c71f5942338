//! Waiting for the end of a reboot, an upgrade, a reset or a shutdown.
//!
//! Events with the actor's ID report the progress until the machine closes the connection. A lost connection does not
//! prove a restart. Only another boot ID proves it, so the old boot ID must be read before the operation starts.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use talmox_clock::{Wait, WaitError};

use crate::client::{Actor, Client, Event, Payload, Settings, Since};
use crate::credentials::Credentials;
use crate::error::TalosError;
use crate::machine::Expected;
use crate::probe::{Maintenance, Verdict, probe};
use crate::proto::machine::machine_status_event::MachineStage;
use crate::proto::machine::{MachineStatusEvent, phase_event, sequence_event};
use crate::tls::SetupError;
use crate::wait::{self, Look, LookError};

/// Time without events after which the client reads the state of the machine directly.
const SILENCE: Duration = Duration::from_secs(15);

/// Reason why an operation did not reach its expected end.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The machine reports that the operation failed.
    #[error("{sequence} failed: {error}")]
    Failed { sequence: String, error: String },
    #[error(transparent)]
    Look(#[from] LookError),
    /// Another machine answers at the address.
    #[error("another machine answers in maintenance mode at this address: {why}")]
    OtherMachine { why: String },
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl From<TalosError> for FollowError {
    fn from(error: TalosError) -> Self {
        Self::Look(error.into())
    }
}

impl From<WaitError> for FollowError {
    fn from(error: WaitError) -> Self {
        Self::Look(error.into())
    }
}

/// Machine that is about to restart.
#[derive(Clone, Debug)]
pub struct Follow {
    client: Client,
    /// Boot ID before the operation.
    boot_id: String,
}

/// Reason why listening to events ended.
#[derive(Debug, PartialEq, Eq)]
enum ListenEnd {
    /// The awaited event arrived.
    Matched,
    /// The connection was lost or could not be opened.
    Lost(String),
    /// No event arrived for a while.
    Silence,
}

impl Follow {
    /// Reads the boot ID. Call this before the reboot, upgrade or reset.
    pub async fn prepare(client: &Client) -> Result<Self, TalosError> {
        Ok(Self { client: client.clone(), boot_id: client.boot_id().await? })
    }

    /// Waits until the machine has rebooted, runs and is ready. `wait` reports the progress.
    pub async fn to_running(&self, actor: &Actor, wait: &mut Wait<'_>) -> Result<(), FollowError> {
        loop {
            self.leave(actor, wait).await?;
            if self.answered_boot_id(wait).await? != self.boot_id {
                break;
            }
            // The boot ID is unchanged: only the connection was lost.
        }
        self.come_up(wait).await
    }

    /// Waits until the machine answers, and returns its boot ID. [`wait::until`] is not used, because the future of an
    /// async closure that borrows cannot be spawned.
    async fn answered_boot_id(&self, wait: &mut Wait<'_>) -> Result<String, FollowError> {
        loop {
            match self.client.boot_id().await {
                Ok(boot_id) => return Ok(boot_id),
                Err(error) if error.may_pass() => wait.not_yet(error.reason()).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until the machine is in maintenance mode, which is the end of a reset of `STATE`.
    pub async fn to_maintenance(
        &self,
        actor: &Actor,
        (credentials, settings): (&Credentials, &Settings),
        expected: &Expected,
        wait: &mut Wait<'_>,
    ) -> Result<Box<Maintenance>, FollowError> {
        self.leave(actor, wait).await?;
        let look = async || {
            Ok(match probe(self.client.node(), credentials, None, settings).await {
                Ok(Verdict::Maintenance(found)) => Look::Done(Ok(found)),
                Ok(other) => Look::NotYet(other.to_string()),
                Err(error) => Look::Done(Err(error)),
            })
        };
        let found = wait::until(wait, look).await??;
        match found.machine.mismatch(expected) {
            None => Ok(found),
            Some(why) => Err(FollowError::OtherMachine { why }),
        }
    }

    /// Waits until the machine does not answer any more. Only Proxmox can report whether the machine is powered off.
    pub async fn to_silence(&self, actor: &Actor, wait: &mut Wait<'_>) -> Result<(), FollowError> {
        self.leave(actor, wait).await
    }

    /// Listens until the machine does not answer any more or has already rebooted.
    async fn leave(&self, actor: &Actor, wait: &mut Wait<'_>) -> Result<(), FollowError> {
        // Each new stream repeats all events that the machine stores.
        let mut known = BTreeSet::new();
        loop {
            let mut failed = None;
            let heard = self
                .listen(Some(actor), wait, |event, wait| {
                    if !known.insert(event.id.clone()) {
                        return ControlFlow::Continue(());
                    }
                    failed = failure(event, actor);
                    if failed.is_some() {
                        return ControlFlow::Break(());
                    }
                    if let Some(text) = describe(&event.payload) {
                        wait.announce(&text);
                    }
                    ControlFlow::Continue(())
                })
                .await?;
            if let Some(failure) = failed {
                return Err(failure);
            }
            match self.client.boot_id().await {
                Ok(id) if id == self.boot_id => {}
                Ok(_) => return Ok(()),
                Err(error) if error.may_pass() => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            let reason = match heard {
                ListenEnd::Lost(why) => why,
                _ => "the machine has not restarted".to_owned(),
            };
            wait.not_yet(reason).await?;
        }
    }

    /// Listens until the machine is ready.
    async fn come_up(&self, wait: &mut Wait<'_>) -> Result<(), FollowError> {
        loop {
            let heard = self
                .listen(None, wait, |event, wait| {
                    if let Some(text) = describe(&event.payload) {
                        wait.announce(&text);
                    }
                    match &event.payload {
                        Payload::Machine(status) if is_ready(status) => ControlFlow::Break(()),
                        _ => ControlFlow::Continue(()),
                    }
                })
                .await?;
            if heard == ListenEnd::Matched {
                return Ok(());
            }
            // A machine does not always repeat the events from before the connection, so its status is read.
            let reason = match wait::machine_ready(&self.client).await {
                Ok(Look::Done(())) => return Ok(()),
                Ok(Look::NotYet(reason)) => reason,
                Err(error) if error.may_pass() => error.reason(),
                Err(error) => return Err(error.into()),
            };
            wait.not_yet(reason).await?;
        }
    }

    /// Passes the stored and the new events of the machine to `hear`, until `hear` returns `Break`.
    async fn listen(
        &self,
        actor: Option<&Actor>,
        wait: &mut Wait<'_>,
        mut hear: impl FnMut(&Event, &mut Wait<'_>) -> ControlFlow<()>,
    ) -> Result<ListenEnd, FollowError> {
        let cut = |error: TalosError| {
            if error.may_pass() { Ok(ListenEnd::Lost(error.reason())) } else { Err(error.into()) }
        };
        let mut events = match self.client.events(&Since::TheBeginning, actor).await {
            Ok(events) => events,
            Err(error) => return cut(error),
        };
        loop {
            if wait.has_timed_out() {
                return Ok(ListenEnd::Silence);
            }
            let time = SILENCE.min(wait.left());
            match wait.clock().timeout(time, events.next()).await {
                Err(_) => return Ok(ListenEnd::Silence),
                Ok(Err(error)) => return cut(error),
                Ok(Ok(None)) => {
                    return Ok(ListenEnd::Lost("the event stream has ended".to_owned()));
                }
                Ok(Ok(Some(event))) => {
                    if hear(&event, wait).is_break() {
                        return Ok(ListenEnd::Matched);
                    }
                }
            }
        }
    }
}

/// Failure that the machine reports for this actor. Failures of other actors are ignored.
fn failure(event: &Event, actor: &Actor) -> Option<FollowError> {
    match &event.payload {
        Payload::Sequence(sequence) if event.actor == *actor => {
            let error = sequence.error.as_ref()?.message.clone();
            Some(FollowError::Failed { sequence: sequence.sequence.clone(), error })
        }
        _ => None,
    }
}

fn is_ready(status: &MachineStatusEvent) -> bool {
    status.stage() == MachineStage::Running && status.status.as_ref().is_some_and(|one| one.ready)
}

/// Short text for an event, if the event is worth showing.
fn describe(payload: &Payload) -> Option<String> {
    match payload {
        Payload::Sequence(event) if event.action() == sequence_event::Action::Start => {
            Some(format!("{} started", event.sequence))
        }
        Payload::Phase(event) if event.action() == phase_event::Action::Start => {
            Some(format!("phase {}", event.phase))
        }
        Payload::Machine(event) => {
            let stage = event.stage().as_str_name().to_lowercase().replace('_', " ");
            let unmet = event.status.iter().flat_map(|status| &status.unmet_conditions);
            let unmet: Vec<String> =
                unmet.map(|one| format!("{}: {}", one.name, one.reason)).collect();
            let colon = if unmet.is_empty() { "" } else { ": " };
            Some(format!("the machine is {stage}{colon}{}", unmet.join(", ")))
        }
        _ => None,
    }
}
